/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_prog.h - a random but valid x86 program: code in one to three regions, and a list of its
 * instructions.
 *
 * Functions are rows of basic blocks; a block is a few instructions that do nothing to the flow and
 * a last one that does.  Every cycle of direct branches goes through a conditional one, so no run
 * without a packet is endless.  The instructions are known from having been composed, not decoded.
 */
#ifndef PTM_FUZZ_FLOW_PROG_H
#define PTM_FUZZ_FLOW_PROG_H

#include "flow_rand.h"
#include "image/insn.h"

#define FLOW_REGIONS     3
#define FLOW_REGION_SIZE 49152u
#define FLOW_INSNS_MAX   9000u
#define FLOW_ENTRIES_MAX 24u

/* What an instruction does, in the terms of the executor. */
enum flow_op {
	FLOW_PLAIN,
	FLOW_PTWRITE,
	FLOW_MOV_CR3,
	FLOW_COND,
	FLOW_JUMP,
	FLOW_CALL,
	FLOW_JUMP_INDIRECT,
	FLOW_CALL_INDIRECT,
	FLOW_RET,
	FLOW_FAR_CALL, /* far CALL, VMCALL */
	FLOW_FAR_JUMP,
	FLOW_FAR_RETURN,
	FLOW_SYSCALL,
	FLOW_TRAP /* INT n, INT3 */
};

struct flow_insn {
	uint64_t ip;
	uint32_t target; /* COND, JUMP, CALL: index of the instruction */
	uint8_t len;
	uint8_t op; /* enum flow_op */
	uint8_t region;
	bool rel8; /* the displacement is the last byte, else the last four */
};

struct flow_region {
	uint64_t base;
	uint32_t n; /* bytes */
	uint8_t code[FLOW_REGION_SIZE];
};

struct flow_prog {
	unsigned bits; /* 64 or 32 */
	uint32_t nregions, ninsns, nentries;
	struct flow_region regions[FLOW_REGIONS];
	struct flow_insn insns[FLOW_INSNS_MAX]; /* by region, then address */
	uint32_t entries[FLOW_ENTRIES_MAX];     /* of functions: indices of instructions */
};

/* Compose a program.  Aborts if the decoder of the image room reads an instruction otherwise than
 * it was meant. */
void flow_prog_make(struct flow_prog *prog, struct flow_rand *r);

/* The address behind instruction @i. */
static inline uint64_t flow_behind(const struct flow_prog *prog, uint32_t i)
{
	return prog->insns[i].ip + prog->insns[i].len;
}

#endif
