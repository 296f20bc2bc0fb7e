/* SPDX-License-Identifier: Apache-2.0
 *
 * visit.h - blocks and events as data: made in the workers, read by visitors and iterators.
 *
 * The body of a frame (sink/frames.h) is a struct ptm_visit_head, its blocks and its events, as
 * they are shown.  What was joined across bodies is shown as a batch of one block.
 */
#ifndef PTM_SINK_VISIT_H
#define PTM_SINK_VISIT_H

#include "sink/frames.h"

struct ptm_visit_head {
	uint64_t nblocks, nevents;
};

/* Operations of the worker's side; ptm_blocks_worker_destroy() ends it. */
void *ptm_visit_worker_create(struct ptm_sink *sink, struct ptm_error *err);
int ptm_visit_work(struct ptm_sink *sink, void *worker, const struct ptm_batch *batch,
		   struct ptm_job_out *out, struct ptm_error *err);

#define PTM_VISIT_SEGMENT (16u << 10) /* a trace byte makes a hundred bytes of blocks and more */

/* What was delivered, as batches.  Zero-initialise. */
struct ptm_visit_reader {
	struct ptm_frame_reader frames;
	struct ptm_piece piece;
	struct ptm_block_batch batch;
};

/* The next batch of what @reader->frames was fed, or NULL when that is used up; ptm_visit_last():
 * of what was held back, at the end.  Borrowed until the next call. */
const struct ptm_block_batch *ptm_visit_next(struct ptm_visit_reader *reader);
const struct ptm_block_batch *ptm_visit_last(struct ptm_visit_reader *reader);

#endif
