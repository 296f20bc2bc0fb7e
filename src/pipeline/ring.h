/* SPDX-License-Identifier: Apache-2.0
 *
 * ring.h - ordered job ring: jobs enter in sequence, run in any order, leave in sequence.
 *
 * Slot i holds the job whose seq satisfies (seq & mask) == i, so the number of slots bounds the
 * jobs in flight.  What a job writes goes into chunks of a shared, bounded pool; the deliverer
 * takes the chunks of the oldest job while that job still runs, so a job may write any amount.  The
 * last free chunk is kept for the oldest job, so it never waits for a younger one, and the
 * deliverer never waits for anything but the oldest job: there is no cycle to lock up in.
 *
 * One mutex guards all of it; it is taken a few times a segment and a chunk, never a packet.
 */
#ifndef PTM_PIPELINE_RING_H
#define PTM_PIPELINE_RING_H

#include "base/error.h"
#include "pipeline/sink.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ptm_ring;

struct ptm_chunk {
	struct ptm_chunk *next;
	size_t len;
	uint8_t data[PTM_CHUNK_SIZE];
};

/* What a finished job leaves; written by its worker before ptm_ring_done(), read by the deliverer
 * after. */
struct ptm_job_result {
	size_t stream;
	uint64_t offset;
	uint64_t bytes; /* for progress */
	struct ptm_digest digest, resynced;
	struct ptm_tally tally;
	int status; /* 0 or -PTM_E_* with err */
	struct ptm_error err;
};

struct ptm_ring *ptm_ring_create(unsigned workers, struct ptm_error *err);
void ptm_ring_destroy(struct ptm_ring *ring);

/* Worker: claim and enter.  Waits until there is room, then calls @claim, which fills in the job,
 * while no other worker is in here: so sequence numbers follow the order of the claims.  Returns 1
 * and the job's output; 0 when there is nothing left, after an error or a cancellation.  A failed
 * claim enters as a job of its own, so that its error is delivered in its place. */
typedef int (*ptm_ring_claim_fn)(void *ctx, struct ptm_error *err);
int ptm_ring_enter(struct ptm_ring *ring, ptm_ring_claim_fn claim, void *ctx,
		   struct ptm_job_out **out, struct ptm_job_result **result);

/* Worker: the job is done; what it wrote last is published, its result is handed over. */
void ptm_ring_done(struct ptm_job_out *out);

/* Worker: it leaves for good; with @err, its reason ends the run (unless one in the stream comes
 * first). */
void ptm_ring_leave(struct ptm_ring *ring, const struct ptm_error *err);

/* Deliverer: wait for the next piece of the oldest job. */
enum ptm_ring_event {
	PTM_RING_CHUNK, /* *chunk: give it back with ptm_ring_recycle(); of *result, `stream` is set
			 */
	PTM_RING_RESULT, /* *result: the job ends; give it back with ptm_ring_recycle() */
	PTM_RING_END,    /* all workers have left and everything is delivered */
	PTM_RING_CANCELED,
	PTM_RING_TICK /* nothing for @timeout seconds (only if > 0) */
};
enum ptm_ring_event ptm_ring_wait(struct ptm_ring *ring, double timeout, struct ptm_chunk **chunk,
				  const struct ptm_job_result **result);
void ptm_ring_recycle(struct ptm_ring *ring, struct ptm_chunk *chunk);

/* Anyone: stop.  Every waiter returns. */
void ptm_ring_cancel(struct ptm_ring *ring);

/* The error with which a worker left, or NULL; for the deliverer after PTM_RING_END. */
const struct ptm_error *ptm_ring_error(const struct ptm_ring *ring);

#endif
