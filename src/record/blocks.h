/* SPDX-License-Identifier: Apache-2.0
 *
 * blocks.h - what the numbers of blocks mean: instructions in a row of which only the last one may
 * branch, with their digest.
 */
#ifndef PTM_RECORD_BLOCKS_H
#define PTM_RECORD_BLOCKS_H

#include "base/error.h"
#include "base/vec.h"
#include "image/insn.h"

/* What follows a block's last instruction. */
enum ptm_block_kind {
	PTM_BLOCK_PLAIN,
	PTM_BLOCK_REP,     /* itself, until it is done */
	PTM_BLOCK_SYSCALL, /* the kernel */
	PTM_BLOCK_TRAP     /* ... entered before it retires */
};

struct ptm_block {
	uint64_t begin, last, end; /* addresses: of the first and last instruction, behind it */
	uint64_t target;           /* of a direct branch; otherwise end */
	uint64_t kn, b;            /* K^m and digest of all but the last instruction, m of them */
	uint32_t lens;             /* place of the lengths of all n */
	uint16_t n;
	uint8_t klass; /* enum ptm_insn_class of the last one */
	uint8_t kind;  /* enum ptm_block_kind */
};

struct ptm_blocks {
	PTM_VEC(struct ptm_block) blocks; /* by number; number 0 is none */
	PTM_VEC(uint8_t) lens;
	uint64_t ptwrite; /* address of a PTWRITE, 0: none */
	struct ptm_error *err;
};

void ptm_blocks_init(struct ptm_blocks *blocks, struct ptm_error *err);
void ptm_blocks_fini(struct ptm_blocks *blocks);

/* Add the next block: @n instructions at @address, of @lens bytes each, whose bytes are @code.  An
 * instruction at the end that is not there as a whole was not translated.  Returns 0 or -PTM_E_*.
 */
int ptm_blocks_add(struct ptm_blocks *blocks, uint64_t address, const uint8_t *lens, unsigned n,
		   const uint8_t *code);

/* The lengths of the instructions of @block. */
static inline const uint8_t *ptm_block_lens(const struct ptm_blocks *blocks,
					    const struct ptm_block *block)
{
	return blocks->lens.v + block->lens;
}

/* The index of the instruction at @ip in @block, or -1. */
int ptm_block_find(const struct ptm_blocks *blocks, const struct ptm_block *block, uint64_t ip);

#endif
