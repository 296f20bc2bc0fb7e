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
	FLOW_RESUMED,      /* but for events that libipt calls enabled, although it goes on there */
	FLOW_BOTH_STOP,    /* ... with a gap of another class or address, at the same instruction */
	FLOW_UNSUPPORTED,  /* packets that libipt 2.0 does not know */
	FLOW_RETURN,       /* it pops compressed returns only, and keeps its stack over an OVF */
	FLOW_PGD_BINDS,    /* TIP.PGD without an IP binds to any branch */
	FLOW_PGD_ARRIVES,  /* TIP.PGD with an IP: where the flow falls through to it */
	FLOW_LAST_IP,      /* it forgets last-IP at an OVF */
	FLOW_BITS_AND_OVF, /* bits whose TIP an OVF swallowed */
	FLOW_POWER_AND_OVF, /* power events whose FUP an OVF swallowed */
	FLOW_STOPS,         /* it ends the frame at a packet out of place; the other goes on */
	FLOW_PIP, /* a PIP, VMCS or PTW packet without its instruction: it walks on for one */
	FLOW_FUP_MISSED, /* a FUP that the flow does not come to: it goes on with later bits */
	FLOW_FUP_LAST,   /* a FUP at the end: it does not count the run up to there */
	FLOW_LENGTH,     /* bytes that were never meant as code: instructions of other lengths */
	FLOW_ORDER,      /* packets in an order that no CPU writes (flow_order.h) */
	FLOW_TRUNCATED,  /* R02-truncated: in such code it does not cut them to 16 or 32 bits */
	FLOW_MODE,       /* PSB+ cut short by an OVF, before MODE.Exec: code of no known size */
	FLOW_CR3_PGD,    /* TIP.PGD behind PIP: it binds both to the same MOV CR3 */
	FLOW_NOT_TAKEN,  /* a bit for not taken at a RET, and a TIP behind it: a deferred one? */
	FLOW_PTW,        /* a PTW whose FUP names no PTWRITE: it tells it there */
	FLOW_CBR,        /* a CBR behind a FUP: it tells it before what precedes the FUP */
	FLOW_SEAM,       /* no code on the way to the next PSB: it counts what leads there */
	FLOW_UNEXPLAINED,
	FLOW_REASONS
};

extern const char *const flow_reason_names[FLOW_REASONS];

/* Where the results part. */
struct flow_parting {
	size_t at;      /* the first token of the frame that differs */
	char what[160]; /* what both have there, for surveys: a gap with the packets around it */
};

/* What both decoded. */
struct flow_pair {
	const struct flow_prog *prog;
	const uint8_t *trace;
	size_t len;
	const struct ptm_space *space;
	bool patched; /* bytes of the code were changed */
	const struct flow_result *ipt, *other;
};

/* Compare @frame of both, up to the first gap of either. */
enum flow_reason flow_diff(const struct flow_pair *pair, size_t frame,
			   struct flow_parting *parting);

#endif
