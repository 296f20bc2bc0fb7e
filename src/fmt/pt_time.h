/* SPDX-License-Identifier: Apache-2.0
 *
 * pt_time.h - the time of a trace: from TSC, TMA, MTC, CYC and CBR packets to an estimate in ticks
 * of the time-stamp counter (SDM vol. 3, ch. Intel PT, "Tracking Time").
 *
 * Three clocks are put together.  A TSC packet tells the time.  From then on MTC packets count the
 * core crystal clock (CTC), of which a TSC tick is eax / ebx (CPUID leaf 15H); TMA says where the
 * CTC stood at the TSC.  Between those, CYC packets count core cycles, of which one is nominal
 * ratio / CBR ticks.  What is known is kept exactly: the CTC's position as ticks and a rest in
 * 1 / eax, cycles as an integer since the last time that TSC or MTC told, so nothing drifts.
 *
 * A tracker serves one frame (from a PSB on, for a PSB+ restates TSC, TMA and CBR); the next frame
 * begins with ptm_time_init().  Within a frame the estimate never goes back: where a packet tells
 * an earlier time than the estimate that was given out, the estimate stands still until the clocks
 * have caught up.  Equal times are normal: order is told by position, not by time.
 */
#ifndef PTM_FMT_PT_TIME_H
#define PTM_FMT_PT_TIME_H

#include "fmt/pt_packet.h"

#include <stdbool.h>
#include <stdint.h>

/* A plain value: copy it as you like.  All zero is a tracker that knows no clock but the TSC and no
 * time yet.  To be read from outside: use_mtc, doubtful, lost_mtc, lost_cyc. */
struct ptm_time {
	/* Set by ptm_time_init(). */
	uint64_t period_ticks; /* of the MTC: ticks, and the rest in 1 / crystal_den */
	uint32_t period_rest;
	uint32_t crystal_num, crystal_den; /* TSC ticks a crystal clock, as a fraction */
	uint8_t mtc_freq;                  /* an MTC each 2^mtc_freq crystal clocks */
	uint8_t nom_freq;                  /* nominal ratio (TSC to bus clock); 0: unknown */
	bool use_mtc;                      /* false: the clock of MTC is not known */

	bool has_tsc;
	bool doubtful;  /* an overflow since the last TSC: MTC and CYC may be missing */
	bool has_ctc;   /* TMA seen since the last TSC: ctc_* hold */
	bool from_tma;  /* no MTC since that TMA */
	bool after_cyc; /* the packet before was CYC (but for PAD, TMA, CBR) */
	bool untied;    /* cycles were lost since the last TSC or MTC */
	bool spans;     /* the next CYC has begun before the last MTC */
	uint8_t cbr;    /* 0: unknown */
	uint8_t mtc;    /* payload of the last MTC, unless from_tma */
	uint16_t tma;   /* CTC of the last TMA */

	uint64_t tsc;       /* of the last TSC packet, its upper bits extended */
	uint64_t ctc_ticks; /* time of the last CTC that TMA or MTC told: ticks, and the rest */
	uint32_t ctc_rest;

	uint64_t base; /* where the cycles are counted from, 1 / 2^32 ticks of it in base_frac */
	uint32_t base_frac;
	uint64_t cycles; /* since base */
	uint64_t ratio;  /* ticks a cycle, in 1 / 2^32; 0: unknown */
	uint64_t floor;  /* the estimate does not go below */

	uint64_t lost_mtc; /* MTCs that are missing or could not be used */
	uint64_t lost_cyc; /* CYCs that could not be used */
};

/* For ptm_time_init(): the frequency of the MTC is not known. */
#define PTM_TIME_NO_MTC 0xff

/* No time yet.  @mtc_freq: IA32_RTIT_CTL.MTCFreq, 0 to 15; @nom_freq: MSR_PLATFORM_INFO[15:8];
 * @eax, @ebx: CPUID leaf 15H.  Unknown (0, or PTM_TIME_NO_MTC) eax, ebx or mtc_freq: MTC is not
 * used, use_mtc is false.  Unknown nom_freq: CYC is not used. */
void ptm_time_init(struct ptm_time *t, uint8_t mtc_freq, uint8_t nom_freq, uint32_t eax,
		   uint32_t ebx);

/* The next packet.  TSC, TMA, MTC, CYC, CBR and OVF must be given, all others may be left out.  Who
 * gives them all gets a better time from a trace with a CYC threshold, where a CYC goes on over an
 * MTC. */
void ptm_time_packet(struct ptm_time *t, const struct ptm_pkt *pkt);

/* The time of the last packet given.  Returns false, and leaves *@tsc, while there is no time yet.
 * The value never goes back before the next ptm_time_init(); it is below 2^64 - 2^62. */
bool ptm_time_now(const struct ptm_time *t, uint64_t *tsc);

#endif
