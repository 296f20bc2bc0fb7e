/* SPDX-License-Identifier: Apache-2.0
 *
 * raw.c - bytes of a file that are code as they stand.
 */
#include "image/space_build.h"

#include <inttypes.h>

int ptm_space_add_raw(struct ptm_space *space, const char *path, uint64_t from, uint64_t to,
		      uint64_t base, struct ptm_error *err)
{
	const struct ptm_image_name *name;
	uint64_t size;

	PTM_TRY(ptm_space_open(space, path, &name, err));
	size = name->image->map.len;
	if (to == UINT64_MAX)
		to = size;
	if (from >= to || to > size)
		return PTM_FAIL(err, PTM_E_USAGE,
				"Cannot map raw image: path=\"%s\" has %" PRIu64
				" bytes, asked for 0x%" PRIx64 " to 0x%" PRIx64,
				path, size, from, to);
	return ptm_space_map(space, name, base, to - from, from, err);
}
