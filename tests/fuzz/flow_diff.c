/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_diff.c - compares two results of a frame token by token: instructions and events.
 *
 * Beside the tokens that both have, the return stack of the SDM is kept: every near RET pops, calls
 * push unless they go to the next instruction, an overflow empties it.  A difference behind a RET
 * is explained only if the other engine did what this stack says.
 */
#include "flow_diff.h"

#include <stdlib.h>

#define DEPTH 64u

const char *const flow_reason_names[FLOW_REASONS] = {
	[FLOW_EQUAL] = "equal",
	[FLOW_BOTH_STOP] = "both stop, with gaps of other classes",
	[FLOW_UNSUPPORTED] = "a packet that libipt does not know",
	[FLOW_RETURN] = "libipt's return stack",
	[FLOW_PGD_BINDS] = "TIP.PGD at a branch",
	[FLOW_PGD_ARRIVES] = "TIP.PGD where the flow arrives",
	[FLOW_LAST_IP] = "last-IP behind an overflow",
	[FLOW_BITS_AND_OVF] = "TNT bits before an overflow",
	[FLOW_POWER_AND_OVF] = "a power event before an overflow",
	[FLOW_UNEXPLAINED] = "UNEXPLAINED",
};

struct token {
	bool there;
	uint64_t ip;
	const struct ptm_event *ev; /* NULL: an instruction */
};

struct model {
	const struct flow_prog *prog;
	uint64_t ip[DEPTH];
	unsigned top, n;
	const struct flow_insn
		*last;   /* of the instructions that both have; NULL: not the program's */
	uint64_t target; /* the address that the stack had for it, if it is a RET */
	bool empty;
	bool overflow; /* one was seen */
};

/* Instructions are sorted by region, then address. */
static const struct flow_insn *find(const struct flow_prog *prog, uint64_t ip)
{
	for (uint32_t r = 0; r < prog->nregions; r++) {
		uint32_t lo = 0, hi = prog->ninsns;

		if (ip - prog->regions[r].base >= prog->regions[r].n)
			continue;
		while (lo < hi) {
			uint32_t mid = lo + (hi - lo) / 2;
			const struct flow_insn *insn = &prog->insns[mid];

			if (insn->region < r || (insn->region == r && insn->ip < ip))
				lo = mid + 1;
			else
				hi = mid;
		}
		return lo < prog->ninsns && prog->insns[lo].ip == ip ? &prog->insns[lo] : NULL;
	}
	return NULL;
}

/* Both executed the instruction at @ip. */
static void execute(struct model *m, uint64_t ip)
{
	const struct flow_insn *insn = m->last = find(m->prog, ip);

	if (insn == NULL)
		return;
	if (insn->op == FLOW_CALL_INDIRECT ||
	    (insn->op == FLOW_CALL && m->prog->insns[insn->target].ip != ip + insn->len)) {
		m->top = (m->top + 1) % DEPTH;
		m->ip[m->top] = ip + insn->len;
		m->n += m->n < DEPTH;
	} else if (insn->op == FLOW_RET) {
		m->empty = m->n == 0;
		m->target = m->ip[m->top];
		if (!m->empty) {
			m->top = (m->top + DEPTH - 1) % DEPTH;
			m->n--;
		}
	}
}

static struct token next_token(struct flow_cursor *c)
{
	struct token t;

	t.there = flow_next(c, &t.ip, &t.ev);
	return t;
}

static bool is_event(const struct token *t, unsigned kind)
{
	return t->there && t->ev != NULL && t->ev->kind == kind;
}

/* A gap that ends the frame: one of no bytes says that PSBEND is missing. */
static bool is_gap(const struct token *t)
{
	return is_event(t, PTM_EV_GAP) && !(t->ev->arg == PTM_GAP_CONFIG && t->ev->value == 0);
}

static bool same_token(const struct token *a, const struct token *b)
{
	if (a->there != b->there)
		return false;
	if (!a->there)
		return true;
	if (a->ev == NULL || b->ev == NULL)
		return a->ev == b->ev && a->ip == b->ip;
	return flow_same_event(a->ev, b->ev);
}

static bool is_power(const struct token *t)
{
	return t->there && t->ev != NULL && t->ev->kind >= PTM_EV_EXSTOP &&
	       t->ev->kind <= PTM_EV_PTWRITE;
}

static bool is_address(const struct token *t)
{
	return is_event(t, PTM_EV_OVERFLOW) || is_event(t, PTM_EV_ENABLED) ||
	       is_event(t, PTM_EV_RESUMED);
}

static enum flow_reason explain(const struct model *m, const struct token *a, const struct token *b)
{
	const bool ret = m->last != NULL && m->last->op == FLOW_RET;

	if (is_gap(a) && is_gap(b))
		return FLOW_BOTH_STOP;
	if (is_gap(a) && a->ev->arg == PTM_GAP_UNSUPPORTED)
		return FLOW_UNSUPPORTED;
	if (ret && m->empty && is_gap(b) && b->ev->arg == PTM_GAP_RETCOMP)
		return FLOW_RETURN;
	if (ret && !m->empty && b->there && b->ev == NULL && b->ip == m->target)
		return FLOW_RETURN;
	if (is_gap(a) && is_event(b, PTM_EV_DISABLED) && (b->ev->flags & PTM_EVF_HAS_TO) == 0)
		return FLOW_PGD_BINDS;
	if (is_event(b, PTM_EV_DISABLED) && (b->ev->flags & PTM_EVF_HAS_TO) != 0)
		return FLOW_PGD_ARRIVES;
	if (is_address(a) && is_address(b) && a->ev->kind == b->ev->kind &&
	    (m->overflow || a->ev->kind == PTM_EV_OVERFLOW))
		return FLOW_LAST_IP;
	if (is_gap(a) && is_event(b, PTM_EV_OVERFLOW))
		return FLOW_BITS_AND_OVF;
	if (is_event(a, PTM_EV_OVERFLOW) && is_power(b))
		return FLOW_POWER_AND_OVF;
	return FLOW_UNEXPLAINED;
}

enum flow_reason flow_diff(const struct flow_prog *prog, const struct flow_result *ipt,
			   const struct flow_result *other, size_t frame, size_t *at)
{
	struct flow_cursor ca = flow_frame(ipt, frame), cb = flow_frame(other, frame);
	struct model m = {.prog = prog};

	for (*at = 0;; ++*at) {
		struct token a = next_token(&ca), b = next_token(&cb);

		if (!same_token(&a, &b))
			return explain(&m, &a, &b);
		if (!a.there || is_gap(&a))
			return FLOW_EQUAL;
		if (a.ev == NULL)
			execute(&m, a.ip);
		if (is_event(&a, PTM_EV_OVERFLOW)) {
			m.n = 0;
			m.overflow = true;
		}
	}
}
