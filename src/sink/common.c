/* SPDX-License-Identifier: Apache-2.0
 *
 * common.c - finishing and destroying any sink; sinks with one output; pieces of a job's output.
 */
#include "sink/common.h"

#include "sink/frames.h"
#include "ptmill/sink.h"

#include <stdlib.h>

int ptm_sink_finish(struct ptm_sink *sink, struct ptm_error *err)
{
	return sink->ops->finish != NULL ? sink->ops->finish(sink, err) : 0;
}

void ptm_sink_destroy(struct ptm_sink *sink)
{
	if (sink != NULL && sink->ops->destroy != NULL)
		sink->ops->destroy(sink);
}

void *ptm_file_sink_create(size_t size, const struct ptm_sink_ops *ops, const char *path,
			   struct ptm_error *err)
{
	struct ptm_file_sink *file = (struct ptm_file_sink *)calloc(1, size);

	if (file == NULL) {
		(void)PTM_FAIL(err, PTM_E_NOMEM, "Cannot create sink: out of memory");
		return NULL;
	}
	file->sink.ops = ops;
	file->out = ptm_out_open(path, err);
	if (file->out == NULL) {
		free(file);
		return NULL;
	}
	return file;
}

void ptm_file_sink_streams(struct ptm_sink *sink, size_t n)
{
	((struct ptm_file_sink *)sink)->nstreams = n;
}

int ptm_file_sink_stream_begin(struct ptm_sink *sink, const char *name, struct ptm_error *err)
{
	struct ptm_file_sink *fs = (struct ptm_file_sink *)sink;

	if (fs->nstreams < 2)
		return 0;
	return ptm_out_printf(fs->out, err, "[stream %s]\n", name);
}

int ptm_file_sink_deliver(struct ptm_sink *sink, const void *data, size_t len,
			  struct ptm_error *err)
{
	return ptm_out_write(((struct ptm_file_sink *)sink)->out, data, len, err);
}

int ptm_file_sink_finish(struct ptm_sink *sink, struct ptm_error *err)
{
	struct ptm_file_sink *file = (struct ptm_file_sink *)sink;
	struct ptm_out *out = file->out;

	if (out == NULL)
		return PTM_FAIL(err, PTM_E_USAGE, "Cannot finish sink: it was finished before");
	file->out = NULL;
	return ptm_out_commit(out, err);
}

void ptm_file_sink_destroy(struct ptm_sink *sink)
{
	ptm_out_abort(((struct ptm_file_sink *)sink)->out);
	free(sink);
}

/* Call with something in the piece. */
static void flush_framed(struct ptm_lines *lines)
{
	size_t len = (size_t)(lines->pos - lines->begin) - PTM_LINES_HEAD;
	size_t pad = -len & 7;
	const struct ptm_frame head = {.len = (uint32_t)len, .kind = PTM_FRAME_BODY};

	memcpy(lines->begin, &head, sizeof(head));
	memset(lines->pos, 0, pad);
	ptm_job_used(lines->out, PTM_LINES_HEAD + len + pad);
}

void ptm_lines_flush(struct ptm_lines *lines)
{
	if (lines->framed && lines->begin != NULL && lines->pos != lines->begin + PTM_LINES_HEAD)
		flush_framed(lines);
	else if (!lines->framed && lines->pos != lines->begin)
		ptm_job_used(lines->out, (size_t)(lines->pos - lines->begin));
	lines->begin = lines->pos = lines->end = NULL;
}

bool ptm_lines_more(struct ptm_lines *lines)
{
	/* The head of a frame, and what makes its length a multiple of eight. */
	const size_t extra = lines->framed ? PTM_LINES_HEAD + 7 : 0;

	ptm_lines_flush(lines);
	lines->begin = (char *)ptm_job_room(lines->out, PTM_LINES_PIECE + extra);
	if (lines->begin == NULL)
		return false;
	lines->pos = lines->begin + (lines->framed ? PTM_LINES_HEAD : 0);
	lines->end = lines->pos + PTM_LINES_PIECE;
	return true;
}

int ptm_lines_failed(struct ptm_error *err)
{
	return PTM_FAIL(err, PTM_E_CANCELED, "Canceled");
}
