/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_diff.h - the results of libipt and of another engine for a damaged trace, frame by frame:
 * equal, or different for a reason that is known.
 */
#ifndef PTM_FUZZ_FLOW_DIFF_H
#define PTM_FUZZ_FLOW_DIFF_H

#include "flow_run.h"

/* Why libipt yields something else (tests/known-differences.md). */
enum flow_reason {
	FLOW_EQUAL,
	FLOW_BOTH_STOP,    /* ... with a gap of another class or address, at the same instruction */
	FLOW_UNSUPPORTED,  /* packets that libipt 2.0 does not know */
	FLOW_RETURN,       /* it pops compressed returns only, and keeps its stack over an OVF */
	FLOW_PGD_BINDS,    /* TIP.PGD without an IP binds to any branch */
	FLOW_PGD_ARRIVES,  /* TIP.PGD with an IP: where the flow falls through to it */
	FLOW_LAST_IP,      /* it forgets last-IP at an OVF */
	FLOW_BITS_AND_OVF, /* bits whose TIP an OVF swallowed */
	FLOW_POWER_AND_OVF, /* power events whose FUP an OVF swallowed */
	FLOW_UNEXPLAINED,
	FLOW_REASONS
};

extern const char *const flow_reason_names[FLOW_REASONS];

/* Compare @frame of both, up to the first gap of either.  Stores at @at the first token that
 * differs. */
enum flow_reason flow_diff(const struct flow_prog *prog, const struct flow_result *ipt,
			   const struct flow_result *other, size_t frame, size_t *at);

#endif
