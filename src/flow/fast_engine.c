/* SPDX-License-Identifier: Apache-2.0
 *
 * fast_engine.c - the fast engine: packets drive a walk over cached nodes.
 *
 * Each PSB frame is decoded from a cold state.  Packets are taken one by one; TNT bits are used up
 * at once, but for those behind an indirect branch whose TIP is deferred, so that every other
 * packet finds the flow where it belongs.  Where packets and code do not fit together the flow is
 * lost: what is skipped becomes a gap up to the next PSB, or up to the next packet of the frame
 * that states a sure IP (PTM_RESYNC_IP), and what is decoded behind that is marked as less certain.
 */
#include "flow/fast.h"

#include "os/rcu.h"

#include <stdlib.h>
#include <string.h>

static enum ptm_mode exec_mode(unsigned type)
{
	/* CS.L wins: CS.D is 0 then (SDM vol. 3, ch. Intel PT, "MODE.Exec"). */
	return (type & 1) != 0 ? PTM_MODE_64 : (type & 2) != 0 ? PTM_MODE_32 : PTM_MODE_16;
}

/* The flow begins: which space is it in now? */
static int enter_space(struct ptm_fast *f, bool has_tsc, uint64_t tsc)
{
	const struct ptm_timeline *images = &f->stream->images;

	return ptm_walk_space(&f->walk, has_tsc ? ptm_timeline_at(images, tsc) : images->first);
}

/* An IP packet takes a waiting MODE.Exec with it. */
static int go_to(struct ptm_fast *f, uint64_t ip)
{
	if (f->mode_pending)
		f->walk.mode = f->mode;
	if (f->stream->notnt) {
		f->enabled = true;
		return 0;
	}
	return ptm_walk_goto(&f->walk, ip);
}

/* Packets are off. */
static void go_off(struct ptm_fast *f)
{
	ptm_walk_stop(&f->walk);
	f->enabled = false;
}

static int tell(struct ptm_fast *f, enum ptm_event_kind kind, uint8_t flags, uint64_t ip,
		uint64_t to)
{
	struct ptm_event ev = {.kind = (uint8_t)kind, .flags = flags, .ip = ip, .to = to};

	return ptm_fast_emit(f, &ev);
}

/* The flow goes on at @ip after an overflow. */
static int resume_overflow(struct ptm_fast *f, uint64_t ip)
{
	f->overflow = false;
	PTM_TRY(tell(f, PTM_EV_OVERFLOW, PTM_EVF_HAS_IP, ip, 0));
	PTM_TRY(go_to(f, ip));
	return ptm_fast_mode(f, ip);
}

static int take_tnt(struct ptm_fast *f, const struct ptm_pkt *pkt)
{
	struct ptm_walk *w = &f->walk;

	if (f->stream->notnt)
		return 0; /* without code a bit says nothing */
	if (!w->on)
		return ptm_walk_lost(w, PTM_GAP_MISMATCH);
	/* Bits are left over behind an indirect branch: its TIP is due. */
	if (w->nbits > 0)
		return ptm_walk_lose(w, PTM_GAP_MISMATCH);
	w->bits = pkt->payload;
	w->nbits = pkt->n;
	return ptm_walk_bits(w);
}

/* TIP or TIP.PGD that completes what a FUP began. */
static int end_async(struct ptm_fast *f, const struct ptm_pkt *pkt)
{
	const bool off = pkt->kind == PTM_PKT_TIP_PGD;

	f->async = false;
	if (!off && !pkt->has_ip)
		return ptm_walk_lost(&f->walk, PTM_GAP_MISMATCH);
	PTM_TRY(tell(f, off ? PTM_EV_ASYNC_DISABLED : PTM_EV_ASYNC_BRANCH,
		     (uint8_t)(PTM_EVF_HAS_IP | (pkt->has_ip ? PTM_EVF_HAS_TO : 0)), f->async_ip,
		     pkt->ip));
	if (off) {
		go_off(f);
		f->off_known = true;
		f->off_ip = f->async_ip;
	} else {
		PTM_TRY(go_to(f, pkt->ip));
		PTM_TRY(ptm_fast_mode(f, pkt->ip));
	}
	/* They hold from where it went. */
	for (unsigned i = 0; i < f->nlater && pkt->has_ip; i++) {
		f->later[i].flags |= PTM_EVF_HAS_IP;
		f->later[i].ip = pkt->ip;
	}
	return ptm_fast_tell_later(f);
}

/* A target in a trace without TNT packets. */
static int tell_target(struct ptm_fast *f, const struct ptm_pkt *pkt)
{
	if (!pkt->has_ip)
		return ptm_walk_lost(&f->walk, PTM_GAP_MISMATCH);
	PTM_TRY(go_to(f, pkt->ip));
	PTM_TRY(tell(f, PTM_EV_TARGET, PTM_EVF_HAS_IP, pkt->ip, 0));
	PTM_TRY(ptm_fast_mode(f, pkt->ip));
	return ptm_fast_tell_later(f);
}

static int take_tip(struct ptm_fast *f, const struct ptm_pkt *pkt)
{
	struct ptm_walk *w = &f->walk;
	enum ptm_mode before = w->mode;
	int status;

	if (f->async)
		return end_async(f, pkt);
	if (f->overflow && f->errata.skd010 && pkt->has_ip)
		return resume_overflow(f, pkt->ip);
	if (f->stream->notnt)
		return tell_target(f, pkt);
	if (!w->on)
		return ptm_walk_lost(w, PTM_GAP_MISMATCH);
	if (!pkt->has_ip)
		return ptm_walk_lose(w, PTM_GAP_MISMATCH);
	status = ptm_walk_tip(w, pkt->ip);
	if (status != 0)
		return status;
	if (f->mode_pending && f->mode != before)
		PTM_TRY(go_to(f, pkt->ip));
	PTM_TRY(ptm_fast_mode(f, pkt->ip));
	PTM_TRY(ptm_fast_tell_later(f));
	return ptm_walk_bits(w);
}

static int take_pge(struct ptm_fast *f, const struct ptm_pkt *pkt)
{
	struct ptm_walk *w = &f->walk;
	bool resumed = f->off_known && f->off_ip == pkt->ip;
	bool has_tsc = f->has_tsc;
	uint64_t tsc = f->tsc;

	if (w->on || f->enabled || !pkt->has_ip)
		return ptm_walk_lost(w, PTM_GAP_MISMATCH);
	if (f->timed)
		has_tsc = ptm_time_now(&f->time, &tsc);
	f->overflow = false;
	f->off_known = false;
	PTM_TRY(enter_space(f, has_tsc, tsc));
	PTM_TRY(tell(f, resumed ? PTM_EV_RESUMED : PTM_EV_ENABLED, PTM_EVF_HAS_IP, pkt->ip, 0));
	PTM_TRY(go_to(f, pkt->ip));
	return ptm_fast_mode(f, pkt->ip);
}

/* TIP.PGD of the flow's own making: without an IP at MOV CR3 or at what needs a packet, with one
 * also where the flow arrives there. */
static int find_off(struct ptm_fast *f, const struct ptm_pkt *pkt)
{
	struct ptm_walk *w = &f->walk;
	const struct ptm_stop at = {.how = PTM_STOP_AT, .ip = pkt->ip};
	const struct ptm_stop cr3 = {.how = PTM_STOP_BINDS, .binds = 1u << PTM_BINDS_MOV_CR3};
	unsigned klass;
	uint64_t next;
	bool found;
	int status;

	PTM_TRY(ptm_walk_until(w, pkt->has_ip ? &at : &cr3, &found));
	f->off_known = true;
	f->off_ip = pkt->has_ip ? pkt->ip : w->nodes[w->at].ip;
	if (found)
		return 0;
	status = ptm_walk_end(w, &klass, &next);
	if (status != 0)
		return status;
	/* From a call it goes on behind it. */
	if (klass == PTM_INSN_CALL_INDIRECT || klass == PTM_INSN_FAR_CALL)
		f->off_ip = next;
	else
		f->off_known = pkt->has_ip;
	return 0;
}

/* SKD022: a VM entry that clears TraceEn has a FUP before its TIP.PGD, but is no asynchronous
 * event.
 */
static bool is_vm_entry(const struct ptm_fast *f)
{
	const struct ptm_node *node = &f->walk.nodes[f->walk.at];

	return f->errata.skd022 && f->walk.on && node->n == 1 &&
	       (node->binds >> PTM_BINDS_VMENTRY & 1) != 0;
}

static int take_pgd(struct ptm_fast *f, const struct ptm_pkt *pkt)
{
	struct ptm_walk *w = &f->walk;
	int status = 0;

	if (f->async && !is_vm_entry(f))
		return end_async(f, pkt);
	f->async = false;
	if (f->overflow) { /* resolved with packets disabled */
		f->overflow = false;
		return 0;
	}
	if (!w->on && !f->enabled)
		return ptm_walk_lost(w, PTM_GAP_MISMATCH);
	if (w->nbits > 0)
		return ptm_walk_lose(w, PTM_GAP_MISMATCH);
	if (w->on)
		status = find_off(f, pkt);
	if (status != 0)
		return status;
	go_off(f);
	PTM_TRY(tell(f, PTM_EV_DISABLED, pkt->has_ip ? PTM_EVF_HAS_TO : 0, 0, pkt->ip));
	return ptm_fast_tell_later(f);
}

/* Walk to where a FUP says.  Some CPUs give the address behind a branch that is not taken yet: only
 * where the flow stands at one is that another place than the address itself. */
static int walk_to_fup(struct ptm_fast *f, uint64_t ip, bool *found)
{
	struct ptm_stop stop = {.how = PTM_STOP_AT, .ip = ip};
	struct ptm_walk *w = &f->walk;
	const struct ptm_node *node;

	PTM_TRY(ptm_walk_until(w, &stop, found));
	if (*found || !f->errata.nlip)
		return 0;
	node = &w->nodes[w->probe];
	if (node->klass >= PTM_NODE_MORE || node->klass == PTM_INSN_COND || node->next != ip)
		return 0;
	stop.ip = ptm_node_last(node);
	return ptm_walk_until(w, &stop, found);
}

/* A FUP: the place of events that wait for one, else where an asynchronous event hit. */
static int take_fup(struct ptm_fast *f, const struct ptm_pkt *pkt)
{
	struct ptm_walk *w = &f->walk;
	bool found = true, bound = f->nfup_events > 0, shared = f->fup_shared;

	if (f->stray_fup) {
		f->stray_fup = false;
		return 0;
	}
	if (!pkt->has_ip)
		return ptm_walk_lost(w, PTM_GAP_MISMATCH);
	if (f->overflow)
		return resume_overflow(f, pkt->ip);
	if (!w->on && !f->enabled && !bound)
		return ptm_walk_lost(w, PTM_GAP_MISMATCH);
	if (w->nbits > 0)
		return ptm_walk_lose(w, PTM_GAP_MISMATCH);
	if (bound) {
		int status = ptm_fast_bind(f, pkt->ip);

		if (status != 0 || !shared)
			return status;
	} else if (w->on) {
		PTM_TRY(walk_to_fup(f, pkt->ip, &found));
		if (!found)
			return ptm_walk_lose(w, PTM_GAP_MISMATCH);
	}
	f->async = true;
	f->async_ip = pkt->ip;
	return 0;
}

/* Is the OVF under way the last packet of its frame, and its resume IP told behind the next PSB+?
 */
static bool told_behind_psb(const struct ptm_fast *f)
{
	const struct ptm_psbplus *next = f->frame->next;

	if (f->cut_cyc || next == NULL || !next->fup_first || next->on ||
	    f->frame->len - f->at > PTM_OVF_LOOK)
		return false;
	return ptm_frame_rest_is_time(f->frame, &f->lx);
}

/* OVF: what was under way is gone, and where the flow goes on is told by a FUP or TIP.PGE (SDM vol.
 * 3, ch. Intel PT, "OVF").  The last IP stays. */
static int take_ovf(struct ptm_fast *f)
{
	struct ptm_walk *w = &f->walk;
	unsigned next;

	w->nbits = 0;
	PTM_TRY(ptm_fast_unbind(f));
	PTM_TRY(ptm_fast_tell_later(f));
	go_off(f);
	ptm_walk_empty_stack(w);
	f->async = false;
	f->off_known = false;
	f->stray_fup = false;
	f->overflow = true;
	if (told_behind_psb(f))
		return 0;
	next = ptm_fast_peek(f, 0);
	/* APL12: packets are off nevertheless, for they are about to be enabled. */
	f->stray_fup =
		next == PTM_PKT_FUP && f->errata.apl12 && ptm_fast_peek(f, 1) == PTM_PKT_TIP_PGE;
	if ((next == PTM_PKT_FUP && !f->stray_fup) || (next == PTM_PKT_TIP && f->errata.skd010))
		return 0;
	f->overflow = next == PTM_PKT_TIP_PGD;
	return tell(f, PTM_EV_OVERFLOW, 0, 0, 0);
}

static bool is_flow(unsigned kind)
{
	return kind == PTM_PKT_TNT8 || kind == PTM_PKT_TNT64 || kind == PTM_PKT_TIP ||
	       kind == PTM_PKT_TIP_PGE || kind == PTM_PKT_TIP_PGD || kind == PTM_PKT_FUP;
}

/* A FUP was not followed by what an asynchronous event needs: it only told where the flow stands,
 * or where RFLAGS.IF changed. */
static int end_lone_fup(struct ptm_fast *f)
{
	f->async = false;
	if (f->mode_pending) {
		struct ptm_event ev = {.kind = PTM_EV_IFLAG,
				       .flags = PTM_EVF_HAS_IP,
				       .arg = f->iflag,
				       .ip = f->async_ip};

		f->mode_pending = false;
		PTM_TRY(ptm_fast_emit(f, &ev));
	}
	return ptm_fast_tell_later(f);
}

/* One packet of the flow or beside it. */
static int take(struct ptm_fast *f, const struct ptm_pkt *pkt)
{
	if (f->async && is_flow(pkt->kind) && pkt->kind != PTM_PKT_TIP &&
	    pkt->kind != PTM_PKT_TIP_PGD)
		PTM_TRY(end_lone_fup(f));
	/* The FUP that these wait for should have come. */
	if (f->nfup_events > 0 && is_flow(pkt->kind) && pkt->kind != PTM_PKT_FUP)
		PTM_TRY(ptm_fast_unbind(f));
	switch (pkt->kind) {
	case PTM_PKT_TNT8:
	case PTM_PKT_TNT64:
		return take_tnt(f, pkt);
	case PTM_PKT_TIP:
		return take_tip(f, pkt);
	case PTM_PKT_TIP_PGE:
		return take_pge(f, pkt);
	case PTM_PKT_TIP_PGD:
		return take_pgd(f, pkt);
	case PTM_PKT_FUP:
		return take_fup(f, pkt);
	case PTM_PKT_OVF:
		return take_ovf(f);
	case PTM_PKT_MODE_EXEC:
		f->mode_pending = true;
		f->mode = exec_mode(pkt->type);
		f->iflag = pkt->type >> 2 & 1;
		return 0;
	default:
		return ptm_fast_event(f, pkt);
	}
}

/* PSB+ is over: here the flow begins, if packets are enabled. */
static int begin_flow(struct ptm_fast *f)
{
	f->in_psbplus = false;
	f->mode_pending = false;
	if (f->frame->ovf_pending && f->plus.fup_first && !f->plus.on)
		f->overflow = true;
	return f->plus.on ? go_to(f, f->plus.ip) : 0;
}

/* A packet of PSB+ says what is, not what happens. */
static int take_psbplus(struct ptm_fast *f, const struct ptm_pkt *pkt)
{
	switch (pkt->kind) {
	case PTM_PKT_PSBEND:
		return begin_flow(f);
	case PTM_PKT_MODE_EXEC:
		f->walk.mode = exec_mode(pkt->type);
		return 0;
	case PTM_PKT_OVF:
		f->in_psbplus = false;
		return take_ovf(f);
	case PTM_PKT_PAD:
	case PTM_PKT_PSB:
	case PTM_PKT_TSC:
	case PTM_PKT_TMA:
	case PTM_PKT_MTC:
	case PTM_PKT_CYC:
	case PTM_PKT_CBR:
	case PTM_PKT_MODE_TSX:
	case PTM_PKT_PIP:
	case PTM_PKT_VMCS:
	case PTM_PKT_MNT:
	case PTM_PKT_FUP:
		return 0;
	default:
		f->in_psbplus = false;
		memset(f->bytes, 0, sizeof(f->bytes));
		f->at = 0;
		return ptm_walk_lost(&f->walk, PTM_GAP_CONFIG);
	}
}

/* The flow is lost before the packet under way. */
static int begin_gap(struct ptm_fast *f)
{
	struct ptm_walk *w = &f->walk;

	f->lost = true;
	f->lost_at = f->at;
	f->gap = (struct ptm_event){.kind = PTM_EV_GAP,
				    .arg = (uint16_t)w->gap,
				    .flags = w->has_gap_ip ? PTM_EVF_HAS_IP : 0,
				    .ip = w->gap_ip};
	go_off(f);
	ptm_walk_empty_stack(w);
	f->nfup_events = 0;
	f->fup_shared = false;
	f->async = false;
	f->nlater = 0;
	f->overflow = false;
	f->stray_fup = false;
	f->off_known = false;
	return 0;
}

/* The gap ends before offset @end of the frame. */
static int end_gap(struct ptm_fast *f, size_t end)
{
	f->lost = false;
	f->gap.offset = f->frame->offset + f->lost_at;
	f->gap.value = end - f->lost_at;
	f->emit->tally.bytes[PTM_BYTES_SKIPPED] += f->gap.value;
	f->emit->tally.gaps[f->gap.arg]++;
	return ptm_emit_event(f->emit, &f->gap, f->err);
}

/* While the flow is lost: does @pkt say surely where it is?  The enable state and MODE.Exec are
 * kept up to date. */
static bool is_sure(struct ptm_fast *f, const struct ptm_pkt *pkt)
{
	bool full_tnt = f->behind_full_tnt;

	switch (pkt->kind) {
	case PTM_PKT_MODE_EXEC:
		f->mode_pending = false;
		f->walk.mode = exec_mode(pkt->type);
		return false;
	case PTM_PKT_TNT8:
		f->behind_full_tnt = pkt->n == 6;
		return false;
	case PTM_PKT_TNT64:
		f->behind_full_tnt = true;
		return false;
	case PTM_PKT_TIP:
		/* Behind a TNT that was full it may have been deferred, and bits that belong
		 * behind it are among those skipped. */
		return pkt->has_ip && !full_tnt;
	case PTM_PKT_FUP:
	case PTM_PKT_TIP_PGE:
		return pkt->has_ip;
	case PTM_PKT_OVF:
	case PTM_PKT_TIP_PGD:
		return true;
	default:
		return false;
	}
}

/* The packet under way ends a gap. */
static int find_again(struct ptm_fast *f, const struct ptm_pkt *pkt)
{
	PTM_TRY(end_gap(f, f->at));
	PTM_TRY(ptm_emit_certainty(f->emit, true, f->err));
	f->behind_full_tnt = false;
	switch (pkt->kind) {
	case PTM_PKT_FUP: /* of an event: the flow stands there */
		PTM_TRY(go_to(f, pkt->ip));
		return take(f, pkt);
	case PTM_PKT_TIP:
		return go_to(f, pkt->ip);
	case PTM_PKT_TIP_PGD:
		return tell(f, PTM_EV_DISABLED, pkt->has_ip ? PTM_EVF_HAS_TO : 0, 0, pkt->ip);
	default:
		return take(f, pkt);
	}
}

static void account(struct ptm_fast *f, const struct ptm_pkt *pkt)
{
	f->bytes[pkt->kind == PTM_PKT_PAD   ? PTM_BYTES_PADDING
		 : pkt->kind == PTM_PKT_OVF ? PTM_BYTES_OVERFLOW
					    : PTM_BYTES_DECODED] += pkt->size;
}

static void note_time(struct ptm_fast *f, const struct ptm_pkt *pkt)
{
	if (pkt->kind == PTM_PKT_TSC) {
		f->has_tsc = true;
		f->tsc = pkt->payload;
	}
	if (f->timed && !(pkt->kind == PTM_PKT_TMA && pkt->size == PTM_TMA_CORRUPT))
		ptm_time_packet(&f->time, pkt);
}

/* Frames may be long: ask whether anybody still waits. */
static bool is_canceled(struct ptm_fast *f)
{
	return ++f->npackets % PTM_CANCEL_PACKETS == 0 && f->cancel != NULL &&
	       atomic_load_explicit(f->cancel, memory_order_relaxed);
}

static int one_packet(struct ptm_fast *f, const struct ptm_pkt *pkt)
{
	const bool cut = f->cut_cyc;
	int status = 0;

	if (is_canceled(f))
		return PTM_FAIL(f->err, PTM_E_CANCELED, "Canceled");
	note_time(f, pkt);
	if (f->in_psbplus && f->plus.no_psbend && f->at == f->plus.end)
		PTM_TRY(begin_flow(f));
	if (!f->lost) {
		status = f->in_psbplus ? take_psbplus(f, pkt) : take(f, pkt);
		if (status == PTM_LOST)
			status = begin_gap(f);
		if (status < 0)
			return status;
	}
	if (f->lost && f->options.resync == PTM_RESYNC_IP && is_sure(f, pkt)) {
		status = find_again(f, pkt);
		if (status == PTM_LOST)
			status = begin_gap(f);
	}
	if (!f->lost)
		account(f, pkt);
	f->cut_cyc = pkt->kind == PTM_PKT_CYC && pkt->n != 0;
	f->cut_ovf = cut;
	return status;
}

/* The flow arrives at the IP that the next PSB+ states, or something is wrong. */
static int walk_seam(struct ptm_fast *f)
{
	const struct ptm_psbplus *next = f->frame->next;
	const struct ptm_stop stop = {.how = PTM_STOP_AT, .ip = next->ip};
	struct ptm_event gap = {.kind = PTM_EV_GAP,
				.arg = PTM_GAP_SEAM,
				.flags = PTM_EVF_HAS_IP | PTM_EVF_HAS_TO,
				.offset = f->frame->next_offset,
				.to = next->ip};
	bool found;

	PTM_TRY(ptm_walk_until(&f->walk, &stop, &found));
	if (found)
		return 0;
	gap.ip = ptm_walk_missed(&f->walk);
	f->emit->tally.gaps[PTM_GAP_SEAM]++;
	return ptm_emit_event(f->emit, &gap, f->err);
}

/* All packets are used up, or the bytes behind them are none. */
static int end_frame(struct ptm_fast *f, enum ptm_lex_status lexed)
{
	const struct ptm_frame *frame = f->frame;
	const size_t end = (size_t)(f->lx.pos - frame->data);
	int status = 0;

	f->at = end;
	if (!f->lost) {
		PTM_TRY(ptm_fast_unbind(f));
		if (f->async)
			PTM_TRY(end_lone_fup(f));
		if (f->walk.nbits > 0)
			status = ptm_walk_lose(&f->walk, PTM_GAP_MISMATCH);
		else if (f->walk.on && lexed == PTM_LEX_END && frame->next != NULL &&
			 frame->next->on)
			status = walk_seam(f);
		if (status == PTM_LOST)
			status = begin_gap(f);
		if (status < 0)
			return status;
	}
	if (f->lost && f->options.resync == PTM_RESYNC_PSB)
		return end_gap(f, frame->len);
	if (f->lost)
		PTM_TRY(end_gap(f, end));
	if (end == frame->len)
		return 0;
	f->emit->tally.bytes[PTM_BYTES_SKIPPED] += frame->len - end;
	return ptm_emit_gap(f->emit, lexed == PTM_LEX_BAD ? PTM_GAP_BAD_PACKET : PTM_GAP_TRUNCATED,
			    frame->offset + end, frame->len - end, NULL, f->err);
}

/* Take what the frame's own PSB+, or the user, says of its begin. */
static int begin_frame(struct ptm_fast *f, const struct ptm_frame *frame)
{
	const struct ptm_assume_sync *assume = frame->assume;
	const struct ptm_timing *timing = &f->stream->timing;

	memset(&f->frame, 0, sizeof(*f) - offsetof(struct ptm_fast, frame));
	f->frame = frame;
	f->plus = ptm_frame_psbplus(frame);
	ptm_frame_lexer(frame, frame->len, &f->lx);
	PTM_TRY(enter_space(f, f->plus.has_tsc, f->plus.tsc));
	if (f->plus.no_psbend)
		PTM_TRY(ptm_emit_gap(f->emit, PTM_GAP_CONFIG, frame->offset + f->plus.end, 0, NULL,
				     f->err));
	if (f->timed)
		ptm_time_init(&f->time, timing->mtc_freq, timing->nom_freq, timing->cpuid_0x15_eax,
			      timing->cpuid_0x15_ebx);
	f->in_psbplus = assume == NULL;
	if (assume == NULL)
		return 0;
	f->walk.mode = assume->bits == 64   ? PTM_MODE_64
		       : assume->bits == 32 ? PTM_MODE_32
					    : PTM_MODE_16;
	return begin_flow(f);
}

/* Is nothing under way but the flow itself, and does nobody want more than what edges know? */
static bool is_plain(const struct ptm_fast *f)
{
	const struct ptm_walk *w = &f->walk;

	return (f->options.want & (PTM_WANT_STEPS | PTM_WANT_TIME)) == 0 && f->nlater == 0 &&
	       f->stream->images.entries.n == 0 && w->on && w->nbits == 0 && !w->mixed &&
	       !f->in_psbplus && !f->lost && !f->async && !f->mode_pending && f->nfup_events == 0 &&
	       f->lx.block_item == 0 && f->lx.pos >= f->closely;
}

/* Take what the fast path can.  Returns 1 if that was something. */
static int take_stretch(struct ptm_fast *f)
{
	const uint8_t *begin = f->lx.pos;
	const struct ptm_stretch *s = &f->turbo.stretch;
	int status = ptm_turbo_run(&f->turbo, &f->walk, &f->lx);

	if (f->cancel != NULL && atomic_load_explicit(f->cancel, memory_order_relaxed))
		return PTM_FAIL(f->err, PTM_E_CANCELED, "Canceled");
	if (status == 0)
		f->closely = s->pos;
	if (status <= 0 || s->pos == begin)
		return status < 0 ? status : 0;
	f->bytes[PTM_BYTES_PADDING] += s->pads;
	f->bytes[PTM_BYTES_DECODED] += (uint64_t)(s->pos - begin) - s->pads;
	f->ovf_last &= s->n == 0;
	f->has_tsc |= s->has_tsc;
	f->tsc = s->has_tsc ? s->tsc : f->tsc;
	return 1;
}

static int take_packets(struct ptm_fast *f, enum ptm_lex_status *lexed)
{
	struct ptm_pkt pkt;

	for (;;) {
		int status = is_plain(f) ? take_stretch(f) : 0;

		if (status < 0)
			return status;
		if (status > 0)
			continue;
		*lexed = ptm_errata_lex(&f->errata, &f->lx, &pkt);
		if (*lexed != PTM_LEX_OK)
			return 0;

		f->at = (size_t)(f->lx.pos - f->frame->data) - pkt.size;
		status = one_packet(f, &pkt);
		if (status < 0)
			return status;
		if (pkt.kind == PTM_PKT_PAD || ptm_pkt_is_time(pkt.kind))
			continue;
		f->ovf_last = pkt.kind == PTM_PKT_OVF && !f->cut_ovf;
		f->ovf_at = f->at;
	}
}

static int decode_frame(void *ctx, const struct ptm_frame *frame, bool *ovf_last,
			struct ptm_emit *emit, struct ptm_error *err)
{
	struct ptm_fast *f = (struct ptm_fast *)ctx;
	enum ptm_lex_status lexed;

	if ((f->options.want & PTM_WANT_TALLY) != 0)
		(void)ptm_frame_scan(frame, &emit->tally);
	f->emit = emit;
	f->err = err;
	ptm_walk_reset(&f->walk, emit, err);
	PTM_TRY(begin_frame(f, frame));
	PTM_TRY(take_packets(f, &lexed));
	*ovf_last = f->ovf_last && lexed == PTM_LEX_END && frame->len - f->ovf_at <= PTM_OVF_LOOK;
	PTM_TRY(end_frame(f, lexed));
	for (unsigned i = 0; i < PTM_BYTES_CLASSES; i++)
		emit->tally.bytes[i] += f->bytes[i];
	return ptm_emit_certainty(emit, false, err);
}

static int fast_decode(struct ptm_engine *engine, const struct ptm_segment *seg,
		       struct ptm_emit *emit, struct ptm_error *err)
{
	struct ptm_fast *f = (struct ptm_fast *)engine;
	int status;

	if (f->stream != seg->stream) {
		f->stream = seg->stream;
		f->errata = ptm_errata_of(&seg->stream->cpu);
		f->turbo.odd_time = f->errata.skd007 || f->errata.skz84;
	}
	f->cancel = seg->cancel;
	f->timed = (f->options.want & PTM_WANT_TIME) != 0 || seg->stream->images.entries.n > 0;
	emit->no_steps = (f->options.want & PTM_WANT_STEPS) == 0;
	emit->park = ptm_walk_park;
	emit->park_ctx = &f->walk;
	/* A reader only while decoding: between segments a worker may wait for long, and a thread
	 * may have more than one engine. */
	ptm_rcu_register();
	status = ptm_frames_walk(seg, decode_frame, f, emit, err);
	if (status >= 0)
		status = ptm_emit_flush(emit, err);
	f->walk.gen = NULL;
	ptm_rcu_unregister();
	return status;
}

static int fast_settle(struct ptm_engine *engine, struct ptm_error *err)
{
	struct ptm_fast *f = (struct ptm_fast *)engine;

	return f->turbo.counts != NULL ? ptm_edge_counts_settle(f->turbo.counts, err) : 0;
}

static void fast_destroy(struct ptm_engine *engine)
{
	struct ptm_fast *f = (struct ptm_fast *)engine;

	if (f == NULL)
		return;
	ptm_turbo_fini(&f->turbo);
	ptm_cache_destroy(f->own_cache);
	free(f);
}

static struct ptm_engine *fast_create(const struct ptm_engine_options *options,
				      struct ptm_error *err)
{
	struct ptm_fast *f = (struct ptm_fast *)calloc(1, sizeof(*f));

	if (f == NULL) {
		(void)PTM_FAIL(err, PTM_E_NOMEM, "Cannot create the engine");
		return NULL;
	}
	f->base.ops = &ptm_engine_fast;
	f->options = *options;
	ptm_turbo_init(&f->turbo);
	if (options->cache == NULL)
		f->own_cache = ptm_cache_create(0, err);
	if ((options->cache == NULL && f->own_cache == NULL) ||
	    ((options->want & (PTM_WANT_TALLY | PTM_WANT_COUNTS)) != 0 &&
	     ptm_turbo_count(&f->turbo, options->counts, err) < 0)) {
		fast_destroy(&f->base);
		return NULL;
	}
	ptm_walk_init(&f->walk, options->cache != NULL ? options->cache : f->own_cache);
	f->walk.counts = options->counts;
	return &f->base;
}

const struct ptm_engine_ops ptm_engine_fast = {
	.name = "fast",
	.create = fast_create,
	.destroy = fast_destroy,
	.decode = fast_decode,
	.settle = fast_settle,
};
