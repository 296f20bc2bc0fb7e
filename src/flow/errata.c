/* SPDX-License-Identifier: Apache-2.0
 *
 * errata.c - errata by CPU, of which libipt keeps the list, and those that move packet boundaries.
 */
#include "flow/errata.h"

#include <intel-pt.h>

/* Goldmont, as perf has it. */
#define MODEL_NLIP 0x5c

struct ptm_errata ptm_errata_of(const struct ptm_cpu *cpu)
{
	const struct pt_cpu ipt = {.vendor = pcv_intel,
				   .family = cpu->family,
				   .model = cpu->model,
				   .stepping = cpu->stepping};
	struct pt_errata known = {0};

	/* Of an unknown model none is known. */
	if (cpu->known)
		(void)pt_cpu_errata(&known, &ipt);
	return (struct ptm_errata){
		.skd007 = known.skd007,
		.skd010 = known.skd010,
		.skd022 = known.skd022,
		.bdm64 = known.bdm64,
		.apl12 = known.apl12,
		.skz84 = known.skz84,
		.nlip = cpu->known && cpu->family == 6 && cpu->model == MODEL_NLIP,
	};
}

/* An OVF behind the first byte of a CYC reads as the CYC's second and last byte, 02, and a CYC of
 * one byte, f3.  Two CYCs in a row are sound only where the counter has run over, and then the
 * first is full. */
static bool cut_by_ovf(const struct ptm_lexer *lx, const struct ptm_pkt *pkt)
{
	return pkt->size == 2 && lx->pos[-1] == 0x02 && lx->pos < lx->end && *lx->pos == 0xf3;
}

/* A TMA is CTC, a reserved byte, nine bits of fast counter, seven reserved bits (SDM vol. 3, ch.
 * Intel PT, "TMA").  Where those are set by chance only half of the corrupted ones show. */
static bool is_corrupt(const struct ptm_lexer *lx)
{
	return (lx->pos[-3] != 0 || (lx->pos[-1] & 0xfe) != 0) && lx->pos < lx->end;
}

void ptm_errata_mend(const struct ptm_errata *errata, struct ptm_lexer *lx, struct ptm_pkt *pkt)
{
	if (errata->skd007 && pkt->kind == PTM_PKT_CYC && cut_by_ovf(lx, pkt)) {
		lx->pos--;
		pkt->size = 1;
		pkt->n = 1;
		pkt->payload = 0;
	} else if (errata->skz84 && pkt->kind == PTM_PKT_TMA && is_corrupt(lx)) {
		lx->pos++;
		pkt->size = PTM_TMA_CORRUPT;
	}
}
