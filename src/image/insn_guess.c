/* SPDX-License-Identifier: Apache-2.0
 *
 * insn_guess.c - a structural length decoder for what Zydis rejects.
 *
 * New instructions reuse the old structure (SDM vol. 2, ch. 2; APX architecture specification, REX2
 * and extended EVEX): legacy prefixes, one of REX, REX2, VEX, EVEX, an opcode in a map, ModRM with
 * SIB and displacement, an immediate.  For each map a small table says which opcodes have a ModRM
 * byte and how long the immediate is, so the length of an unknown instruction is known and the flow
 * goes on.  Opcodes of the one-byte map are all assigned, so only a REX2 prefix brings us there;
 * unassigned opcodes of the 0f map are no instructions.
 */
#include "image/insn_guess.h"

#include "ptmill/err.h"

enum encoding { ENC_LEGACY, ENC_REX2, ENC_VEX, ENC_EVEX };

/* Immediates: a number of bytes, or one of these. */
enum { IMM_Z = 16 /* 2 or 4, by operand size */, IMM_V /* 2, 4 or 8 */ };

struct guess {
	const uint8_t *p;
	size_t len, pos;
	enum ptm_mode mode;
	enum encoding enc;
	bool addr_size;    /* 67 */
	bool operand_size; /* 66, or pp of VEX and EVEX */
	bool wide;         /* W */
	uint8_t rep;       /* f2, f3 or 0: the last one */
	uint8_t reg_high;  /* bits 3 and 4 of ModRM.reg, from REX or REX2 */
	uint8_t map, op, modrm;
	bool has_modrm;
};

/* Next byte, or -1 at the end. */
static int next(struct guess *g)
{
	return g->pos < g->len ? g->p[g->pos++] : -1;
}

static int ran_out(const struct guess *g)
{
	return g->len < PTM_INSN_MAX ? -PTM_E_TRUNCATED : 0;
}

static bool in_set(const uint32_t set[8], uint8_t op)
{
	return (set[op >> 5] >> (op & 31) & 1) != 0;
}

/* One bit an opcode: the instruction has a ModRM byte. */
static const uint32_t modrm_map0[8] = {0x0f0f0f0f, 0x0f0f0f0f, 0,          0x00000a08,
				       0x0000ffff, 0,          0xff0f00c3, 0xc0c00000};
static const uint32_t modrm_map1[8] = {0xffffa00f, 0x0000ff0f, 0xffffffff, 0xf37fffff,
				       0xffff0000, 0xfffff838, 0xffff00ff, 0xffffffff};
/* Opcodes of the 0f map that no CPU has, or only CPUs without Intel PT. */
static const uint32_t unassigned_map1[8] = {0x00009410, 0xfa4000f0, 0, 0x0c000000,
					    0,          0x000000c0, 0, 0};

/* Legacy prefixes, then REX, REX2, VEX or EVEX, then the opcode.  Returns 1, or as
 * ptm_insn_decode(). */
static int read_prefixes(struct guess *g, int *first)
{
	int b;

	for (;;) {
		b = next(g);
		switch (b) {
		case -1:
			return ran_out(g);
		case 0x66:
			g->operand_size = true;
			continue;
		case 0x67:
			g->addr_size = true;
			continue;
		case 0xf2:
		case 0xf3:
			g->rep = (uint8_t)b;
			continue;
		case 0xf0:
		case 0x26:
		case 0x2e:
		case 0x36:
		case 0x3e:
		case 0x64:
		case 0x65:
			continue;
		default:
			break;
		}
		break;
	}
	*first = b;
	return 1;
}

static int read_legacy(struct guess *g, int b)
{
	if (g->mode == PTM_MODE_64 && (b & 0xf0) == 0x40) {
		g->wide = (b & 8) != 0;
		g->reg_high = (uint8_t)((b & 4) << 1);
		b = next(g);
		if (b < 0)
			return ran_out(g);
	}
	if (b != 0x0f)
		return 0;
	b = next(g);
	g->map = 1;
	if (b == 0x38 || b == 0x3a) {
		g->map = b == 0x38 ? 2 : 3;
		b = next(g);
	}
	if (b < 0)
		return ran_out(g);
	g->op = (uint8_t)b;
	/* Without a ModRM byte there is no room for anything new. */
	return g->map > 1 || (in_set(modrm_map1, g->op) && !in_set(unassigned_map1, g->op));
}

static int read_rex2(struct guess *g)
{
	int payload = next(g), op = next(g);

	g->enc = ENC_REX2;
	if (payload < 0 || op < 0)
		return ran_out(g);
	g->map = (payload & 0x80) != 0;
	g->op = (uint8_t)op;
	g->wide = (payload & 8) != 0;
	g->reg_high = (uint8_t)((payload & 4) << 1 | (payload & 0x40) >> 2);
	/* APX: #UD in these rows, and for anything that is a prefix, except JMPABS. */
	if (g->map == 1)
		return (op & 0xf0) != 0x30 && (op & 0xf0) != 0x80 &&
		       !in_set(unassigned_map1, g->op);
	if (op == 0xa1)
		return !g->wide && g->rep == 0 && !g->operand_size && !g->addr_size;
	switch (op & 0xf0) {
	case 0x40:
	case 0x70:
	case 0xa0:
	case 0xe0:
		return 0;
	default:
		return op != 0x0f && op != 0x26 && op != 0x2e && op != 0x36 && op != 0x3e &&
		       op != 0x62 && (op < 0x64 || op > 0x67) && op != 0xc4 && op != 0xc5 &&
		       op != 0xd5 && op != 0xf0 && op != 0xf2 && op != 0xf3;
	}
}

static int read_vex(struct guess *g, int b)
{
	int payload[3] = {0}, n = b == 0x62 ? 3 : b == 0xc4 ? 2 : 1, op;

	if (g->operand_size || g->rep != 0)
		return 0;
	for (int i = 0; i < n; i++) {
		payload[i] = next(g);
		if (payload[i] < 0)
			return ran_out(g);
		/* Outside 64-bit mode these are BOUND, LES and LDS unless they look like a register
		 * form. */
		if (i == 0 && g->mode != PTM_MODE_64 && (payload[0] & 0xc0) != 0xc0)
			return 0;
	}
	op = next(g);
	if (op < 0)
		return ran_out(g);
	g->op = (uint8_t)op;
	g->enc = b == 0x62 ? ENC_EVEX : ENC_VEX;
	g->map = (uint8_t)(b == 0x62 ? payload[0] & 7 : b == 0xc4 ? payload[0] & 0x1f : 1);
	g->operand_size = (payload[b == 0xc5 ? 0 : 1] & 3) == 1;
	g->wide = (payload[1] & 0x80) != 0;
	if (g->map == 0 || g->map > 7)
		return 0;
	/* Map 4 is that of the promoted legacy instructions: EVEX in 64-bit mode only. */
	return g->map != 4 || (g->enc == ENC_EVEX && g->mode == PTM_MODE_64);
}

/* Immediate of the one-byte map; the 66 and REX2.W rules are applied by the caller. */
static unsigned imm_map0(uint8_t op, uint8_t modrm)
{
	if (op < 0x40 && (op & 7) == 4)
		return 1;
	if (op < 0x40 && (op & 7) == 5)
		return IMM_Z;
	switch (op) {
	case 0x6a:
	case 0x6b:
	case 0x80:
	case 0x83:
	case 0xc0:
	case 0xc1:
	case 0xc6:
	case 0xcd:
		return 1;
	case 0x68:
	case 0x69:
	case 0x81:
	case 0xc7:
		return IMM_Z;
	case 0xc2:
	case 0xca:
		return 2;
	case 0xc8:
		return 3;
	case 0xa1: /* JMPABS */
		return 8;
	case 0xf6:
		return (modrm & 0x30) == 0 ? 1 : 0;
	case 0xf7:
		return (modrm & 0x30) == 0 ? IMM_Z : 0;
	default:
		return (op & 0xf8) == 0xb0 ? 1 : (op & 0xf8) == 0xb8 ? IMM_V : 0;
	}
}

static unsigned imm_map1(const struct guess *g)
{
	switch (g->op) {
	case 0xa4:
	case 0xac:
	case 0xba:
		return g->enc == ENC_LEGACY || g->enc == ENC_REX2;
	case 0x70:
	case 0x71:
	case 0x72:
	case 0x73:
	case 0xc2:
	case 0xc4:
	case 0xc5:
	case 0xc6:
		return 1;
	default:
		return 0;
	}
}

/* APX's map 4 holds instructions of the one-byte and 0f maps under their old opcode; only these
 * have immediates. */
static unsigned imm_map4(uint8_t op, uint8_t modrm)
{
	switch (op) {
	case 0x24: /* SHLD */
	case 0x2c: /* SHRD */
	case 0xd4: /* SHA1RNDS4 */
		return 1;
	case 0x69:
	case 0x6b:
	case 0x80:
	case 0x81:
	case 0x83:
	case 0xc0:
	case 0xc1:
	case 0xf6:
	case 0xf7:
		return imm_map0(op, modrm);
	default:
		return 0;
	}
}

static unsigned imm_bytes(const struct guess *g)
{
	unsigned imm;

	switch (g->map) {
	case 0:
		imm = imm_map0(g->op, g->modrm);
		break;
	case 1:
		imm = imm_map1(g);
		break;
	case 3:
		imm = 1;
		break;
	case 4:
		imm = imm_map4(g->op, g->modrm);
		break;
	case 7: /* the MSR instructions with the number of the register */
		imm = 4;
		break;
	default:
		imm = 0;
		break;
	}
	if (imm == IMM_V)
		return g->wide ? 8 : g->operand_size ? 2 : 4;
	if (imm == IMM_Z)
		return g->operand_size && !g->wide ? 2 : 4;
	return imm;
}

/* Displacement (and SIB) behind the ModRM byte. */
static int skip_address(struct guess *g)
{
	unsigned mod = g->modrm >> 6, rm = g->modrm & 7;
	int sib;

	if (mod == 3)
		return 1;
	if (g->mode == PTM_MODE_16 ? !g->addr_size : g->mode == PTM_MODE_32 && g->addr_size) {
		g->pos += mod == 1 ? 1 : mod == 2 || rm == 6 ? 2 : 0;
		return 1;
	}
	if (rm == 4) {
		sib = next(g);
		if (sib < 0)
			return ran_out(g);
		rm = (unsigned)sib & 7;
	}
	g->pos += mod == 1 ? 1 : mod == 2 || rm == 5 ? 4 : 0;
	return 1;
}

static void classify_map0(const struct guess *g, struct ptm_insn *insn)
{
	static const uint8_t group5[8] = {
		[2] = PTM_INSN_CALL_INDIRECT,
		[3] = PTM_INSN_FAR_CALL,
		[4] = PTM_INSN_JUMP_INDIRECT,
		[5] = PTM_INSN_FAR_JUMP,
	};

	switch (g->op) {
	case 0xa1:
		insn->klass = PTM_INSN_JUMP_INDIRECT;
		insn->guessed = false;
		break;
	case 0xc2:
	case 0xc3:
		insn->klass = PTM_INSN_RET;
		break;
	case 0xca:
	case 0xcb:
	case 0xcf:
		insn->klass = PTM_INSN_FAR_RETURN;
		break;
	case 0xcc:
	case 0xcd:
	case 0xf1:
		insn->klass = PTM_INSN_FAR_CALL;
		break;
	case 0xff:
		insn->klass = group5[g->modrm >> 3 & 7];
		break;
	default:
		break;
	}
}

static void classify_0f01(const struct guess *g, struct ptm_insn *insn)
{
	if (g->mode == PTM_MODE_64 && g->modrm == 0xca && g->rep != 0) {
		insn->klass = PTM_INSN_FAR_RETURN; /* f3: ERETU, f2: ERETS */
		insn->guessed = g->enc != ENC_LEGACY;
	} else if (g->mode == PTM_MODE_64 && g->modrm == 0xec && g->rep == 0xf3) {
		insn->klass = PTM_INSN_FAR_RETURN; /* UIRET */
	} else if (g->modrm >= 0xc1 && g->modrm <= 0xc3 && g->rep == 0 && !g->operand_size) {
		insn->klass = PTM_INSN_FAR_CALL; /* VMCALL, VMLAUNCH, VMRESUME */
		insn->binds = g->modrm == 0xc1 ? PTM_BINDS_NONE : PTM_BINDS_VMENTRY;
	}
}

static void classify_map1(const struct guess *g, struct ptm_insn *insn)
{
	unsigned reg = g->modrm >> 3 & 7;

	switch (g->op) {
	case 0x01:
		classify_0f01(g, insn);
		break;
	case 0x05:
	case 0x34:
		insn->klass = PTM_INSN_FAR_CALL;
		break;
	case 0x07:
	case 0x35:
		insn->klass = PTM_INSN_FAR_RETURN;
		break;
	case 0x22:
		if ((reg | g->reg_high) == 3)
			insn->binds = PTM_BINDS_MOV_CR3;
		break;
	case 0xae:
		if (reg == 4 && g->rep == 0xf3)
			insn->binds = PTM_BINDS_PTWRITE;
		break;
	case 0xc7:
		if (reg == 6 && g->modrm < 0xc0 && g->rep == 0 && !g->operand_size)
			insn->binds = PTM_BINDS_VMPTRLD;
		break;
	default:
		break;
	}
}

static bool wants_modrm(const struct guess *g)
{
	if (g->map == 0)
		return in_set(modrm_map0, g->op);
	if (g->map != 1)
		return true;
	/* VZEROUPPER is the only vector instruction without operands. */
	return g->enc == ENC_VEX || g->enc == ENC_EVEX ? g->op != 0x77 : in_set(modrm_map1, g->op);
}

static int read_opcode(struct guess *g, bool legacy)
{
	int b, rc = read_prefixes(g, &b);

	if (rc <= 0)
		return rc;
	if (b == 0xc4 || b == 0xc5 || b == 0x62)
		return read_vex(g, b);
	if (b == 0xd5 && g->mode == PTM_MODE_64)
		return read_rex2(g);
	return legacy ? read_legacy(g, b) : 0;
}

int ptm_insn_guess(const uint8_t *bytes, size_t len, enum ptm_mode mode, bool legacy,
		   struct ptm_insn *insn)
{
	struct guess g = {.p = bytes, .len = len, .mode = mode};
	int rc = read_opcode(&g, legacy), b;

	if (rc <= 0)
		return rc;
	if (wants_modrm(&g)) {
		b = next(&g);
		if (b < 0)
			return ran_out(&g);
		g.modrm = (uint8_t)b;
		rc = skip_address(&g);
		if (rc <= 0)
			return rc;
	}
	g.pos += imm_bytes(&g);
	if (g.pos > PTM_INSN_MAX)
		return 0;
	if (g.pos > g.len)
		return -PTM_E_TRUNCATED;
	insn->len = (uint8_t)g.pos;
	insn->guessed = true;
	if (g.enc == ENC_LEGACY || g.enc == ENC_REX2) {
		if (g.map == 0)
			classify_map0(&g, insn);
		else if (g.map == 1)
			classify_map1(&g, insn);
	}
	return insn->len;
}
