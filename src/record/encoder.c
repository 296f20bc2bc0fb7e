/* SPDX-License-Identifier: Apache-2.0
 *
 * encoder.c - writes the Intel PT packets for an executed flow.
 *
 * State: the TNT bits that wait (oldest highest), the TIPs deferred behind them, last-IP as the
 * decoder will know it, and two models of the return stack.  The first is the SDM's (every near RET
 * pops); the second pops compressed returns only, as libipt does.  By default a return is
 * compressed only where both name its target, so that either decoder follows.  Both are rings of 64
 * that forget the oldest entry and are emptied at PSB, OVF and TIP.PGD.
 *
 * Time is synthetic: instructions times a CPI give core cycles, cycles times (nominal / current bus
 * ratio) give TSC ticks, and 100 ticks are one of the crystal.  Offsets are bytes from the start of
 * the trace.
 */
#include "record/encoder.h"

#include "base/bytes.h"

#include <stdlib.h>

enum {
	STACK_DEPTH = 64,
	DEFERRED_MAX = 32,
	SHORT_TNT_BITS = 6,
	LONG_TNT_BITS = 47,
	PACKET_MAX = 16,
	CPI_16TH = 8, /* half a cycle an instruction */
	TICKS_A_CRYSTAL = PTM_RECORD_CPUID_15_EBX / PTM_RECORD_CPUID_15_EAX,
	CBR_MIN = 12,
	CBR_SPAN = 25,
	CBR_PERIOD = 1 << 17, /* TSC ticks between frequency changes, on average */
	PSB_JITTER = 16, /* instructions from the period's end to the PSB: it may fall into a run */
	GAP_MAX = 2000   /* instructions lost to an overflow */
};

/* Low five bits of the packets that carry an IP. */
enum { OP_PGD = 0x01, OP_TIP = 0x0d, OP_PGE = 0x11, OP_FUP = 0x1d };

struct stack {
	uint64_t ip[STACK_DEPTH];
	unsigned top, n;
};

struct ptm_enc {
	struct ptm_record_config cfg;
	ptm_enc_write_fn write;
	void *write_ctx;
	ptm_enc_mark_fn mark; /* or NULL */
	void *mark_ctx;
	int error; /* the first of write(); nothing is written any more */

	bool on;        /* PacketEn */
	bool lost;      /* inside an overflow */
	bool fresh;     /* a packet names the current IP: no instruction retired since */
	unsigned bits;  /* code size */
	unsigned known; /* the code size that MODE.Exec told since the last PSB, 0: none */
	uint64_t last_ip;
	struct ptm_enc_quick quick; /* its bits wait; oldest highest */
	unsigned ntips;
	uint64_t tips[DEFERRED_MAX];
	struct stack sdm, ipt;

	uint64_t rng;
	uint64_t last_psb, next_ovf; /* offsets */
	uint64_t psb_wait;           /* instructions from now to the PSB that is due, 0: none is */
	uint64_t gap_left;           /* instructions to the end of the overflow */
	uint64_t irq_left;

	uint64_t cycles_16th, cycles_sent;
	uint64_t tsc_fixed; /* 48.16 */
	uint64_t cbr, next_cbr, mtc;

	uint64_t flushed;
	size_t n;
	uint8_t buf[1 << 14];
};

/* splitmix64: any seed is good. */
static uint64_t draw(struct ptm_enc *enc)
{
	uint64_t z = enc->rng += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* About @period: from half of it to one and a half, at least 1. */
static uint64_t draw_about(struct ptm_enc *enc, uint64_t period)
{
	return period / 2 + draw(enc) % period + 1;
}

static void push(struct stack *s, uint64_t ip)
{
	s->top = (s->top + 1) % STACK_DEPTH;
	s->ip[s->top] = ip;
	if (s->n < STACK_DEPTH)
		s->n++;
}

static void pop(struct stack *s)
{
	if (s->n == 0)
		return;
	s->top = (s->top + STACK_DEPTH - 1) % STACK_DEPTH;
	s->n--;
}

static bool top_is(const struct stack *s, uint64_t ip)
{
	return s->n > 0 && s->ip[s->top] == ip;
}

static void hand_on(struct ptm_enc *enc)
{
	if (enc->error == 0 && enc->n > 0)
		enc->error = enc->write(enc->write_ctx, enc->buf, enc->n);
	enc->flushed += enc->n;
	enc->n = 0;
}

/* Room for the largest packet. */
static uint8_t *room(struct ptm_enc *enc)
{
	if (sizeof(enc->buf) - enc->n < PACKET_MAX)
		hand_on(enc);
	return enc->buf + enc->n;
}

static void put(struct ptm_enc *enc, unsigned header, unsigned nheader, uint64_t payload,
		unsigned npayload)
{
	uint8_t *p = room(enc);

	ptm_store_le(p, header, nheader);
	ptm_store_le(p + nheader, payload, npayload);
	enc->n += nheader + npayload;
}

static uint64_t tsc(const struct ptm_enc *enc)
{
	return enc->tsc_fixed >> 16;
}

/* Cycles since the last CYC, ahead of the packets that are CYC-eligible: 5 bits, then 7 a byte, EXT
 * where more follow. */
static void put_cyc(struct ptm_enc *enc)
{
	uint64_t now = enc->cycles_16th / 16;
	uint64_t v = now - enc->cycles_sent;
	uint8_t *p;

	if (enc->cfg.timing != PTM_TIMING_CYC || v == 0)
		return;
	enc->cycles_sent = now;
	p = room(enc);
	*p = (uint8_t)(0x03 | (v & 0x1f) << 3);
	for (v >>= 5; v != 0; v >>= 7) {
		*p |= p == enc->buf + enc->n ? 0x04 : 0x01;
		*++p = (uint8_t)((v & 0x7f) << 1);
	}
	enc->n = (size_t)(p - enc->buf) + 1;
}

/* What a decoder makes of @ip's low bytes under IPBytes @code. */
static uint64_t expand(unsigned code, uint64_t ip, uint64_t last)
{
	const uint64_t m16 = 0xffff, m32 = 0xffffffff, m48 = UINT64_C(0xffffffffffff);

	switch (code) {
	case 1:
		return (last & ~m16) | (ip & m16);
	case 2:
		return (last & ~m32) | (ip & m32);
	case 3:
		return (ip & m48) | ((ip >> 47 & 1) != 0 ? ~m48 : 0);
	case 4:
		return (last & ~m48) | (ip & m48);
	default:
		return ip;
	}
}

/* A packet with the shortest form of @ip that reproduces it from last-IP, and from @other, too. */
static void put_ip_either(struct ptm_enc *enc, unsigned op, uint64_t ip, uint64_t other)
{
	static const struct {
		uint8_t code, bytes;
	} forms[] = {{1, 2}, {2, 4}, {3, 6}, {4, 6}, {6, 8}};
	unsigned i = 0;

	while (expand(forms[i].code, ip, enc->last_ip) != ip ||
	       expand(forms[i].code, ip, other) != ip)
		i++;
	put(enc, op | (unsigned)forms[i].code << 5, 1, ip, forms[i].bytes);
	enc->last_ip = ip;
}

static void put_ip(struct ptm_enc *enc, unsigned op, uint64_t ip)
{
	if (op != OP_FUP)
		put_cyc(enc);
	put_ip_either(enc, op, ip, enc->last_ip);
}

/* The TNT bits, then the TIPs deferred behind them. */
static void flush(struct ptm_enc *enc)
{
	uint64_t payload = (UINT64_C(1) << enc->quick.ntnt) | enc->quick.tnt;

	enc->quick.quiet = false;
	if (enc->quick.ntnt > 0) {
		put_cyc(enc);
		if (enc->quick.ntnt <= SHORT_TNT_BITS)
			put(enc, (unsigned)payload << 1, 1, 0, 0);
		else
			put(enc, 0xa302, 2, payload, 6);
	}
	enc->quick.tnt = 0;
	enc->quick.ntnt = 0;
	for (unsigned i = 0; i < enc->ntips; i++)
		put_ip(enc, OP_TIP, enc->tips[i]);
	enc->ntips = 0;
}

static void put_bit(struct ptm_enc *enc, bool bit)
{
	enc->quick.tnt = enc->quick.tnt << 1 | bit;
	enc->quick.ntnt++;
	if (enc->quick.ntnt == enc->quick.max)
		flush(enc);
}

static void empty_stacks(struct ptm_enc *enc)
{
	enc->sdm.n = 0;
	enc->ipt.n = 0;
}

static void put_tsc(struct ptm_enc *enc)
{
	if (enc->cfg.timing == PTM_TIMING_NONE)
		return;
	put(enc, 0x19, 1, tsc(enc), 7);
	if (enc->cfg.timing < PTM_TIMING_MTC)
		return;
	/* CTC in 16 bits, a reserved byte, the ticks since the crystal's last edge in 9. */
	put(enc, 0x7302, 2,
	    (tsc(enc) / TICKS_A_CRYSTAL & 0xffff) | (tsc(enc) % TICKS_A_CRYSTAL) << 24, 5);
}

static void put_cbr(struct ptm_enc *enc)
{
	put(enc, 0x0302, 2, enc->cbr, 2);
}

static void put_mode_exec(struct ptm_enc *enc)
{
	put(enc, 0x99, 1, enc->bits == 64 ? 1 : enc->bits == 32 ? 2 : 0, 1);
	enc->known = enc->bits;
}

static void put_psb(struct ptm_enc *enc, uint64_t ip)
{
	enc->quick.placed = true;
	flush(enc);
	if (enc->mark != NULL)
		enc->mark(enc->mark_ctx, PTM_ENC_PSB, ptm_enc_offset(enc));
	enc->last_psb = ptm_enc_offset(enc);
	enc->psb_wait = 0;
	for (unsigned i = 0; i < 2; i++)
		put(enc, 0x82028202, 4, 0x82028202, 4);
	put_tsc(enc);
	put_cbr(enc);
	enc->last_ip = 0;
	enc->known = 0;
	empty_stacks(enc);
	if (enc->on) {
		put_mode_exec(enc);
		put_ip(enc, OP_FUP, ip);
	}
	put(enc, 0x2302, 2, 0, 0);
}

static bool psb_is_due(const struct ptm_enc *enc)
{
	return ptm_enc_offset(enc) - enc->last_psb >= enc->cfg.psb_period;
}

static void pass_16th(struct ptm_enc *enc, uint64_t cycles_16th)
{
	enc->cycles_16th += cycles_16th;
	if (enc->cfg.timing == PTM_TIMING_NONE)
		return;
	enc->tsc_fixed += cycles_16th * 4096 * PTM_RECORD_NOM_FREQ / enc->cbr;
	if (enc->lost)
		return;
	if (enc->cfg.timing >= PTM_TIMING_MTC) {
		uint64_t now = tsc(enc) / TICKS_A_CRYSTAL >> enc->cfg.mtc_freq;

		for (; enc->mtc < now; enc->mtc++) {
			put_cyc(enc);
			put(enc, 0x59, 1, enc->mtc + 1, 1);
		}
	}
	if (tsc(enc) >= enc->next_cbr) {
		enc->cbr = CBR_MIN + draw(enc) % CBR_SPAN;
		enc->next_cbr = tsc(enc) + draw_about(enc, CBR_PERIOD);
		put_cbr(enc);
	}
}

/* The end of an overflow: OVF, then FUP if packets are on, TIP.PGE if they go on now. */
static void put_ovf(struct ptm_enc *enc)
{
	if (enc->mark != NULL)
		enc->mark(enc->mark_ctx, PTM_ENC_OVF, ptm_enc_offset(enc));
	put(enc, 0xf302, 2, 0, 0);
	enc->mtc = tsc(enc) / TICKS_A_CRYSTAL >> enc->cfg.mtc_freq;
	enc->cycles_sent = enc->cycles_16th / 16;
	put_tsc(enc);
	enc->lost = false;
	if (enc->cfg.ovf_period != 0)
		enc->next_ovf = ptm_enc_offset(enc) + draw_about(enc, enc->cfg.ovf_period);
}

/* The SDM keeps last-IP over an overflow, libipt does not: with the careful return compression the
 * first IP has to be right for both. */
static void put_ip_after_ovf(struct ptm_enc *enc, unsigned op, uint64_t ip)
{
	put_ip_either(enc, op, ip, enc->cfg.ret_comp == PTM_RET_COMP_SDM ? enc->last_ip : 0);
}

struct ptm_enc *ptm_enc_create(const struct ptm_record_config *config, ptm_enc_write_fn write,
			       void *write_ctx, ptm_enc_mark_fn mark, void *mark_ctx)
{
	struct ptm_enc *enc = calloc(1, sizeof(*enc));

	if (enc == NULL)
		return NULL;
	enc->cfg = *config;
	enc->write = write;
	enc->write_ctx = write_ctx;
	enc->mark = mark;
	enc->mark_ctx = mark_ctx;
	enc->quick.max = config->tnt64 ? LONG_TNT_BITS : SHORT_TNT_BITS;
	enc->rng = config->seed;
	enc->cbr = PTM_RECORD_NOM_FREQ;
	enc->tsc_fixed = UINT64_C(24000000000) << 16;
	enc->mtc = tsc(enc) / TICKS_A_CRYSTAL >> config->mtc_freq;
	enc->next_cbr = tsc(enc) + CBR_PERIOD;
	if (config->ovf_period != 0)
		enc->next_ovf = draw_about(enc, config->ovf_period);
	if (config->irq_period != 0)
		enc->irq_left = draw_about(enc, config->irq_period);
	return enc;
}

struct ptm_enc_quick *ptm_enc_quick(struct ptm_enc *enc)
{
	return &enc->quick;
}

void ptm_enc_destroy(struct ptm_enc *enc)
{
	free(enc);
}

uint64_t ptm_enc_offset(const struct ptm_enc *enc)
{
	return enc->flushed + enc->n;
}

bool ptm_enc_is_lost(const struct ptm_enc *enc)
{
	return enc->lost;
}

uint64_t ptm_enc_cycles(const struct ptm_enc *enc)
{
	return enc->cycles_16th / 16;
}

void ptm_enc_start(struct ptm_enc *enc, uint64_t cycles)
{
	/* At the nominal frequency, a cycle is a tick. */
	enc->cycles_16th = cycles * 16;
	enc->cycles_sent = cycles;
	enc->tsc_fixed += cycles << 16;
	enc->mtc = tsc(enc) / TICKS_A_CRYSTAL >> enc->cfg.mtc_freq;
	enc->next_cbr += cycles;
	put_psb(enc, 0);
}

void ptm_enc_on(struct ptm_enc *enc, uint64_t ip, unsigned bits)
{
	bool after_ovf = enc->lost;

	enc->bits = bits;
	if (after_ovf)
		put_ovf(enc);
	else if (psb_is_due(enc))
		put_psb(enc, ip);
	enc->on = true;
	enc->fresh = true;
	if (enc->known != bits)
		put_mode_exec(enc);
	put_cyc(enc);
	if (after_ovf)
		put_ip_after_ovf(enc, OP_PGE, ip);
	else
		put_ip(enc, OP_PGE, ip);
}

void ptm_enc_cond(struct ptm_enc *enc, bool taken)
{
	if (enc->lost)
		return;
	enc->fresh = true;
	put_bit(enc, taken);
}

static void push_both(struct ptm_enc *enc, uint64_t return_ip)
{
	push(&enc->sdm, return_ip);
	push(&enc->ipt, return_ip);
}

void ptm_enc_call(struct ptm_enc *enc, uint64_t return_ip, uint64_t target)
{
	/* A call to the next instruction only reads the program counter (SDM vol. 3, ch. Intel PT,
	 * RET compression). */
	if (!enc->lost && target != return_ip)
		push_both(enc, return_ip);
}

void ptm_enc_indirect(struct ptm_enc *enc, uint64_t target)
{
	bool defer = enc->cfg.tips == PTM_TIPS_DEFER;

	if (enc->lost)
		return;
	enc->fresh = true;
	if (enc->cfg.tips == PTM_TIPS_MIXED)
		defer = (draw(enc) & 1) != 0;
	enc->tips[enc->ntips++] = target;
	/* Behind no bit there is nothing to wait for. */
	if (!defer || enc->quick.ntnt == 0 || enc->ntips == DEFERRED_MAX)
		flush(enc);
}

void ptm_enc_call_indirect(struct ptm_enc *enc, uint64_t return_ip, uint64_t target)
{
	if (enc->lost)
		return;
	push_both(enc, return_ip);
	ptm_enc_indirect(enc, target);
}

void ptm_enc_ret(struct ptm_enc *enc, uint64_t target)
{
	bool compress = top_is(&enc->sdm, target);

	if (enc->lost)
		return;
	enc->fresh = true;
	pop(&enc->sdm);
	if (enc->cfg.ret_comp != PTM_RET_COMP_SDM)
		compress = compress && enc->cfg.ret_comp == PTM_RET_COMP_ON &&
			   top_is(&enc->ipt, target);
	if (compress) {
		pop(&enc->ipt);
		put_bit(enc, true);
		return;
	}
	/* Its TIP does not wait: bits that followed would read as a compressed return. */
	enc->tips[enc->ntips++] = target;
	flush(enc);
}

void ptm_enc_ptwrite(struct ptm_enc *enc, uint64_t ip, uint64_t value, unsigned bytes)
{
	bool fup = enc->cfg.ptwrite == PTM_PTWRITE_FUP;

	if (enc->lost || enc->cfg.ptwrite == PTM_PTWRITE_OFF)
		return;
	flush(enc);
	put_cyc(enc);
	/* PayloadBytes in bits 5 and 6 of the second byte, IP in bit 7. */
	put(enc, 0x1202U | (bytes == 8 ? 0x2000U : 0) | (fup ? 0x8000U : 0), 2, value, bytes);
	if (fup)
		put_ip(enc, OP_FUP, ip);
}

static void go_off(struct ptm_enc *enc)
{
	enc->quick.quiet = false;
	enc->on = false;
	empty_stacks(enc);
}

void ptm_enc_off(struct ptm_enc *enc)
{
	if (!enc->lost) {
		flush(enc);
		put_cyc(enc);
		put(enc, OP_PGD, 1, 0, 0);
	}
	go_off(enc);
}

void ptm_enc_off_to(struct ptm_enc *enc, uint64_t ip)
{
	if (!enc->lost) {
		flush(enc);
		put_ip(enc, OP_PGD, ip);
	}
	go_off(enc);
}

void ptm_enc_async_off(struct ptm_enc *enc, uint64_t from)
{
	if (!enc->lost) {
		flush(enc);
		put_ip(enc, OP_FUP, from);
	}
	ptm_enc_off(enc);
}

void ptm_enc_async(struct ptm_enc *enc, uint64_t from, uint64_t to)
{
	if (enc->lost)
		return;
	enc->fresh = true;
	flush(enc);
	put_ip(enc, OP_FUP, from);
	put_ip(enc, OP_TIP, to);
}

void ptm_enc_pass(struct ptm_enc *enc, uint64_t cycles)
{
	pass_16th(enc, cycles * 16);
}

/* An overflow begins where the packets so far say everything: a decoder that stops with the last
 * packet, and one that would walk on from it, stand at the same instruction. */
static void begin_gap(struct ptm_enc *enc)
{
	flush(enc);
	empty_stacks(enc);
	enc->lost = true;
	enc->gap_left = 1 + draw(enc) % GAP_MAX;
	if (enc->mark != NULL)
		enc->mark(enc->mark_ctx, PTM_ENC_GAP, ptm_enc_offset(enc));
}

static void end_gap(struct ptm_enc *enc, uint64_t ip)
{
	enc->quick.placed = true;
	if ((draw(enc) & 1) != 0) {
		put_ovf(enc);
		put_ip_after_ovf(enc, OP_FUP, ip);
		return;
	}
	/* It ends while an interrupt has packets off. */
	go_off(enc);
	ptm_enc_on(enc, ip, enc->bits);
}

static void interrupt(struct ptm_enc *enc, uint64_t ip)
{
	enc->quick.placed = true;
	enc->irq_left = draw_about(enc, enc->cfg.irq_period);
	ptm_enc_async_off(enc, ip);
	pass_16th(enc, draw(enc) % 4096);
	ptm_enc_on(enc, ip, enc->bits);
}

static bool count_down(uint64_t *left, uint64_t n)
{
	*left = *left > n ? *left - n : 0;
	return *left == 0;
}

/* What may be placed at a point, in this order; @fresh: a packet names @ip. */
static void place(struct ptm_enc *enc, uint64_t ip, uint64_t n, bool fresh)
{
	if (enc->lost) {
		if (count_down(&enc->gap_left, n))
			end_gap(enc, ip);
		return;
	}
	/* Let it wait for a place that decoders cannot take for an earlier one. */
	if (enc->quick.again) {
		(void)count_down(&enc->irq_left, n);
		return;
	}
	if (enc->psb_wait > 0) {
		if (count_down(&enc->psb_wait, n))
			put_psb(enc, ip);
	} else if (psb_is_due(enc)) {
		enc->psb_wait = draw(enc) % PSB_JITTER;
		if (enc->psb_wait == 0)
			put_psb(enc, ip);
	}
	if (enc->cfg.irq_period != 0 && count_down(&enc->irq_left, n))
		interrupt(enc, ip);
	else if (enc->cfg.ovf_period != 0 && fresh && ptm_enc_offset(enc) >= enc->next_ovf)
		begin_gap(enc);
}

static bool is_quiet(const struct ptm_enc *enc)
{
	return enc->on && !enc->lost && enc->psb_wait == 0 && !psb_is_due(enc) &&
	       enc->cfg.timing == PTM_TIMING_NONE && enc->cfg.irq_period == 0 &&
	       enc->cfg.ovf_period == 0;
}

void ptm_enc_point(struct ptm_enc *enc, uint64_t ip, uint64_t n)
{
	pass_16th(enc, n * CPI_16TH);
	if (enc->on)
		place(enc, ip, n, enc->fresh);
	enc->fresh = false;
	enc->quick.quiet = is_quiet(enc);
}

uint64_t ptm_enc_slack(const struct ptm_enc *enc)
{
	uint64_t n = UINT64_MAX;

	if (enc->lost)
		return enc->gap_left;
	if (enc->psb_wait > 0)
		n = enc->psb_wait;
	else if (psb_is_due(enc))
		return 0;
	return enc->cfg.irq_period != 0 && enc->irq_left < n ? enc->irq_left : n;
}

int ptm_enc_finish(struct ptm_enc *enc)
{
	if (enc->lost)
		put_ovf(enc);
	flush(enc);
	hand_on(enc);
	return enc->error;
}
