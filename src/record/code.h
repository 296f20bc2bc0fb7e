/* SPDX-License-Identifier: Apache-2.0
 *
 * code.h - the code that a program executed: the files that hold it, and the bytes of what no file
 * holds.
 */
#ifndef PTM_RECORD_CODE_H
#define PTM_RECORD_CODE_H

#include "base/vec.h"
#include "os/file.h"
#include "record/images.h"
#include "record/pages.h"

struct ptm_code_file {
	uint64_t begin, end, offset;
	struct ptm_map map; /* of the copy */
};

struct ptm_code {
	struct ptm_images *images; /* borrowed */
	struct ptm_error *err;
	PTM_VEC(struct ptm_code_file) files; /* a later one hides an earlier one */
	struct ptm_pages pages;
};

void ptm_code_init(struct ptm_code *code, struct ptm_images *images, struct ptm_error *err);
void ptm_code_fini(struct ptm_code *code);

/* The addresses @begin to @end, exclusive, are file @path from @offset on.  Nothing happens if
 * there is no such file.  Returns 0 or -PTM_E_*. */
int ptm_code_map(struct ptm_code *code, uint64_t begin, uint64_t end, uint64_t offset,
		 const char *path);

/* Code at @address is these @len bytes.  Returns 0 or -PTM_E_*. */
int ptm_code_bytes(struct ptm_code *code, uint64_t address, const uint8_t *bytes, size_t len);

/* Write what no file holds.  Returns 0 or -PTM_E_*. */
int ptm_code_write(struct ptm_code *code);

#endif
