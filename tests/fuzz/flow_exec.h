/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_exec.h - executes a random program abstractly, and has its trace written: the packets, and
 * what an exact decoder must make of them.
 */
#ifndef PTM_FUZZ_FLOW_EXEC_H
#define PTM_FUZZ_FLOW_EXEC_H

#include "base/digest.h"
#include "base/vec.h"
#include "flow_prog.h"
#include "ptmill/event.h"
#include "ptmill/record.h"

/* An event, with the number of instructions before it. */
struct flow_event {
	uint64_t at;
	struct ptm_event ev;
};

/* A PSB, with the number of instructions before it. */
struct flow_psb {
	uint64_t offset, at;
};

struct flow_truth {
	struct ptm_record_config config;
	PTM_VEC(uint8_t) trace;
	PTM_VEC(uint64_t) ips;
	PTM_VEC(struct flow_psb) psbs;
	/* Those that flow_is_told() names. */
	PTM_VEC(struct flow_event) events;
};

/* Execute @prog under random options of the recorder, some thousand instructions; @truth is
 * zero-initialised, or used before. */
void flow_exec(const struct flow_prog *prog, struct flow_rand *r, struct flow_truth *truth);
void flow_truth_fini(struct flow_truth *truth);

/* True for the kinds of events of which the truth has all. */
static inline bool flow_is_told(const struct flow_truth *truth, unsigned kind)
{
	switch (kind) {
	case PTM_EV_DISABLED:
	case PTM_EV_ASYNC_BRANCH:
	case PTM_EV_PTWRITE:
	case PTM_EV_PAGING:
	case PTM_EV_TSX:
	case PTM_EV_EXSTOP:
	case PTM_EV_OVERFLOW:
		return true;
	case PTM_EV_ASYNC_DISABLED:
		return truth->config.irq_period == 0;
	case PTM_EV_ENABLED:
		return truth->config.irq_period == 0 && truth->config.ovf_period == 0;
	default:
		return false;
	}
}

#endif
