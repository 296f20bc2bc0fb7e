/* SPDX-License-Identifier: Apache-2.0
 *
 * hash.h - digests of files and of their blocks: XXH3, 64 bits, seed 0.
 */
#ifndef PTM_OS_HASH_H
#define PTM_OS_HASH_H

#include "base/error.h"
#include "base/vec.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Digests of the blocks of a file, the last of which may be shorter. */
struct ptm_block_sums {
	uint64_t size; /* bytes of a block, a power of two; 0: nothing is known of blocks */
	PTM_VEC(uint64_t) digests;
};

uint64_t ptm_hash_bytes(const void *data, size_t len);

/* Digest and size of a regular file as it lies there: nothing is decompressed.  What is
 * missing or no regular file is PTM_E_NOINPUT; when @cancel (may be NULL) becomes true it is
 * -PTM_E_CANCELED.  Returns 0 or -PTM_E_*. */
int ptm_hash_file(const char *path, const atomic_bool *cancel, uint64_t *digest, uint64_t *bytes,
		  struct ptm_error *err);

/* The same, and the digests of the file's blocks of sums->size bytes, which are appended to @sums;
 * on failure, too. */
int ptm_hash_blocks(const char *path, const atomic_bool *cancel, struct ptm_block_sums *sums,
		    uint64_t *digest, uint64_t *bytes, struct ptm_error *err);

#endif
