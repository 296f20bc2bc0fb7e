/* SPDX-License-Identifier: Apache-2.0
 *
 * blocks.c - the cuts of runs of code, and steps to blocks.
 *
 * Each run of the cache of decoded code (image/code.h) carries its pieces: instructions that lie
 * one behind the other, up to a branch.  A step is a prefix of a run, so it is some whole pieces
 * and the begin of one.  In front of the cache stands a direct-mapped table of runs seen lately;
 * both are dropped together.
 */
#include "sink/blocks.h"

#include "base/vec.h"
#include "image/code.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(PTM_BRANCH_NONE == (int)PTM_INSN_OTHER && PTM_BRANCH_COND == (int)PTM_INSN_COND &&
		       PTM_BRANCH_JUMP == (int)PTM_INSN_JUMP &&
		       PTM_BRANCH_CALL == (int)PTM_INSN_CALL &&
		       PTM_BRANCH_JUMP_INDIRECT == (int)PTM_INSN_JUMP_INDIRECT &&
		       PTM_BRANCH_CALL_INDIRECT == (int)PTM_INSN_CALL_INDIRECT &&
		       PTM_BRANCH_RET == (int)PTM_INSN_RET &&
		       PTM_BRANCH_FAR_CALL == (int)PTM_INSN_FAR_CALL &&
		       PTM_BRANCH_FAR_RETURN == (int)PTM_INSN_FAR_RETURN &&
		       PTM_BRANCH_FAR_JUMP == (int)PTM_INSN_FAR_JUMP,
	       "branches and classes of instructions have the same values");

#define CACHE_BYTES ((size_t)64 << 20) /* of decoded code, each worker */
#define FRONT_BITS  12

/* Instructions [end of the piece before, end) of a run. */
struct piece {
	uint64_t ip, last;
	uint32_t end;
	uint32_t bytes;
	uint8_t ends; /* enum ptm_branch */
};

/* The pieces of a run's first n instructions; hangs on run->user. */
struct cuts {
	struct ptm_blocks *blocks;
	const struct ptm_run *run;
	uint32_t n;
	PTM_VEC(struct piece) pieces;
};

/* `cuts` is dropped no earlier than the table is cleared. */
struct front {
	const struct ptm_space *space; /* NULL: empty */
	uint64_t ip;
	const struct cuts *cuts;
	uint32_t mode;
};

struct ptm_blocks {
	struct ptm_code *code;
	bool dropped; /* the cache was dropped: the table holds dead pointers */
	struct front front[1u << FRONT_BITS];
};

/* One batch under way. */
struct making {
	struct ptm_blocks *blocks;
	const struct ptm_blocks_ops *ops;
	void *ctx;
	struct ptm_block block; /* that may go on */
	bool has_block;
	bool began;            /* the first block of the batch was given away */
	struct ptm_block like; /* the fields that all blocks of the batch have */
};

static void free_cuts(void *user)
{
	struct cuts *cuts = (struct cuts *)user;

	cuts->blocks->dropped = true;
	free(cuts->pieces.v);
	free(cuts);
}

static struct ptm_blocks *create(void)
{
	struct ptm_blocks *blocks = (struct ptm_blocks *)calloc(1, sizeof(*blocks));

	if (blocks == NULL)
		return NULL;
	blocks->code = ptm_code_create(CACHE_BYTES, free_cuts);
	if (blocks->code == NULL) {
		free(blocks);
		return NULL;
	}
	return blocks;
}

void *ptm_blocks_worker_create(size_t size, struct ptm_error *err)
{
	struct ptm_blocks **worker = (struct ptm_blocks **)calloc(1, size);

	if (worker != NULL)
		*worker = create();
	if (worker == NULL || *worker == NULL) {
		free(worker);
		(void)PTM_FAIL(err, PTM_E_NOMEM, "Cannot create worker: out of memory");
		return NULL;
	}
	return worker;
}

void ptm_blocks_worker_destroy(struct ptm_sink *sink, void *worker)
{
	struct ptm_blocks *blocks = *(struct ptm_blocks **)worker;

	(void)sink;
	ptm_code_destroy(blocks->code);
	free(blocks);
	free(worker);
}

/* Cut instruction @i, the next one, off the run. */
static bool cut_insn(struct ptm_blocks *blocks, struct cuts *cuts, uint32_t i)
{
	const struct ptm_run *run = cuts->run;
	struct piece *piece = cuts->pieces.n > 0 ? &cuts->pieces.v[cuts->pieces.n - 1] : NULL;
	struct ptm_insn insn;

	/* It was decoded before, or it would not be in the run. */
	(void)ptm_code_insn(run->space, run->ips[i], (enum ptm_mode)run->mode, &insn);
	if (piece == NULL || piece->ends != PTM_BRANCH_NONE ||
	    run->ips[i] != piece->ip + piece->bytes) {
		struct piece next = {.ip = run->ips[i]};

		if (!ptm_vec_push(&cuts->pieces, next))
			return false;
		ptm_code_charge(blocks->code, sizeof(next));
		piece = &cuts->pieces.v[cuts->pieces.n - 1];
	}
	piece->last = run->ips[i];
	piece->end = i + 1;
	piece->bytes += run->lens[i];
	piece->ends = insn.klass;
	cuts->n = i + 1;
	return true;
}

/* The pieces of the run at @ip, for as much of its first @want instructions as there is.  NULL when
 * out of memory. */
static const struct cuts *find_cuts(struct ptm_blocks *blocks, const struct ptm_space *space,
				    uint64_t ip, uint32_t mode, uint32_t want, int *why)
{
	struct ptm_run *run = ptm_code_run(blocks->code, space, ip, (enum ptm_mode)mode, want, why);
	struct cuts *cuts;

	if (blocks->dropped) {
		memset(blocks->front, 0, sizeof(blocks->front));
		blocks->dropped = false;
	}
	if (run == NULL)
		return NULL;
	if (run->user == NULL) {
		cuts = (struct cuts *)calloc(1, sizeof(*cuts));
		if (cuts == NULL)
			return NULL;
		cuts->blocks = blocks;
		cuts->run = run;
		run->user = cuts;
		ptm_code_charge(blocks->code, sizeof(*cuts));
	}
	cuts = (struct cuts *)run->user;
	if (want > run->n)
		want = run->n;
	for (uint32_t i = cuts->n; i < want; i++)
		if (!cut_insn(blocks, cuts, i))
			return NULL;
	return cuts;
}

/* Hand on the block that may go on: something else follows. */
static int give(struct making *m)
{
	bool ok;

	if (!m->has_block)
		return 0;
	m->has_block = false;
	ok = m->began ? m->ops->block(m->ctx, &m->block) : m->ops->first(m->ctx, &m->block, false);
	m->began = true;
	return ok ? 0 : -PTM_E_CANCELED;
}

static int add(struct making *m, const struct ptm_block *block)
{
	if (m->has_block && ptm_block_continues(&m->block, block)) {
		ptm_block_append(&m->block, block);
	} else {
		PTM_TRY(give(m));
		m->block = *block;
		m->has_block = true;
	}
	return block->ends != PTM_BRANCH_NONE || block->flags & PTM_BLOCK_UNKNOWN ? give(m) : 0;
}

/* The first @n instructions of a run. */
static int add_prefix(struct making *m, const struct cuts *cuts, uint32_t n)
{
	const struct piece *piece = cuts->pieces.v;
	struct ptm_block block = m->like;
	uint32_t done = 0;

	for (; done < n; piece++) {
		uint32_t end = piece->end <= n ? piece->end : n;

		block.ip = piece->ip;
		block.n = end - done;
		if (end == piece->end) {
			block.last = piece->last;
			block.bytes = piece->bytes;
			block.ends = piece->ends;
		} else {
			block.last = cuts->run->ips[n - 1];
			block.bytes = (uint32_t)(block.last - piece->ip) + cuts->run->lens[n - 1];
			block.ends = PTM_BRANCH_NONE;
		}
		PTM_TRY(add(m, &block));
		done = end;
	}
	return 0;
}

/* What the engine saw but the decoder of images does not find: said, not dropped. */
static int add_unknown(struct making *m, const struct ptm_run *run, int why, uint32_t n)
{
	struct ptm_block block = m->like;

	block.ip = block.last = run->next;
	block.n = n;
	block.flags |= PTM_BLOCK_UNKNOWN;
	block.gap = why == 0              ? PTM_GAP_MISMATCH
		    : why == -PTM_E_NOMAP ? PTM_GAP_NO_IMAGE
					  : PTM_GAP_BAD_INSN;
	return add(m, &block);
}

static int add_step(struct making *m, struct ptm_step step)
{
	const struct ptm_space *space = m->like.space;
	uint64_t hash = step.ip * UINT64_C(0x9e3779b97f4a7c15);
	struct front *front = &m->blocks->front[hash >> (64 - FRONT_BITS)];
	const struct cuts *cuts;
	int why;

	m->like.bits = ptm_mode_bits(step.mode);
	if (front->ip == step.ip && front->space == space && front->mode == step.mode &&
	    step.n <= front->cuts->n)
		return add_prefix(m, front->cuts, step.n);
	for (;;) {
		uint32_t want = step.n < PTM_RUN_MAX ? step.n : PTM_RUN_MAX;

		cuts = find_cuts(m->blocks, space, step.ip, step.mode, want, &why);
		if (cuts == NULL)
			return -PTM_E_NOMEM;
		if (want == step.n && cuts->n >= want)
			*front = (struct front){space, step.ip, cuts, step.mode};
		if (want > cuts->n)
			want = cuts->n;
		PTM_TRY(add_prefix(m, cuts, want));
		step.n -= want;
		if (step.n == 0)
			return 0;
		if (want < PTM_RUN_MAX || cuts->run->ends)
			return add_unknown(m, cuts->run, why, step.n);
		step.ip = cuts->run->next;
	}
}

int ptm_blocks_make(struct ptm_blocks *blocks, const struct ptm_batch *batch,
		    const struct ptm_blocks_ops *ops, void *ctx)
{
	struct making m = {.blocks = blocks, .ops = ops, .ctx = ctx};
	size_t step = 0;
	bool ok = true;

	m.like.space = batch->space;
	m.like.flags = batch->resynced ? PTM_BLOCK_RESYNCED : 0;
	for (size_t i = 0; i <= batch->nevents; i++) {
		size_t end = i < batch->nevents ? batch->events[i].step : batch->nsteps;

		for (; step < end; step++)
			PTM_TRY(add_step(&m, batch->steps[step]));
		if (i == batch->nevents)
			break;
		PTM_TRY(give(&m));
		if (!ops->event(ctx, &batch->events[i]))
			return -PTM_E_CANCELED;
	}
	if (m.has_block)
		ok = m.began ? ops->open(ctx, &m.block) : ops->first(ctx, &m.block, true);
	return ok ? 0 : -PTM_E_CANCELED;
}
