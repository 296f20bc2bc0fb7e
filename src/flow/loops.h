/* SPDX-License-Identifier: Apache-2.0
 *
 * loops.h - the two loops of the fast path, which take all its time: from packets to symbols, and
 * over the edges of symbols.  They are compiled once for any CPU and once for those with BMI2
 * (loops_body.h, loops_plain.c, loops_bmi2.c); what they do is the same.
 */
#ifndef PTM_FLOW_LOOPS_H
#define PTM_FLOW_LOOPS_H

#include "flow/turbo.h"

/* Edges in a row that use up nothing of their symbol: so many are shorter than PTM_RUNAWAY, so that
 * a longer run is for the exact path to judge. */
#define PTM_IDLE_EDGES (PTM_RUNAWAY / PTM_EDGE_INSNS - 6)

struct ptm_loops {
	/* Turn packets of a stretch into symbols, up to the first that is not simple. */
	void (*lex)(struct ptm_turbo *t, struct ptm_walk *w);
	/* Walk t->lane over the symbols of t->stretch.  False: something is irregular. */
	bool (*walk)(struct ptm_turbo *t, struct ptm_walk *w);
	/* The same, and log the edges: t->went in t->counts. */
	bool (*walk_counting)(struct ptm_turbo *t, struct ptm_walk *w);
};

extern const struct ptm_loops ptm_loops_plain;
#ifdef PTM_LOOPS_BMI2
extern const struct ptm_loops ptm_loops_bmi2;
#endif
/* Those that are the fastest on this CPU. */
const struct ptm_loops *ptm_loops_best(void);

/* The slow part of a TIP.  False if the stretch is given up: the generation was full, so what was
 * made of it so far means nothing. */
bool ptm_loops_target(struct ptm_walk *w, uint64_t ip, uint32_t *id);

/* The edge, which was not in the first slots for it; NULL: there is none. */
const struct ptm_slot *ptm_loops_edge(struct ptm_turbo *t, struct ptm_walk *w, uint64_t key,
				      uint32_t top);

#endif
