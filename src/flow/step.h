/* SPDX-License-Identifier: Apache-2.0
 *
 * step.h - what an engine yields: steps, events between them, and a tally.
 *
 * A step is a start address and a number of instructions that follow it along unconditional flow:
 * falling through, direct JMPs and direct CALLs.  Only its last instruction may be a branch that
 * took a packet.  So steps are bounded by the packets of the trace, not by its instructions, and
 * whoever wants the instructions expands them from the image (image/code.h).  Where a step is cut
 * says nothing: engines and segments may cut differently, so a sink's output must depend on the
 * instructions and events only.
 */
#ifndef PTM_FLOW_STEP_H
#define PTM_FLOW_STEP_H

#include "base/digest.h"
#include "fmt/pt_packet.h"
#include "image/space.h"
#include "ptmill/event.h"

#include <stdbool.h>
#include <stddef.h>

struct ptm_step {
	uint64_t ip;   /* of the first instruction */
	uint32_t n;    /* instructions, at least 1 */
	uint32_t mode; /* enum ptm_mode */
};

/* A part of a segment's result, in order.  Borrowed: valid until the call it is passed to returns.
 */
struct ptm_batch {
	const struct ptm_step *steps;
	size_t nsteps;
	const struct ptm_event *events; /* event.step <= nsteps, ascending */
	size_t nevents;
	const struct ptm_space *space; /* in which the steps lie */
	/* Of the instructions of these steps; where nobody asked for steps (PTM_WANT_STEPS), of
	 * instructions that no steps tell. */
	struct ptm_digest digest;
	/* The flow was found again inside a PSB frame after an error (PTM_RESYNC_IP): less certain,
	 * and not in the digest of the segment but in one of their own. */
	bool resynced;
};

/* Figures that add up over segments, in any order. */
struct ptm_tally {
	uint64_t insns;    /* without those below */
	uint64_t resynced; /* instructions behind a resync inside a frame */
	uint64_t cond;     /* conditional branches: TNT bits */
	uint64_t ret;      /* near returns */
	uint64_t indirect; /* indirect near jumps and calls */
	uint64_t call;     /* near calls, direct and indirect */
	uint64_t far;      /* far transfers */
	uint64_t guessed;  /* runs with an instruction whose length was found by structure only */
	uint64_t events;
	uint64_t overflows; /* of the events */
	uint64_t packets[PTM_PKT_KINDS];
	uint64_t packet_bytes[PTM_PKT_KINDS];
	uint64_t tnt_bits;
	uint64_t bytes[PTM_BYTES_CLASSES];
	uint64_t gaps[PTM_GAP_KINDS];
	uint64_t frames; /* PSBs from which decoding started */
	/* Bytes from one PSB to the next, and how many there are of these; 0 if none. */
	uint64_t frame_min, frame_max, frame_sum, frame_n;
	uint64_t tsc_min, tsc_max; /* of the TSC packets; 0 if there is none */
};

void ptm_tally_add(struct ptm_tally *sum, const struct ptm_tally *part);

#endif
