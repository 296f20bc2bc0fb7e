/* SPDX-License-Identifier: Apache-2.0
 *
 * hot.h - what was executed most: blocks, branches, functions, from the counts of a run.
 *
 * Counts say how often runs of code were executed, cut as it suited an engine.  Here they become
 * counts of single instructions, by image and offset, so that processes that run the same file add
 * up; these become blocks: instructions one behind the other, up to a branch, all executed equally
 * often.  So nothing of it depends on engines, threads and segments.
 */
#ifndef PTM_SINK_HOT_H
#define PTM_SINK_HOT_H

#include "base/vec.h"
#include "flow/counts.h"
#include "os/file.h"
#include "os/json.h"

#include <stddef.h>
#include <stdint.h>

/* A place in the code.  The texts are owned; NULL where nothing is known. */
struct ptm_hot_place {
	uint64_t address; /* the lowest at which it is mapped */
	uint64_t offset;  /* in the function; without one, in the file */
	char *module;     /* name of the file, where it was recorded if that is known */
	char *function;
	char *file; /* of source */
	unsigned line;
};

struct ptm_hot_target {
	struct ptm_hot_place place;
	uint64_t times;
};

/* A function, a block, a conditional branch or one that has targets. */
struct ptm_hot_row {
	struct ptm_hot_place place; /* of a function: its begin, or its first instruction that was
				       executed if that is not mapped; without a name for all of a
				       file that no symbol tells */
	uint64_t times; /* executions; of a function: of its first instruction; of branches: those
			   of which it is known where they led */
	uint64_t insns; /* instructions executed, of functions and blocks */
	uint64_t count; /* block: instructions in it; conditional branch: times taken; other ones:
			   different targets */
	PTM_VEC(struct ptm_hot_target) targets; /* the hottest */
};

typedef PTM_VEC(struct ptm_hot_row) ptm_hot_rows;

struct ptm_hot {
	size_t max;     /* rows of each list */
	uint64_t insns; /* executed in all */
	ptm_hot_rows functions, blocks, branches, indirect;
};

/* Make the lists, hottest first, of at most @hot->max rows; the rest of @hot is zero. */
int ptm_hot_make(struct ptm_hot *hot, struct ptm_counts *counts, struct ptm_error *err);
void ptm_hot_fini(struct ptm_hot *hot);

int ptm_hot_print_table(const struct ptm_hot *hot, struct ptm_out *out, struct ptm_error *err);
struct ptm_json *ptm_hot_json(const struct ptm_hot *hot);

#endif
