/* SPDX-License-Identifier: Apache-2.0
 *
 * entry.h - how an instruction enters the kernel, and whether it repeats.
 */
#ifndef PTM_RECORD_ENTRY_H
#define PTM_RECORD_ENTRY_H

#include "image/insn.h"

enum ptm_entry {
	PTM_ENTRY_NONE,
	PTM_ENTRY_SYSCALL, /* SYSCALL, SYSENTER: retires */
	PTM_ENTRY_TRAP     /* INT n, INT1, INT3: told as an interrupt at its own IP */
};

/* Of @insn, whose bytes are @code. */
enum ptm_entry ptm_entry_of(const struct ptm_insn *insn, const uint8_t *code);

/* True for a string instruction with a REP prefix. */
bool ptm_is_rep(const struct ptm_insn *insn, const uint8_t *code);

#endif
