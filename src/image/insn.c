/* SPDX-License-Identifier: Apache-2.0
 *
 * insn.c - length and flow class of one instruction, by Zydis and a table of mnemonics.
 *
 * The table names every mnemonic that changes the flow, or that a packet binds to; everything else
 * falls through.  Zydis' own categories are not used: they count the transactional instructions
 * among the branches and the far returns among the near ones.  What Zydis rejects goes to
 * insn_guess.c.
 */
#include "image/insn.h"

#include "image/insn_guess.h"

#include "ptmill/err.h"

#include <Zydis/Zydis.h>

/* Entries for mnemonics whose encodings belong to several classes. */
enum { FORM_JMP = 0x80, FORM_CALL, FORM_RET };

/* SDM vol. 3, ch. Intel PT, table of COFI types.  XBEGIN, XEND and XABORT are not in it: they send
 * neither a TNT bit nor a TIP of their own (an abort is MODE.TSX, FUP and TIP). */
static const uint8_t class_of[ZYDIS_MNEMONIC_MAX_VALUE + 1] = {
	[ZYDIS_MNEMONIC_JB] = PTM_INSN_COND,
	[ZYDIS_MNEMONIC_JBE] = PTM_INSN_COND,
	[ZYDIS_MNEMONIC_JCXZ] = PTM_INSN_COND,
	[ZYDIS_MNEMONIC_JECXZ] = PTM_INSN_COND,
	[ZYDIS_MNEMONIC_JL] = PTM_INSN_COND,
	[ZYDIS_MNEMONIC_JLE] = PTM_INSN_COND,
	[ZYDIS_MNEMONIC_JNB] = PTM_INSN_COND,
	[ZYDIS_MNEMONIC_JNBE] = PTM_INSN_COND,
	[ZYDIS_MNEMONIC_JNL] = PTM_INSN_COND,
	[ZYDIS_MNEMONIC_JNLE] = PTM_INSN_COND,
	[ZYDIS_MNEMONIC_JNO] = PTM_INSN_COND,
	[ZYDIS_MNEMONIC_JNP] = PTM_INSN_COND,
	[ZYDIS_MNEMONIC_JNS] = PTM_INSN_COND,
	[ZYDIS_MNEMONIC_JNZ] = PTM_INSN_COND,
	[ZYDIS_MNEMONIC_JO] = PTM_INSN_COND,
	[ZYDIS_MNEMONIC_JP] = PTM_INSN_COND,
	[ZYDIS_MNEMONIC_JRCXZ] = PTM_INSN_COND,
	[ZYDIS_MNEMONIC_JS] = PTM_INSN_COND,
	[ZYDIS_MNEMONIC_JZ] = PTM_INSN_COND,
	[ZYDIS_MNEMONIC_LOOP] = PTM_INSN_COND,
	[ZYDIS_MNEMONIC_LOOPE] = PTM_INSN_COND,
	[ZYDIS_MNEMONIC_LOOPNE] = PTM_INSN_COND,
	[ZYDIS_MNEMONIC_JMP] = FORM_JMP,
	[ZYDIS_MNEMONIC_CALL] = FORM_CALL,
	[ZYDIS_MNEMONIC_RET] = FORM_RET,
	[ZYDIS_MNEMONIC_INT] = PTM_INSN_FAR_CALL,
	[ZYDIS_MNEMONIC_INT1] = PTM_INSN_FAR_CALL,
	[ZYDIS_MNEMONIC_INT3] = PTM_INSN_FAR_CALL,
	[ZYDIS_MNEMONIC_INTO] = PTM_INSN_FAR_CALL,
	[ZYDIS_MNEMONIC_SYSCALL] = PTM_INSN_FAR_CALL,
	[ZYDIS_MNEMONIC_SYSENTER] = PTM_INSN_FAR_CALL,
	[ZYDIS_MNEMONIC_VMCALL] = PTM_INSN_FAR_CALL,
	[ZYDIS_MNEMONIC_VMLAUNCH] = PTM_INSN_FAR_CALL,
	[ZYDIS_MNEMONIC_VMRESUME] = PTM_INSN_FAR_CALL,
	[ZYDIS_MNEMONIC_IRET] = PTM_INSN_FAR_RETURN,
	[ZYDIS_MNEMONIC_IRETD] = PTM_INSN_FAR_RETURN,
	[ZYDIS_MNEMONIC_IRETQ] = PTM_INSN_FAR_RETURN,
	[ZYDIS_MNEMONIC_SYSRET] = PTM_INSN_FAR_RETURN,
	[ZYDIS_MNEMONIC_SYSEXIT] = PTM_INSN_FAR_RETURN,
	[ZYDIS_MNEMONIC_UIRET] = PTM_INSN_FAR_RETURN,
};

/* JMP and CALL by form: [form][far, relative, indirect]. */
static const uint8_t form_class[2][3] = {
	{PTM_INSN_FAR_JUMP, PTM_INSN_JUMP, PTM_INSN_JUMP_INDIRECT},
	{PTM_INSN_FAR_CALL, PTM_INSN_CALL, PTM_INSN_CALL_INDIRECT},
};

static uint8_t classify(const ZydisDecodedInstruction *zi)
{
	uint8_t klass = class_of[zi->mnemonic];
	bool is_far = zi->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR;

	switch (klass) {
	case FORM_JMP:
	case FORM_CALL:
		return form_class[klass - FORM_JMP][is_far                       ? 0
						    : zi->raw.imm[0].is_relative ? 1
										 : 2];
	case FORM_RET:
		return is_far ? PTM_INSN_FAR_RETURN : PTM_INSN_RET;
	default:
		return klass;
	}
}

static uint8_t binds(const ZydisDecodedInstruction *zi)
{
	switch (zi->mnemonic) {
	case ZYDIS_MNEMONIC_MOV:
		/* MOV CRn, r: 0f 22 /n. */
		return zi->opcode_map == ZYDIS_OPCODE_MAP_0F && zi->opcode == 0x22 &&
				       zi->raw.modrm.reg == 3
			       ? PTM_BINDS_MOV_CR3
			       : PTM_BINDS_NONE;
	case ZYDIS_MNEMONIC_PTWRITE:
		return PTM_BINDS_PTWRITE;
	case ZYDIS_MNEMONIC_VMLAUNCH:
	case ZYDIS_MNEMONIC_VMRESUME:
		return PTM_BINDS_VMENTRY;
	case ZYDIS_MNEMONIC_VMPTRLD:
		return PTM_BINDS_VMPTRLD;
	default:
		return PTM_BINDS_NONE;
	}
}

/* The operand size truncates EIP (SDM vol. 2, JMP and Jcc).  It is always 64 bits for near branches
 * in 64-bit mode: Intel CPUs ignore a 66 prefix there. */
static uint64_t truncate_ip(uint64_t ip, unsigned operand_bits)
{
	switch (operand_bits) {
	case 16:
		return ip & UINT64_C(0xffff);
	case 32:
		return ip & UINT64_C(0xffffffff);
	default:
		return ip;
	}
}

static void decoder_init(ZydisDecoder *decoder, enum ptm_mode mode)
{
	switch (mode) {
	case PTM_MODE_64:
		(void)ZydisDecoderInit(decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
		break;
	case PTM_MODE_32:
		(void)ZydisDecoderInit(decoder, ZYDIS_MACHINE_MODE_LEGACY_32, ZYDIS_STACK_WIDTH_32);
		break;
	case PTM_MODE_16:
		/* Not real mode, which has fewer instructions: MODE.Exec does not tell the two
		 * apart. */
		(void)ZydisDecoderInit(decoder, ZYDIS_MACHINE_MODE_LEGACY_16, ZYDIS_STACK_WIDTH_16);
		break;
	}
}

int ptm_insn_decode(const uint8_t *bytes, size_t len, uint64_t ip, enum ptm_mode mode,
		    struct ptm_insn *insn)
{
	ZydisDecoder decoder;
	ZydisDecodedInstruction zi;
	ZyanStatus status;

	*insn = (struct ptm_insn){0};
	if (len == 0)
		return -PTM_E_TRUNCATED;
	if (len > PTM_INSN_MAX)
		len = PTM_INSN_MAX;
	decoder_init(&decoder, mode);
	status = ZydisDecoderDecodeInstruction(&decoder, NULL, bytes, len, &zi);
	if (status == ZYDIS_STATUS_NO_MORE_DATA)
		return len < PTM_INSN_MAX ? -PTM_E_TRUNCATED : 0;
	if (status == ZYDIS_STATUS_DECODING_ERROR)
		return ptm_insn_guess(bytes, len, mode, true, insn);
	/* APX gives a meaning to EVEX bits and maps that were reserved; the other errors (a LOCK
	 * that is not allowed, a REX before VEX, CR1) raise #UD on every CPU. */
	if (status == ZYDIS_STATUS_INVALID_MAP || status == ZYDIS_STATUS_MALFORMED_EVEX ||
	    status == ZYDIS_STATUS_BAD_REGISTER || status == ZYDIS_STATUS_INVALID_MASK)
		return ptm_insn_guess(bytes, len, mode, false, insn);
	if (!ZYAN_SUCCESS(status))
		return 0;
	insn->len = zi.length;
	insn->klass = classify(&zi);
	insn->binds = binds(&zi);
	if (insn->klass == PTM_INSN_COND || insn->klass == PTM_INSN_JUMP ||
	    insn->klass == PTM_INSN_CALL)
		insn->target = truncate_ip(ip + zi.length + (uint64_t)zi.raw.imm[0].value.s,
					   zi.operand_width);
	return insn->len;
}
