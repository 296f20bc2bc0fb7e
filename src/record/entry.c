/* SPDX-License-Identifier: Apache-2.0
 *
 * entry.c - how an instruction enters the kernel, and whether it repeats.
 */
#include "record/entry.h"

enum ptm_entry ptm_entry_of(const struct ptm_insn *insn, const uint8_t *code)
{
	const uint8_t *op = code;

	if (insn->klass != PTM_INSN_FAR_CALL)
		return PTM_ENTRY_NONE;
	/* Prefixes are allowed and mean nothing here. */
	while (op < code + insn->len - 1 &&
	       (*op == 0x66 || *op == 0xf2 || *op == 0xf3 || (*op & 0xf0) == 0x40))
		op++;
	if (op[0] == 0x0f)
		return op[1] == 0x05 || op[1] == 0x34 ? PTM_ENTRY_SYSCALL : PTM_ENTRY_TRAP;
	return op[0] == 0xcc || op[0] == 0xcd || op[0] == 0xce || op[0] == 0xf1 ? PTM_ENTRY_TRAP
										: PTM_ENTRY_NONE;
}

bool ptm_is_rep(const struct ptm_insn *insn, const uint8_t *code)
{
	bool rep = false;

	if (insn->klass != PTM_INSN_OTHER)
		return false;
	/* The opcode is the last byte: INS, OUTS, MOVS, CMPS, STOS, LODS, SCAS take no other. */
	for (unsigned i = 0; i + 1 < insn->len; i++) {
		uint8_t c = code[i];
		bool prefix = c == 0x66 || c == 0x67 || c == 0xf0 || c == 0x2e || c == 0x36 ||
			      c == 0x3e || c == 0x26 || c == 0x64 || c == 0x65 ||
			      (c & 0xf0) == 0x40;

		if (c == 0xf2 || c == 0xf3)
			rep = true;
		else if (!prefix)
			return false;
	}
	switch (code[insn->len - 1]) {
	case 0x6c:
	case 0x6d:
	case 0x6e:
	case 0x6f:
	case 0xa4:
	case 0xa5:
	case 0xa6:
	case 0xa7:
	case 0xaa:
	case 0xab:
	case 0xac:
	case 0xad:
	case 0xae:
	case 0xaf:
		return rep;
	default:
		return false;
	}
}
