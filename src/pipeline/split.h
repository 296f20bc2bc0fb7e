/* SPDX-License-Identifier: Apache-2.0
 *
 * split.h - cuts streams into segments at PSBs.
 *
 * A segment is claimed in order, under a lock, and loaded by its worker.  A stream that can be read
 * anywhere is cut into ranges of equal size; the segment of a range is the frames whose PSB lies in
 * it, and its worker finds both ends by itself, so nothing is read or scanned in the lock.  A
 * stream that can only be read from front to back (a pipe, a zstd file) is read inside the claim.
 * Either way the frames are the same, so the output is.
 */
#ifndef PTM_PIPELINE_SPLIT_H
#define PTM_PIPELINE_SPLIT_H

#include "base/error.h"
#include "flow/engine.h"
#include "flow/frame.h"
#include "input/source.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the next segment that a segment comes with. */
#define PTM_SPLIT_LOOK PTM_PSBPLUS_LOOK

/* A worker's buffer for the bytes of one segment; reused.  Owned by the worker: first touched
 * there. */
struct ptm_segbuf {
	uint8_t *data;
	size_t cap;
};

struct ptm_job {
	size_t stream;
	uint64_t begin, end; /* the range of the stream, if it can be read anywhere */
	uint64_t bytes;      /* for progress */
	bool loaded;         /* by the claim; `seg` is complete */
	struct ptm_segment seg;
};

struct ptm_split;

/* @sources are borrowed, and @cancel, which ends long searches.  @segment_size: bytes of a range.
 * @in_sync: streams begin in sync, with or without a PSB. */
struct ptm_split *ptm_split_create(struct ptm_sources *sources, uint64_t segment_size, bool in_sync,
				   const atomic_bool *cancel, struct ptm_error *err);
void ptm_split_destroy(struct ptm_split *split);

/* Claim the next job; called by one worker at a time.  Returns 1, 0 at the end of the last stream,
 * or -PTM_E_*. */
int ptm_split_claim(struct ptm_split *split, struct ptm_job *job, struct ptm_segbuf *buf,
		    struct ptm_error *err);

/* Load what was claimed into @buf and complete job->seg.  Threads: any number at once, for
 * different jobs. */
int ptm_split_load(struct ptm_split *split, struct ptm_job *job, struct ptm_segbuf *buf,
		   struct ptm_error *err);

/* Room for @len bytes in @buf. */
int ptm_segbuf_reserve(struct ptm_segbuf *buf, size_t len, struct ptm_error *err);
void ptm_segbuf_fini(struct ptm_segbuf *buf);

/* True if the bytes before the end of data[0..len) look like an OVF followed by PAD and time only.
 * May err on the side of true: the exact answer needs the whole frame (ptm_frame_ends_in_ovf()). */
bool ptm_split_maybe_ovf(const uint8_t *data, size_t len);

#endif
