/* SPDX-License-Identifier: Apache-2.0
 *
 * blocks.h - steps to blocks (ptmill/iter.h), in a worker.
 *
 * A step is cut into the pieces of its run that lie in one place of memory; pieces that go on are
 * joined again.  The first block of a batch may continue the last one of the batch before, which
 * another worker may have made: so the first and the last one, if open, are told apart and joined
 * by the deliverer (sink/frames.h).
 */
#ifndef PTM_SINK_BLOCKS_H
#define PTM_SINK_BLOCKS_H

#include "flow/step.h"
#include "image/insn.h"
#include "pipeline/sink.h"
#include "ptmill/iter.h"

#include <stdbool.h>
#include <stddef.h>

struct ptm_blocks; /* of one worker: keeps decoded code and its cuts */

/* The state of a sink's worker: @size zeroed bytes, of which the first member is a struct
 * ptm_blocks *.  NULL and @err when out of memory. */
void *ptm_blocks_worker_create(size_t size, struct ptm_error *err);
void ptm_blocks_worker_destroy(struct ptm_sink *sink, void *worker);

/* Where the blocks and events of a batch go, in order; false ends it. */
struct ptm_blocks_ops {
	/* The first block of the batch; it may be open, too, and then it is the only one. */
	bool (*first)(void *ctx, const struct ptm_block *block, bool open);
	bool (*block)(void *ctx, const struct ptm_block *block);
	/* What follows may belong to it: the last one. */
	bool (*open)(void *ctx, const struct ptm_block *block);
	bool (*event)(void *ctx, const struct ptm_event *ev);
};

/* Returns 0, -PTM_E_NOMEM, or -PTM_E_CANCELED when a function of @ops returned false. */
int ptm_blocks_make(struct ptm_blocks *blocks, const struct ptm_batch *batch,
		    const struct ptm_blocks_ops *ops, void *ctx);

/* Does @next belong to the same block as @block, directly before it? */
static inline bool ptm_block_continues(const struct ptm_block *block, const struct ptm_block *next)
{
	uint32_t sum;

	return block->ends == PTM_BRANCH_NONE && next->ip == block->ip + block->bytes &&
	       next->space == block->space && next->bits == block->bits &&
	       next->flags == block->flags && (block->flags & PTM_BLOCK_UNKNOWN) == 0 &&
	       !__builtin_add_overflow(block->bytes, next->bytes, &sum);
}

static inline void ptm_block_append(struct ptm_block *block, const struct ptm_block *next)
{
	block->last = next->last;
	block->n += next->n;
	block->bytes += next->bytes;
	block->ends = next->ends;
}

/* Bits of a mode, and back. */
static inline uint8_t ptm_mode_bits(unsigned mode)
{
	return (uint8_t)(64u >> mode);
}

static inline enum ptm_mode ptm_bits_mode(unsigned bits)
{
	return bits == 64 ? PTM_MODE_64 : bits == 32 ? PTM_MODE_32 : PTM_MODE_16;
}

#endif
