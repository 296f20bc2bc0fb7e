/* SPDX-License-Identifier: Apache-2.0
 *
 * marks.h - the digest of a stream at given instructions.
 *
 * Only sure instructions are counted: what was decoded behind a resync inside a frame is left out.
 * A worker hands on each batch as a record: its composed digest, then its steps.  The deliverer
 * composes whole records, and expands the steps of those only in which a mark lies.  Records never
 * leave the process: they have the layout of the structs.  They reach the deliverer in pieces cut
 * anywhere, so what a piece leaves over is carried.
 */
#ifndef PTM_SINK_MARKS_H
#define PTM_SINK_MARKS_H

#include "sink/common.h"

#include "image/code.h"

#define PTM_MARK_NONE UINT64_MAX

struct ptm_marks;

struct ptm_marks_ops {
	/* The first instruction number behind @n that is marked; PTM_MARK_NONE if there is none. */
	uint64_t (*after)(void *ctx, uint64_t n);
	/* The digest of the first @n instructions, @n being marked.  @known is false if a step
	 * before it could not be expanded, or the engine told none. */
	int (*reach)(void *ctx, uint64_t n, bool known, uint64_t digest, struct ptm_error *err);
};

/* What precedes the steps of a record. */
struct ptm_marks_head {
	const struct ptm_space *space;
	struct ptm_digest digest;
	uint64_t nsteps;
};

/* The deliverer's state; zero-initialise, then set ops and ctx. */
struct ptm_marks {
	const struct ptm_marks_ops *ops;
	void *ctx;
	struct ptm_code *code;   /* owned; made when first needed */
	struct ptm_digest ended; /* of the segments that ended */
	struct ptm_digest sum;   /* of the records that ended, too */

	/* The record under way. */
	const struct ptm_space *space;
	struct ptm_digest batch;
	uint64_t steps_left;  /* 0: a head is next */
	uint64_t next;        /* the mark in what is left of it; PTM_MARK_NONE */
	struct ptm_digest at; /* up to where its steps were expanded */
	bool lost;            /* a step could not be expanded: `at` counts on, without a digest */
	union {
		uint8_t bytes[sizeof(struct ptm_marks_head)];
		struct ptm_marks_head head;
		struct ptm_step step;
	} carry;
	size_t ncarry;
};

/* The worker's part: an operation work() of a sink, which wants steps. */
int ptm_marks_work(struct ptm_sink *sink, void *worker, const struct ptm_batch *batch,
		   struct ptm_job_out *out, struct ptm_error *err);

/* The deliverer's parts: at the begin of a stream, for each piece, at the end of a segment. */
void ptm_marks_begin(struct ptm_marks *m);
int ptm_marks_deliver(struct ptm_marks *m, const void *data, size_t len, struct ptm_error *err);
int ptm_marks_segment_end(struct ptm_marks *m, const struct ptm_segment_end *end,
			  struct ptm_error *err);
void ptm_marks_fini(struct ptm_marks *m);

#endif
