/* SPDX-License-Identifier: Apache-2.0
 *
 * disasm.h - one instruction as text (capstone, Intel syntax).
 */
#ifndef PTM_SINK_DISASM_H
#define PTM_SINK_DISASM_H

#include "image/insn.h"

#include <stddef.h>
#include <stdint.h>

struct ptm_disasm;

/* NULL when out of memory.  One thread each. */
struct ptm_disasm *ptm_disasm_create(void);
void ptm_disasm_destroy(struct ptm_disasm *disasm);

#define PTM_DISASM_MAX 208u

/* Write the instruction of @len bytes at @ip: "mnemonic operands", or `.byte 0x.., 0x..` where
 * capstone does not know it or finds another length.  No terminator.  Returns the length written,
 * at most PTM_DISASM_MAX. */
size_t ptm_disasm_format(struct ptm_disasm *disasm, const uint8_t *bytes, size_t len, uint64_t ip,
			 enum ptm_mode mode, char *buf);

#endif
