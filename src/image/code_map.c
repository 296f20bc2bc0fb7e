/* SPDX-License-Identifier: Apache-2.0
 *
 * code_map.c - filling the cells of mapped code.
 */
#include "image/code_map.h"

#include "base/error.h"

#include "image/code.h"

#include <sys/mman.h>

_Atomic uint8_t *ptm_cells_create(size_t size)
{
	void *p;

	if (size == 0)
		return NULL;
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		 -1, 0);
	return p != MAP_FAILED ? (_Atomic uint8_t *)p : NULL;
}

void ptm_cells_destroy(_Atomic uint8_t *cells, size_t size)
{
	if (cells != NULL)
		(void)munmap((void *)cells, size);
}

/* Where instructions are decoded for their cells: nothing that a branch could be truncated to. */
#define NOWHERE UINT64_C(0x7fed87654321)

static unsigned kind_of_branch(const struct ptm_insn *insn, const uint8_t *bytes)
{
	const uint64_t next = NOWHERE + insn->len;
	const uint8_t *end = bytes + insn->len;
	const bool is8 = insn->target == ptm_cell_target(PTM_CELL_COND8, next, end);
	const bool is32 =
		insn->len > 4 && insn->target == ptm_cell_target(PTM_CELL_COND32, next, end);

	if (insn->klass == PTM_INSN_COND && (is8 || is32))
		return is8 ? PTM_CELL_COND8 : PTM_CELL_COND32;
	if (insn->klass == PTM_INSN_JUMP && (is8 || is32))
		return is8 ? PTM_CELL_JUMP8 : PTM_CELL_JUMP32;
	return insn->klass == PTM_INSN_CALL && is32 ? PTM_CELL_CALL32 : PTM_CELL_ODD;
}

static unsigned kind_of(const struct ptm_insn *insn, const uint8_t *bytes)
{
	static const uint8_t bound[] = {
		[PTM_BINDS_NONE] = PTM_CELL_OTHER,      [PTM_BINDS_MOV_CR3] = PTM_CELL_MOV_CR3,
		[PTM_BINDS_PTWRITE] = PTM_CELL_PTWRITE, [PTM_BINDS_VMENTRY] = PTM_CELL_ODD,
		[PTM_BINDS_VMPTRLD] = PTM_CELL_VMPTRLD,
	};

	if (insn->guessed)
		return PTM_CELL_ODD;
	if (insn->klass == PTM_INSN_OTHER)
		return bound[insn->binds];
	if (insn->binds != PTM_BINDS_NONE)
		return PTM_CELL_ODD;
	switch (insn->klass) {
	case PTM_INSN_JUMP_INDIRECT:
		return PTM_CELL_JUMP_INDIRECT;
	case PTM_INSN_CALL_INDIRECT:
		return PTM_CELL_CALL_INDIRECT;
	case PTM_INSN_RET:
		return PTM_CELL_RET;
	case PTM_INSN_FAR_CALL:
		return PTM_CELL_FAR_CALL;
	case PTM_INSN_FAR_RETURN:
		return PTM_CELL_FAR_RETURN;
	case PTM_INSN_FAR_JUMP:
		return PTM_CELL_FAR_JUMP;
	default:
		return kind_of_branch(insn, bytes);
	}
}

/* Look at what begins @at bytes into the mapping.  It stays unknown (0) if it may lie in the next
 * mapping, too, which is not the same everywhere. */
static unsigned fill(struct ptm_code_cursor *c, uint64_t at)
{
	const uint8_t *bytes = c->bytes + at;
	struct ptm_insn insn;
	int len = ptm_insn_decode(bytes, (size_t)(c->size - at), NOWHERE, PTM_MODE_64, &insn);
	unsigned kind = len > 0 ? kind_of(&insn, bytes) : PTM_CELL_ODD;
	unsigned cell = len < 0 ? 0 : kind << 4 | (unsigned)len;

	if (cell != 0)
		atomic_store_explicit(&c->cells[at], (uint8_t)cell, memory_order_relaxed);
	return cell;
}

int ptm_code_look(struct ptm_code_cursor *c, uint64_t ip, struct ptm_insn *insn)
{
	uint64_t at = ip - c->begin;
	unsigned cell = 0;

	if (c->mode == PTM_MODE_64 && at >= c->size) {
		c->size = ptm_space_cells(c->space, ip, &c->begin, &c->bytes, &c->cells);
		at = ip - c->begin;
	}
	if (at < c->size) {
		cell = atomic_load_explicit(&c->cells[at], memory_order_relaxed);
		if (cell == 0)
			cell = fill(c, at);
	}
	if (ptm_cell_tells(cell, c->size - at))
		return ptm_code_read(c, ip, insn);
	return ptm_code_insn(c->space, ip, c->mode, insn);
}
