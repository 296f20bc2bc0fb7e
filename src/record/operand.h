/* SPDX-License-Identifier: Apache-2.0
 *
 * operand.h - the operand of a PTWRITE.
 */
#ifndef PTM_RECORD_OPERAND_H
#define PTM_RECORD_OPERAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

struct ptm_operand {
	unsigned bytes; /* 4 or 8 */
	bool in_memory; /* at address */
	uint64_t address;
	uint64_t value; /* of a register */
};

/* The operand of the PTWRITE of @len bytes at regs->rip, in 64-bit code.  False if it is none. */
bool ptm_ptwrite_operand(const uint8_t *code, size_t len, const struct user_regs_struct *regs,
			 struct ptm_operand *operand);

#endif
