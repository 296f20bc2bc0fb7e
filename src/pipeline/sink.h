/* SPDX-License-Identifier: Apache-2.0
 *
 * sink.h - the interface between the pipeline and a sink: work() in the workers, deliver() in
 * order.
 *
 * A worker calls work() for each batch of its segment; what work() writes to the job's output
 * reaches deliver() in the order of the trace, in pieces, followed by one end() a segment.  The
 * pipeline knows nothing else of a sink.
 */
#ifndef PTM_PIPELINE_SINK_H
#define PTM_PIPELINE_SINK_H

#include "base/error.h"
#include "flow/engine.h"
#include "flow/step.h"

#include <stddef.h>
#include <stdint.h>

struct ptm_job_out;

/* Room for @need contiguous bytes (at most PTM_CHUNK_SIZE) of the job's output; NULL when canceled
 * or out of memory (return -PTM_E_CANCELED then: the pipeline knows the reason).  May wait for
 * earlier segments to be written. */
void *ptm_job_room(struct ptm_job_out *out, size_t need);
/* Says how much of the room was used. */
void ptm_job_used(struct ptm_job_out *out, size_t n);

#define PTM_CHUNK_SIZE (1u << 20)

/* The end of a segment, as the deliverer sees it. */
struct ptm_segment_end {
	uint64_t offset; /* of the segment in its stream */
	uint64_t size; /* bytes of the stream that were claimed for it; they add up to the stream's
			  size */
	struct ptm_digest digest;   /* of the segment's instructions ... */
	struct ptm_digest resynced; /* and of those behind a resync inside a frame, which are not in
				       `digest` */
	double tsc_hz;              /* nominal frequency of the stream's TSC; 0: not known */
	const struct ptm_tally *tally;
};

struct ptm_sink {
	const struct ptm_sink_ops *ops;
};

struct ptm_sink_ops {
	/* Bytes of trace that suit one job, 0: the default.  Sinks with much output a trace byte
	 * want small ones. */
	uint64_t segment_size;

	/* PTM_WANT_*: what work() and segment_end() read beside events and digests.  Without
	 * PTM_WANT_STEPS, batches may have a digest and no steps. */
	unsigned want;

	/* A worker's own state (may be NULL functions: none). */
	void *(*worker_create)(struct ptm_sink *sink, struct ptm_error *err);
	void (*worker_destroy)(struct ptm_sink *sink, void *worker);

	/* In the worker, for each batch in order; may be NULL.  Returns 0 or -PTM_E_*. */
	int (*work)(struct ptm_sink *sink, void *worker, const struct ptm_batch *batch,
		    struct ptm_job_out *out, struct ptm_error *err);

	/* In the worker, instead of decoding: for sinks that want packets, not flow.  @emit is the
	 * worker's, to be initialised by raw(); its tally becomes that of the segment. */
	int (*raw)(struct ptm_sink *sink, void *worker, const struct ptm_segment *seg,
		   struct ptm_emit *emit, struct ptm_job_out *out, struct ptm_error *err);

	/* In the caller's thread, in order.  begin()/end() of a stream enclose its segments; any
	 * may be NULL. */
	void (*streams)(struct ptm_sink *sink, size_t n); /* how many there are; before all else */
	int (*stream_begin)(struct ptm_sink *sink, const char *name, struct ptm_error *err);
	int (*deliver)(struct ptm_sink *sink, const void *data, size_t len, struct ptm_error *err);
	int (*segment_end)(struct ptm_sink *sink, const struct ptm_segment_end *end,
			   struct ptm_error *err);
	int (*stream_end)(struct ptm_sink *sink, const char *name, struct ptm_error *err);

	/* With PTM_WANT_COUNTS: what was executed how often in all streams; behind the last of
	 * them, in the caller's thread.  Borrowed, with its spaces, during the call. */
	int (*counted)(struct ptm_sink *sink, struct ptm_counts *counts, struct ptm_error *err);

	int (*finish)(struct ptm_sink *sink, struct ptm_error *err);
	void (*destroy)(struct ptm_sink *sink);
};

#endif
