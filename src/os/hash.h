/* SPDX-License-Identifier: Apache-2.0
 *
 * hash.h - digests of files.
 */
#ifndef PTM_OS_HASH_H
#define PTM_OS_HASH_H

#include "base/error.h"

#include <stdatomic.h>
#include <stdint.h>

/* XXH3-64 (seed 0) and size of a regular file as it lies there: nothing is decompressed.  What is
 * missing or no regular file is PTM_E_NOINPUT; when @cancel (may be NULL) becomes true it is
 * -PTM_E_CANCELED.  Returns 0 or -PTM_E_*. */
int ptm_hash_file(const char *path, const atomic_bool *cancel, uint64_t *digest, uint64_t *bytes,
		  struct ptm_error *err);

#endif
