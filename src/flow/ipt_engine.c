/* SPDX-License-Identifier: Apache-2.0
 *
 * ipt_engine.c - libipt's instruction decoder behind our engine interface: the reference.
 *
 * Each PSB frame gets a decoder of its own over just the frame's bytes, so that the result does not
 * depend on how the stream was cut into segments.  The instructions between a frame's last packet
 * and the IP that the next PSB+ states belong to the earlier frame (the seam walk); without a next
 * PSB+ nothing counts behind the last packet.  A run of instructions is counted when it is left,
 * after our own decoder of code has seen the same instructions, for sinks expand steps by that one.
 *
 * libipt never sees packets that our lexer rejects or that its version does not know: the frame
 * ends for it there. A private copy of a frame is changed where libipt 2.0 loses its way: it gets a
 * MODE.Exec where PSB+ has none (64-bit code is assumed), a PSBEND where that is missing, an OVF
 * behind PSBEND where the overflow stood before the PSB and the resume IP behind it, and pads in
 * place of a TIP.PGD directly behind an OVF.  What it gets wrong nevertheless is listed in
 * tests/known-differences.md.
 */
#include "flow/engine.h"

#include "base/bytes.h"

#include "flow/frame.h"
#include "flow/ipt_event.h"
#include "flow/ipt_image.h"
#include "image/code.h"

#include <intel-pt.h>
#include <stdlib.h>
#include <string.h>

/* Instructions without a packet: longer runs exist only in wrong images (or in a `jmp .`, which
 * ends with an interrupt at the IP it began with). */
#define RUN_MAX (1u << 18)

/* Runs that were found to expand to the same instructions: direct-mapped, so that hot code costs
 * one look a run. */
#define KNOWN_BITS 14
#define CODE_BYTES ((size_t)32 << 20)

struct known_run {
	const struct ptm_space *space;
	uint64_t ip;
	uint32_t n, mode; /* n 0: empty */
};

struct ipt_engine {
	struct ptm_engine base;
	struct pt_config config;
	struct ptm_ipt_images images;
	const struct ptm_stream_context *stream; /* `config` is set for */
	const struct ptm_space *space;           /* in which the flow stands now */
	uint8_t *copy;                           /* private copy of a frame, owned */
	size_t copy_cap;
	struct ptm_code *code;     /* our own view of the code */
	struct ptm_counts *counts; /* borrowed; NULL: nobody counts */
	struct known_run known[1u << KNOWN_BITS];
	/* The run under way: instructions since the last packet, not emitted yet. */
	uint64_t ips[RUN_MAX + 1];
	uint8_t klass[RUN_MAX + 1];
};

/* One frame on its way through libipt. */
struct walk {
	struct ipt_engine *engine;
	const struct ptm_frame *frame;
	struct pt_insn_decoder *decoder;
	struct ptm_emit *emit;
	struct ptm_error *err;
	int status;  /* libipt's, from the last call */
	uint32_t n;  /* instructions of the run under way */
	uint64_t ip; /* of the last instruction looked at */
	bool has_ip;
	enum ptm_mode mode; /* in which it was looked at; that of the run */
	size_t known;       /* bytes of the frame that libipt can take, at most scan->good */
	/* The last instruction took a packet: what comes next shows where it led.  If counted. */
	bool branched;
	enum ptm_insn_class branch;
	uint64_t branch_ip, branch_next; /* its address, and that behind it */
	/* Bytes put into the copy: `added` bytes in all before copy offset `added_end`. */
	size_t added, added_begin;
};

static enum ptm_mode insn_mode(enum pt_exec_mode mode)
{
	if (mode == ptem_32bit)
		return PTM_MODE_32;
	if (mode == ptem_16bit)
		return PTM_MODE_16;
	return PTM_MODE_64;
}

/* libipt does not say whether a near jump or call is indirect: opcode FF, behind prefixes. */
static bool is_indirect(const struct pt_insn *insn)
{
	for (unsigned i = 0; i < insn->size; i++) {
		switch (insn->raw[i]) {
		case 0x26:
		case 0x2e:
		case 0x36:
		case 0x3e:
		case 0x64:
		case 0x65:
		case 0x66:
		case 0x67:
		case 0xf2:
		case 0xf3:
			continue;
		case 0xff:
			return true;
		default:
			if (insn->mode == ptem_64bit && (insn->raw[i] & 0xf0) == 0x40)
				continue;
			return false;
		}
	}
	return false;
}

static enum ptm_insn_class insn_class(const struct pt_insn *insn)
{
	switch (insn->iclass) {
	case ptic_cond_jump:
		return PTM_INSN_COND;
	case ptic_jump:
		return is_indirect(insn) ? PTM_INSN_JUMP_INDIRECT : PTM_INSN_JUMP;
	case ptic_call:
		return is_indirect(insn) ? PTM_INSN_CALL_INDIRECT : PTM_INSN_CALL;
	case ptic_return:
		return PTM_INSN_RET;
	case ptic_far_call:
		return PTM_INSN_FAR_CALL;
	case ptic_far_return:
		return PTM_INSN_FAR_RETURN;
	case ptic_far_jump:
		return PTM_INSN_FAR_JUMP;
	case ptic_other:
	case ptic_ptwrite:
	case ptic_error:
		break;
	}
	return PTM_INSN_OTHER;
}

/* libipt's position as an offset in the frame. */
static size_t position(const struct walk *w)
{
	uint64_t offset = 0;

	if (pt_insn_get_offset(w->decoder, &offset) < 0)
		return 0;
	if (offset > w->added_begin)
		offset -= offset - w->added_begin < w->added ? offset - w->added_begin : w->added;
	return offset < w->frame->len ? (size_t)offset : w->frame->len;
}

/* The flow begins at @tsc: in which space? */
static int enter_space(struct walk *w, bool has_tsc, uint64_t tsc)
{
	const struct ptm_timeline *images = &w->engine->stream->images;
	const struct ptm_space *space = has_tsc ? ptm_timeline_at(images, tsc) : images->first;
	struct pt_image *image;

	if (w->decoder != NULL && space == w->engine->space)
		return 0;
	w->engine->space = space;
	image = ptm_ipt_image_get(&w->engine->images, space);
	if (image == NULL)
		return PTM_FAIL(w->err, PTM_E_NOMEM, "Out of memory for libipt's image");
	if (w->decoder != NULL)
		(void)pt_insn_set_image(w->decoder, image);
	return ptm_emit_space(w->emit, w->engine->space, w->err);
}

/* How many instructions of the run under way our own decoder of code sees the same: all, unless
 * libipt took bytes for an instruction that are none.  Sinks expand steps by that decoder.
 * -PTM_E_*. */
static int64_t count_same(struct walk *w)
{
	struct ipt_engine *e = w->engine;
	uint32_t done = 0;

	while (done < w->n) {
		int why;
		const struct ptm_run *run =
			ptm_code_run(e->code, e->space, e->ips[done], w->mode, w->n - done, &why);
		uint32_t k = 0;

		if (run == NULL)
			return PTM_FAIL(w->err, PTM_E_NOMEM, "Out of memory for decoded code");
		while (k < run->n && done + k < w->n && run->ips[k] == e->ips[done + k])
			k++;
		done += k;
		if (done < w->n && (k < PTM_RUN_MAX || run->ends))
			return done;
	}
	return done;
}

static int64_t check_run(struct walk *w)
{
	struct ipt_engine *e = w->engine;
	const struct known_run run = {e->space, e->ips[0], w->n, w->mode};
	uint64_t hash = (run.ip ^ (uint64_t)run.n << 48) * PTM_DIGEST_K;
	struct known_run *known = &e->known[hash >> (64 - KNOWN_BITS)];
	int64_t same;

	if (known->ip == run.ip && known->n == run.n && known->mode == run.mode &&
	    known->space == run.space)
		return w->n;
	same = count_same(w);
	if (same == w->n)
		*known = run;
	return same;
}

/* For whoever counts what is executed how often. */
static int tell(struct walk *w, enum ptm_count_kind kind, uint64_t ip, uint64_t to)
{
	if (w->engine->counts == NULL)
		return 0;
	return ptm_counts_add(w->engine->counts, w->engine->space, kind, w->mode, ip, to, 1,
			      w->err);
}

/* @insn is the last one of the run under way. */
static void note_branch(struct walk *w, const struct pt_insn *insn, enum ptm_insn_class klass)
{
	w->branched = w->engine->counts != NULL && ptm_insn_needs_packet(klass);
	w->branch = klass;
	w->branch_ip = insn->ip;
	w->branch_next = insn->ip + insn->size;
}

/* The flow stands at @ip: there the last branch led.  A conditional branch to the instruction
 * behind it can not be told from one that is not taken. */
static int tell_branch(struct walk *w, uint64_t ip)
{
	if (!w->branched)
		return 0;
	w->branched = false;
	return w->branch == PTM_INSN_COND
		       ? tell(w, PTM_COUNT_COND, w->branch_ip, ip != w->branch_next)
		       : tell(w, PTM_COUNT_TARGET, w->branch_ip, ip);
}

/* An event: one of the flow shows where it stood, or nobody knows any more. */
static int tell_branch_at(struct walk *w, const struct ptm_event *ev)
{
	if (ev->kind == PTM_EV_ASYNC_BRANCH || ev->kind == PTM_EV_ASYNC_DISABLED)
		return tell_branch(w, ev->ip);
	if (ev->kind <= PTM_EV_DISABLED || ev->kind == PTM_EV_OVERFLOW)
		w->branched = false;
	return 0;
}

static int emit_flow_gap(struct walk *w, enum ptm_gap gap, size_t at)
{
	ptm_frame_account(w->frame, at, &w->emit->tally);
	return ptm_emit_gap(w->emit, gap, w->frame->offset + at, w->frame->len - at,
			    w->has_ip ? &w->ip : NULL, w->err);
}

/* Emit the run under way.  Returns 1 if its end is no code to us: then the gap is emitted, and the
 * frame ends here. */
static int leave_run(struct walk *w)
{
	int64_t same;

	if (w->n == 0)
		return 0;
	same = check_run(w);
	if (same < 0)
		return (int)same;
	if (same > 0)
		PTM_TRY(tell(w, PTM_COUNT_RUN, w->engine->ips[0], (uint64_t)same));
	for (int64_t i = 0; i < same; i++)
		PTM_TRY(ptm_emit_insn(w->emit, w->engine->ips[i], w->mode,
				      (enum ptm_insn_class)w->engine->klass[i], w->err));
	if (same < w->n) {
		w->has_ip = true;
		w->ip = w->engine->ips[same];
		w->n = 0;
		PTM_TRY(emit_flow_gap(w, PTM_GAP_BAD_INSN, position(w)));
		return 1;
	}
	w->n = 0;
	return 0;
}

/* Take the pending events.  Returns 0, 1 if the frame ends here, or -PTM_E_*; libipt's errors are
 * left in w->status. */
static int take_events(struct walk *w)
{
	while (w->status >= 0 && (w->status & pts_event_pending) != 0) {
		struct pt_event event;
		struct ptm_event ev;
		int left;

		w->status = pt_insn_event(w->decoder, &event, sizeof(event));
		if (w->status < 0)
			return 0;
		left = leave_run(w);
		if (left != 0)
			return left;
		if (!ptm_ipt_event(&event, &ev))
			continue;
		ev.offset = w->frame->offset + position(w);
		PTM_TRY(tell_branch_at(w, &ev));
		if (ev.kind <= PTM_EV_RESUMED && (ev.flags & PTM_EVF_HAS_TSC) != 0)
			PTM_TRY(enter_space(w, true, ev.tsc));
		PTM_TRY(ptm_emit_event(w->emit, &ev, w->err));
	}
	return 0;
}

/* One instruction, added to the run; a branch that took a packet ends it.  Returns as
 * take_events(). */
static int step(struct walk *w)
{
	struct pt_insn insn;
	enum ptm_mode mode;
	int left;

	insn.ip = 0;
	insn.iclass = ptic_error;
	insn.mode = ptem_unknown;
	w->status = pt_insn_next(w->decoder, &insn, sizeof(insn));
	mode = insn_mode(insn.mode);
	if (insn.ip != 0)
		PTM_TRY(tell_branch(w, insn.ip));
	if (mode != w->mode) {
		left = leave_run(w);
		if (left != 0)
			return left;
	}
	w->ip = insn.ip;
	w->mode = mode;
	w->has_ip = w->status >= 0 || insn.ip != 0;
	if (w->status < 0)
		return 0;
	w->engine->ips[w->n] = insn.ip;
	w->engine->klass[w->n] = (uint8_t)insn_class(&insn);
	note_branch(w, &insn, insn_class(&insn));
	return ptm_insn_needs_packet(w->engine->klass[w->n++]) ? leave_run(w) : 0;
}

/* The class of what libipt reports.  To it, an instruction that the end of the image cuts off is a
 * bad one. */
static enum ptm_gap gap_class(const struct walk *w)
{
	struct ptm_insn insn;
	uint8_t bytes[15];
	size_t n;

	if (w->status == -pte_bad_insn && w->has_ip) {
		n = ptm_space_read(w->engine->space, w->ip, bytes, sizeof(bytes));
		if (ptm_insn_decode(bytes, n, w->ip, w->mode, &insn) == -PTM_E_TRUNCATED)
			return PTM_GAP_NO_IMAGE;
	}
	return ptm_ipt_gap(-w->status);
}

/* All packets are used up and tracing is on: walk to the IP that the next PSB+ states.  Compared
 * before each step; the first arrival counts.  What was walked in vain does not count. */
static int walk_seam(struct walk *w)
{
	const struct ptm_psbplus *next = w->frame->next;
	struct ptm_event gap = {.kind = PTM_EV_GAP,
				.arg = PTM_GAP_SEAM,
				.flags = PTM_EVF_HAS_IP | PTM_EVF_HAS_TO,
				.offset = w->frame->next_offset,
				.to = next->ip};
	int left = leave_run(w);

	if (left != 0)
		return left;
	while (w->n < RUN_MAX) {
		struct pt_insn insn;

		insn.ip = 0;
		w->status = pt_insn_next(w->decoder, &insn, sizeof(insn));
		if (insn.ip != 0)
			PTM_TRY(tell_branch(w, insn.ip));
		if (insn.ip == next->ip)
			return leave_run(w);
		gap.ip = insn.ip;
		if (w->status < 0)
			break;
		w->mode = insn_mode(insn.mode);
		w->engine->ips[w->n] = insn.ip;
		w->engine->klass[w->n++] = (uint8_t)insn_class(&insn);
	}
	w->n = 0;
	w->emit->tally.gaps[PTM_GAP_SEAM]++;
	return ptm_emit_event(w->emit, &gap, w->err);
}

/* What lies behind the bytes that libipt got: nothing, or what our lexer stopped at. */
static int finish_frame(struct walk *w, const struct ptm_frame_scan *scan)
{
	size_t at = w->known;
	enum ptm_gap gap = PTM_GAP_TRUNCATED;

	ptm_frame_account(w->frame, at, &w->emit->tally);
	if (at == w->frame->len)
		return 0;
	if (at < scan->good)
		gap = PTM_GAP_UNSUPPORTED;
	else if (scan->status == PTM_LEX_BAD)
		gap = PTM_GAP_BAD_PACKET;
	return ptm_emit_gap(w->emit, gap, w->frame->offset + at, w->frame->len - at, NULL, w->err);
}

/* libipt has reached the end of the frame's packets. */
static int end_frame(struct walk *w, const struct ptm_frame_scan *scan, bool off)
{
	const bool whole = scan->status == PTM_LEX_END && w->known == scan->good;
	int left = leave_run(w);

	/* The decoder is done: what it sees next only tells where it stands. */
	if (left == 0 && w->branched && !off && !(whole && w->frame->next != NULL)) {
		struct pt_insn insn = {.ip = 0};

		(void)pt_insn_next(w->decoder, &insn, sizeof(insn));
		if (insn.ip != 0)
			PTM_TRY(tell_branch(w, insn.ip));
	}
	if (left == 0 && !off && whole && w->frame->next != NULL && w->frame->next->on)
		left = walk_seam(w);
	return left != 0 ? left : finish_frame(w, scan);
}

/* libipt's error ends the frame. */
static int fail_frame(struct walk *w)
{
	uint64_t ip = w->ip;
	bool has_ip = w->has_ip;
	int left = leave_run(w);

	if (left != 0)
		return left;
	/* -pte_nomem, too: libipt's queue holds eight events for one place. */
	w->ip = ip;
	w->has_ip = has_ip;
	return emit_flow_gap(w, gap_class(w), position(w));
}

static bool libipt_knows(unsigned kind)
{
	return kind != PTM_PKT_BBP && kind != PTM_PKT_BIP && kind != PTM_PKT_BEP &&
	       kind != PTM_PKT_CFE && kind != PTM_PKT_EVD && kind != PTM_PKT_TRIG;
}

/* The offset of the first packet that libipt 2.0 does not know; @good if there is none before. */
static size_t find_unknown(const struct ptm_frame *frame, size_t good)
{
	struct ptm_lexer lx;
	struct ptm_pkt pkt;

	ptm_frame_lexer(frame, good, &lx);
	while (ptm_errata_lex(frame->errata, &lx, &pkt) == PTM_LEX_OK)
		if (!libipt_knows(pkt.kind))
			return (size_t)(lx.pos - frame->data) - pkt.size;
	return good;
}

/* Decode to the end of the frame's packets, or to the first error.  Returns 1 if our own view of
 * the code ended it. */
static int walk_frame(struct walk *w, const struct ptm_frame_scan *scan)
{
	for (;;) {
		int left = take_events(w);
		bool off;

		if (left != 0)
			return left;
		if (w->status < 0) {
			w->has_ip = false; /* no instruction failed */
			return fail_frame(w);
		}
		off = (w->status & pts_ip_suppressed) != 0;
		if ((w->status & pts_eos) != 0)
			return end_frame(w, scan, off);
		left = step(w);
		if (left != 0)
			return left;
		/* While tracing is off, packets without effect may stand before the end. */
		if (w->status == -pte_eos && off)
			return end_frame(w, scan, off);
		if (w->status < 0)
			return fail_frame(w);
		if (w->n > RUN_MAX) {
			left = leave_run(w);
			return left != 0 ? left : emit_flow_gap(w, PTM_GAP_RUNAWAY, position(w));
		}
	}
}

/* An overflow may be resolved with packets disabled, and TIP.PGD say so (SDM vol. 3, ch. Intel PT,
 * "OVF"); libipt accepts silence only.  Pad out such TIP.PGDs in @copy, which holds the same bytes
 * as @data; with NULL tell whether there is one. */
static bool pad_pgd(const uint8_t *data, size_t len, uint8_t *copy)
{
	struct ptm_lexer lx;
	struct ptm_pkt pkt;
	bool ovf = false, found = false;

	ptm_lexer_init(&lx, data, len);
	while (ptm_lex_next(&lx, &pkt) == PTM_LEX_OK) {
		if (ovf && pkt.kind == PTM_PKT_TIP_PGD) {
			found = true;
			if (copy != NULL)
				memset(copy + (lx.pos - data) - pkt.size, 0, pkt.size);
		}
		if (pkt.kind != PTM_PKT_PAD && !ptm_pkt_is_time(pkt.kind))
			ovf = pkt.kind == PTM_PKT_OVF;
	}
	return found;
}

static bool reserve_copy(struct ipt_engine *e, size_t len)
{
	uint8_t *p;

	if (len <= e->copy_cap)
		return true;
	p = (uint8_t *)realloc(e->copy, len);
	if (p == NULL)
		return false;
	e->copy = p;
	e->copy_cap = len;
	return true;
}

/* Copy @len bytes of the frame with PSBEND if it is missing, MODE.Exec before it and OVF behind it
 * if asked. */
static int make_copy(struct walk *w, size_t *len, const struct ptm_psbplus *plus, bool mode,
		     bool ovf)
{
	static const uint8_t mode_exec[] = {0x99, 0x01}, psbend[] = {0x02, 0x23},
			     ovf_packet[] = {0x02, 0xf3};
	struct ipt_engine *e = w->engine;
	const uint8_t *data = w->frame->data;
	const size_t end = plus->no_psbend ? plus->end : plus->end - sizeof(psbend);
	uint8_t *p;

	if (!reserve_copy(e, *len + 6))
		return PTM_FAIL(w->err, PTM_E_NOMEM, "Cannot copy a frame: bytes=%zu", *len);
	p = e->copy;
	memcpy(p, data, end);
	p += end;
	if (mode) {
		memcpy(p, mode_exec, sizeof(mode_exec));
		p += sizeof(mode_exec);
	}
	memcpy(p, psbend, sizeof(psbend));
	p += sizeof(psbend);
	if (ovf) {
		memcpy(p, ovf_packet, sizeof(ovf_packet));
		p += sizeof(ovf_packet);
	}
	memcpy(p, data + plus->end, *len - plus->end);
	p += *len - plus->end;
	w->added_begin = end;
	w->added = (size_t)(p - e->copy) - *len;
	*len = (size_t)(p - e->copy);
	return 0;
}

/* Copy @len bytes of a frame that has no PSB+ behind one that says what is assumed. */
static int make_assumed(struct walk *w, size_t *len)
{
	const struct ptm_assume_sync *assume = w->frame->assume;
	struct ipt_engine *e = w->engine;
	uint8_t *p;

	if (!reserve_copy(e, *len + PTM_PSB_SIZE + 16))
		return PTM_FAIL(w->err, PTM_E_NOMEM, "Cannot copy a frame: bytes=%zu", *len);
	p = e->copy;
	for (unsigned i = 0; i < PTM_PSB_SIZE; i += 2) {
		*p++ = 0x02;
		*p++ = 0x82;
	}
	*p++ = 0x99; /* MODE.Exec: CS.L, CS.D */
	*p++ = assume->bits == 64 ? 1 : assume->bits == 32 ? 2 : 0;
	if (assume->enabled) {
		*p++ = 0xdd; /* FUP with a whole address */
		ptm_store_le(p, assume->ip, 8);
		p += 8;
	}
	*p++ = 0x02; /* PSBEND */
	*p++ = 0x23;
	w->added_begin = 0;
	w->added = (size_t)(p - e->copy);
	memcpy(p, w->frame->data, *len);
	*len += w->added;
	return 0;
}

/* Choose the bytes that libipt gets to see. */
static int choose_bytes(struct walk *w, const struct ptm_frame_scan *scan,
			const struct ptm_psbplus *plus, const uint8_t **data, size_t *len)
{
	const struct ptm_frame *frame = w->frame;
	bool ovf = frame->ovf_pending && plus->fup_first && !plus->on;
	bool mode = plus->end > 0 && !plus->has_mode, pgd;

	*data = frame->data;
	*len = w->known;
	/* The overflow is told once, behind the next PSB+, where its resume IP is. */
	if (scan->ovf_last && frame->next != NULL && frame->next->fup_first && !frame->next->on)
		*len = scan->ovf_at < *len ? scan->ovf_at : *len;
	if (frame->assume != NULL) {
		PTM_TRY(make_assumed(w, len));
		*data = w->engine->copy;
		return 0;
	}
	pgd = scan->has_ovf && plus->end > 0 && pad_pgd(*data, *len, NULL);
	if (!ovf && !mode && !plus->no_psbend && !pgd)
		return 0;
	PTM_TRY(make_copy(w, len, plus, mode, ovf));
	*data = w->engine->copy;
	if (pgd)
		(void)pad_pgd(*data, *len, w->engine->copy);
	return 0;
}

static int decode_frame(void *ctx, const struct ptm_frame *frame, bool *ovf_last,
			struct ptm_emit *emit, struct ptm_error *err)
{
	const struct ptm_frame_scan found = ptm_frame_scan(frame, &emit->tally);
	const struct ptm_frame_scan *scan = &found;
	struct ipt_engine *e = (struct ipt_engine *)ctx;
	struct walk w = {
		.engine = e, .frame = frame, .emit = emit, .err = err, .added_begin = SIZE_MAX};
	struct pt_config config = e->config;
	const struct ptm_psbplus plus = ptm_frame_psbplus(frame);
	const uint8_t *data;
	size_t len;
	int status;

	*ovf_last = scan->ovf_last;
	w.known = find_unknown(frame, scan->good);
	PTM_TRY(enter_space(&w, plus.has_tsc, plus.tsc));
	if (plus.no_psbend)
		PTM_TRY(ptm_emit_gap(emit, PTM_GAP_CONFIG, frame->offset + plus.end, 0, NULL, err));
	PTM_TRY(choose_bytes(&w, scan, &plus, &data, &len));
	/* libipt only reads; its interface predates const. */
	config.begin = (uint8_t *)(uintptr_t)data;
	config.end = config.begin + len;
	w.decoder = pt_insn_alloc_decoder(&config);
	if (w.decoder == NULL)
		return PTM_FAIL(err, PTM_E_NOMEM, "Cannot start libipt's decoder");
	(void)pt_insn_set_image(w.decoder, ptm_ipt_image_get(&e->images, e->space));
	w.status = pt_insn_sync_set(w.decoder, 0);
	if (w.status < 0 && w.status != -pte_eos && w.status != -pte_nomem)
		status = emit_flow_gap(&w, PTM_GAP_CONFIG, 0);
	else if (w.status == -pte_eos)
		status = finish_frame(&w, scan);
	else
		status = walk_frame(&w, scan);
	if (status > 0)
		status = 0;
	pt_insn_free_decoder(w.decoder);
	return status;
}

static void set_stream(struct ipt_engine *e, const struct ptm_stream_context *stream)
{
	struct pt_config *config = &e->config;

	if (e->stream == stream)
		return;
	e->stream = stream;
	pt_config_init(config);
	if (stream->cpu.known) {
		config->cpu.vendor = pcv_intel;
		config->cpu.family = stream->cpu.family;
		config->cpu.model = stream->cpu.model;
		config->cpu.stepping = stream->cpu.stepping;
		/* An unknown model has no errata that we know of: go on. */
		(void)pt_cpu_errata(&config->errata, &config->cpu);
	}
	/* Most big cores have it, and no sound trace looks like it: apply it to every CPU. */
	config->errata.bdm70 = 1;
	config->mtc_freq = stream->timing.mtc_freq;
	config->nom_freq = stream->timing.nom_freq;
	config->cpuid_0x15_eax = stream->timing.cpuid_0x15_eax;
	config->cpuid_0x15_ebx = stream->timing.cpuid_0x15_ebx;
}

static int ipt_decode(struct ptm_engine *engine, const struct ptm_segment *seg,
		      struct ptm_emit *emit, struct ptm_error *err)
{
	set_stream((struct ipt_engine *)engine, seg->stream);
	PTM_TRY(ptm_frames_walk(seg, decode_frame, engine, emit, err));
	return ptm_emit_flush(emit, err);
}

static void ipt_destroy(struct ptm_engine *engine)
{
	struct ipt_engine *e = (struct ipt_engine *)engine;

	if (e == NULL)
		return;
	ptm_ipt_images_fini(&e->images);
	ptm_code_destroy(e->code);
	free(e->copy);
	free(e);
}

static struct ptm_engine *ipt_create(const struct ptm_engine_options *options,
				     struct ptm_error *err)
{
	struct ipt_engine *e = (struct ipt_engine *)calloc(1, sizeof(*e));

	if (e == NULL) {
		(void)PTM_FAIL(err, PTM_E_NOMEM, "Cannot create the engine");
		return NULL;
	}
	e->base.ops = &ptm_engine_ipt;
	/* Of the other options it needs none: it keeps code in libipt's images, and goes on at PSBs
	 * only. */
	e->counts = options->counts;
	e->code = ptm_code_create(CODE_BYTES, NULL);
	if (e->code == NULL) {
		(void)PTM_FAIL(err, PTM_E_NOMEM, "Cannot create the engine");
		ipt_destroy(&e->base);
		return NULL;
	}
	return &e->base;
}

const struct ptm_engine_ops ptm_engine_ipt = {
	.name = "libipt",
	.create = ipt_create,
	.destroy = ipt_destroy,
	.decode = ipt_decode,
};
