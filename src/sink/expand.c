/* SPDX-License-Identifier: Apache-2.0
 *
 * expand.c - instructions of a block.
 *
 * A block is the begin of a run of code, so its instructions come from a cache of such runs
 * (image/code.h).
 */
#include "image/code.h"
#include "sink/blocks.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

#define CACHE_BYTES ((size_t)64 << 20)

struct ptm_expander {
	struct ptm_code *code;
};

struct ptm_expander *ptm_expander_create(size_t cache_limit, struct ptm_error *err)
{
	struct ptm_expander *expander = (struct ptm_expander *)calloc(1, sizeof(*expander));

	if (expander != NULL)
		expander->code = ptm_code_create(cache_limit > 0 ? cache_limit : CACHE_BYTES, NULL);
	if (expander == NULL || expander->code == NULL) {
		free(expander);
		(void)PTM_FAIL(err, PTM_E_NOMEM, "Cannot create expander: out of memory");
		return NULL;
	}
	return expander;
}

void ptm_expander_destroy(struct ptm_expander *expander)
{
	if (expander == NULL)
		return;
	ptm_code_destroy(expander->code);
	free(expander);
}

/* Instruction @i of the run, which is number @number of the block. */
static void expand_insn(const struct ptm_block *block, const struct ptm_run *run, uint32_t i,
			bool is_last, struct ptm_instruction *insn)
{
	*insn = (struct ptm_instruction){
		.ip = run->ips[i],
		.len = run->lens[i],
		.bits = block->bits,
		/* Only the last instruction of a block is a branch. */
		.branch = is_last ? block->ends : PTM_BRANCH_NONE,
		.flags = block->flags,
	};
	(void)ptm_space_read(run->space, insn->ip, insn->bytes, insn->len);
}

/* The part of the block from instruction @at at @ip on, as far as one run goes; NULL and a status
 * if there is none. */
static const struct ptm_run *run_at(struct ptm_expander *expander, const struct ptm_block *block,
				    uint64_t ip, uint32_t want, int *status, struct ptm_error *err)
{
	int why;
	const struct ptm_run *run = ptm_code_run(expander->code, block->space, ip,
						 ptm_bits_mode(block->bits), want, &why);

	if (run == NULL) {
		*status = PTM_FAIL(err, PTM_E_NOMEM, "Cannot expand block: out of memory");
		return NULL;
	}
	if (run->n < (want < PTM_RUN_MAX ? want : PTM_RUN_MAX)) {
		*status = PTM_FAIL(err, PTM_E_USAGE,
				   "Cannot expand block: its code is shorter than it says");
		return NULL;
	}
	return run;
}

int ptm_expand(struct ptm_expander *expander, const struct ptm_block *block, uint32_t first,
	       struct ptm_instruction *insns, uint32_t max, struct ptm_error *err)
{
	uint64_t ip = block->ip;
	uint32_t at = 0, stored = 0;
	int status = 0;

	if (first >= block->n || block->flags & PTM_BLOCK_UNKNOWN)
		return 0;
	if (max > block->n - first)
		max = block->n - first;
	if (max > INT32_MAX)
		max = INT32_MAX;
	while (stored < max) {
		const uint32_t left = first + max - at;
		const uint32_t want = left < PTM_RUN_MAX ? left : PTM_RUN_MAX;
		const struct ptm_run *run = run_at(expander, block, ip, want, &status, err);

		if (run == NULL)
			return status;
		for (uint32_t i = 0; i < want; i++, at++)
			if (at >= first)
				expand_insn(block, run, i, at == block->n - 1, &insns[stored++]);
		ip = run->ips[want - 1] + run->lens[want - 1];
	}
	return (int)stored;
}
