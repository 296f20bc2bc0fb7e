/* SPDX-License-Identifier: Apache-2.0
 *
 * insn_guess.h - length of an instruction that the disassembler does not know, by the structure of
 * its encoding.
 */
#ifndef PTM_IMAGE_INSN_GUESS_H
#define PTM_IMAGE_INSN_GUESS_H

#include "image/insn.h"

#define PTM_INSN_MAX 15 /* bytes of the longest instruction */

/* Decode @len (at most PTM_INSN_MAX) bytes by prefixes, opcode map, ModRM, SIB, displacement and
 * immediate.
 * @legacy: the legacy opcode maps are allowed, too; otherwise only REX2, VEX and EVEX.  Returns as
 * ptm_insn_decode(); `guessed` is false for the few instructions known by name (JMPABS, ERETU,
 * ERETS). */
int ptm_insn_guess(const uint8_t *bytes, size_t len, enum ptm_mode mode, bool legacy,
		   struct ptm_insn *insn);

#endif
