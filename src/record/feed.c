/* SPDX-License-Identifier: Apache-2.0
 *
 * feed.c - turns the executed flow into encoder calls, and keeps the truth about it.
 *
 * The trail is where the program came by since the last packet that names a place.  Only a loop of
 * direct jumps and calls comes by twice, and only something from outside ends it: the trace does
 * not show at which turn.
 *
 * The truth is a list of lines in program order.  A line holds the number and digest of the
 * instructions that the trace shows up to its point; instructions inside an overflow are counted
 * apart and not digested.
 */
#include "record/feed.h"

#include "base/error.h"

#include <stdlib.h>

/* What a system call costs in the kernel, in core cycles. */
#define KERNEL_CYCLES 600

/* PTM_DIGEST_K times this is 1, modulo 2^64. */
#define K_INVERSE UINT64_C(0xf1de83e19937733d)

static void add_line(struct ptm_feed *feed, enum ptm_truth_kind kind, uint64_t offset,
		     uint64_t lost)
{
	struct ptm_truth_line line = {kind, offset, feed->digest.n, feed->digest.b, lost};

	if (!ptm_vec_push(&feed->truth, line))
		feed->out_of_memory = true;
}

/* ptm_enc_mark_fn */
static void on_mark(void *ctx, enum ptm_enc_mark mark, uint64_t offset)
{
	struct ptm_feed *feed = ctx;

	switch (mark) {
	case PTM_ENC_PSB:
		feed->psbs++;
		add_line(feed, PTM_TRUTH_PSB, offset, 0);
		break;
	case PTM_ENC_GAP:
		feed->lost_before = feed->lost;
		break;
	case PTM_ENC_OVF:
		feed->gaps++;
		add_line(feed, PTM_TRUTH_GAP, offset, feed->lost - feed->lost_before);
		break;
	}
}

/* A packet tells that the program is at @ip. */
static void clear_trail(struct ptm_feed *feed, uint64_t ip)
{
	feed->ntrail = 0;
	feed->run = ip;
}

/* The instruction at @last, of class @klass, retired, the next one is at @next. */
static void extend_trail(struct ptm_feed *feed, unsigned klass, uint64_t last, uint64_t next)
{
	if (klass == PTM_INSN_OTHER)
		return;
	if (ptm_insn_needs_packet(klass)) {
		clear_trail(feed, next);
		return;
	}
	feed->trail[feed->ntrail % PTM_FEED_TRAIL].begin = feed->run;
	feed->trail[feed->ntrail % PTM_FEED_TRAIL].last = last;
	feed->ntrail++;
	feed->run = next;
}

static bool came_by(const struct ptm_feed *feed, uint64_t ip)
{
	uint64_t n = feed->ntrail < PTM_FEED_TRAIL ? feed->ntrail : PTM_FEED_TRAIL;

	for (uint64_t i = 0; i < n; i++)
		if (ip >= feed->trail[i].begin && ip <= feed->trail[i].last)
			return true;
	return false;
}

static void point(struct ptm_feed *feed, uint64_t ip, uint64_t n)
{
	struct ptm_enc_quick *q = feed->quick;

	q->again = came_by(feed, ip);
	ptm_enc_point(feed->enc, ip, n);
	if (q->placed || ptm_enc_is_lost(feed->enc))
		clear_trail(feed, ip);
	q->placed = false;
}

/* Packets go off before the instruction at @ip. */
static void async_off(struct ptm_feed *feed, uint64_t ip)
{
	struct ptm_ambiguous *a = &feed->ambiguous;

	if (!ptm_enc_is_lost(feed->enc) && came_by(feed, ip) && a->times++ == 0) {
		a->offset = ptm_enc_offset(feed->enc);
		a->n = feed->digest.n;
	}
	ptm_enc_async_off(feed->enc, ip);
}

static void set_until(struct ptm_feed *feed)
{
	uint64_t n = feed->digest.n;

	feed->until = n - n % PTM_CHECKPOINT_EVERY + PTM_CHECKPOINT_EVERY;
	if (feed->limit > n && feed->limit < feed->until)
		feed->until = feed->limit;
}

int ptm_feed_init(struct ptm_feed *feed, const struct ptm_record_config *config,
		  ptm_enc_write_fn write, void *ctx, uint64_t cycles)
{
	*feed = (struct ptm_feed){.digest = PTM_DIGEST_EMPTY, .limit = config->max_instructions};
	feed->enc = ptm_enc_create(config, write, ctx, on_mark, feed);
	if (feed->enc == NULL)
		return -PTM_E_NOMEM;
	feed->quick = ptm_enc_quick(feed->enc);
	set_until(feed);
	ptm_enc_start(feed->enc, cycles);
	return 0;
}

void ptm_feed_fini(struct ptm_feed *feed)
{
	ptm_enc_destroy(feed->enc);
	free(feed->truth.v);
	*feed = (struct ptm_feed){0};
}

/* The branch of a retired instruction of class @klass that stays in user code: the instruction ends
 * at @behind, the flow goes on at @next. */
static void branch(struct ptm_enc *enc, unsigned klass, uint64_t behind, uint64_t next)
{
	switch ((enum ptm_insn_class)klass) {
	case PTM_INSN_OTHER:
	case PTM_INSN_JUMP:
		break;
	case PTM_INSN_COND:
		/* A branch to the next instruction is told as not taken either way: nobody can see
		 * the difference. */
		ptm_enc_cond(enc, next != behind);
		break;
	case PTM_INSN_CALL:
		ptm_enc_call(enc, behind, next);
		break;
	case PTM_INSN_CALL_INDIRECT:
		ptm_enc_call_indirect(enc, behind, next);
		break;
	case PTM_INSN_RET:
		ptm_enc_ret(enc, next);
		break;
	case PTM_INSN_JUMP_INDIRECT:
	case PTM_INSN_FAR_CALL:
	case PTM_INSN_FAR_RETURN:
	case PTM_INSN_FAR_JUMP:
		ptm_enc_indirect(enc, next);
		break;
	}
}

static void count(struct ptm_feed *feed, uint64_t ip)
{
	/* Inside an overflow the trace shows nothing; asked before the branch is told, which cannot
	 * end one. */
	if (ptm_enc_is_lost(feed->enc)) {
		feed->lost++;
		return;
	}
	ptm_digest_add(&feed->digest, ip);
	if (feed->digest.n < feed->until)
		return;
	if (feed->digest.n % PTM_CHECKPOINT_EVERY == 0)
		add_line(feed, PTM_TRUTH_CHECKPOINT, 0, 0);
	set_until(feed);
}

static bool is_enough(const struct ptm_feed *feed)
{
	return feed->limit != 0 && feed->digest.n >= feed->limit;
}

int ptm_feed_event(void *ctx, const struct ptm_flow_event *ev)
{
	struct ptm_feed *feed = ctx;

	switch (ev->kind) {
	case PTM_FLOW_ON:
		ptm_enc_on(feed->enc, ev->ip, 64);
		clear_trail(feed, ev->ip);
		point(feed, ev->ip, 0);
		break;
	case PTM_FLOW_INSN:
		count(feed, ev->ip);
		branch(feed->enc, ev->insn->klass, ev->ip + ev->insn->len, ev->next);
		extend_trail(feed, ev->insn->klass, ev->ip, ev->next);
		point(feed, ev->next, 1);
		break;
	case PTM_FLOW_PTWRITE:
		count(feed, ev->ip);
		ptm_enc_ptwrite(feed->enc, ev->ip, ev->value, ev->bytes);
		clear_trail(feed, ev->next);
		point(feed, ev->next, 1);
		break;
	case PTM_FLOW_OFF:
		count(feed, ev->ip);
		ptm_enc_off(feed->enc);
		ptm_enc_pass(feed->enc, KERNEL_CYCLES);
		break;
	case PTM_FLOW_INTERRUPT:
		async_off(feed, ev->ip);
		ptm_enc_pass(feed->enc, KERNEL_CYCLES);
		break;
	}
	if (feed->out_of_memory)
		return -PTM_E_NOMEM;
	return is_enough(feed);
}

static int stop_at(struct ptm_feed *feed, uint64_t ip)
{
	async_off(feed, ip);
	return 1;
}

/* One instruction after the other. */
static int slowly(struct ptm_feed *feed, const struct ptm_block *block, const uint8_t *lens,
		  unsigned n, uint64_t next)
{
	uint64_t ip = block->begin;

	for (unsigned i = 0; i < n; i++) {
		uint64_t behind = ip + lens[i];

		count(feed, ip);
		ip = behind;
		if (i + 1 == block->n) {
			branch(feed->enc, block->klass, behind, next);
			extend_trail(feed, block->klass, block->last, next);
			ip = next;
		}
		point(feed, ip, 1);
		if (is_enough(feed))
			return stop_at(feed, ip);
	}
	return feed->out_of_memory ? -PTM_E_NOMEM : 0;
}

int ptm_feed_prefix(struct ptm_feed *feed, const struct ptm_block *block, const uint8_t *lens,
		    unsigned n)
{
	return slowly(feed, block, lens, n, 0);
}

/* Nothing but the branch can make a packet. */
static void quickly(struct ptm_feed *feed, const struct ptm_block *block, uint64_t next)
{
	struct ptm_enc_quick *q = feed->quick;
	const struct ptm_digest all = {block->n, block->kn, block->b};

	ptm_digest_append(&feed->digest, &all);
	extend_trail(feed, block->klass, block->last, next);
	if (block->klass == PTM_INSN_COND && q->ntnt + 1 < q->max) {
		q->tnt = q->tnt << 1 | (next != block->end);
		q->ntnt++;
		return;
	}
	if (block->klass == PTM_INSN_OTHER || block->klass == PTM_INSN_JUMP)
		return;
	branch(feed->enc, block->klass, block->end, next);
	if (!q->quiet)
		point(feed, next, 1);
}

/* In two steps: all but the last instruction, then that one.  In the first one time may pass, and a
 * PSB come due by its packets. */
int ptm_feed_block(struct ptm_feed *feed, const struct ptm_block *block, const uint8_t *lens,
		   uint64_t next)
{
	struct ptm_digest *d = &feed->digest;
	bool lost;

	if (feed->quick->quiet && d->n + block->n < feed->until) {
		quickly(feed, block, next);
		return feed->out_of_memory ? -PTM_E_NOMEM : 0;
	}
	lost = ptm_enc_is_lost(feed->enc);
	if (d->n + block->n >= feed->until || ptm_enc_slack(feed->enc) <= block->n)
		return slowly(feed, block, lens, block->n, next);
	if (block->n > 1) {
		const struct ptm_digest most = {block->n - 1U, block->kn * K_INVERSE,
						(block->b - ptm_digest_mix(block->last)) *
							K_INVERSE};

		if (lost)
			feed->lost += most.n;
		else
			ptm_digest_append(d, &most);
		point(feed, block->last, most.n);
	}
	if (lost)
		feed->lost++;
	else
		ptm_digest_add(d, block->last);
	branch(feed->enc, block->klass, block->end, next);
	extend_trail(feed, block->klass, block->last, next);
	point(feed, next, 1);
	return feed->out_of_memory ? -PTM_E_NOMEM : 0;
}

int ptm_feed_finish(struct ptm_feed *feed)
{
	return ptm_enc_finish(feed->enc);
}
