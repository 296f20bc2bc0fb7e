/* SPDX-License-Identifier: Apache-2.0
 *
 * zst_write.c - a file that is compressed with zstd while it is written.
 *
 * One frame with a checksum; one output buffer of the size that zstd recommends.
 */
#include "os/zst_write.h"

#include <zstd.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ptm_zst_out {
	char *path; /* owned */
	FILE *file;
	ZSTD_CCtx *cctx;
	void *buf; /* owned; cap bytes */
	size_t cap;
};

static int fail(const struct ptm_zst_out *out, const char *what, struct ptm_error *err)
{
	int e = errno;
	enum ptm_err code = ptm_error_from_errno(e);

	return PTM_FAIL(err, code == PTM_E_NOSPACE || code == PTM_E_NOMEM ? code : PTM_E_IO,
			"Cannot %s \"%s\": %s", what, out->path, strerror(e));
}

struct ptm_zst_out *ptm_zst_out_open(const char *path, struct ptm_error *err)
{
	struct ptm_zst_out *out = calloc(1, sizeof(*out));

	if (out == NULL)
		goto nomem;
	out->path = strdup(path);
	out->cap = ZSTD_CStreamOutSize();
	out->buf = malloc(out->cap);
	out->cctx = ZSTD_createCCtx();
	if (out->path == NULL || out->buf == NULL || out->cctx == NULL ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(out->cctx, ZSTD_c_checksumFlag, 1)))
		goto nomem;
	out->file = fopen(path, "wbxe");
	if (out->file == NULL) {
		(void)fail(out, "create", err);
		ptm_zst_out_abort(out);
		return NULL;
	}
	return out;
nomem:
	(void)PTM_FAIL(err, PTM_E_NOMEM, "Cannot create \"%s\": out of memory", path);
	ptm_zst_out_abort(out);
	return NULL;
}

static int compress(struct ptm_zst_out *out, ZSTD_inBuffer *in, ZSTD_EndDirective end,
		    struct ptm_error *err)
{
	size_t left;

	do {
		ZSTD_outBuffer dst = {out->buf, out->cap, 0};

		left = ZSTD_compressStream2(out->cctx, &dst, in, end);
		if (ZSTD_isError(left))
			return PTM_FAIL(err, PTM_E_NOMEM, "Cannot compress \"%s\": %s", out->path,
					ZSTD_getErrorName(left));
		if (fwrite(out->buf, 1, dst.pos, out->file) != dst.pos)
			return fail(out, "write", err);
	} while (end == ZSTD_e_end ? left != 0 : in->pos < in->size);
	return 0;
}

int ptm_zst_out_write(struct ptm_zst_out *out, const void *data, size_t len, struct ptm_error *err)
{
	ZSTD_inBuffer in = {data, len, 0};

	return compress(out, &in, ZSTD_e_continue, err);
}

int ptm_zst_out_finish(struct ptm_zst_out *out, struct ptm_error *err)
{
	ZSTD_inBuffer in = {NULL, 0, 0};
	int status = compress(out, &in, ZSTD_e_end, err);
	FILE *file = out->file;

	out->file = NULL;
	if (fclose(file) != 0 && status == 0)
		status = fail(out, "write", err);
	ptm_zst_out_abort(out);
	return status;
}

void ptm_zst_out_abort(struct ptm_zst_out *out)
{
	if (out == NULL)
		return;
	if (out->file != NULL)
		(void)fclose(out->file);
	(void)ZSTD_freeCCtx(out->cctx);
	free(out->buf);
	free(out->path);
	free(out);
}
