/* SPDX-License-Identifier: Apache-2.0
 *
 * visit.c - blocks and events as data, and the sink that hands them to functions of the caller.
 */
#include "sink/visit.h"

#include "sink/blocks.h"

#include "ptmill/sink.h"

#include <stdlib.h>

#define BODY_BLOCKS 1024
#define BODY_EVENTS 128

struct visit_worker {
	struct ptm_blocks *blocks; /* the first member */
	struct ptm_lines lines;    /* of the batch under way */
	struct ptm_visit_head n;
	struct ptm_block body_blocks[BODY_BLOCKS];
	struct ptm_event body_events[BODY_EVENTS];
};

struct visit_sink {
	struct ptm_sink sink;
	struct ptm_visitor visitor;
	struct ptm_visit_reader reader;
};

void *ptm_visit_worker_create(struct ptm_sink *sink, struct ptm_error *err)
{
	(void)sink;
	return ptm_blocks_worker_create(sizeof(struct visit_worker), err);
}

static bool flush(struct visit_worker *w)
{
	const size_t blocks = w->n.nblocks * sizeof(w->body_blocks[0]);
	const size_t events = w->n.nevents * sizeof(w->body_events[0]);
	uint8_t *body;

	if (blocks + events == 0)
		return true;
	body = ptm_frame_body(&w->lines, sizeof(w->n) + blocks + events);
	if (body == NULL)
		return false;
	memcpy(body, &w->n, sizeof(w->n));
	memcpy(body + sizeof(w->n), w->body_blocks, blocks);
	memcpy(body + sizeof(w->n) + blocks, w->body_events, events);
	w->n = (struct ptm_visit_head){0, 0};
	return true;
}

static bool put_block(void *ctx, const struct ptm_block *block)
{
	struct visit_worker *w = (struct visit_worker *)ctx;

	if (w->n.nblocks == BODY_BLOCKS && !flush(w))
		return false;
	w->body_blocks[w->n.nblocks++] = *block;
	return true;
}

static bool put_first(void *ctx, const struct ptm_block *block, bool open)
{
	struct visit_worker *w = (struct visit_worker *)ctx;

	return flush(w) && ptm_frame_block(&w->lines, block, open);
}

static bool put_open(void *ctx, const struct ptm_block *block)
{
	return put_first(ctx, block, true);
}

static bool put_event(void *ctx, const struct ptm_event *ev)
{
	struct visit_worker *w = (struct visit_worker *)ctx;

	if (w->n.nevents == BODY_EVENTS && !flush(w))
		return false;
	w->body_events[w->n.nevents] = *ev;
	w->body_events[w->n.nevents++].step = (uint32_t)w->n.nblocks;
	return true;
}

static const struct ptm_blocks_ops blocks_ops = {put_first, put_block, put_open, put_event};

int ptm_visit_work(struct ptm_sink *sink, void *worker, const struct ptm_batch *batch,
		   struct ptm_job_out *out, struct ptm_error *err)
{
	struct visit_worker *w = (struct visit_worker *)worker;
	int status;

	(void)sink;
	ptm_lines_init_framed(&w->lines, out);
	w->n = (struct ptm_visit_head){0, 0};
	status = ptm_blocks_make(w->blocks, batch, &blocks_ops, w);
	if (status == -PTM_E_NOMEM)
		return PTM_FAIL(err, PTM_E_NOMEM, "Cannot make blocks: out of memory");
	if (status < 0 || !flush(w))
		return ptm_lines_failed(err);
	return 0;
}

/* The piece as a batch; NULL if there is none. */
static const struct ptm_block_batch *show(struct ptm_visit_reader *reader)
{
	const struct ptm_piece *piece = &reader->piece;
	struct ptm_block_batch *batch = &reader->batch;
	const struct ptm_visit_head *head;

	switch (piece->kind) {
	case PTM_PIECE_BLOCK:
		batch->blocks = &piece->block;
		batch->nblocks = 1;
		batch->events = NULL;
		batch->nevents = 0;
		return batch;
	case PTM_PIECE_BODY:
		head = (const struct ptm_visit_head *)piece->body;
		batch->blocks = (const struct ptm_block *)(head + 1);
		batch->nblocks = head->nblocks;
		batch->events = (const struct ptm_event *)(batch->blocks + batch->nblocks);
		batch->nevents = head->nevents;
		return batch;
	case PTM_PIECE_NONE:
	case PTM_PIECE_MARK:
		break;
	}
	return NULL;
}

const struct ptm_block_batch *ptm_visit_next(struct ptm_visit_reader *reader)
{
	ptm_frame_next(&reader->frames, &reader->piece);
	return show(reader);
}

const struct ptm_block_batch *ptm_visit_last(struct ptm_visit_reader *reader)
{
	ptm_frame_last(&reader->frames, &reader->piece);
	return show(reader);
}

/* What a function of the visitor returned. */
static int returned(int status, struct ptm_error *err)
{
	if (status < 0)
		return PTM_FAIL(err, (enum ptm_err) - status, "The visitor of the blocks failed");
	return 0;
}

static int show_batch(struct visit_sink *vs, const struct ptm_block_batch *batch,
		      struct ptm_error *err)
{
	if (batch == NULL || vs->visitor.batch == NULL)
		return 0;
	return returned(vs->visitor.batch(vs->visitor.ctx, batch), err);
}

static int visit_stream_begin(struct ptm_sink *sink, const char *name, struct ptm_error *err)
{
	struct visit_sink *vs = (struct visit_sink *)sink;

	if (vs->visitor.stream_begin == NULL)
		return 0;
	return returned(vs->visitor.stream_begin(vs->visitor.ctx, vs->reader.batch.stream, name),
			err);
}

static int visit_deliver(struct ptm_sink *sink, const void *data, size_t len, struct ptm_error *err)
{
	struct visit_sink *vs = (struct visit_sink *)sink;
	const struct ptm_block_batch *batch;

	ptm_frame_feed(&vs->reader.frames, data, len);
	while ((batch = ptm_visit_next(&vs->reader)) != NULL)
		PTM_TRY(show_batch(vs, batch, err));
	return 0;
}

static int visit_stream_end(struct ptm_sink *sink, const char *name, struct ptm_error *err)
{
	struct visit_sink *vs = (struct visit_sink *)sink;
	size_t stream = vs->reader.batch.stream;

	PTM_TRY(show_batch(vs, ptm_visit_last(&vs->reader), err));
	vs->reader.batch.stream++;
	if (vs->visitor.stream_end == NULL)
		return 0;
	return returned(vs->visitor.stream_end(vs->visitor.ctx, stream, name), err);
}

static void visit_destroy(struct ptm_sink *sink)
{
	free(sink);
}

static const struct ptm_sink_ops visit_ops = {
	.segment_size = PTM_VISIT_SEGMENT,
	.want = PTM_WANT_STEPS,
	.worker_create = ptm_visit_worker_create,
	.worker_destroy = ptm_blocks_worker_destroy,
	.work = ptm_visit_work,
	.stream_begin = visit_stream_begin,
	.deliver = visit_deliver,
	.stream_end = visit_stream_end,
	.destroy = visit_destroy,
};

struct ptm_sink *ptm_sink_visit_create(const struct ptm_visitor *visitor, struct ptm_error *err)
{
	struct visit_sink *vs;

	if (visitor->size < sizeof(*visitor)) {
		(void)PTM_FAIL(err, PTM_E_USAGE, "Cannot visit: size of the visitor is not set");
		return NULL;
	}
	vs = (struct visit_sink *)calloc(1, sizeof(*vs));
	if (vs == NULL) {
		(void)PTM_FAIL(err, PTM_E_NOMEM, "Cannot create sink: out of memory");
		return NULL;
	}
	vs->sink.ops = &visit_ops;
	vs->visitor = *visitor;
	return &vs->sink;
}
