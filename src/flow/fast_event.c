/* SPDX-License-Identifier: Apache-2.0
 *
 * fast_event.c - packets that are not the flow itself: software, power, event trace, blocks,
 * paging.
 *
 * Some name their place by the FUP that follows, some bind to the next instruction of their kind,
 * some stand where they are (SDM vol. 3, ch. Intel PT, "Packet Generation" and the tables of each
 * packet).
 */
#include "flow/fast.h"

int ptm_fast_emit(struct ptm_fast *f, struct ptm_event *ev)
{
	ev->offset = f->frame->offset + f->at;
	if (f->has_tsc) {
		ev->flags |= PTM_EVF_HAS_TSC;
		ev->tsc = f->tsc;
		if (f->timed)
			(void)ptm_time_now(&f->time, &ev->tsc);
	}
	return ptm_emit_event(f->emit, ev, f->err);
}

static bool is_status(unsigned kind)
{
	return kind == PTM_PKT_PIP || kind == PTM_PKT_VMCS || kind == PTM_PKT_MODE_EXEC ||
	       kind == PTM_PKT_MODE_TSX || kind == PTM_PKT_MNT;
}

unsigned ptm_fast_peek(const struct ptm_fast *f, unsigned skip)
{
	struct ptm_lexer lx = f->lx;
	unsigned status = 0;
	struct ptm_pkt pkt;

	while (ptm_errata_lex(&f->errata, &lx, &pkt) == PTM_LEX_OK) {
		if (pkt.kind == PTM_PKT_PAD || ptm_pkt_is_time(pkt.kind))
			continue;
		/* Bounded, so that a frame full of these takes no more than linear time. */
		if (is_status(pkt.kind) && status++ < PTM_FUP_EVENTS)
			continue;
		if (skip == 0)
			return pkt.kind;
		skip--;
	}
	return PTM_PKT_KINDS;
}

int ptm_fast_mode(struct ptm_fast *f, uint64_t ip)
{
	static const uint16_t bits[] = {[PTM_MODE_64] = 64, [PTM_MODE_32] = 32, [PTM_MODE_16] = 16};
	struct ptm_event ev = {.kind = PTM_EV_EXEC_MODE, .flags = PTM_EVF_HAS_IP, .ip = ip};

	if (!f->mode_pending)
		return 0;
	f->mode_pending = false;
	ev.arg = bits[f->mode];
	return ptm_fast_emit(f, &ev);
}

/* Keep @ev until a FUP says where. */
static int wait_for_fup(struct ptm_fast *f, const struct ptm_event *ev)
{
	if (f->nfup_events == PTM_FUP_EVENTS)
		PTM_TRY(ptm_fast_unbind(f));
	f->fup_events[f->nfup_events++] = *ev;
	return 0;
}

int ptm_fast_unbind(struct ptm_fast *f)
{
	const unsigned n = f->nfup_events;

	f->nfup_events = 0;
	f->fup_shared = false;
	for (unsigned i = 0; i < n; i++)
		PTM_TRY(ptm_fast_emit(f, &f->fup_events[i]));
	return 0;
}

int ptm_fast_tell_later(struct ptm_fast *f)
{
	const unsigned n = f->nlater;

	f->nlater = 0;
	for (unsigned i = 0; i < n; i++)
		PTM_TRY(ptm_fast_emit(f, &f->later[i]));
	return 0;
}

static int keep(struct ptm_fast *f, struct ptm_event *ev)
{
	if (f->nlater == PTM_FUP_EVENTS)
		return ptm_fast_emit(f, ev);
	f->later[f->nlater++] = *ev;
	return 0;
}

static bool is_abort(const struct ptm_event *ev)
{
	return ev->kind == PTM_EV_TSX && (ev->arg & 2) != 0;
}

/* Walk to the place of @ev, or lose the flow. */
static int walk_to(struct ptm_fast *f, const struct ptm_event *ev, const struct ptm_stop *stop)
{
	bool found;

	PTM_TRY(ptm_walk_until(&f->walk, stop, &found));
	if (found)
		return 0;
	/* BDM64: the branch before the abort had a wrong target; it went where the abort is. */
	if (f->errata.bdm64 && is_abort(ev))
		return ptm_walk_goto(&f->walk, stop->ip);
	return ptm_walk_lose(&f->walk, PTM_GAP_MISMATCH);
}

int ptm_fast_bind(struct ptm_fast *f, uint64_t ip)
{
	const unsigned n = f->nfup_events;

	f->nfup_events = 0;
	f->fup_shared = false;
	for (unsigned i = 0; i < n; i++) {
		struct ptm_event *ev = &f->fup_events[i];
		/* PTW stands behind its PTWRITE, the others before the instruction. */
		const bool ptw = ev->kind == PTM_EV_PTWRITE;
		const struct ptm_stop stop = {.how = ptw ? PTM_STOP_BEHIND : PTM_STOP_AT,
					      .ip = ip,
					      .binds = ptw ? 1u << PTM_BINDS_PTWRITE : 0};

		ev->flags |= PTM_EVF_HAS_IP;
		ev->ip = ip;
		if (f->walk.on) {
			int status = walk_to(f, ev, &stop);

			if (status != 0)
				return status;
		}
		PTM_TRY(ptm_fast_emit(f, ev));
	}
	return 0;
}

/* An event that binds to the next instruction of a kind, behind it.  A VM entry also needs a TIP,
 * behind which it is told then.  If the flow does not come by one before it needs a packet, it is
 * told where the flow stands. */
static int bind_to_insn(struct ptm_fast *f, struct ptm_event *ev, unsigned binds)
{
	const struct ptm_stop stop = {.how = PTM_STOP_BINDS, .binds = binds};
	struct ptm_walk *w = &f->walk;
	bool found;

	if (w->on && w->nbits == 0) {
		PTM_TRY(ptm_walk_until(w, &stop, &found));
		if (!found && (w->nodes[w->probe].binds >> PTM_BINDS_VMENTRY & 1) != 0)
			return keep(f, ev);
	}
	return ptm_fast_emit(f, ev);
}

static int ptwrite(struct ptm_fast *f, const struct ptm_pkt *pkt)
{
	const struct ptm_stop stop = {.how = PTM_STOP_BINDS, .binds = 1u << PTM_BINDS_PTWRITE};
	struct ptm_event ev = {.kind = PTM_EV_PTWRITE, .value = pkt->payload, .arg = pkt->n};

	if (pkt->fup_follows)
		return wait_for_fup(f, &ev);
	if (f->walk.on) {
		int status = walk_to(f, &ev, &stop);

		if (status != 0)
			return status;
		ev.flags = PTM_EVF_HAS_IP;
		ev.ip = f->walk.passed;
	}
	return ptm_fast_emit(f, &ev);
}

/* PIP and VMCS: behind the MOV CR3, VMPTRLD or VM entry that they belong to; within an asynchronous
 * event, with it. */
static int paging(struct ptm_fast *f, const struct ptm_pkt *pkt)
{
	const bool pip = pkt->kind == PTM_PKT_PIP;
	struct ptm_event ev = {.kind = pip ? PTM_EV_PAGING : PTM_EV_VMCS, .value = pkt->payload};

	if (pip)
		ev.arg = pkt->type;
	if (!f->async)
		return bind_to_insn(f, &ev, 1u << (pip ? PTM_BINDS_MOV_CR3 : PTM_BINDS_VMPTRLD));
	ev.kind = pip ? PTM_EV_ASYNC_PAGING : PTM_EV_ASYNC_VMCS;
	return keep(f, &ev);
}

static int tsx(struct ptm_fast *f, const struct ptm_pkt *pkt)
{
	struct ptm_event ev = {.kind = PTM_EV_TSX, .arg = pkt->type};

	if (ptm_fast_peek(f, 0) != PTM_PKT_FUP)
		return ptm_fast_emit(f, &ev);
	PTM_TRY(wait_for_fup(f, &ev));
	f->fup_shared |= is_abort(&ev);
	return 0;
}

static int power(struct ptm_fast *f, const struct ptm_pkt *pkt)
{
	struct ptm_event ev = {.kind = PTM_EV_EXSTOP};

	switch (pkt->kind) {
	case PTM_PKT_MWAIT:
		ev.kind = PTM_EV_MWAIT;
		ev.value = pkt->payload | (uint64_t)pkt->type << 32;
		return f->walk.on || f->enabled ? wait_for_fup(f, &ev) : ptm_fast_emit(f, &ev);
	case PTM_PKT_PWRE:
		ev.kind = PTM_EV_PWRE;
		ev.value = (uint64_t)(pkt->type >> 4) | (uint64_t)(pkt->type & 15) << 8 |
			   (uint64_t)pkt->aux << 16;
		return ptm_fast_emit(f, &ev);
	case PTM_PKT_PWRX:
		ev.kind = PTM_EV_PWRX;
		ev.value = (uint64_t)(pkt->type & 15) | (uint64_t)(pkt->type >> 4) << 8 |
			   (uint64_t)pkt->aux << 16;
		return ptm_fast_emit(f, &ev);
	default:
		return pkt->fup_follows ? wait_for_fup(f, &ev) : ptm_fast_emit(f, &ev);
	}
}

/* Event Trace.  EVD belongs to the CFE behind it; a CFE has a FUP of its own if it says so, else it
 * shares that of an asynchronous event, or has none (SDM vol. 3, ch. Intel PT, "Event Trace"). */
static int event_trace(struct ptm_fast *f, const struct ptm_pkt *pkt)
{
	struct ptm_event ev = {.kind = PTM_EV_EVD, .arg = pkt->type, .value = pkt->payload};

	if (pkt->kind == PTM_PKT_EVD)
		return wait_for_fup(f, &ev);
	ev.kind = PTM_EV_CFE;
	ev.value = pkt->aux;
	PTM_TRY(wait_for_fup(f, &ev));
	if (pkt->fup_follows)
		return 0;
	if (!f->walk.on && !f->enabled)
		return ptm_fast_unbind(f);
	switch (ptm_fast_peek(f, 0)) {
	case PTM_PKT_FUP:
		f->fup_shared = true;
		return 0;
	case PTM_PKT_TIP:
	case PTM_PKT_TIP_PGD: /* of IRET, a VM entry */
		for (unsigned i = 0; i < f->nfup_events; i++)
			PTM_TRY(keep(f, &f->fup_events[i]));
		f->nfup_events = 0;
		return 0;
	default:
		return ptm_fast_unbind(f);
	}
}

/* PEBS via PT, and triggers. */
static int trace(struct ptm_fast *f, const struct ptm_pkt *pkt)
{
	struct ptm_event ev = {.arg = pkt->type, .value = pkt->payload};

	switch (pkt->kind) {
	case PTM_PKT_BBP:
		ev.kind = PTM_EV_BLOCK_BEGIN;
		ev.value = pkt->n;
		break;
	case PTM_PKT_BIP:
		ev.kind = PTM_EV_BLOCK_ITEM;
		break;
	case PTM_PKT_BEP:
		ev.kind = PTM_EV_BLOCK_END;
		break;
	default:
		ev.kind = PTM_EV_TRIGGER;
		ev.value = pkt->payload | (uint64_t)pkt->aux << 8;
		break;
	}
	return pkt->fup_follows ? wait_for_fup(f, &ev) : ptm_fast_emit(f, &ev);
}

int ptm_fast_event(struct ptm_fast *f, const struct ptm_pkt *pkt)
{
	struct ptm_event ev = {.value = pkt->payload};

	switch (pkt->kind) {
	case PTM_PKT_CBR:
		ev = (struct ptm_event){.kind = PTM_EV_CBR, .arg = (uint16_t)pkt->payload};
		return ptm_fast_emit(f, &ev);
	case PTM_PKT_MNT:
		ev.kind = PTM_EV_MNT;
		return ptm_fast_emit(f, &ev);
	case PTM_PKT_STOP:
		ev.kind = PTM_EV_STOP;
		return ptm_fast_emit(f, &ev);
	case PTM_PKT_PTW:
		return ptwrite(f, pkt);
	case PTM_PKT_PIP:
	case PTM_PKT_VMCS:
		return paging(f, pkt);
	case PTM_PKT_MODE_TSX:
		return tsx(f, pkt);
	case PTM_PKT_MWAIT:
	case PTM_PKT_EXSTOP:
	case PTM_PKT_PWRE:
	case PTM_PKT_PWRX:
		return power(f, pkt);
	case PTM_PKT_CFE:
	case PTM_PKT_EVD:
		return event_trace(f, pkt);
	case PTM_PKT_BBP:
	case PTM_PKT_BIP:
	case PTM_PKT_BEP:
	case PTM_PKT_TRIG:
		return trace(f, pkt);
	default:
		return 0;
	}
}
