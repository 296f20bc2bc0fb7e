/* SPDX-License-Identifier: Apache-2.0
 *
 * errata.h - what the CPU that made a trace gets wrong (the specification updates of its family).
 *
 * Not here, because every CPU may do it and no sound trace looks like it: BDM70 (a PSB+ that says
 * wrongly that packets are enabled) and APL11 (OVF followed by TIP.PGD).  Not here, because nothing
 * can be done without knowing more: see tests/known-differences.md.
 */
#ifndef PTM_FLOW_ERRATA_H
#define PTM_FLOW_ERRATA_H

#include "fmt/pt_packet.h"
#include "ptmill/session.h"

#include <stdbool.h>

struct ptm_errata {
	bool skd007; /* "Intel PT Buffer Overflow May Result in Incorrect Packets" */
	bool skd010; /* "Intel PT FUP May be Dropped After OVF" */
	bool skd022; /* "VM Entry That Clears TraceEn May Generate a FUP" */
	bool bdm64;  /* "An Incorrect ... Packet May Be Recorded Following a Transactional Abort" */
	bool apl12;  /* "Intel PT OVF May Be Followed By An Unexpected FUP Packet" */
	bool skz84;  /* "Use of VMX TSC Scaling or TSC Offsetting Will Result in Corrupted ..." */
	bool nlip;   /* no erratum: FUP holds the IP behind a far or indirect branch (Goldmont) */
};

struct ptm_errata ptm_errata_of(const struct ptm_cpu *cpu);

/* SKD007, SKZ84: @lx has just yielded @pkt; make of both what the CPU meant.  A CYC that an OVF
 * cuts off shrinks to its first byte, pkt->n is 1 then; a TMA whose reserved bits are set grows by
 * the byte that is too many, and pkt->size is PTM_TMA_CORRUPT: it tells no time. */
#define PTM_TMA_CORRUPT 8

void ptm_errata_mend(const struct ptm_errata *errata, struct ptm_lexer *lx, struct ptm_pkt *pkt);

/* As ptm_lex_next(), for a trace of a CPU with these errata; NULL: none. */
static inline enum ptm_lex_status ptm_errata_lex(const struct ptm_errata *errata,
						 struct ptm_lexer *lx, struct ptm_pkt *pkt)
{
	enum ptm_lex_status status = ptm_lex_next(lx, pkt);

	if (errata != NULL && (errata->skd007 || errata->skz84) && status == PTM_LEX_OK &&
	    (pkt->kind == PTM_PKT_CYC || pkt->kind == PTM_PKT_TMA))
		ptm_errata_mend(errata, lx, pkt);
	return status;
}

#endif
