/* SPDX-License-Identifier: Apache-2.0
 *
 * retrace.c - the flow of one thread, from the blocks that it was about to execute.
 *
 * A block is told one step late: only where its successor begins shows which way its branch went,
 * and whether all of it was executed.  QEMU may stop in the middle of a block: at a fault, at a
 * store into translated code, at an atomic operation that it cannot do among other threads; and it
 * executes each iteration of a rep instruction as a block.
 */
#include "record/retrace.h"

#include <inttypes.h>

void ptm_retrace_init(struct ptm_retrace *rt, struct ptm_feed *feed,
		      const struct ptm_blocks *blocks, struct ptm_error *err)
{
	*rt = (struct ptm_retrace){.feed = feed, .blocks = blocks, .err = err};
}

static int full(struct ptm_retrace *rt, const struct ptm_block *block, uint64_t next)
{
	return ptm_feed_block(rt->feed, block, ptm_block_lens(rt->blocks, block), next);
}

static int prefix(struct ptm_retrace *rt, const struct ptm_block *block, int n)
{
	return ptm_feed_prefix(rt->feed, block, ptm_block_lens(rt->blocks, block), (unsigned)n);
}

static int tell_off(struct ptm_retrace *rt, enum ptm_flow_kind kind, uint64_t ip)
{
	struct ptm_flow_event ev = {.kind = kind, .ip = ip, .next = ip};

	rt->on = false;
	return ptm_feed_event(rt->feed, &ev);
}

/* The first @n instructions of @block retire, then the kernel is entered at @ip. */
static int prefix_then(struct ptm_retrace *rt, const struct ptm_block *block, int n,
		       enum ptm_flow_kind kind, uint64_t ip)
{
	int ret = prefix(rt, block, n);

	return ret != 0 ? ret : tell_off(rt, kind, ip);
}

/* May @ip follow when all of @block has retired? */
static bool may_follow(const struct ptm_block *block, uint64_t ip)
{
	switch ((enum ptm_insn_class)block->klass) {
	case PTM_INSN_OTHER:
	case PTM_INSN_JUMP:
	case PTM_INSN_CALL:
		return ip == block->target;
	case PTM_INSN_COND:
		return ip == block->target || ip == block->end;
	case PTM_INSN_JUMP_INDIRECT:
	case PTM_INSN_CALL_INDIRECT:
	case PTM_INSN_RET:
	case PTM_INSN_FAR_CALL:
	case PTM_INSN_FAR_RETURN:
	case PTM_INSN_FAR_JUMP:
		break;
	}
	return true;
}

/* QEMU translates an instruction alone, though it neither branches nor ends a page, to execute it
 * again: it was inside @block when that had to stop. */
static int stopped_before(const struct ptm_retrace *rt, const struct ptm_block *block,
			  const struct ptm_block *next)
{
	if (next->n != 1 || next->klass != PTM_INSN_OTHER || next->begin == block->last)
		return -1;
	return ptm_block_find(rt->blocks, block, next->begin);
}

static int lost(struct ptm_retrace *rt, const struct ptm_block *block, uint64_t ip)
{
	return PTM_FAIL(rt->err, PTM_E_SYSTEM,
			"Cannot follow the program: it went from 0x%" PRIx64 " to 0x%" PRIx64,
			block->last, ip);
}

/* @block was begun, then @next, without a signal. */
static int retire(struct ptm_retrace *rt, const struct ptm_block *block,
		  const struct ptm_block *next)
{
	int i;

	switch ((enum ptm_block_kind)block->kind) {
	case PTM_BLOCK_SYSCALL:
		return prefix_then(rt, block, block->n - 1, PTM_FLOW_OFF, block->last);
	case PTM_BLOCK_TRAP:
		return prefix_then(rt, block, block->n - 1, PTM_FLOW_INTERRUPT, block->last);
	case PTM_BLOCK_REP:
		if (next->begin == block->last)
			return prefix(rt, block, block->n - 1);
		break;
	case PTM_BLOCK_PLAIN:
		break;
	}
	i = stopped_before(rt, block, next);
	if (i < 0 && may_follow(block, next->begin))
		return full(rt, block, next->begin);
	if (i < 0)
		i = ptm_block_find(rt->blocks, block, next->begin);
	return i < 0 ? lost(rt, block, next->begin) : prefix(rt, block, i);
}

/* @block was begun, then a signal found the program at @ip.  Returns 2 if that cannot be. */
static int retire_until(struct ptm_retrace *rt, const struct ptm_block *block, uint64_t ip,
			bool fault)
{
	int ret, i = ptm_block_find(rt->blocks, block, ip);

	if (block->kind == PTM_BLOCK_SYSCALL && (i < 0 || ip == block->last))
		return prefix_then(rt, block, block->n - 1, PTM_FLOW_OFF, block->last);
	if (block->kind == PTM_BLOCK_TRAP && ip == block->end)
		return prefix_then(rt, block, block->n - 1, PTM_FLOW_INTERRUPT, block->last);
	/* What the kernel sends at any time comes between two blocks, or iterations. */
	if (i >= 0 && (fault || (block->kind == PTM_BLOCK_REP && ip == block->last)))
		return prefix_then(rt, block, i, PTM_FLOW_INTERRUPT, ip);
	if (may_follow(block, ip)) {
		ret = full(rt, block, ip);
		return ret != 0 ? ret : tell_off(rt, PTM_FLOW_INTERRUPT, ip);
	}
	return i < 0 ? 2 : prefix_then(rt, block, i, PTM_FLOW_INTERRUPT, ip);
}

/* A handler may jump to another one's beginning, its frame untouched. */
static bool is_tail_call(const struct ptm_retrace *rt, const struct ptm_block *block,
			 const struct ptm_block *next)
{
	const struct ptm_retrace_signal *s = &rt->signals[0];

	return s->frame == rt->last.frame && s->ip == rt->last.ip &&
	       (block->klass == PTM_INSN_JUMP || block->klass == PTM_INSN_JUMP_INDIRECT ||
		block->klass == PTM_INSN_COND) &&
	       may_follow(block, next->begin) && ptm_block_find(rt->blocks, block, s->ip) < 0;
}

static int retire_by_signal(struct ptm_retrace *rt, const struct ptm_block *block,
			    const struct ptm_block *next)
{
	int ret = 2;

	if (is_tail_call(rt, block, next))
		return retire(rt, block, next);
	for (unsigned i = 0; i < rt->nsignals && ret == 2; i++)
		ret = retire_until(rt, block, rt->signals[i].ip, rt->signals[i].fault);
	rt->last = rt->signals[0];
	return ret == 2 ? lost(rt, block, rt->last.ip) : ret;
}

int ptm_retrace_block(struct ptm_retrace *rt, uint32_t id)
{
	const struct ptm_block *next = &rt->blocks->blocks.v[id];
	const struct ptm_block *block = &rt->blocks->blocks.v[rt->pending];
	int ret = 0;

	if (rt->pending != 0 && rt->nsignals == 0 && block->kind == PTM_BLOCK_PLAIN &&
	    next->n > 1 && may_follow(block, next->begin))
		ret = full(rt, block, next->begin);
	else if (rt->pending != 0)
		ret = rt->nsignals > 0 ? retire_by_signal(rt, block, next)
				       : retire(rt, block, next);
	if (ret != 0)
		return ret;
	if (!rt->on) {
		struct ptm_flow_event ev = {
			.kind = PTM_FLOW_ON, .ip = next->begin, .next = next->begin};

		rt->on = true;
		ret = ptm_feed_event(rt->feed, &ev);
	}
	rt->pending = id;
	rt->nsignals = 0;
	rt->in_syscall = false;
	return ret;
}

void ptm_retrace_syscall(struct ptm_retrace *rt, int64_t nr)
{
	rt->in_syscall = true;
	rt->syscall = nr;
}

void ptm_retrace_signal(struct ptm_retrace *rt, const struct ptm_retrace_signal *signal)
{
	if (rt->nsignals < PTM_RETRACE_SIGNALS)
		rt->signals[rt->nsignals++] = *signal;
}

int ptm_retrace_end(struct ptm_retrace *rt)
{
	const struct ptm_block *block = &rt->blocks->blocks.v[rt->pending];

	if (rt->pending == 0)
		return 0;
	rt->pending = 0;
	if (rt->in_syscall && block->kind == PTM_BLOCK_SYSCALL)
		return prefix_then(rt, block, block->n - 1, PTM_FLOW_OFF, block->last);
	/* Killed: nobody knows how much of the block was executed, so nothing of it is told. */
	return rt->on ? tell_off(rt, PTM_FLOW_INTERRUPT, block->begin) : 0;
}
