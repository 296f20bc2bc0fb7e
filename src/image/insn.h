/* SPDX-License-Identifier: Apache-2.0
 *
 * insn.h - length and flow class of one x86 instruction (Zydis, by an explicit table of mnemonics).
 */
#ifndef PTM_IMAGE_INSN_H
#define PTM_IMAGE_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ptm_mode { PTM_MODE_64 = 0, PTM_MODE_32 = 1, PTM_MODE_16 = 2 };

/* What the instruction does to the flow, in the terms of SDM vol. 3, ch. Intel PT, "COFI". */
enum ptm_insn_class {
	PTM_INSN_OTHER,         /* falls through */
	PTM_INSN_COND,          /* Jcc, JrCXZ, LOOPcc: a TNT bit */
	PTM_INSN_JUMP,          /* direct near JMP: no packet */
	PTM_INSN_CALL,          /* direct near CALL: no packet */
	PTM_INSN_JUMP_INDIRECT, /* a TIP (also JMPABS) */
	PTM_INSN_CALL_INDIRECT, /* a TIP */
	PTM_INSN_RET,           /* near RET: a TNT bit if compressed, else a TIP */
	PTM_INSN_FAR_CALL,      /* INT n, INT1, INT3, INTO, SYSCALL, SYSENTER, far CALL, VMLAUNCH,
				   VMRESUME, VMCALL... */
	PTM_INSN_FAR_RETURN,    /* IRET, SYSRET, SYSEXIT, RETF, UIRET, ERETU, ERETS */
	PTM_INSN_FAR_JUMP       /* far JMP */
};

/* Instructions that other packets bind to. */
enum ptm_insn_binds {
	PTM_BINDS_NONE = 0,
	PTM_BINDS_MOV_CR3,
	PTM_BINDS_PTWRITE,
	PTM_BINDS_VMENTRY, /* VMLAUNCH, VMRESUME */
	PTM_BINDS_VMPTRLD
};

struct ptm_insn {
	uint8_t len;     /* bytes, 1 to 15 */
	uint8_t klass;   /* enum ptm_insn_class */
	uint8_t binds;   /* enum ptm_insn_binds */
	bool guessed;    /* Zydis rejected it; length by structure */
	uint64_t target; /* COND, JUMP, CALL: linear address of the branch target, truncated to the
			    mode */
};

/* Decode the instruction of @len bytes at @ip.  Returns its length, 0 if the bytes are not an
 * instruction, or -PTM_E_TRUNCATED if more bytes (up to 15) would be needed to tell. */
int ptm_insn_decode(const uint8_t *bytes, size_t len, uint64_t ip, enum ptm_mode mode,
		    struct ptm_insn *insn);

/* True for the classes after which the next IP is not known from the code alone. */
static inline bool ptm_insn_needs_packet(unsigned klass)
{
	return klass != PTM_INSN_OTHER && klass != PTM_INSN_JUMP && klass != PTM_INSN_CALL;
}

#endif
