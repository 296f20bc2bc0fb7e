/* SPDX-License-Identifier: Apache-2.0
 *
 * zst_read.h - streaming decompression of zstd data, from a function that gives the compressed
 * bytes.
 */
#ifndef PTM_OS_ZST_READ_H
#define PTM_OS_ZST_READ_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that ptm_zst_is_magic() needs. */
#define PTM_ZST_MAGIC_LEN 4

/* True if the @n bytes at @p begin a zstd frame or a skippable frame. */
bool ptm_zst_is_magic(const uint8_t *p, size_t n);

/* Gives the next compressed bytes: 1 to @len of them, 0 at the end, or -PTM_E_* and @err. */
typedef int64_t (*ptm_zst_fill_fn)(void *ctx, void *buf, size_t len, struct ptm_error *err);

struct ptm_zst;

/* @path stands in messages and is borrowed until destroy, as is @ctx.  NULL and @err when out of
 * memory. */
struct ptm_zst *ptm_zst_create(const char *path, ptm_zst_fill_fn fill, void *ctx,
			       struct ptm_error *err);
void ptm_zst_destroy(struct ptm_zst *zst);

/* Read the next up to @len decompressed bytes; short only at the end.  Returns -PTM_E_TRUNCATED if
 * the data ends inside a frame, -PTM_E_FORMAT if it is damaged, both for good.  Threads: one caller
 * at a time. */
int64_t ptm_zst_read(struct ptm_zst *zst, void *buf, size_t len, struct ptm_error *err);

#endif
