/* SPDX-License-Identifier: Apache-2.0
 *
 * code_map.h - what is known of the instructions of a mapped file: one cell (a byte) for each byte,
 * length and class of the instruction that begins there.
 *
 * The cells of a file are shared by all who map it, wherever they map it, and are filled when
 * somebody first looks: whoever does finds the same, so relaxed atomic bytes are enough.  They are
 * of 64-bit code only; other code, and what does not fit a cell, is decoded each time.
 */
#ifndef PTM_IMAGE_CODE_MAP_H
#define PTM_IMAGE_CODE_MAP_H

#include "base/bytes.h"
#include "image/insn.h"
#include "image/space.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A cell: length in the low nibble, one of these in the high one; 0: nobody looked yet. */
enum ptm_cell_kind {
	PTM_CELL_OTHER,
	PTM_CELL_COND8, /* the displacement is the instruction's last byte */
	PTM_CELL_COND32,
	PTM_CELL_JUMP8,
	PTM_CELL_JUMP32,
	PTM_CELL_CALL32,
	PTM_CELL_JUMP_INDIRECT,
	PTM_CELL_CALL_INDIRECT,
	PTM_CELL_RET,
	PTM_CELL_FAR_CALL,
	PTM_CELL_FAR_RETURN,
	PTM_CELL_FAR_JUMP,
	PTM_CELL_MOV_CR3,
	PTM_CELL_PTWRITE,
	PTM_CELL_VMPTRLD,
	PTM_CELL_ODD /* to be decoded each time: no instruction, a guess, another branch */
};

/* Cells for a file of @size bytes: address space, of which what is touched takes memory.  NULL if
 * there is none; then everything is decoded each time. */
_Atomic uint8_t *ptm_cells_create(size_t size);
void ptm_cells_destroy(_Atomic uint8_t *cells, size_t size);

/* Reads instructions one after the other, with one look-up in the space for each mapping that they
 * lie in.  Threads: each its own. */
struct ptm_code_cursor {
	const struct ptm_space *space;
	enum ptm_mode mode;
	/* The mapping of the last one; size 0: it has no cells. */
	uint64_t begin, size;
	const uint8_t *bytes;
	_Atomic uint8_t *cells;
};

static inline void ptm_code_cursor_init(struct ptm_code_cursor *c, const struct ptm_space *space,
					enum ptm_mode mode)
{
	c->space = space;
	c->mode = mode;
	c->size = 0;
	c->begin = 0;
}

/* As ptm_code_insn(), for what ptm_code_read() does not find at once. */
int ptm_code_look(struct ptm_code_cursor *c, uint64_t ip, struct ptm_insn *insn);

/* Is this all that there is to know, @room bytes before the end of the mapping? */
static inline bool ptm_cell_tells(unsigned cell, uint64_t room)
{
	return cell != 0 && cell < PTM_CELL_ODD << 4 && (cell & 15) <= room;
}

static inline uint64_t ptm_cell_target(unsigned kind, uint64_t next, const uint8_t *end)
{
	switch (kind) {
	case PTM_CELL_COND8:
	case PTM_CELL_JUMP8:
		return next + (uint64_t)(int64_t)(int8_t)end[-1];
	case PTM_CELL_COND32:
	case PTM_CELL_JUMP32:
	case PTM_CELL_CALL32:
		return next + (uint64_t)(int64_t)(int32_t)ptm_load_le32(end - 4);
	default:
		return 0;
	}
}

/* The length of the instruction at @ip if it is known to fall through, with no packet bound to it;
 * else 0: ask ptm_code_read(). */
static inline unsigned ptm_code_plain(const struct ptm_code_cursor *c, uint64_t ip)
{
	const uint64_t at = ip - c->begin;
	unsigned cell;

	if (at >= c->size)
		return 0;
	cell = atomic_load_explicit(&c->cells[at], memory_order_relaxed);
	return cell < 16 && cell <= c->size - at ? cell : 0;
}

/* The same as ptm_code_insn(c->space, ip, c->mode, insn). */
static inline int ptm_code_read(struct ptm_code_cursor *c, uint64_t ip, struct ptm_insn *insn)
{
	static const uint8_t klass[] = {
		PTM_INSN_OTHER, PTM_INSN_COND,     PTM_INSN_COND,          PTM_INSN_JUMP,
		PTM_INSN_JUMP,  PTM_INSN_CALL,     PTM_INSN_JUMP_INDIRECT, PTM_INSN_CALL_INDIRECT,
		PTM_INSN_RET,   PTM_INSN_FAR_CALL, PTM_INSN_FAR_RETURN,    PTM_INSN_FAR_JUMP,
		PTM_INSN_OTHER, PTM_INSN_OTHER,    PTM_INSN_OTHER,
	};
	static const uint8_t binds[] = {
		[PTM_CELL_MOV_CR3] = PTM_BINDS_MOV_CR3,
		[PTM_CELL_PTWRITE] = PTM_BINDS_PTWRITE,
		[PTM_CELL_VMPTRLD] = PTM_BINDS_VMPTRLD,
	};
	const uint64_t at = ip - c->begin;
	unsigned cell = 0, kind, len;

	if (at < c->size)
		cell = atomic_load_explicit(&c->cells[at], memory_order_relaxed);
	if (!ptm_cell_tells(cell, c->size - at))
		return ptm_code_look(c, ip, insn);
	kind = cell >> 4;
	len = cell & 15;
	insn->len = (uint8_t)len;
	insn->klass = klass[kind];
	insn->binds = binds[kind];
	insn->guessed = false;
	insn->target = ptm_cell_target(kind, ip + len, c->bytes + at + len);
	return (int)len;
}

#endif
