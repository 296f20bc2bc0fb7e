/* SPDX-License-Identifier: Apache-2.0
 *
 * ipt_count.h - libipt's two decoders as their makers meant them to be used: what ours is measured
 * against.
 *
 * Nothing of ours stands between: a segment is decoded as a whole by one decoder, without steps,
 * events or digests by block.  So counts are those of the engines only where a segment is a whole
 * stream without errors.
 */
#ifndef PTM_FLOW_IPT_COUNT_H
#define PTM_FLOW_IPT_COUNT_H

#include "flow/engine.h"

/* One a worker; zero-initialised by create. */
struct ptm_ipt_counter;

struct ptm_ipt_count {
	uint64_t insns;
	uint64_t digest; /* 0 by blocks */
	uint64_t errors; /* of libipt; it went on at the next PSB */
	double cpu_seconds;
};

/* @blocks: by the block decoder, else by the instruction decoder.  NULL: out of memory. */
struct ptm_ipt_counter *ptm_ipt_counter_create(bool blocks);
void ptm_ipt_counter_destroy(struct ptm_ipt_counter *counter);

/* Decode @seg, in the images that its stream begins with.  The CPU seconds are of decoding alone.
 * Returns 0 or -PTM_E_*. */
int ptm_ipt_count(struct ptm_ipt_counter *counter, const struct ptm_segment *seg,
		  struct ptm_ipt_count *count, struct ptm_error *err);

#endif
