/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_prog.c - composes random programs.
 *
 * Encodings come from tables by the SDM (vol. 2): opcode bytes, whether a ModRM byte follows, and
 * how many bytes of immediate; prefixes, registers, addressing forms and values are random.  Blocks
 * are laid out first, with the displacements of their branches open; these are filled in once all
 * blocks have their place.  A short branch that does not reach its target goes to the next
 * instruction.
 */
#include "flow_prog.h"

#include "base/bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_TARGET UINT32_MAX

enum form_flags {
	MODRM = 1,
	MEM_ONLY = 2, /* no register form */
	REX_OK = 4,   /* legacy encoding: prefixes and REX may stand before it */
	LONG_ONLY = 8 /* not in 32-bit code */
};

/* An instruction that falls through. */
struct form {
	uint8_t flags, nimm; /* immediate bytes, whatever the operand size */
	uint8_t n;
	uint8_t op[5];
	uint8_t reg; /* of the ModRM byte: 8 means any */
};

static const struct form forms[] = {
	{MODRM | REX_OK, 0, 1, {0x01}, 8},
	{MODRM | REX_OK, 0, 1, {0x03}, 8},
	{MODRM | REX_OK, 0, 1, {0x0a}, 8},
	{MODRM | REX_OK, 0, 1, {0x21}, 8},
	{MODRM | REX_OK, 0, 1, {0x2b}, 8},
	{MODRM | REX_OK, 0, 1, {0x31}, 8},
	{MODRM | REX_OK, 0, 1, {0x39}, 8},
	{MODRM | REX_OK, 0, 1, {0x85}, 8},
	{MODRM | REX_OK, 0, 1, {0x88}, 8},
	{MODRM | REX_OK, 0, 1, {0x8b}, 8},
	{MODRM | MEM_ONLY | REX_OK, 0, 1, {0x8d}, 8},
	{MODRM | REX_OK, 1, 1, {0x83}, 8},
	{MODRM | REX_OK, 1, 1, {0x80}, 8},
	{MODRM | REX_OK, 1, 1, {0xc1}, 4},
	{MODRM | REX_OK, 1, 1, {0xc6}, 0},
	{MODRM | REX_OK, 1, 1, {0x6b}, 8},
	{MODRM, 4, 1, {0x81}, 8},
	{MODRM, 4, 1, {0xc7}, 0},
	{MODRM, 4, 1, {0x69}, 8},
	{MODRM, 4, 1, {0xf7}, 0},
	{MODRM | REX_OK, 0, 1, {0xf7}, 3},
	{MODRM | REX_OK, 0, 1, {0xff}, 0},
	{MODRM | REX_OK, 0, 1, {0xd3}, 7},
	{MODRM | LONG_ONLY, 0, 2, {0x48, 0x63}, 8},
	{MODRM | REX_OK, 0, 2, {0x0f, 0xaf}, 8},
	{MODRM | REX_OK, 0, 2, {0x0f, 0xb6}, 8},
	{MODRM | REX_OK, 0, 2, {0x0f, 0xbf}, 8},
	{MODRM | REX_OK, 0, 2, {0x0f, 0x44}, 8},
	{MODRM | REX_OK, 0, 2, {0x0f, 0x4f}, 8},
	{MODRM | REX_OK, 0, 2, {0x0f, 0x95}, 8},
	{MODRM | REX_OK, 0, 2, {0x0f, 0x1f}, 0},
	{MODRM | REX_OK, 1, 2, {0x0f, 0xba}, 4},
	{MODRM, 0, 2, {0x0f, 0x10}, 8},
	{MODRM, 0, 2, {0x0f, 0x28}, 8},
	{MODRM, 0, 3, {0x66, 0x0f, 0x6f}, 8},
	{MODRM, 0, 3, {0xf3, 0x0f, 0x7f}, 8},
	{MODRM, 0, 3, {0xf2, 0x0f, 0x58}, 8},
	{MODRM, 1, 3, {0x66, 0x0f, 0x70}, 8},
	{MODRM, 0, 4, {0x66, 0x0f, 0x38, 0x00}, 8},
	{MODRM, 1, 4, {0x66, 0x0f, 0x3a, 0x0f}, 8},
	{MODRM | LONG_ONLY, 0, 3, {0xc5, 0xf8, 0x28}, 8},
	{MODRM | LONG_ONLY, 0, 3, {0xc5, 0xfe, 0x6f}, 8},
	{MODRM | LONG_ONLY, 0, 4, {0xc4, 0xe2, 0x7d, 0x18}, 8},
	{MODRM | LONG_ONLY, 1, 4, {0xc4, 0xe3, 0x7d, 0x0f}, 8},
	{MODRM | LONG_ONLY, 0, 5, {0x62, 0xf1, 0x7c, 0x48, 0x28}, 8},
	{LONG_ONLY, 0, 3, {0xc5, 0xf8, 0x77}, 0},
	{REX_OK, 0, 1, {0x90}, 0},
	{REX_OK, 0, 1, {0x98}, 0},
	{REX_OK, 0, 1, {0x99}, 0},
	{0, 0, 1, {0x50}, 0},
	{0, 0, 1, {0x5f}, 0},
	{0, 0, 2, {0xf3, 0x90}, 0},
	{0, 0, 2, {0xf3, 0xa4}, 0},
	{0, 0, 2, {0xf3, 0xab}, 0},
	{0, 0, 2, {0x0f, 0xa2}, 0},
	{0, 0, 2, {0x0f, 0x31}, 0},
	{0, 0, 4, {0xf3, 0x0f, 0x1e, 0xfa}, 0},
	{0, 1, 1, {0x6a}, 0},
	{0, 1, 1, {0xb1}, 0},
	{0, 1, 1, {0xa8}, 0},
	{0, 4, 1, {0x68}, 0},
	{0, 4, 1, {0xb8}, 0},
	{0, 4, 1, {0x05}, 0},
	{LONG_ONLY, 8, 2, {0x48, 0xbb}, 0},
};

/* Last instructions of blocks: how many in so many blocks, and what they are. */
enum ending {
	END_FALL,
	END_JCC,
	END_JCC_NEAR,
	END_LOOP,
	END_JMP,
	END_JMP_NEAR,
	END_CALL,
	END_CALL_NEXT,
	END_JMP_IND,
	END_CALL_IND,
	END_RET,
	END_RET_POP,
	END_PUSH_RET,
	END_FAR,
	END_SYSCALL,
	END_TRAP,
	ENDINGS
};

static const uint8_t weights[ENDINGS] = {
	[END_FALL] = 6,     [END_JCC] = 30,     [END_JCC_NEAR] = 10, [END_LOOP] = 4,
	[END_JMP] = 6,      [END_JMP_NEAR] = 6, [END_CALL] = 22,     [END_CALL_NEXT] = 2,
	[END_JMP_IND] = 6,  [END_CALL_IND] = 8, [END_RET] = 12,      [END_RET_POP] = 2,
	[END_PUSH_RET] = 2, [END_FAR] = 1,      [END_SYSCALL] = 2,   [END_TRAP] = 1,
};

/* The program under construction. */
struct maker {
	struct flow_prog *prog;
	struct flow_rand *r;
	struct flow_region *region;
	uint32_t blocks[1024]; /* of the current function: index of the first instruction */
	uint32_t nblocks;
	uint32_t first_entry; /* of the current region */
	uint8_t b[32];        /* the instruction under construction */
	unsigned n;
};

static void byte(struct maker *m, unsigned value)
{
	m->b[m->n++] = (uint8_t)value;
}

static void any_bytes(struct maker *m, unsigned n)
{
	while (n-- > 0)
		byte(m, (unsigned)(flow_rand_u64(m->r) >> 56));
}

/* A ModRM byte with /@reg and what follows it.  Address size is that of the code. */
static void modrm(struct maker *m, unsigned reg, bool mem_only)
{
	unsigned mod = flow_pick(m->r, mem_only ? 3 : 4), rm = flow_pick(m->r, 8);

	if (reg > 7)
		reg = flow_pick(m->r, 8);
	byte(m, mod << 6 | reg << 3 | rm);
	if (mod == 3)
		return;
	if (rm == 4) {
		unsigned sib = flow_pick(m->r, 256);

		byte(m, sib);
		if (mod == 0 && (sib & 7) == 5)
			any_bytes(m, 4);
	}
	if (mod == 0 && rm == 5)
		any_bytes(m, 4);
	else if (mod > 0)
		any_bytes(m, mod == 1 ? 1 : 4);
}

/* The instruction is complete: check it against the decoder, append it. */
static uint32_t put(struct maker *m, enum flow_op op, enum ptm_insn_class klass, bool rel8)
{
	struct flow_prog *prog = m->prog;
	struct flow_insn *insn = &prog->insns[prog->ninsns];
	struct ptm_insn seen;
	uint64_t ip = m->region->base + m->region->n;
	int len = ptm_insn_decode(m->b, m->n, ip, prog->bits == 64 ? PTM_MODE_64 : PTM_MODE_32,
				  &seen);

	if (len != (int)m->n || seen.klass != klass) {
		(void)fprintf(stderr, "%u-bit code: meant %u bytes, class %u, but it is %d, %u:",
			      prog->bits, m->n, (unsigned)klass, len, seen.klass);
		for (unsigned i = 0; i < m->n; i++)
			(void)fprintf(stderr, " %02x", m->b[i]);
		(void)fprintf(stderr, "\n");
		abort();
	}
	memcpy(m->region->code + m->region->n, m->b, m->n);
	*insn = (struct flow_insn){.ip = ip,
				   .target = NO_TARGET,
				   .len = (uint8_t)m->n,
				   .op = (uint8_t)op,
				   .region = (uint8_t)(m->region - prog->regions),
				   .rel8 = rel8};
	m->region->n += m->n;
	m->n = 0;
	return prog->ninsns++;
}

static void put_fill(struct maker *m)
{
	static const uint8_t segments[] = {0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65};
	const struct form *f;

	do
		f = &forms[flow_pick(m->r, sizeof(forms) / sizeof(forms[0]))];
	while ((f->flags & LONG_ONLY) != 0 && m->prog->bits != 64);
	if ((f->flags & REX_OK) != 0) {
		if (flow_one_in(m->r, 8))
			byte(m, 0x66);
		if ((f->flags & MODRM) != 0 && flow_one_in(m->r, 8))
			byte(m, segments[flow_pick(m->r, sizeof(segments))]);
		if (m->prog->bits == 64 && flow_one_in(m->r, 2))
			byte(m, 0x40 | flow_pick(m->r, 16));
	}
	for (unsigned i = 0; i < f->n; i++)
		byte(m, f->op[i]);
	if ((f->flags & MODRM) != 0)
		modrm(m, f->reg, (f->flags & MEM_ONLY) != 0);
	any_bytes(m, f->nimm);
	(void)put(m, FLOW_PLAIN, PTM_INSN_OTHER, false);
}

/* PTWRITE (F3 0F AE /4) or MOV CR3 (0F 22 /3). */
static void put_bound(struct maker *m)
{
	if (flow_one_in(m->r, 3)) {
		byte(m, 0x0f);
		byte(m, 0x22);
		byte(m, 0xd8 | flow_pick(m->r, 8));
		(void)put(m, FLOW_MOV_CR3, PTM_INSN_OTHER, false);
		return;
	}
	byte(m, 0xf3);
	if (m->prog->bits == 64 && flow_one_in(m->r, 2))
		byte(m, 0x48);
	byte(m, 0x0f);
	byte(m, 0xae);
	modrm(m, 4, false);
	(void)put(m, FLOW_PTWRITE, PTM_INSN_OTHER, false);
}

static void put_rel(struct maker *m, enum flow_op op, enum ptm_insn_class klass, bool rel8,
		    uint32_t block)
{
	/* A displacement of zero is valid whatever comes of it. */
	for (unsigned i = 0; i < (rel8 ? 1U : 4U); i++)
		byte(m, 0);
	m->prog->insns[put(m, op, klass, rel8)].target = block;
}

/* Conditional branches go to any block of the function, forward or back. */
static uint32_t any_block(struct maker *m)
{
	uint32_t at = m->nblocks - 1, lo = at > 3 ? at - 3 : 0;

	return lo + flow_pick(m->r, 8);
}

static void put_far(struct maker *m)
{
	switch (flow_pick(m->r, 4)) {
	case 0:
		byte(m, 0xff);
		modrm(m, 5, true);
		(void)put(m, FLOW_FAR_JUMP, PTM_INSN_FAR_JUMP, false);
		break;
	case 1:
		byte(m, 0xff);
		modrm(m, 3, true);
		(void)put(m, FLOW_FAR_CALL, PTM_INSN_FAR_CALL, false);
		break;
	case 2:
		if (m->prog->bits == 64)
			byte(m, 0x48);
		byte(m, 0xcf);
		(void)put(m, FLOW_FAR_RETURN, PTM_INSN_FAR_RETURN, false);
		break;
	default:
		byte(m, 0xcb);
		(void)put(m, FLOW_FAR_RETURN, PTM_INSN_FAR_RETURN, false);
		break;
	}
}

static void put_return(struct maker *m, enum ending ending)
{
	if (ending == END_PUSH_RET) {
		byte(m, 0x50 | flow_pick(m->r, 8));
		(void)put(m, FLOW_PLAIN, PTM_INSN_OTHER, false);
	}
	if (flow_one_in(m->r, 4))
		byte(m, flow_one_in(m->r, 2) ? 0xf2 : 0xf3);
	byte(m, ending == END_RET_POP ? 0xc2 : 0xc3);
	if (ending == END_RET_POP) {
		byte(m, flow_pick(m->r, 256));
		byte(m, 0);
	}
	(void)put(m, FLOW_RET, PTM_INSN_RET, false);
}

static void put_indirect(struct maker *m, bool call)
{
	if (flow_one_in(m->r, 4))
		byte(m, flow_one_in(m->r, 2) ? 0x3e : 0xf2);
	if (m->prog->bits == 64 && flow_one_in(m->r, 4))
		byte(m, 0x41);
	byte(m, 0xff);
	modrm(m, call ? 2 : 4, false);
	(void)put(m, call ? FLOW_CALL_INDIRECT : FLOW_JUMP_INDIRECT,
		  call ? PTM_INSN_CALL_INDIRECT : PTM_INSN_JUMP_INDIRECT, false);
}

static void put_kernel(struct maker *m, bool trap)
{
	if (!trap) {
		byte(m, 0x0f);
		byte(m, m->prog->bits == 64 ? 0x05 : 0x34);
		(void)put(m, FLOW_SYSCALL, PTM_INSN_FAR_CALL, false);
		return;
	}
	if (flow_one_in(m->r, 2)) {
		byte(m, 0xcc);
	} else {
		byte(m, 0xcd);
		byte(m, 0x80);
	}
	(void)put(m, FLOW_TRAP, PTM_INSN_FAR_CALL, false);
}

static void put_ending(struct maker *m, enum ending ending)
{
	/* Direct jumps go forward only. */
	uint32_t forward = m->nblocks + flow_pick(m->r, 3);

	switch (ending) {
	case END_FALL:
	case ENDINGS:
		break;
	case END_JCC:
		byte(m, 0x70 | flow_pick(m->r, 16));
		put_rel(m, FLOW_COND, PTM_INSN_COND, true, any_block(m));
		break;
	case END_JCC_NEAR:
		if (flow_one_in(m->r, 4))
			byte(m, 0x2e);
		byte(m, 0x0f);
		byte(m, 0x80 | flow_pick(m->r, 16));
		put_rel(m, FLOW_COND, PTM_INSN_COND, false, any_block(m));
		break;
	case END_LOOP:
		byte(m, 0xe0 | flow_pick(m->r, 4));
		put_rel(m, FLOW_COND, PTM_INSN_COND, true, any_block(m));
		break;
	case END_JMP:
		byte(m, 0xeb);
		put_rel(m, FLOW_JUMP, PTM_INSN_JUMP, true, forward);
		break;
	case END_JMP_NEAR:
		byte(m, 0xe9);
		put_rel(m, FLOW_JUMP, PTM_INSN_JUMP, false, forward);
		break;
	case END_CALL:
		if (flow_one_in(m->r, 8))
			byte(m, 0xf2);
		byte(m, 0xe8);
		put_rel(m, FLOW_CALL, PTM_INSN_CALL, false, NO_TARGET);
		break;
	case END_CALL_NEXT:
		byte(m, 0xe8);
		put_rel(m, FLOW_CALL, PTM_INSN_CALL, false, m->nblocks);
		break;
	case END_JMP_IND:
		put_indirect(m, false);
		break;
	case END_CALL_IND:
		put_indirect(m, true);
		break;
	case END_RET:
	case END_RET_POP:
	case END_PUSH_RET:
		put_return(m, ending);
		break;
	case END_FAR:
		put_far(m);
		break;
	case END_SYSCALL:
	case END_TRAP:
		put_kernel(m, ending == END_TRAP);
		break;
	}
}

static enum ending pick_ending(struct maker *m)
{
	uint32_t sum = 0, at;
	unsigned i = 0;

	for (unsigned k = 0; k < ENDINGS; k++)
		sum += weights[k];
	for (at = flow_pick(m->r, sum); at >= weights[i]; i++)
		at -= weights[i];
	return (enum ending)i;
}

/* The first instruction of a block, or of the last one. */
static uint32_t block_at(const struct maker *m, uint32_t block)
{
	return m->blocks[block < m->nblocks ? block : m->nblocks - 1];
}

static void set_target(struct flow_prog *prog, uint32_t i, uint32_t target)
{
	struct flow_insn *insn = &prog->insns[i];
	struct flow_region *region = &prog->regions[insn->region];
	int64_t rel = (int64_t)(prog->insns[target].ip - flow_behind(prog, i));
	uint32_t end = (uint32_t)(flow_behind(prog, i) - region->base);

	if (insn->rel8 && (rel < -128 || rel > 127)) {
		rel = 0;
		target = i + 1;
	}
	insn->target = target;
	ptm_store_le(region->code + end - (insn->rel8 ? 1 : 4), (uint64_t)rel, insn->rel8 ? 1 : 4);
}

/* A function: it begins with a block that has a conditional branch, and ends with one that does not
 * fall through. */
static void put_function(struct maker *m)
{
	struct flow_prog *prog = m->prog;
	uint32_t n = 2 + flow_pick(m->r, 12), first = prog->ninsns;

	prog->entries[prog->nentries++] = first;
	m->nblocks = 0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t fill = flow_pick(m->r, flow_one_in(m->r, 8) ? 20 : 5);

		m->blocks[m->nblocks++] = prog->ninsns;
		while (fill-- > 0)
			put_fill(m);
		if (flow_one_in(m->r, 20))
			put_bound(m);
		if (i + 1 == n)
			put_ending(m, flow_one_in(m->r, 6) ? END_JMP_IND : END_RET);
		else
			put_ending(m, i == 0 ? END_JCC_NEAR : pick_ending(m));
		if (m->blocks[m->nblocks - 1] == prog->ninsns)
			put_fill(m);
	}
	for (uint32_t i = first; i < prog->ninsns; i++) {
		const struct flow_insn *insn = &prog->insns[i];

		if (insn->op == FLOW_COND || insn->op == FLOW_JUMP ||
		    (insn->op == FLOW_CALL && insn->target != NO_TARGET))
			set_target(prog, i, block_at(m, insn->target));
	}
}

/* Calls go to any function of the region. */
static void set_calls(struct maker *m, uint32_t first)
{
	struct flow_prog *prog = m->prog;

	for (uint32_t i = first; i < prog->ninsns; i++) {
		uint32_t n = prog->nentries - m->first_entry;

		if (prog->insns[i].op == FLOW_CALL && prog->insns[i].target == NO_TARGET)
			set_target(prog, i, prog->entries[m->first_entry + flow_pick(m->r, n)]);
	}
}

void flow_prog_make(struct flow_prog *prog, struct flow_rand *r)
{
	static const uint64_t bases[] = {0x401000, 0x7ffff7dd0000, 0xffffffff81000000,
					 0x555555554000, 0xfffff000};
	struct maker m = {.prog = prog, .r = r};

	prog->bits = flow_one_in(r, 8) ? 32 : 64;
	prog->ninsns = 0;
	prog->nentries = 0;
	prog->nregions = 1 + flow_pick(r, prog->bits == 64 ? FLOW_REGIONS : 1);
	for (uint32_t i = 0; i < prog->nregions; i++) {
		uint32_t functions = 1 + flow_pick(r, 8), first = prog->ninsns;

		m.region = &prog->regions[i];
		m.region->base =
			prog->bits == 64 ? bases[(i + flow_pick(r, 2) * 3) % 5] : 0x8049000;
		/* Of two with the same base the later one is moved. */
		for (uint32_t k = 0; k < i; k++)
			if (prog->regions[k].base == m.region->base)
				m.region->base += 0x10000 * (i + 1);
		m.region->n = 0;
		m.first_entry = prog->nentries;
		for (uint32_t k = 0; k < functions; k++)
			put_function(&m);
		set_calls(&m, first);
	}
}
