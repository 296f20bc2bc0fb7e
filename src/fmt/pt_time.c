/* SPDX-License-Identifier: Apache-2.0
 *
 * pt_time.c - the time of a trace, see pt_time.h.
 *
 * estimate = max(floor, base + cycles * ratio).  TSC and MTC tell a time: they move base, and floor
 * with it, to where the estimate was before if that was later.  Between them the estimate only
 * grows, for CYC only adds to cycles.  So it is monotonic without any state changed by asking for
 * it, and a CYC costs one addition.
 *
 * Payloads are not to be trusted: each sum here stays below 2^63 + 2^58, see MAX_CYCLES and
 * advance().
 */
#include "fmt/pt_time.h"

#include <string.h>

__extension__ typedef unsigned __int128 u128;

#define TSC_BITS 56
#define TSC_MASK ((UINT64_C(1) << TSC_BITS) - 1)
#define TSC_HALF (UINT64_C(1) << (TSC_BITS - 1))

/* Time does not go on behind this, some thousand years. */
#define MAX_TICKS (UINT64_C(1) << 63)

/* Cycles counted between two times that TSC or MTC tell: a day and more.  With a ratio below 2^40
 * (256 ticks a cycle) they make less than 2^57 ticks. */
#define MAX_CYCLES (UINT64_C(1) << 48)

enum { MAX_MTC_FREQ = 15, MTC_BITS = 8, TMA_BITS = 16 };

/* @n crystal clocks on, n < 2^24.  The rest is carried along, so that any number of steps is as
 * exact as one. */
static void advance(struct ptm_time *t, uint64_t n)
{
	uint64_t sum = n * t->crystal_num + t->ctc_rest;

	t->ctc_ticks += sum / t->crystal_den;
	t->ctc_rest = (uint32_t)(sum % t->crystal_den);
	if (t->ctc_ticks > MAX_TICKS)
		t->ctc_ticks = MAX_TICKS;
}

/* The same for one period of the MTC: nearly all of them, and no division. */
static void advance_period(struct ptm_time *t)
{
	uint64_t rest = (uint64_t)t->ctc_rest + t->period_rest;
	bool carry = rest >= t->crystal_den;

	t->ctc_rest = (uint32_t)(carry ? rest - t->crystal_den : rest);
	t->ctc_ticks += t->period_ticks + carry;
	if (t->ctc_ticks > MAX_TICKS)
		t->ctc_ticks = MAX_TICKS;
}

/* base + cycles * ratio: ticks, and the rest in 1 / 2^32. */
static uint64_t estimate(const struct ptm_time *t, uint32_t *frac)
{
	u128 sum = (u128)t->cycles * t->ratio + t->base_frac;

	*frac = (uint32_t)sum;
	return t->base + (uint64_t)(sum >> 32);
}

static void set_base(struct ptm_time *t, uint64_t ticks, uint32_t frac)
{
	t->base = ticks < MAX_TICKS ? ticks : MAX_TICKS;
	t->base_frac = frac;
	t->cycles = 0;
}

static void raise_floor(struct ptm_time *t, uint64_t ticks)
{
	if (t->floor < ticks)
		t->floor = ticks;
}

/* The 56 bits of a TSC packet to 64: a little behind the estimate is a little behind, for MTC may
 * be ahead of it; half the range and more behind is a wrap. */
static uint64_t extend_tsc(uint64_t payload, uint64_t near)
{
	uint64_t tsc = (near & ~TSC_MASK) | (payload & TSC_MASK);

	if (tsc + TSC_HALF < near && tsc < MAX_TICKS - TSC_MASK)
		return tsc + TSC_MASK + 1;
	if (tsc > near + TSC_HALF && tsc > TSC_MASK)
		return tsc - TSC_MASK - 1;
	return tsc;
}

static void on_tsc(struct ptm_time *t, uint64_t payload)
{
	uint32_t frac;

	if (t->has_tsc) {
		raise_floor(t, estimate(t, &frac));
		t->tsc = extend_tsc(payload, t->floor);
	} else {
		t->tsc = payload & TSC_MASK;
	}
	/* Where no CYC stands before it tracing has begun, or the core has slept: cycles count from
	 * here in either case. */
	set_base(t, t->tsc, 0);
	raise_floor(t, t->tsc);
	t->has_tsc = true;
	t->has_ctc = false;
	t->doubtful = false;
	t->untied = false;
	t->spans = false;
	t->after_cyc = false;
}

/* The CTC at the time of the last TSC, and how many ticks before that it had changed. */
static void on_tma(struct ptm_time *t, uint64_t ctc, uint64_t fast)
{
	if (!t->has_tsc)
		return;
	t->ctc_ticks = t->tsc > fast ? t->tsc - fast : 0;
	t->ctc_rest = 0;
	t->tma = (uint16_t)ctc;
	t->has_ctc = true;
	t->from_tma = true;
}

/* From the CTC of TMA to the one of the first MTC behind it.  MTC has bits mtc_freq to mtc_freq + 7
 * of the CTC, and those below are 0; TMA has bits 0 to 15.  The bits that both have tell how many
 * periods lie between.  Returns that number: 0 if the MTC is that of the period which TMA is in. */
static uint64_t leave_tma(struct ptm_time *t, uint8_t mtc)
{
	unsigned both = TMA_BITS - t->mtc_freq;
	unsigned mask = (1U << (both < MTC_BITS ? both : MTC_BITS)) - 1;
	uint64_t periods = (mtc - ((unsigned)t->tma >> t->mtc_freq)) & mask;

	if (periods > 0)
		advance(t, (periods << t->mtc_freq) - (t->tma & ((1U << t->mtc_freq) - 1)));
	return periods;
}

/* From one MTC to the next.  It is sent when its bits have changed, so the same again is all the
 * way round; that more than 256 in a row are missing is not to be expected (SDM). */
static uint64_t leave_mtc(struct ptm_time *t, uint8_t mtc)
{
	uint64_t periods = (uint8_t)(mtc - t->mtc);

	if (periods == 1) {
		advance_period(t);
		return 1;
	}
	if (periods == 0)
		periods = 1U << MTC_BITS;
	advance(t, periods << t->mtc_freq);
	return periods;
}

/* Cycles go on from the time of the MTC if its own CYC stands before it, as it does unless there is
 * a CYC threshold.  Else the next CYC counts from the last one, some time before. */
static void tie_cycles(struct ptm_time *t)
{
	uint32_t frac;
	uint64_t last = estimate(t, &frac);

	raise_floor(t, last);
	raise_floor(t, t->ctc_ticks);
	t->spans = !t->after_cyc && !t->untied && last < t->ctc_ticks;
	if (t->spans)
		set_base(t, last, frac);
	else
		set_base(t, t->ctc_ticks, 0);
	t->untied = false;
	t->after_cyc = false;
}

static void on_mtc(struct ptm_time *t, uint8_t mtc)
{
	uint64_t periods;

	if (!t->has_tsc)
		return;
	if (!t->use_mtc) {
		t->lost_mtc++;
		return;
	}
	/* Between TSC and TMA: the TMA counts it, too. */
	if (!t->has_ctc)
		return;
	periods = t->from_tma ? leave_tma(t, mtc) : leave_mtc(t, mtc);
	if (periods == 0) {
		/* Its time lies before the TSC: nothing new. */
		t->after_cyc = false;
		return;
	}
	t->lost_mtc += periods - 1;
	t->from_tma = false;
	t->mtc = mtc;
	tie_cycles(t);
}

static void on_cyc(struct ptm_time *t, uint64_t cycles)
{
	t->after_cyc = true;
	if (!t->has_tsc)
		return;
	if (t->ratio == 0 || cycles > MAX_CYCLES - t->cycles) {
		t->lost_cyc++;
		return;
	}
	t->cycles += cycles;
	if (t->spans) {
		uint32_t frac;

		t->spans = false;
		if (estimate(t, &frac) < t->ctc_ticks)
			set_base(t, t->ctc_ticks, 0);
	}
}

/* The cycles so far took their time at the old ratio; count anew. */
static void on_cbr(struct ptm_time *t, uint8_t cbr)
{
	uint32_t frac;
	uint64_t ticks;

	if (cbr == 0 || cbr == t->cbr)
		return;
	ticks = estimate(t, &frac);
	set_base(t, ticks, frac);
	t->cbr = cbr;
	/* Rounded up, or a whole number of ticks would come out as one less. */
	t->ratio = (((uint64_t)t->nom_freq << 32) + cbr - 1) / cbr;
}

/* TSC, TMA and CBR still hold, for the clocks have not stopped.  But CYCs are gone. */
static void on_overflow(struct ptm_time *t)
{
	if (t->spans)
		set_base(t, t->ctc_ticks, 0);
	t->doubtful = t->has_tsc;
	t->untied = true;
	t->spans = false;
	t->after_cyc = false;
}

void ptm_time_init(struct ptm_time *t, uint8_t mtc_freq, uint8_t nom_freq, uint32_t eax,
		   uint32_t ebx)
{
	memset(t, 0, sizeof(*t));
	t->nom_freq = nom_freq;
	t->use_mtc = mtc_freq <= MAX_MTC_FREQ && eax != 0 && ebx != 0;
	if (!t->use_mtc)
		return;
	t->mtc_freq = mtc_freq;
	t->crystal_num = ebx;
	t->crystal_den = eax;
	t->period_ticks = ((uint64_t)ebx << mtc_freq) / eax;
	t->period_rest = (uint32_t)(((uint64_t)ebx << mtc_freq) % eax);
}

void ptm_time_packet(struct ptm_time *t, const struct ptm_pkt *pkt)
{
	switch (pkt->kind) {
	case PTM_PKT_CYC:
		on_cyc(t, pkt->payload);
		break;
	case PTM_PKT_MTC:
		on_mtc(t, (uint8_t)pkt->payload);
		break;
	case PTM_PKT_TSC:
		on_tsc(t, pkt->payload);
		break;
	case PTM_PKT_TMA:
		on_tma(t, pkt->payload, pkt->aux);
		break;
	case PTM_PKT_CBR:
		on_cbr(t, (uint8_t)pkt->payload);
		break;
	case PTM_PKT_OVF:
		on_overflow(t);
		break;
	case PTM_PKT_PAD:
		break;
	default:
		t->after_cyc = false;
		break;
	}
}

bool ptm_time_now(const struct ptm_time *t, uint64_t *tsc)
{
	uint32_t frac;
	uint64_t now;

	if (!t->has_tsc)
		return false;
	now = estimate(t, &frac);
	*tsc = now > t->floor ? now : t->floor;
	return true;
}
