/* SPDX-License-Identifier: Apache-2.0
 *
 * edge_counts.h - how often the fast path went over which edge: one addition for many instructions.
 *
 * Stretches log the edges that they go over, for nothing counts before their end.  Then each is
 * looked up in a hash table by what it is made of (not by its slot: slots move) and where it led,
 * and is counted there; what it does to the tally stands beside the count.  At the end, or when
 * there are too many, or when ids get another meaning, each edge is gone over once more, and what
 * it consists of is counted as often as it was: runs, branches, targets, by address
 * (flow/counts.h).
 *
 * Until then the generation of the nodes is held, so that nothing has to happen when it is
 * replaced.
 */
#ifndef PTM_FLOW_EDGE_COUNTS_H
#define PTM_FLOW_EDGE_COUNTS_H

#include "flow/counts.h"
#include "flow/walk.h"

/* Edges of a stretch: long runs without a branch take many.  One with more is given up. */
#define PTM_WENT_MAX 16384u

/* Once over an edge. */
struct ptm_went {
	uint64_t key;   /* as in the slot */
	uint32_t guard; /* likewise */
	uint32_t to; /* state: the target of its TIP, or of the return that it ends in; 0: none */
};

struct ptm_edge_count;

/* One an engine. */
struct ptm_edge_counts {
	struct ptm_counts *sum; /* borrowed; NULL: nobody wants more than the tally */
	struct ptm_error *err;  /* while something is under way */
	/* What the states mean. */
	struct ptm_gen *gen; /* held; NULL: nothing is counted */
	const struct ptm_space *space;
	struct ptm_edge_count *slot; /* an open hash table, at most half full */
	unsigned bits;
	size_t used;
	struct ptm_went log[PTM_WENT_MAX];
};

/* NULL when out of memory. */
struct ptm_edge_counts *ptm_edge_counts_create(struct ptm_counts *sum);
/* What was not settled is forgotten.  Accepts NULL. */
void ptm_edge_counts_destroy(struct ptm_edge_counts *counts);

/* Count the first @n of the log, which are of the generation and space of @w, and put them into its
 * tally.  Return 0 or -PTM_E_NOMEM. */
int ptm_edge_counts_add(struct ptm_edge_counts *counts, struct ptm_walk *w, size_t n);
/* Have all that was counted in the sum. */
int ptm_edge_counts_settle(struct ptm_edge_counts *counts, struct ptm_error *err);

#endif
