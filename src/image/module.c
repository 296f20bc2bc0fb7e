/* SPDX-License-Identifier: Apache-2.0
 *
 * module.c - images that a description asks for: what is missing or of another build is recorded,
 * not fatal.
 */
#include "image/space_build.h"

#include <stdlib.h>
#include <string.h>

#define PAGE_SIZE UINT64_C(4096)

/* Map what the file has of the range; what lies beyond the file's last page is missing. */
static int map_part(struct ptm_space *space, const struct ptm_image_name *name, uint64_t begin,
		    uint64_t len, uint64_t file_offset, struct ptm_error *err)
{
	uint64_t size = name->image->map.len, have = 0, pages;

	if (file_offset < size)
		have = size - file_offset < len ? size - file_offset : len;
	PTM_TRY(ptm_space_map(space, name, begin, have, file_offset, err));
	pages = (have + PAGE_SIZE - 1) & ~(PAGE_SIZE - 1);
	if (pages >= len)
		return 0;
	return ptm_space_map_missing(space, name->path, begin + pages, len - pages,
				     file_offset + pages, err);
}

/* Out of memory or file descriptors, a failing disk: not a matter of what is there. */
static int fail(struct ptm_error *err, const struct ptm_error *why)
{
	if (err != NULL)
		*err = *why;
	return -(int)why->code;
}

int ptm_space_add_file(struct ptm_space *space, const char *path, uint64_t begin, uint64_t len,
		       uint64_t file_offset, const char *build_id, struct ptm_error *err)
{
	const struct ptm_image_name *name;
	struct ptm_error why = {0};
	int status = ptm_space_open(space, path, &name, &why);

	if (status >= 0)
		status = map_part(space, name, begin, len, file_offset, err);
	else if (why.code == PTM_E_NOINPUT)
		status = ptm_space_map_missing(space, path, begin, len, file_offset, err);
	else
		return fail(err, &why);
	return status < 0 ? status : ptm_space_expect(space, path, build_id, err);
}

int ptm_space_add_module(struct ptm_space *space, const char *path, uint64_t base,
			 const char *build_id, struct ptm_error *err)
{
	struct ptm_error why = {0};
	int status = ptm_space_add_elf(space, path, true, base, &why);

	if (status < 0 && why.code != PTM_E_NOINPUT)
		return fail(err, &why);
	if (status < 0)
		PTM_TRY(ptm_space_map_missing(space, path, base, PAGE_SIZE, 0, err));
	return ptm_space_expect(space, path, build_id, err);
}
