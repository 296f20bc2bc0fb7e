/* SPDX-License-Identifier: Apache-2.0
 *
 * zst_read.c - streaming decompression of zstd data.
 *
 * One input buffer of a fixed size; output goes straight to the caller.  Any number of frames may
 * follow each other, skippable ones are passed over.  Memory is bounded by the largest window we
 * accept (128 MiB, what zstd itself accepts unless told otherwise), whatever a header claims.
 */
#include "os/zst_read.h"

#include "base/bytes.h"

#include <zstd.h>
#include <zstd_errors.h>

#include <inttypes.h>
#include <stdlib.h>

#define PTM_ZST_WINDOW_LOG_MAX 27

struct ptm_zst {
	const char *path; /* borrowed */
	ptm_zst_fill_fn fill;
	void *ctx; /* borrowed */
	ZSTD_DCtx *dctx;
	uint8_t *buf; /* owned; cap bytes */
	size_t cap;
	ZSTD_inBuffer in;
	uint64_t base;     /* offset of buf[0] in the compressed data */
	uint64_t produced; /* decompressed bytes so far */
	bool inside;       /* within a frame */
	bool pending;      /* the decoder may hold output for which there was no room */
	enum ptm_err failed;
};

bool ptm_zst_is_magic(const uint8_t *p, size_t n)
{
	uint32_t magic;

	if (n < PTM_ZST_MAGIC_LEN)
		return false;
	magic = ptm_load_le32(p);
	return magic == ZSTD_MAGICNUMBER ||
	       (magic & ZSTD_MAGIC_SKIPPABLE_MASK) == ZSTD_MAGIC_SKIPPABLE_START;
}

struct ptm_zst *ptm_zst_create(const char *path, ptm_zst_fill_fn fill, void *ctx,
			       struct ptm_error *err)
{
	struct ptm_zst *zst = calloc(1, sizeof(*zst));

	if (zst == NULL)
		goto nomem;
	zst->path = path;
	zst->fill = fill;
	zst->ctx = ctx;
	zst->cap = ZSTD_DStreamInSize();
	zst->buf = malloc(zst->cap);
	zst->dctx = ZSTD_createDCtx();
	zst->in.src = zst->buf;
	if (zst->buf == NULL || zst->dctx == NULL)
		goto nomem;
	(void)ZSTD_DCtx_setParameter(zst->dctx, ZSTD_d_windowLogMax, PTM_ZST_WINDOW_LOG_MAX);
	return zst;
nomem:
	ptm_zst_destroy(zst);
	(void)PTM_FAIL(err, PTM_E_NOMEM, "Cannot decompress: out of memory: path=\"%s\"", path);
	return NULL;
}

void ptm_zst_destroy(struct ptm_zst *zst)
{
	if (zst == NULL)
		return;
	(void)ZSTD_freeDCtx(zst->dctx);
	free(zst->buf);
	free(zst);
}

/* Replace the used-up input buffer; returns the bytes it holds now. */
static int64_t refill(struct ptm_zst *zst, struct ptm_error *err)
{
	int64_t n = zst->fill(zst->ctx, zst->buf, zst->cap, err);

	if (n < 0) {
		zst->failed = (enum ptm_err) - n;
		return n;
	}
	zst->base += zst->in.size;
	zst->in.size = (size_t)n;
	zst->in.pos = 0;
	if (n == 0 && zst->inside) {
		zst->failed = PTM_E_TRUNCATED;
		return PTM_FAIL(err, PTM_E_TRUNCATED,
				"Compressed file ends inside a zstd frame: copy it again: "
				"offset=%" PRIu64 ", decompressed=%" PRIu64 ", path=\"%s\"",
				zst->base, zst->produced, zst->path);
	}
	return n;
}

static int64_t decode_failed(struct ptm_zst *zst, size_t code, struct ptm_error *err)
{
	ZSTD_ErrorCode why = ZSTD_getErrorCode(code);
	bool nomem = why == ZSTD_error_memory_allocation;

	if (why == ZSTD_error_frameParameter_windowTooLarge) {
		zst->failed = PTM_E_FORMAT;
		return PTM_FAIL(err, PTM_E_FORMAT,
				"Compressed with a window of more than %u MiB: run "
				"`zstd -dc --long=31 FILE | ptmill CMD -': path=\"%s\"",
				1U << (PTM_ZST_WINDOW_LOG_MAX - 20), zst->path);
	}
	zst->failed = nomem ? PTM_E_NOMEM : PTM_E_FORMAT;
	return PTM_FAIL(err, zst->failed,
			"Cannot decompress: %s: offset=%" PRIu64 ", decompressed=%" PRIu64
			", path=\"%s\"",
			ZSTD_getErrorName(code), zst->base + zst->in.pos, zst->produced, zst->path);
}

int64_t ptm_zst_read(struct ptm_zst *zst, void *buf, size_t len, struct ptm_error *err)
{
	ZSTD_outBuffer out = {buf, len, 0};

	if (zst->failed != PTM_E_OK)
		return PTM_FAIL(err, zst->failed, "Decompression failed before: path=\"%s\"",
				zst->path);
	while (out.pos < out.size) {
		size_t before = out.pos, ret;

		if (zst->in.pos == zst->in.size && !zst->pending) {
			int64_t n = refill(zst, err);

			if (n < 0)
				return n;
			if (n == 0)
				break;
		}
		ret = ZSTD_decompressStream(zst->dctx, &out, &zst->in);
		zst->produced += out.pos - before;
		if (ZSTD_isError(ret))
			return decode_failed(zst, ret, err);
		zst->inside = ret != 0;
		zst->pending = ret != 0 && out.pos == out.size;
	}
	return (int64_t)out.pos;
}
