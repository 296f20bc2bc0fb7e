/* SPDX-License-Identifier: Apache-2.0
 *
 * blocks.c - what the numbers of blocks mean.
 */
#include "record/blocks.h"

#include "base/digest.h"
#include "record/entry.h"

#include <inttypes.h>
#include <stdlib.h>

void ptm_blocks_init(struct ptm_blocks *blocks, struct ptm_error *err)
{
	*blocks = (struct ptm_blocks){.err = err};
}

void ptm_blocks_fini(struct ptm_blocks *blocks)
{
	free(blocks->blocks.v);
	free(blocks->lens.v);
	*blocks = (struct ptm_blocks){0};
}

static enum ptm_block_kind kind_of(const struct ptm_insn *insn, const uint8_t *code)
{
	switch (ptm_entry_of(insn, code)) {
	case PTM_ENTRY_SYSCALL:
		return PTM_BLOCK_SYSCALL;
	case PTM_ENTRY_TRAP:
		return PTM_BLOCK_TRAP;
	case PTM_ENTRY_NONE:
		break;
	}
	return ptm_is_rep(insn, code) ? PTM_BLOCK_REP : PTM_BLOCK_PLAIN;
}

/* Fills @block.  Returns 0 or -PTM_E_*. */
static int describe(struct ptm_blocks *blocks, struct ptm_block *block, const uint8_t *lens,
		    unsigned n, const uint8_t *code)
{
	struct ptm_digest digest = PTM_DIGEST_EMPTY;
	uint64_t ip = block->begin;

	for (unsigned i = 0; i < n; i++, code += lens[i - 1]) {
		struct ptm_insn insn;
		int len = ptm_insn_decode(code, lens[i], ip, PTM_MODE_64, &insn);

		/* QEMU takes an instruction back that reaches into another page than the block's
		 * first byte lies in, and forgets to tell. */
		if (i > 0 && i + 1 == n && len != lens[i])
			return 0;
		if (len != lens[i] || (i + 1 < n && insn.klass != PTM_INSN_OTHER))
			return PTM_FAIL(blocks->err, PTM_E_SYSTEM,
					"Cannot decode the instruction at 0x%" PRIx64
					" that the program executes as QEMU does",
					ip);
		if (insn.binds == PTM_BINDS_PTWRITE)
			blocks->ptwrite = ip;
		ptm_digest_add(&digest, ip);
		block->kn = digest.kn;
		block->b = digest.b;
		block->last = ip;
		ip += lens[i];
		block->end = ip;
		block->target = insn.klass == PTM_INSN_COND || insn.klass == PTM_INSN_JUMP ||
						insn.klass == PTM_INSN_CALL
					? insn.target
					: ip;
		block->klass = insn.klass;
		block->kind = (uint8_t)kind_of(&insn, code);
		block->n = (uint16_t)(i + 1);
	}
	return 0;
}

int ptm_blocks_add(struct ptm_blocks *blocks, uint64_t address, const uint8_t *lens, unsigned n,
		   const uint8_t *code)
{
	struct ptm_block block = {.begin = address, .lens = (uint32_t)blocks->lens.n};

	if (blocks->lens.n > UINT32_MAX - n || !ptm_vec_reserve(&blocks->lens, n) ||
	    !ptm_vec_reserve(&blocks->blocks, 2))
		return PTM_FAIL(blocks->err, PTM_E_NOMEM, "Cannot record: out of memory");
	if (blocks->blocks.n == 0)
		blocks->blocks.v[blocks->blocks.n++] = (struct ptm_block){0};
	PTM_TRY(describe(blocks, &block, lens, n, code));
	for (unsigned i = 0; i < n; i++)
		blocks->lens.v[blocks->lens.n++] = lens[i];
	blocks->blocks.v[blocks->blocks.n++] = block;
	return 0;
}

int ptm_block_find(const struct ptm_blocks *blocks, const struct ptm_block *block, uint64_t ip)
{
	const uint8_t *lens = ptm_block_lens(blocks, block);
	uint64_t at = block->begin;

	if (ip < at || ip > block->last)
		return -1;
	for (unsigned i = 0; i < block->n; at += lens[i++])
		if (at == ip)
			return (int)i;
	return -1;
}
