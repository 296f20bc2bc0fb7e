/* SPDX-License-Identifier: Apache-2.0
 *
 * counts.h - how often what was executed: runs of code, both ways of conditional branches, targets
 * of indirect ones.
 *
 * The counts of a worker are its own and are summed at the end.  They are by address, so they
 * outlive the nodes and generations of whatever walked there.  Where runs are cut says nothing, as
 * with steps (flow/step.h): what two tables say of each instruction is the same if the same was
 * executed, whichever engine, threads and segments there were.
 */
#ifndef PTM_FLOW_COUNTS_H
#define PTM_FLOW_COUNTS_H

#include "base/error.h"
#include "image/insn.h"
#include "image/space.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ptm_count_kind {
	PTM_COUNT_RUN,   /* `to` instructions from `ip` on along unconditional flow: what follows
			    falling through, direct JMPs and direct CALLs */
	PTM_COUNT_COND,  /* the conditional branch at `ip` was taken (`to` 1) or not (0) */
	PTM_COUNT_TARGET /* the indirect branch, return or far transfer at `ip` led to `to` */
};

struct ptm_count {
	uint64_t ip, to;
	uint64_t times; /* 0: not in use */
	uint16_t space; /* ptm_counts_space() */
	uint8_t mode;   /* enum ptm_mode, of the code at `ip` */
	uint8_t kind;
};

struct ptm_counts;

/* NULL when out of memory.  A table has at most PTM_COUNTS_MAX entries; further ones fail. */
#define PTM_COUNTS_MAX (1u << 22)
struct ptm_counts *ptm_counts_create(void);
void ptm_counts_destroy(struct ptm_counts *counts);

/* Count @times more, in @space, which is borrowed.  Threads: one caller a table.  Returns 0 or
 * -PTM_E_NOMEM. */
int ptm_counts_add(struct ptm_counts *counts, const struct ptm_space *space,
		   enum ptm_count_kind kind, enum ptm_mode mode, uint64_t ip, uint64_t to,
		   uint64_t times, struct ptm_error *err);

/* Add all of @part to @sum. */
int ptm_counts_sum(struct ptm_counts *sum, struct ptm_counts *part, struct ptm_error *err);

/* All entries, each once, in order of space (the numbers depend on who came first), kind, mode and
 * address: borrowed until the next call.  Returns their number at @n; -PTM_E_NOMEM. */
int ptm_counts_get(struct ptm_counts *counts, const struct ptm_count **v, size_t *n,
		   struct ptm_error *err);

/* The space of an entry; they have the numbers from 0 on. */
size_t ptm_counts_spaces(const struct ptm_counts *counts);
const struct ptm_space *ptm_counts_space(const struct ptm_counts *counts, unsigned space);

#endif
