/* SPDX-License-Identifier: Apache-2.0
 *
 * zst_write.h - a file that is compressed with zstd while it is written.
 */
#ifndef PTM_OS_ZST_WRITE_H
#define PTM_OS_ZST_WRITE_H

#include "base/error.h"

#include <stddef.h>

struct ptm_zst_out;

/* Create @path, which must not exist.  NULL and @err on failure. */
struct ptm_zst_out *ptm_zst_out_open(const char *path, struct ptm_error *err);

/* Returns 0 or -PTM_E_*. */
int ptm_zst_out_write(struct ptm_zst_out *out, const void *data, size_t len, struct ptm_error *err);

/* End the frame, close the file, free.  Returns 0 or -PTM_E_*. */
int ptm_zst_out_finish(struct ptm_zst_out *out, struct ptm_error *err);

/* Close the file, which stays as it is, and free.  Accepts NULL. */
void ptm_zst_out_abort(struct ptm_zst_out *out);

#endif
