/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_diff.c - compares two results of a frame token by token: instructions and events.
 *
 * Beside the tokens that both have, the return stack of the SDM is kept: every near RET pops, calls
 * push unless they go to the next instruction, an overflow empties it.  A difference behind a RET
 * is explained only if the other engine did what this stack says.  Likewise the address to which a
 * branch leads in code of 16 or 32 bits, as the SDM cuts it and as it is without that.
 */
#include "flow_diff.h"

#include "flow_order.h"
#include "fmt/pt_packet.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH 64u

const char *const flow_reason_names[FLOW_REASONS] = {
	[FLOW_EQUAL] = "equal",
	[FLOW_RESUMED] = "equal, but resumed where libipt says enabled",
	[FLOW_BOTH_STOP] = "both stop, with gaps of other classes",
	[FLOW_UNSUPPORTED] = "a packet that libipt does not know",
	[FLOW_RETURN] = "libipt's return stack",
	[FLOW_PGD_BINDS] = "TIP.PGD at a branch",
	[FLOW_PGD_ARRIVES] = "TIP.PGD where the flow arrives",
	[FLOW_LAST_IP] = "last-IP behind an overflow",
	[FLOW_BITS_AND_OVF] = "TNT bits before an overflow",
	[FLOW_POWER_AND_OVF] = "a power event before an overflow",
	[FLOW_STOPS] = "libipt stops at a packet out of place",
	[FLOW_PIP] = "a PIP, VMCS or PTW packet without its instruction",
	[FLOW_FUP_MISSED] = "a FUP that the flow does not come to",
	[FLOW_FUP_LAST] = "the run up to a FUP that is the frame's last packet",
	[FLOW_LENGTH] = "bytes that were not meant as code",
	[FLOW_ORDER] = "packets in an order that no CPU writes",
	[FLOW_TRUNCATED] = "addresses in code of 16 or 32 bits (R02-truncated)",
	[FLOW_MODE] = "no MODE.Exec before an overflow in PSB+",
	[FLOW_CR3_PGD] = "PIP and TIP.PGD at one MOV CR3",
	[FLOW_NOT_TAKEN] = "a bit for not taken at a RET",
	[FLOW_PTW] = "a PTW whose FUP names no PTWRITE",
	[FLOW_CBR] = "a CBR behind a FUP",
	[FLOW_SEAM] = "no code on the way to the next PSB",
	[FLOW_UNEXPLAINED] = "UNEXPLAINED",
};

struct token {
	bool there;
	uint64_t ip;
	const struct ptm_event *ev; /* NULL: an instruction */
};

/* Instructions read before, direct-mapped; valid for one model. */
#define MEMO 1024u

struct memo {
	uint64_t ip, model;
	enum ptm_mode mode;
	bool ok;
	struct ptm_insn insn;
};

static struct memo memos[MEMO];
static uint64_t models;

struct model {
	uint64_t number;
	const struct flow_pair *pair;
	enum ptm_mode mode;
	uint64_t ip[DEPTH];
	enum ptm_mode modes[DEPTH]; /* of the calls */
	unsigned top, n;
	const struct flow_insn
		*last;             /* of the instructions that both have; NULL: not the program's */
	bool returns;              /* the last one is a RET, ... */
	uint64_t target;           /* ... and the stack had this address for it, */
	enum ptm_mode target_mode; /* ... of code of this size, */
	bool empty;                /* ... or was empty */
	bool cuts;                 /* the last one cuts the address that it adds up or pops, ... */
	uint64_t whole;            /* ... from this */
	uint64_t cut;              /* ... to this */
	uint64_t used;             /* bits, at most, since tracing began or an overflow */
	bool known;                /* there was an instruction, ... */
	uint64_t at;               /* ... here */
	bool overflow;             /* one was seen */
	bool has_to;               /* tracing ended, ... */
	uint64_t to;               /* ... towards this address */
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

/* The instruction at @ip, whether or not the program means one there; false if there is none. */
static bool read_insn(const struct model *m, uint64_t ip, struct ptm_insn *insn)
{
	struct memo *memo = &memos[(ip ^ ip >> 12) % MEMO];
	uint8_t bytes[15];
	size_t n;

	if (memo->ip != ip || memo->model != m->number || memo->mode != m->mode) {
		n = ptm_space_read(m->pair->space, ip, bytes, sizeof(bytes));
		memo->ip = ip;
		memo->model = m->number;
		memo->mode = m->mode;
		memo->ok = ptm_insn_decode(bytes, n, ip, m->mode, &memo->insn) > 0;
	}
	*insn = memo->insn;
	return memo->ok;
}

/* The width of the operands of the direct branch at @ip, in code of 16 or 32 bits. */
static unsigned operand_bits(const struct model *m, uint64_t ip)
{
	static const uint8_t prefixes[] = {0x66, 0x67, 0xf0, 0xf2, 0xf3, 0x26,
					   0x2e, 0x36, 0x3e, 0x64, 0x65};
	bool other = false;
	uint8_t bytes[15];
	size_t n = ptm_space_read(m->pair->space, ip, bytes, sizeof(bytes));

	for (size_t i = 0; i < n && memchr(prefixes, bytes[i], sizeof(prefixes)) != NULL; i++)
		other = other || bytes[i] == 0x66;
	return (m->mode == PTM_MODE_16) != other ? 16 : 32;
}

/* @insn, at @ip, is the last one: what becomes of the address that it leads to.  The operand size
 * cuts that of a direct branch (SDM vol. 2, JMP, CALL, Jcc); a RET has cut the one that it pops,
 * which matters if other code pushed it (R02-truncated).  If the RET was not compressed, both
 * engines go where its TIP says. */
static void cut_address(struct model *m, uint64_t ip, const struct ptm_insn *insn)
{
	const uint64_t next = ip + insn->len;

	m->cuts = false;
	if (m->mode == PTM_MODE_64)
		return;
	if (m->returns && !m->empty) {
		m->whole = m->target;
		m->cut = m->target & (m->mode == PTM_MODE_32 ? UINT32_MAX : UINT16_MAX);
		m->cuts = m->whole != m->cut && m->target_mode != m->mode;
	} else if (insn->klass == PTM_INSN_COND || insn->klass == PTM_INSN_JUMP ||
		   insn->klass == PTM_INSN_CALL) {
		const uint64_t by = insn->target - next;
		const bool is_16 = operand_bits(m, ip) == 16;

		m->whole = next + (uint64_t)(is_16 ? (int64_t)(int16_t)by : (int64_t)(int32_t)by);
		m->cut = m->whole & (is_16 ? UINT16_MAX : UINT32_MAX);
		m->cuts = m->whole != m->cut && m->cut == insn->target;
	}
}

/* Both executed the instruction at @ip. */
static void execute(struct model *m, uint64_t ip)
{
	struct ptm_insn insn;

	m->last = find(m->pair->prog, ip);
	m->known = true;
	m->at = ip;
	m->returns = m->cuts = false;
	if (!read_insn(m, ip, &insn))
		return;
	m->used += insn.klass == PTM_INSN_COND || insn.klass == PTM_INSN_RET;
	if (insn.klass == PTM_INSN_CALL_INDIRECT ||
	    (insn.klass == PTM_INSN_CALL && insn.target != ip + insn.len)) {
		m->top = (m->top + 1) % DEPTH;
		m->ip[m->top] = ip + insn.len;
		m->modes[m->top] = m->mode;
		m->n += m->n < DEPTH;
	} else if (insn.klass == PTM_INSN_RET) {
		m->returns = true;
		m->empty = m->n == 0;
		m->target = m->ip[m->top];
		m->target_mode = m->modes[m->top];
		if (!m->empty) {
			m->top = (m->top + DEPTH - 1) % DEPTH;
			m->n--;
		}
	}
	cut_address(m, ip, &insn);
}

static struct token next_token(struct flow_cursor *c)
{
	struct token t;

	t.there = flow_next(c, &t.ip, &t.ev);
	return t;
}

static struct token next_event(struct flow_cursor *c)
{
	struct token t;

	do
		t = next_token(c);
	while (t.there && t.ev == NULL);
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

/* The packets of a frame around @offset of the trace. */
struct around {
	struct ptm_pkt before, at, behind; /* without PAD and time; size 0: none */
};

static struct around look_around(const struct flow_pair *pair, uint64_t frame, uint64_t offset)
{
	struct around a = {0};
	struct ptm_lexer lx;
	struct ptm_pkt pkt;

	ptm_lexer_init(&lx, pair->trace + frame, pair->len - (size_t)frame);
	while (a.behind.size == 0 && ptm_lex_next(&lx, &pkt) == PTM_LEX_OK) {
		const uint64_t end = (uint64_t)(lx.pos - pair->trace);

		if (pkt.kind == PTM_PKT_PAD || ptm_pkt_is_time(pkt.kind))
			continue;
		if (end <= offset)
			a.before = pkt;
		else if (a.at.size == 0)
			a.at = pkt;
		else
			a.behind = pkt;
	}
	return a;
}

/* Does the flow come from @ip to an instruction that is at @to, or binds (if @to is 0), before one
 * that needs a packet? */
static bool comes_to(const struct model *m, uint64_t ip, uint64_t to, unsigned binds)
{
	for (unsigned i = 0; i < 4096; i++) {
		struct ptm_insn insn;

		if (to != 0 && ip == to)
			return true;
		if (!read_insn(m, ip, &insn))
			return false;
		if (to == 0 && insn.binds == binds)
			return true;
		if (ptm_insn_needs_packet(insn.klass))
			return false;
		ip += insn.len;
		if (insn.klass == PTM_INSN_JUMP || insn.klass == PTM_INSN_CALL)
			ip = insn.target;
	}
	return false;
}

/* The class of the instruction that needs the next packet, from @ip on; 0 if there is none. */
static unsigned next_branch(const struct model *m, uint64_t ip)
{
	for (unsigned i = 0; i < 4096; i++) {
		struct ptm_insn insn;

		if (!read_insn(m, ip, &insn))
			return 0;
		if (ptm_insn_needs_packet(insn.klass))
			return insn.klass;
		ip += insn.len;
		if (insn.klass == PTM_INSN_JUMP || insn.klass == PTM_INSN_CALL)
			ip = insn.target;
	}
	return 0;
}

static bool is_tip_branch(unsigned klass)
{
	return klass == PTM_INSN_JUMP_INDIRECT || klass == PTM_INSN_CALL_INDIRECT ||
	       klass == PTM_INSN_RET;
}

/* Does a TNT with bits to spare stand before the PIP or VMCS at @offset of the trace?  Then a TIP
 * is due, and nothing else may come. */
static bool is_behind_bits(const struct flow_pair *pair, uint64_t frame, uint64_t offset)
{
	struct ptm_lexer lx;
	struct ptm_pkt pkt;
	bool bits = false;

	ptm_lexer_init(&lx, pair->trace + frame, pair->len - (size_t)frame);
	while (ptm_lex_next(&lx, &pkt) == PTM_LEX_OK && (uint64_t)(lx.pos - pair->trace) <= offset)
		if (pkt.kind == PTM_PKT_TNT8 || pkt.kind == PTM_PKT_TNT64)
			bits = pkt.n > 1;
		else if (pkt.kind != PTM_PKT_PAD && !ptm_pkt_is_time(pkt.kind) &&
			 pkt.kind != PTM_PKT_PIP && pkt.kind != PTM_PKT_VMCS)
			bits = false;
	return bits;
}

/* Came more bits before @offset than all branches used up, since tracing began or an overflow? */
static bool has_bits_left(const struct model *m, uint64_t frame, uint64_t offset)
{
	const struct flow_pair *pair = m->pair;
	uint64_t bits = 0;
	struct ptm_lexer lx;
	struct ptm_pkt pkt;

	ptm_lexer_init(&lx, pair->trace + frame, pair->len - (size_t)frame);
	while (ptm_lex_next(&lx, &pkt) == PTM_LEX_OK && (uint64_t)(lx.pos - pair->trace) <= offset)
		if (pkt.kind == PTM_PKT_TNT8 || pkt.kind == PTM_PKT_TNT64)
			bits += pkt.n;
		else if (pkt.kind == PTM_PKT_TIP_PGD || pkt.kind == PTM_PKT_OVF)
			bits = 0;
	return bits > m->used;
}

/* Is the frame's PSB+ cut short by an overflow, before a MODE.Exec? */
static bool has_no_mode(const struct flow_pair *pair, uint64_t frame)
{
	struct ptm_lexer lx;
	struct ptm_pkt pkt;

	ptm_lexer_init(&lx, pair->trace + frame, pair->len - (size_t)frame);
	while (ptm_lex_next(&lx, &pkt) == PTM_LEX_OK && pkt.kind != PTM_PKT_MODE_EXEC &&
	       pkt.kind != PTM_PKT_PSBEND)
		if (pkt.kind == PTM_PKT_OVF)
			return true;
	return false;
}

/* Is there a PTWRITE at @ip? */
static bool is_ptwrite(const struct model *m, uint64_t ip)
{
	struct ptm_insn insn;

	return read_insn(m, ip, &insn) && insn.binds == PTM_BINDS_PTWRITE;
}

/* Is there a CBR behind a FUP, not far before @offset of the trace? */
static bool has_cbr_near(const struct flow_pair *pair, uint64_t frame, uint64_t offset)
{
	unsigned before = PTM_PKT_KINDS;
	struct ptm_lexer lx;
	struct ptm_pkt pkt;

	ptm_lexer_init(&lx, pair->trace + frame, pair->len - (size_t)frame);
	while (ptm_lex_next(&lx, &pkt) == PTM_LEX_OK && lx.pos - pair->trace <= (ptrdiff_t)offset) {
		if (pkt.kind == PTM_PKT_CBR && before == PTM_PKT_FUP &&
		    (uint64_t)(lx.pos - pair->trace) + 32 > offset)
			return true;
		if (pkt.kind != PTM_PKT_PAD && !ptm_pkt_is_time(pkt.kind))
			before = pkt.kind;
	}
	return false;
}

/* Is there a TIP with @ip, not far from @offset of the trace? */
static bool has_tip_near(const struct flow_pair *pair, uint64_t frame, uint64_t offset, uint64_t ip)
{
	struct ptm_lexer lx;
	struct ptm_pkt pkt;

	ptm_lexer_init(&lx, pair->trace + frame, pair->len - (size_t)frame);
	while (ptm_lex_next(&lx, &pkt) == PTM_LEX_OK) {
		const uint64_t end = (uint64_t)(lx.pos - pair->trace);

		if (pkt.kind == PTM_PKT_TIP && pkt.ip == ip && end + 32 > offset &&
		    end < offset + 32)
			return true;
	}
	return false;
}

/* Packets of a damaged frame that do not belong where they are. */
static enum flow_reason explain_packets(const struct model *m, size_t frame, const struct token *a,
					const struct token *b, const struct token *behind)
{
	const struct flow_pair *pair = m->pair;
	const uint64_t begin = pair->ipt->frames.v[frame].offset;
	const bool a_insn = a->there && a->ev == NULL;
	struct around around;

	if (is_event(b, PTM_EV_PAGING) || is_event(b, PTM_EV_VMCS)) {
		if (a_insn &&
		    (is_behind_bits(pair, begin, b->ev->offset) ||
		     has_bits_left(m, begin, b->ev->offset)) &&
		    is_tip_branch(next_branch(m, a->ip)))
			return FLOW_PIP;
		if (!a_insn ||
		    !comes_to(m, a->ip, 0,
			      b->ev->kind == PTM_EV_PAGING ? PTM_BINDS_MOV_CR3 : PTM_BINDS_VMENTRY))
			return FLOW_PIP;
	}
	if (is_gap(a) && a->ev->arg == PTM_GAP_RETCOMP && b->there && behind->there &&
	    behind->ev == NULL) {
		if (has_tip_near(pair, begin, a->ev->offset, behind->ip))
			return FLOW_NOT_TAKEN;
	}
	/* It can not read what leads to the next PSB. */
	if (is_gap(a) && a->ev->arg == PTM_GAP_SEAM && m->overflow && !m->known && b->there &&
	    b->ev == NULL && a->ev->ip == b->ip && has_no_mode(pair, begin))
		return FLOW_MODE;
	if (is_gap(a) && (a->ev->arg == PTM_GAP_MISMATCH || a->ev->arg == PTM_GAP_CONFIG ||
			  a->ev->arg == PTM_GAP_BAD_PACKET || a->ev->arg == PTM_GAP_TRUNCATED))
		return FLOW_STOPS;
	if (!a->there && b->there && b->ev == NULL) {
		around = look_around(pair, begin,
				     frame + 1 < pair->ipt->frames.n
					     ? pair->ipt->frames.v[frame + 1].offset
					     : pair->len);
		if (around.before.kind == PTM_PKT_FUP && comes_to(m, b->ip, around.before.ip, 0))
			return FLOW_FUP_LAST;
	}
	if (is_event(a, PTM_EV_CBR) && b->there && b->ev == NULL &&
	    has_cbr_near(pair, begin, a->ev->offset))
		return FLOW_CBR;
	if (is_event(a, PTM_EV_PTWRITE) && !is_ptwrite(m, a->ev->ip))
		return FLOW_PTW;
	if (a_insn && is_gap(b) && b->ev->arg == PTM_GAP_MISMATCH) {
		around = look_around(pair, begin, b->ev->offset);
		if (around.before.kind == PTM_PKT_PTW && around.at.kind == PTM_PKT_FUP &&
		    !is_ptwrite(m, around.at.ip))
			return FLOW_PTW;
		if (around.at.kind == PTM_PKT_FUP && !comes_to(m, a->ip, around.at.ip, 0))
			return FLOW_FUP_MISSED;
		if (around.at.kind == PTM_PKT_PTW && !comes_to(m, a->ip, 0, PTM_BINDS_PTWRITE))
			return FLOW_PIP;
	}
	return FLOW_UNEXPLAINED;
}

static bool is_return(const struct model *m, const struct token *t)
{
	struct ptm_insn insn;

	return t->there && t->ev == NULL && read_insn(m, t->ip, &insn) &&
	       insn.klass == PTM_INSN_RET;
}

/* Where the flow stands at @t. */
static uint64_t address_of(const struct token *t)
{
	return t->ev == NULL ? t->ip : (t->ev->flags & PTM_EVF_HAS_IP) != 0 ? t->ev->ip : 0;
}

static bool stands_at(const struct token *t, uint64_t ip)
{
	return t->there && (t->ev == NULL || (t->ev->flags & PTM_EVF_HAS_IP) != 0) &&
	       address_of(t) == ip;
}

/* The other did what the stack of the SDM says, where libipt has @a. */
static bool is_other_return(const struct model *m, const struct token *a, const struct token *b,
			    const struct token *behind)
{
	if (is_return(m, a) && m->n == 0 && is_gap(b) && b->ev->arg == PTM_GAP_RETCOMP)
		return true;
	if (is_gap(a) && is_return(m, b) && m->n > 0 && behind->there && behind->ev == NULL &&
	    behind->ip == m->ip[m->top])
		return true;
	if (!m->returns || m->empty)
		return false;
	if (!b->there)
		return is_gap(a) && a->ev->arg == PTM_GAP_SEAM && a->ev->to == m->target;
	/* Of a gap at the seam the address is the one at which the run ends. */
	if (is_gap(b) && b->ev->arg == PTM_GAP_SEAM)
		return !stands_at(a, m->target) && comes_to(m, m->target, b->ev->ip, 0);
	return address_of(b) == m->target ||
	       (address_of(b) == 0 && behind->there && address_of(behind) == m->target);
}

/* Tracing ended on the way there. */
static bool ends_towards(const struct token *t, uint64_t ip)
{
	return is_event(t, PTM_EV_DISABLED) && (t->ev->flags & PTM_EVF_HAS_TO) != 0 &&
	       t->ev->to == ip;
}

/* An event that does not say where it stands: a PIP, say. */
static bool is_placeless(const struct token *t)
{
	return t->there && t->ev != NULL && (t->ev->flags & PTM_EVF_HAS_IP) == 0;
}

/* Why libipt has @a where the other has @b, and @behind next; libipt's next event is @stop. */
static enum flow_reason explain(const struct model *m, const struct token *a, const struct token *b,
				const struct token *behind, const struct token *stop)
{
	if (is_gap(a) && is_gap(b))
		return FLOW_BOTH_STOP;
	if (a->there && a->ev == NULL && is_gap(b) && b->ev->arg == PTM_GAP_SEAM && is_gap(stop) &&
	    (stop->ev->arg == PTM_GAP_BAD_INSN || stop->ev->arg == PTM_GAP_NO_IMAGE) &&
	    stop->ev->ip == b->ev->ip)
		return FLOW_SEAM;
	if (is_gap(a) && a->ev->arg == PTM_GAP_UNSUPPORTED)
		return FLOW_UNSUPPORTED;
	if (is_other_return(m, a, b, behind))
		return FLOW_RETURN;
	if (m->last != NULL && m->last->op == FLOW_MOV_CR3 && is_event(a, PTM_EV_DISABLED))
		return FLOW_CR3_PGD;
	if (a->there && a->ev == NULL && b->there && b->ev != NULL && !is_gap(b) && is_gap(stop) &&
	    stop->ev->arg == PTM_GAP_MISMATCH && behind->there && behind->ev == NULL &&
	    behind->ip == a->ip)
		return FLOW_STOPS;
	if (m->cuts && (stands_at(a, m->whole) || ends_towards(a, m->whole)) &&
	    (stands_at(b, m->cut) || (is_placeless(b) && stands_at(behind, m->cut))))
		return FLOW_TRUNCATED;
	if (is_gap(a) && is_event(b, PTM_EV_DISABLED) && (b->ev->flags & PTM_EVF_HAS_TO) == 0)
		return FLOW_PGD_BINDS;
	if (is_event(b, PTM_EV_DISABLED) && (b->ev->flags & PTM_EVF_HAS_TO) != 0)
		return FLOW_PGD_ARRIVES;
	if (is_address(a) && is_address(b) && a->ev->ip != b->ev->ip &&
	    (m->overflow || is_event(a, PTM_EV_OVERFLOW)))
		return FLOW_LAST_IP;
	if (m->overflow && a->ev != NULL && b->ev != NULL && a->ev->kind == b->ev->kind &&
	    (a->ev->flags & b->ev->flags & PTM_EVF_HAS_IP) != 0 && a->ev->ip != b->ev->ip &&
	    ((a->ev->ip ^ b->ev->ip) & 0xffff) == 0)
		return FLOW_LAST_IP;
	if ((is_gap(a) || is_gap(stop)) && is_event(b, PTM_EV_OVERFLOW))
		return FLOW_BITS_AND_OVF;
	if (is_gap(a) && a->ev->arg == PTM_GAP_BAD_INSN && m->overflow && !m->known)
		return FLOW_MODE;
	if (is_event(a, PTM_EV_OVERFLOW) && is_power(b))
		return FLOW_POWER_AND_OVF;
	return FLOW_UNEXPLAINED;
}

/* Is @ip so close behind the last instruction that libipt must have taken it for a shorter or
 * longer one than it is (REX2, say)? */
static bool is_other_length(const struct model *m, uint64_t ip)
{
	struct ptm_insn insn;

	return ip - m->at - 1 < 15 && read_insn(m, m->at, &insn) && insn.klass == PTM_INSN_OTHER &&
	       ip != m->at + insn.len;
}

/* Does the flow come from @ip to an instruction whose length is a guess, before one that needs a
 * packet? */
static bool comes_to_guess(const struct model *m, uint64_t ip)
{
	for (unsigned i = 0; i < 4096; i++) {
		struct ptm_insn insn;

		if (!read_insn(m, ip, &insn) || insn.guessed)
			return insn.guessed;
		if (ptm_insn_needs_packet(insn.klass))
			return false;
		ip += insn.len;
		if (insn.klass == PTM_INSN_JUMP || insn.klass == PTM_INSN_CALL)
			ip = insn.target;
	}
	return false;
}

/* What is left. */
static enum flow_reason explain_rest(const struct flow_pair *pair, size_t frame,
				     const struct model *m, const struct token *a,
				     const struct token *b, const struct token *stop)
{
	const bool other_mode = m->mode != (pair->prog->bits == 64 ? PTM_MODE_64 : PTM_MODE_32);
	const struct flow_mark *mark = &pair->ipt->frames.v[frame];
	uint64_t end = frame + 1 < pair->ipt->frames.n ? mark[1].offset : pair->len;
	bool garbage = pair->patched || (m->known && m->last == NULL);

	if (b->there && b->ev == NULL && find(pair->prog, b->ip) == NULL)
		garbage = true;
	if (garbage && m->known && a->there && is_other_length(m, address_of(a)))
		return FLOW_LENGTH;
	if (garbage && ((a->there && a->ev == NULL) || is_gap(a)) &&
	    ((b->there && b->ev == NULL) || is_gap(b)))
		return FLOW_LENGTH;
	if (other_mode && a->there && a->ev == NULL && is_gap(b) && b->ev->arg == PTM_GAP_SEAM &&
	    is_gap(stop) && stop->ev->arg == PTM_GAP_BAD_INSN && comes_to_guess(m, a->ip))
		return FLOW_LENGTH;
	if (flow_is_out_of_order(pair->trace + mark->offset, (size_t)(end - mark->offset)))
		return FLOW_ORDER;
	return FLOW_UNEXPLAINED;
}

/* Both said that tracing ended on the way to `to`, and that it goes on at this address; libipt
 * knows where a direct branch goes, but not others.  And it takes 0 for where it was before the
 * first instruction. */
static bool is_resumed(const struct model *m, const struct token *a, const struct token *b)
{
	if (is_event(a, PTM_EV_RESUMED) && is_event(b, PTM_EV_ENABLED) && a->ev->ip == 0)
		return b->ev->ip == 0 && !m->known;
	return is_event(a, PTM_EV_ENABLED) && is_event(b, PTM_EV_RESUMED) &&
	       a->ev->ip == b->ev->ip && m->has_to && m->to == a->ev->ip;
}

/* Both have @t. */
static void note(struct model *m, const struct token *t)
{
	if (t->ev == NULL)
		execute(m, t->ip);
	if (is_event(t, PTM_EV_OVERFLOW)) {
		m->n = 0;
		m->used = 0;
		m->overflow = true;
	}
	if (is_event(t, PTM_EV_DISABLED) || is_event(t, PTM_EV_ASYNC_DISABLED))
		m->used = 0;
	if (is_event(t, PTM_EV_EXEC_MODE))
		m->mode = t->ev->arg == 64   ? PTM_MODE_64
			  : t->ev->arg == 32 ? PTM_MODE_32
					     : PTM_MODE_16;
	if (is_address(t))
		m->has_to = false;
	if (is_event(t, PTM_EV_DISABLED)) {
		m->has_to = (t->ev->flags & PTM_EVF_HAS_TO) != 0;
		m->to = t->ev->to;
	}
}

static const char *token_name(const struct token *t)
{
	if (!t->there)
		return "the end";
	if (t->ev == NULL)
		return "an instruction";
	return t->ev->kind == PTM_EV_GAP ? ptm_gap_name(t->ev->arg) : ptm_event_name(t->ev->kind);
}

static const char *name_of(const struct ptm_pkt *pkt)
{
	return pkt->size == 0 ? "-" : ptm_pkt_name(pkt->kind);
}

/* Describe a token for surveys. */
static void describe(const struct flow_pair *pair, size_t frame, const struct token *t, char *buf,
		     size_t size)
{
	struct around a;

	if (!is_gap(t)) {
		(void)snprintf(buf, size, "%s", token_name(t));
		return;
	}
	a = look_around(pair, pair->ipt->frames.v[frame].offset, t->ev->offset);
	(void)snprintf(buf, size, "%s (%s, %s, %s)", token_name(t), name_of(&a.before),
		       name_of(&a.at), name_of(&a.behind));
}

static void part(const struct flow_pair *pair, size_t frame, const struct token *a,
		 const struct token *b, struct flow_parting *parting)
{
	char ta[64], tb[64];

	describe(pair, frame, a, ta, sizeof(ta));
	describe(pair, frame, b, tb, sizeof(tb));
	(void)snprintf(parting->what, sizeof(parting->what), "%s | %s", ta, tb);
}

/* What the PSB+ of a frame says. */
static enum ptm_mode first_mode(const struct flow_pair *pair, size_t frame)
{
	const uint64_t begin = pair->ipt->frames.v[frame].offset;
	enum ptm_mode mode = PTM_MODE_64;
	struct ptm_lexer lx;
	struct ptm_pkt pkt;

	ptm_lexer_init(&lx, pair->trace + begin, pair->len - (size_t)begin);
	while (ptm_lex_next(&lx, &pkt) == PTM_LEX_OK && pkt.kind != PTM_PKT_PSBEND)
		if (pkt.kind == PTM_PKT_MODE_EXEC)
			mode = (pkt.type & 1) != 0   ? PTM_MODE_64
			       : (pkt.type & 2) != 0 ? PTM_MODE_32
						     : PTM_MODE_16;
	return mode;
}

enum flow_reason flow_diff(const struct flow_pair *pair, size_t frame, struct flow_parting *parting)
{
	struct flow_cursor ca = flow_frame(pair->ipt, frame), cb = flow_frame(pair->other, frame);
	struct model m = {.number = ++models, .pair = pair, .mode = first_mode(pair, frame)};
	enum flow_reason equal = FLOW_EQUAL, reason;

	for (parting->at = 0;; parting->at++) {
		struct token a = next_token(&ca), b = next_token(&cb);

		if (is_resumed(&m, &a, &b)) {
			equal = FLOW_RESUMED;
		} else if (!same_token(&a, &b)) {
			part(pair, frame, &a, &b, parting);
			struct token behind = next_token(&cb), stop = next_event(&ca);

			reason = explain(&m, &a, &b, &behind, &stop);
			if (reason == FLOW_UNEXPLAINED)
				reason = explain_packets(&m, frame, &a, &b, &behind);
			if (reason == FLOW_UNEXPLAINED)
				reason = explain_rest(pair, frame, &m, &a, &b, &stop);
			return reason;
		}
		if (!a.there || is_gap(&a))
			return equal;
		note(&m, &a);
	}
}
