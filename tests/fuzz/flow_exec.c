/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_exec.c - executes a random program abstractly, and has its trace written.
 *
 * Outcomes of branches are chosen at random, but for returns, which mostly follow a call stack.
 * The recorder's encoder writes the packets.  Some that it does not know - PTW, PIP, MODE.TSX,
 * EXSTOP - are put among its bytes afterwards: the TNT bits that wait are taken out of the encoder
 * and written before them, and a FUP among them has the 2-byte form, which leaves last-IP as the
 * encoder believes it to be, but for bytes that every address replaces.
 */
#include "flow_exec.h"

#include "base/bytes.h"
#include "fmt/pt_packet.h"
#include "record/encoder.h"

#include <stdlib.h>
#include <string.h>

#define STACK_MAX 4096u
#define OP_FUP    0x1du

/* Packets to be put before offset `at` of the encoder's bytes. */
struct splice {
	uint64_t at;
	uint64_t ip;  /* of the FUP behind `bytes`, if it may have one */
	size_t event; /* index of what it makes; SIZE_MAX: none */
	uint8_t n, n_alone;
	uint8_t bytes[24];
	uint8_t alone[24]; /* instead, if there can be no FUP; none: nothing */
};

struct exec {
	const struct flow_prog *prog;
	struct flow_rand *r;
	struct flow_truth *t;
	struct ptm_enc *enc;
	struct ptm_enc_quick *quick;
	bool deferred; /* TIPs wait in the encoder */
	size_t since;  /* instructions up to the last that took a packet */
	bool cr3;      /* a MOV CR3 was behind it */
	uint32_t at;   /* the next instruction */
	uint32_t nstack;
	uint32_t stack[STACK_MAX]; /* instructions behind calls */
	PTM_VEC(uint8_t) bytes;    /* the encoder's */
	PTM_VEC(struct splice) splices;
};

#define NEED(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond))                                                                       \
			abort();                                                                   \
	} while (0)

static int on_write(void *ctx, const uint8_t *bytes, size_t len)
{
	struct exec *x = ctx;

	NEED(ptm_vec_reserve(&x->bytes, len));
	memcpy(x->bytes.v + x->bytes.n, bytes, len);
	x->bytes.n += len;
	return 0;
}

static size_t tell(struct exec *x, uint64_t at, const struct ptm_event *ev)
{
	struct flow_event e = {at, *ev};

	if (!flow_is_told(x->t, ev->kind) || ptm_enc_is_lost(x->enc))
		return SIZE_MAX;
	NEED(ptm_vec_push(&x->t->events, e));
	return x->t->events.n - 1;
}

static void on_mark(void *ctx, enum ptm_enc_mark mark, uint64_t offset)
{
	struct exec *x = ctx;
	struct flow_psb psb = {offset, x->t->ips.n};
	struct flow_event ovf = {x->t->ips.n, {.kind = PTM_EV_OVERFLOW}};

	if (mark == PTM_ENC_PSB)
		NEED(ptm_vec_push(&x->t->psbs, psb));
	else if (mark == PTM_ENC_OVF)
		NEED(ptm_vec_push(&x->t->events, ovf));
}

static void choose_options(struct exec *x, struct ptm_record_config *c)
{
	struct flow_rand *r = x->r;

	*c = (struct ptm_record_config){.size = sizeof(*c)};
	c->ret_comp = (enum ptm_record_ret_comp)flow_pick(r, 3);
	c->timing = (enum ptm_record_timing)flow_pick(r, 4);
	c->tips = (enum ptm_record_tips)flow_pick(r, 3);
	c->tnt64 = flow_one_in(r, 2);
	c->mtc_freq = (uint8_t)flow_pick(r, 6);
	c->psb_period = UINT64_C(64) << flow_pick(r, 7);
	if (flow_one_in(r, 3))
		c->ovf_period = UINT64_C(64) << flow_pick(r, 6);
	if (flow_one_in(r, 4))
		c->irq_period = UINT64_C(8) << flow_pick(r, 8);
	c->seed = flow_rand_u64(r);
}

static uint64_t ip_of(const struct exec *x, uint32_t i)
{
	return x->prog->insns[i].ip;
}

/* Put the waiting TNT bits and then @bytes before what the encoder writes next. */
static struct splice *splice(struct exec *x, const uint8_t *bytes, unsigned n)
{
	struct splice s = {.at = ptm_enc_offset(x->enc), .event = SIZE_MAX};
	struct ptm_enc_quick *q = x->quick;
	uint64_t payload = (UINT64_C(1) << q->ntnt) | q->tnt;

	if (q->ntnt > 6) {
		s.bytes[0] = 0x02;
		s.bytes[1] = 0xa3;
		ptm_store_le(s.bytes + 2, payload, 6);
		s.n = 8;
	} else if (q->ntnt > 0) {
		s.bytes[0] = (uint8_t)(payload << 1);
		s.n = 1;
	}
	q->ntnt = 0;
	q->tnt = 0;
	memcpy(s.alone, s.bytes, s.n);
	s.n_alone = s.n;
	memcpy(s.bytes + s.n, bytes, n);
	s.n = (uint8_t)(s.n + n);
	NEED(ptm_vec_push(&x->splices, s));
	return &x->splices.v[x->splices.n - 1];
}

static void note_deferred(struct exec *x, bool maybe)
{
	if (x->quick->ntnt == 0)
		x->deferred = false;
	else if (maybe)
		x->deferred = true;
}

/* Packets tell where the flow stands. */
static void settle(struct exec *x)
{
	x->since = x->t->ips.n;
	x->cr3 = false;
}

/* An interrupt that packets are off in, before the next instruction. */
static void interrupt(struct exec *x)
{
	const uint64_t ip = ip_of(x, x->at);

	tell(x, x->t->ips.n,
	     &(struct ptm_event){.kind = PTM_EV_ASYNC_DISABLED, .flags = PTM_EVF_HAS_IP, .ip = ip});
	ptm_enc_async_off(x->enc, ip);
	ptm_enc_pass(x->enc, flow_pick(x->r, 4000));
	tell(x, x->t->ips.n,
	     &(struct ptm_event){.kind = PTM_EV_ENABLED, .flags = PTM_EVF_HAS_IP, .ip = ip});
	ptm_enc_on(x->enc, ip, x->prog->bits);
	ptm_enc_point(x->enc, ip, 0);
	x->deferred = false;
	settle(x);
}

static void push(struct exec *x, uint32_t i)
{
	if (x->nstack == STACK_MAX)
		x->nstack = 0;
	x->stack[x->nstack++] = i;
}

static uint32_t any_insn(struct exec *x)
{
	if (flow_one_in(x->r, 3))
		return flow_pick(x->r, x->prog->ninsns);
	return x->prog->entries[flow_pick(x->r, x->prog->nentries)];
}

/* Where a return goes: mostly to the last call, seldom past some of them, or anywhere. */
static uint32_t pop(struct exec *x)
{
	if (x->nstack > 2 && flow_one_in(x->r, 60))
		x->nstack -= 1 + flow_pick(x->r, 2);
	if (x->nstack == 0 || flow_one_in(x->r, 60))
		return any_insn(x);
	return x->stack[--x->nstack];
}

/* A handler that stays traced. */
static void handler(struct exec *x)
{
	const uint32_t to = any_insn(x);

	tell(x, x->t->ips.n,
	     &(struct ptm_event){.kind = PTM_EV_ASYNC_BRANCH,
				 .flags = PTM_EVF_HAS_IP | PTM_EVF_HAS_TO,
				 .ip = ip_of(x, x->at),
				 .to = ip_of(x, to)});
	ptm_enc_async(x->enc, ip_of(x, x->at), ip_of(x, to));
	push(x, x->at);
	x->at = to;
	x->deferred = false;
	ptm_enc_point(x->enc, ip_of(x, to), 0);
}

/* MODE.TSX or EXSTOP before the next instruction. */
static void state_event(struct exec *x)
{
	uint8_t tsx[] = {0x99, (uint8_t)(0x20 | flow_pick(x->r, 2))};
	const uint8_t exstop[] = {0x02, 0xe2}; /* with the IP bit */
	const bool is_tsx = flow_one_in(x->r, 2);
	struct ptm_event ev = {.kind = is_tsx ? PTM_EV_TSX : PTM_EV_EXSTOP,
			       .flags = PTM_EVF_HAS_IP,
			       .arg = is_tsx ? tsx[1] & 1 : 0,
			       .ip = ip_of(x, x->at)};
	struct splice *s;

	if (x->deferred || ptm_enc_is_lost(x->enc))
		return;
	s = splice(x, is_tsx ? tsx : exstop, 2);
	s->ip = ev.ip;
	s->event = tell(x, x->t->ips.n, &ev);
}

/* The packets of PTWRITE and MOV CR3, which has just retired. */
static void bound(struct exec *x, const struct flow_insn *insn)
{
	uint64_t value = flow_rand_u64(x->r);
	uint8_t b[10] = {0x02, 0x43};
	struct splice *s;
	struct ptm_event ev = {.kind = PTM_EV_PAGING};

	if (ptm_enc_is_lost(x->enc))
		return;
	if (insn->op == FLOW_MOV_CR3) {
		/* CR3 in bits 5 to 51, from bit 1 on behind NR. */
		value &= UINT64_C(0xfffffffffffe0);
		ptm_store_le(b + 2, value >> 5 << 1, 6);
		ev.value = value;
		s = splice(x, b, 8);
		s->n_alone = 0;
		s->event = tell(x, x->t->ips.n, &ev);
		return;
	}
	ev = (struct ptm_event){.kind = PTM_EV_PTWRITE,
				.flags = PTM_EVF_HAS_IP,
				.arg = 8,
				.ip = insn->ip,
				.value = value};
	b[1] = 0xb2; /* with the IP bit, 8 bytes */
	ptm_store_le(b + 2, value, 8);
	s = splice(x, b, 10);
	s->ip = insn->ip;
	b[1] = 0x32;
	memcpy(s->alone + s->n_alone, b, 10);
	s->n_alone = (uint8_t)(s->n_alone + 10);
	/* With or without a FUP: behind the instruction. */
	s->event = tell(x, x->t->ips.n, &ev);
}

/* Did the flow pass @ip since the last packet?  Then a TIP.PGD with that address would mean that
 * time.
 */
static bool was_passed(const struct exec *x, uint64_t ip)
{
	for (size_t i = x->since; i < x->t->ips.n; i++)
		if (x->t->ips.v[i] == ip)
			return true;
	return false;
}

/* Tracing by IP ends where the branch goes, for a while. */
static void leave_to(struct exec *x, uint32_t next)
{
	const uint64_t ip = ip_of(x, next);

	tell(x, x->t->ips.n,
	     &(struct ptm_event){.kind = PTM_EV_DISABLED, .flags = PTM_EVF_HAS_TO, .to = ip});
	ptm_enc_off_to(x->enc, ip);
}

static void leave(struct exec *x)
{
	tell(x, x->t->ips.n, &(struct ptm_event){.kind = PTM_EV_DISABLED});
	ptm_enc_off(x->enc);
}

/* Packets go on. */
static void enter(struct exec *x, uint32_t next)
{
	ptm_enc_pass(x->enc, flow_pick(x->r, 1000));
	tell(x, x->t->ips.n,
	     &(struct ptm_event){
		     .kind = PTM_EV_ENABLED, .flags = PTM_EVF_HAS_IP, .ip = ip_of(x, next)});
	ptm_enc_on(x->enc, ip_of(x, next), x->prog->bits);
	x->deferred = false;
}

/* The next instruction, by the program's choice; the call stack follows. */
static uint32_t follow(struct exec *x, const struct flow_insn *insn, bool *taken)
{
	const uint32_t i = x->at;

	switch ((enum flow_op)insn->op) {
	case FLOW_COND:
		/* Either way it is the next one: told as not taken. */
		*taken = flow_pick(x->r, 5) < 3 && insn->target != i + 1;
		return *taken ? insn->target : i + 1;
	case FLOW_JUMP:
		return insn->target;
	case FLOW_CALL:
		if (insn->target != i + 1 || flow_one_in(x->r, 2))
			push(x, i + 1);
		return insn->target;
	case FLOW_CALL_INDIRECT:
		push(x, i + 1);
		return any_insn(x);
	case FLOW_JUMP_INDIRECT:
	case FLOW_FAR_JUMP:
		return any_insn(x);
	case FLOW_RET:
	case FLOW_FAR_RETURN:
		return pop(x);
	case FLOW_FAR_CALL:
	case FLOW_TRAP:
	case FLOW_SYSCALL:
	case FLOW_PLAIN:
	case FLOW_PTWRITE:
	case FLOW_MOV_CR3:
		break;
	}
	return i + 1;
}

/* Tell the encoder of a branch that stays traced. */
static void branch(struct exec *x, const struct flow_insn *insn, uint32_t next, bool taken)
{
	const uint64_t behind = insn->ip + insn->len, to = ip_of(x, next);

	switch ((enum flow_op)insn->op) {
	case FLOW_COND:
		ptm_enc_cond(x->enc, taken);
		break;
	case FLOW_CALL:
		ptm_enc_call(x->enc, behind, to);
		break;
	case FLOW_CALL_INDIRECT:
		ptm_enc_call_indirect(x->enc, behind, to);
		break;
	case FLOW_RET:
		ptm_enc_ret(x->enc, to);
		break;
	case FLOW_JUMP_INDIRECT:
		ptm_enc_indirect(x->enc, to);
		break;
	default:
		break;
	}
	note_deferred(x, insn->op == FLOW_CALL_INDIRECT || insn->op == FLOW_JUMP_INDIRECT);
}

/* Far transfers, and branches out of what is traced.  Returns false if @insn is none of them. */
static bool far_or_out(struct exec *x, const struct flow_insn *insn, uint32_t next)
{
	switch ((enum flow_op)insn->op) {
	case FLOW_PLAIN:
	case FLOW_PTWRITE:
	case FLOW_MOV_CR3:
		return false;
	case FLOW_FAR_CALL:
	case FLOW_FAR_JUMP:
	case FLOW_FAR_RETURN:
		if (flow_one_in(x->r, 2)) {
			ptm_enc_indirect(x->enc, ip_of(x, next));
			note_deferred(x, true);
			return true;
		}
		leave(x);
		break;
	case FLOW_SYSCALL:
	case FLOW_TRAP:
		leave(x);
		break;
	default:
		if (!flow_one_in(x->r, 150) || next == x->at + 1 || was_passed(x, ip_of(x, next)))
			return false;
		leave_to(x, next);
		break;
	}
	enter(x, next);
	return true;
}

static void step(struct exec *x)
{
	const struct flow_insn *insn;
	bool taken = false;
	uint32_t next;

	if (flow_one_in(x->r, 250))
		state_event(x);
	if (flow_one_in(x->r, 200)) {
		if (flow_one_in(x->r, 2))
			handler(x);
		else
			interrupt(x);
	}
	insn = &x->prog->insns[x->at];
	/* Its packet would have to stand behind TIPs that nobody can take out of the encoder. */
	if (x->deferred && (insn->op == FLOW_PTWRITE || insn->op == FLOW_MOV_CR3))
		interrupt(x);
	/* A TIP.PGD without an address would bind to the MOV CR3. */
	if (x->cr3 && insn->op >= FLOW_FAR_CALL)
		interrupt(x);
	next = follow(x, insn, &taken);
	if (!ptm_enc_is_lost(x->enc))
		NEED(ptm_vec_push(&x->t->ips, insn->ip));
	if (insn->op == FLOW_PTWRITE || insn->op == FLOW_MOV_CR3)
		bound(x, insn);
	if (!far_or_out(x, insn, next))
		branch(x, insn, next, taken);
	x->at = next;
	x->cr3 |= insn->op == FLOW_MOV_CR3;
	if (insn->op >= FLOW_COND && insn->op != FLOW_JUMP && insn->op != FLOW_CALL)
		settle(x);
	ptm_enc_point(x->enc, ip_of(x, next), 1);
	note_deferred(x, false);
}

/* A splice at its place: last-IP of the encoder's bytes before it is @last_ip. */
static void put_splice(struct exec *x, const struct splice *s, uint64_t last_ip)
{
	const bool fup = s->ip != 0 && s->ip >> 16 == last_ip >> 16;
	const bool with = s->ip == 0 || fup;
	const unsigned n = with ? s->n : s->n_alone;
	uint8_t b[3] = {OP_FUP | 1U << 5};
	struct flow_event *e = s->event != SIZE_MAX ? &x->t->events.v[s->event] : NULL;

	NEED(ptm_vec_reserve(&x->t->trace, n + 3));
	memcpy(x->t->trace.v + x->t->trace.n, with ? s->bytes : s->alone, n);
	x->t->trace.n += n;
	if (fup) {
		ptm_store_le(b + 1, s->ip, 2);
		memcpy(x->t->trace.v + x->t->trace.n, b, 3);
		x->t->trace.n += 3;
	} else if (s->ip != 0 && e != NULL && e->ev.kind != PTM_EV_PTWRITE) {
		/* Without a FUP only PTW is there at all. */
		e->ev.kind = PTM_EV_GAP;
	}
}

/* Events that got lost on the way have the kind of a gap. */
static void drop_events(struct flow_truth *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->events.n; i++)
		if (t->events.v[i].ev.kind != PTM_EV_GAP)
			t->events.v[n++] = t->events.v[i];
	t->events.n = n;
}

/* The trace: the encoder's bytes with the splices among them.  Moves the offsets of PSBs. */
static void merge(struct exec *x)
{
	struct flow_truth *t = x->t;
	struct ptm_lexer lx;
	struct ptm_pkt pkt;
	size_t next = 0, psb = 0;

	ptm_lexer_init(&lx, x->bytes.v, x->bytes.n);
	for (;;) {
		size_t pos = (size_t)(lx.pos - x->bytes.v);

		for (; next < x->splices.n && x->splices.v[next].at == pos; next++)
			put_splice(x, &x->splices.v[next], lx.last_ip);
		if (psb < t->psbs.n && t->psbs.v[psb].offset == pos)
			t->psbs.v[psb++].offset = t->trace.n;
		if (ptm_lex_next(&lx, &pkt) != PTM_LEX_OK)
			break;
		NEED(ptm_vec_reserve(&t->trace, pkt.size));
		memcpy(t->trace.v + t->trace.n, x->bytes.v + pos, pkt.size);
		t->trace.n += pkt.size;
	}
	NEED(lx.pos == lx.end && next == x->splices.n && psb == t->psbs.n);
	drop_events(t);
}

void flow_exec(const struct flow_prog *prog, struct flow_rand *r, struct flow_truth *truth)
{
	static struct exec x;
	uint32_t n;

	x = (struct exec){.prog = prog, .r = r, .t = truth};
	truth->trace.n = truth->ips.n = truth->psbs.n = truth->events.n = 0;
	choose_options(&x, &truth->config);
	n = 20U << flow_pick(r, 9);
	x.enc = ptm_enc_create(&truth->config, on_write, &x, on_mark, &x);
	NEED(x.enc != NULL);
	x.quick = ptm_enc_quick(x.enc);
	ptm_enc_start(x.enc, 0);
	x.at = prog->entries[0];
	enter(&x, x.at);
	ptm_enc_point(x.enc, ip_of(&x, x.at), 0);
	while (n-- > 0)
		step(&x);
	tell(&x, truth->ips.n,
	     &(struct ptm_event){.kind = PTM_EV_ASYNC_DISABLED,
				 .flags = PTM_EVF_HAS_IP,
				 .ip = ip_of(&x, x.at)});
	ptm_enc_async_off(x.enc, ip_of(&x, x.at));
	NEED(ptm_enc_finish(x.enc) == 0);
	ptm_enc_destroy(x.enc);
	merge(&x);
	free(x.bytes.v);
	free(x.splices.v);
}

void flow_truth_fini(struct flow_truth *truth)
{
	free(truth->trace.v);
	free(truth->ips.v);
	free(truth->psbs.v);
	free(truth->events.v);
	*truth = (struct flow_truth){0};
}
