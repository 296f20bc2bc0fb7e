/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_flow.h - what the cases of fuzz_flow.c added up to.
 */
#ifndef PTM_FUZZ_FLOW_H
#define PTM_FUZZ_FLOW_H

#include "flow_diff.h"

struct flow_counts {
	uint64_t cases, decodes, instructions, bytes;
	uint64_t not_for_libipt; /* sound traces of which it cannot yield the truth */
	uint64_t generations;    /* of small caches that were full */
	uint64_t complaints;     /* in a survey */
	uint64_t frames[FLOW_REASONS];
};

extern struct flow_counts flow_counts;

/* Go on behind differences that are not explained; print the first of each sort. */
extern bool flow_survey;

/* Print what a survey found. */
void flow_fuzz_survey(void);

void flow_fuzz_fini(void);

#endif
