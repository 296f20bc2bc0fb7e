/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_run.h - an engine put through a trace, its result as instructions and events; and two such
 * results compared.
 */
#ifndef PTM_FUZZ_FLOW_RUN_H
#define PTM_FUZZ_FLOW_RUN_H

#include "flow/engine.h"
#include "flow_exec.h"

#include <stdio.h>

/* Where a frame's part of a result ends. */
struct flow_mark {
	uint64_t offset; /* where the frame begins in the trace */
	size_t nips, nevents;
	struct ptm_digest digest, resynced; /* of this part */
};

struct flow_result {
	PTM_VEC(uint64_t) ips;
	PTM_VEC(struct flow_event) events;
	PTM_VEC(struct flow_mark) frames; /* if cut at every PSB; else one for all */
	struct ptm_tally tally;
	struct ptm_digest digest, resynced;
};

/* A trace and the code it is decoded with. */
struct flow_job {
	struct ptm_stream_context stream;
	const uint8_t *trace;
	size_t len;
	bool cut;      /* at every PSB */
	bool no_steps; /* the engine yields none: there are no instructions, and events stand at 0
			*/
	enum ptm_resync resync;
	struct ptm_engine *engine;
};

/* Decode.  NULL, or what is wrong with the result by itself. */
const char *flow_decode(const struct flow_job *job, struct flow_result *result);
void flow_result_fini(struct flow_result *result);

/* NULL if both are the same to the last field, but for the marks; else what differs. */
const char *flow_same(const struct flow_result *a, const struct flow_result *b);

/* NULL if @sums, decoded without steps, adds up to @full, frame by frame if both were cut; else
 * what differs, and in which frame. */
const char *flow_same_sums(const struct flow_result *full, const struct flow_result *sums,
			   size_t *frame);

/* NULL if @result is what @truth tells; else what differs. */
const char *flow_is_truth(const struct flow_result *result, const struct flow_truth *truth);

/* Print the @n tokens of a frame before token @at and some behind it: instructions, events. */
void flow_print(FILE *f, const struct flow_result *result, size_t frame, size_t at);

/* A cursor over instructions and events of a frame, in order. */
struct flow_cursor {
	const struct flow_result *result;
	size_t ip, event, ip_end, event_end;
};

struct flow_cursor flow_frame(const struct flow_result *result, size_t frame);

/* The next of them: NULL and an address, an event, or false at the end. */
bool flow_next(struct flow_cursor *c, uint64_t *ip, const struct ptm_event **ev);

/* Equal, in the sense in which engines must agree: time and the offset are left out. */
bool flow_same_event(const struct ptm_event *a, const struct ptm_event *b);

#endif
