/* SPDX-License-Identifier: Apache-2.0
 *
 * feed.c - turns the executed flow into encoder calls, and keeps the truth about it.
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

int ptm_feed_init(struct ptm_feed *feed, const struct ptm_record_config *config,
		  ptm_enc_write_fn write, void *ctx)
{
	*feed = (struct ptm_feed){.digest = PTM_DIGEST_EMPTY, .limit = config->max_instructions};
	feed->enc = ptm_enc_create(config, write, ctx, on_mark, feed);
	if (feed->enc == NULL)
		return -PTM_E_NOMEM;
	ptm_enc_start(feed->enc);
	return 0;
}

void ptm_feed_fini(struct ptm_feed *feed)
{
	ptm_enc_destroy(feed->enc);
	free(feed->truth.v);
	*feed = (struct ptm_feed){0};
}

/* The branch of a retired instruction that stays in user code. */
static void branch(struct ptm_enc *enc, const struct ptm_flow_event *ev)
{
	const struct ptm_insn *insn = ev->insn;
	uint64_t behind = ev->ip + insn->len;

	switch ((enum ptm_insn_class)insn->klass) {
	case PTM_INSN_OTHER:
	case PTM_INSN_JUMP:
		break;
	case PTM_INSN_COND:
		/* A branch to the next instruction is told as not taken either way: nobody can see
		 * the difference. */
		ptm_enc_cond(enc, ev->next != behind);
		break;
	case PTM_INSN_CALL:
		ptm_enc_call(enc, behind, ev->next);
		break;
	case PTM_INSN_CALL_INDIRECT:
		ptm_enc_call_indirect(enc, behind, ev->next);
		break;
	case PTM_INSN_RET:
		ptm_enc_ret(enc, ev->next);
		break;
	case PTM_INSN_JUMP_INDIRECT:
	case PTM_INSN_FAR_CALL:
	case PTM_INSN_FAR_RETURN:
	case PTM_INSN_FAR_JUMP:
		ptm_enc_indirect(enc, ev->next);
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
	if (feed->digest.n % PTM_CHECKPOINT_EVERY == 0)
		add_line(feed, PTM_TRUTH_CHECKPOINT, 0, 0);
}

int ptm_feed_event(void *ctx, const struct ptm_flow_event *ev)
{
	struct ptm_feed *feed = ctx;

	switch (ev->kind) {
	case PTM_FLOW_ON:
		ptm_enc_on(feed->enc, ev->ip, 64);
		ptm_enc_point(feed->enc, ev->ip, 0);
		break;
	case PTM_FLOW_INSN:
		count(feed, ev->ip);
		branch(feed->enc, ev);
		ptm_enc_point(feed->enc, ev->next, 1);
		break;
	case PTM_FLOW_OFF:
		count(feed, ev->ip);
		ptm_enc_off(feed->enc);
		ptm_enc_pass(feed->enc, KERNEL_CYCLES);
		break;
	case PTM_FLOW_INTERRUPT:
		ptm_enc_async_off(feed->enc, ev->ip);
		ptm_enc_pass(feed->enc, KERNEL_CYCLES);
		break;
	}
	if (feed->out_of_memory)
		return -PTM_E_NOMEM;
	return feed->limit != 0 && feed->digest.n >= feed->limit;
}

int ptm_feed_finish(struct ptm_feed *feed)
{
	return ptm_enc_finish(feed->enc);
}
