/* SPDX-License-Identifier: Apache-2.0
 *
 * operand.c - the operand of a PTWRITE: F3 0F AE /4, with REX.W of 64 bits (SDM vol. 2, PTWRITE;
 * the forms of addresses: SDM vol. 2, ch. 2).
 */
#include "record/operand.h"

#include "base/bytes.h"

enum { REX_W = 8, REX_X = 2, REX_B = 1 };

static uint64_t reg(const struct user_regs_struct *r, unsigned number)
{
	const uint64_t values[16] = {r->rax, r->rcx, r->rdx, r->rbx, r->rsp, r->rbp,
				     r->rsi, r->rdi, r->r8,  r->r9,  r->r10, r->r11,
				     r->r12, r->r13, r->r14, r->r15};

	return values[number];
}

struct prefixes {
	unsigned rex;
	bool addr32;
	uint64_t base; /* of the segment */
};

/* Returns how many bytes they are. */
static size_t take_prefixes(const uint8_t *code, size_t len, const struct user_regs_struct *regs,
			    struct prefixes *p)
{
	size_t i;

	*p = (struct prefixes){0};
	for (i = 0; i < len && code[i] != 0x0f; i++) {
		/* REX counts only directly before the opcode. */
		p->rex = (code[i] & 0xf0) == 0x40 ? code[i] : 0;
		if (code[i] == 0x67)
			p->addr32 = true;
		else if (code[i] == 0x64)
			p->base = regs->fs_base;
		else if (code[i] == 0x65)
			p->base = regs->gs_base;
	}
	return i;
}

static uint64_t sext32(const uint8_t *p)
{
	return (uint64_t)(int64_t)(int32_t)ptm_load_le32(p);
}

/* The address by the SIB byte at @sib, without displacement. */
static uint64_t by_sib(const uint8_t *sib, unsigned rex, unsigned mod,
		       const struct user_regs_struct *regs, bool *disp32)
{
	unsigned index = (*sib >> 3 & 7) | (rex & REX_X) << 2, base = *sib & 7;
	uint64_t address = 0;

	if (index != 4)
		address = reg(regs, index) << (*sib >> 6);
	*disp32 = base == 5 && mod == 0;
	return *disp32 ? address : address + reg(regs, base | (rex & REX_B) << 3);
}

/* The address by the ModRM byte at code[i]; false if bytes are missing. */
static bool by_modrm(const uint8_t *code, size_t i, size_t len, const struct prefixes *p,
		     const struct user_regs_struct *regs, uint64_t *address)
{
	unsigned mod = code[i] >> 6, rm = code[i] & 7;
	bool disp32 = mod == 2;
	uint64_t a = 0;

	i++;
	if (rm == 4) {
		bool no_base;

		if (i >= len)
			return false;
		a = by_sib(code + i++, p->rex, mod, regs, &no_base);
		disp32 = disp32 || no_base;
	} else if (rm == 5 && mod == 0) {
		a = regs->rip + len;
		disp32 = true;
	} else {
		a = reg(regs, rm | (p->rex & REX_B) << 3);
	}
	if (len - i < (disp32 ? 4U : mod == 1 ? 1U : 0U))
		return false;
	if (disp32)
		a += sext32(code + i);
	else if (mod == 1)
		a += (uint64_t)(int64_t)(int8_t)code[i];
	*address = p->base + (p->addr32 ? a & UINT32_MAX : a);
	return true;
}

bool ptm_ptwrite_operand(const uint8_t *code, size_t len, const struct user_regs_struct *regs,
			 struct ptm_operand *operand)
{
	struct prefixes p;
	size_t i = take_prefixes(code, len, regs, &p);

	if (len < 3 || i > len - 3 || code[i + 1] != 0xae || (code[i + 2] >> 3 & 7) != 4)
		return false;
	i += 2;
	*operand = (struct ptm_operand){.bytes = (p.rex & REX_W) != 0 ? 8 : 4};
	operand->in_memory = code[i] >> 6 != 3;
	if (operand->in_memory)
		return by_modrm(code, i, len, &p, regs, &operand->address);
	operand->value = reg(regs, (code[i] & 7) | (p.rex & REX_B) << 3);
	if (operand->bytes == 4)
		operand->value &= UINT32_MAX;
	return true;
}
