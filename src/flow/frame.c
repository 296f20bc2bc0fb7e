/* SPDX-License-Identifier: Apache-2.0
 *
 * frame.c - PSB frames: cutting a segment into them, judging a PSB+, counting and accounting their
 * bytes.
 */
#include "flow/frame.h"

#include "base/bytes.h"
#include "flow/tnts.h"

struct ptm_psbplus ptm_psbplus_judge(const uint8_t *data, size_t len,
				     const struct ptm_errata *errata)
{
	struct ptm_psbplus plus = {0};
	struct ptm_lexer lx;
	struct ptm_pkt pkt;

	ptm_lexer_init(&lx, data, len < PTM_PSBPLUS_LOOK ? len : PTM_PSBPLUS_LOOK);
	if (ptm_lex_next(&lx, &pkt) != PTM_LEX_OK || pkt.kind != PTM_PKT_PSB)
		return plus;
	while (ptm_errata_lex(errata, &lx, &pkt) == PTM_LEX_OK) {
		switch (pkt.kind) {
		case PTM_PKT_PSBEND:
			plus.end = (size_t)(lx.pos - data);
			break;
		case PTM_PKT_FUP:
			if (plus.end > 0) {
				plus.fup_first = true;
				return plus;
			}
			plus.on = pkt.has_ip;
			plus.ip = pkt.ip;
			continue;
		case PTM_PKT_MODE_EXEC:
			plus.has_mode |= plus.end == 0;
			continue;
		case PTM_PKT_TSC:
			if (plus.end == 0) {
				plus.has_tsc = true;
				plus.tsc = pkt.payload;
			}
			continue;
		case PTM_PKT_PAD:
		case PTM_PKT_TMA:
		case PTM_PKT_MTC:
		case PTM_PKT_CYC:
		case PTM_PKT_CBR:
		case PTM_PKT_MODE_TSX:
		case PTM_PKT_PIP:
		case PTM_PKT_VMCS:
		case PTM_PKT_MNT:
			continue;
		case PTM_PKT_TNT8:
		case PTM_PKT_TNT64:
		case PTM_PKT_TIP:
		case PTM_PKT_TIP_PGD:
		case PTM_PKT_TIP_PGE:
			plus.no_psbend = plus.end == 0;
			if (plus.no_psbend)
				plus.end = (size_t)(lx.pos - data) - pkt.size;
			plus.on &= pkt.kind != PTM_PKT_TIP_PGE;
			break;
		default:
			break;
		}
		if (pkt.kind != PTM_PKT_PSBEND)
			break;
	}
	if (plus.end == 0)
		plus.on = false;
	return plus;
}

void ptm_frame_lexer(const struct ptm_frame *frame, size_t len, struct ptm_lexer *lx)
{
	ptm_lexer_init(lx, frame->data, len);
	if (frame->assume != NULL)
		lx->last_ip = frame->assume->ip;
}

struct ptm_psbplus ptm_frame_psbplus(const struct ptm_frame *frame)
{
	if (frame->assume == NULL)
		return ptm_psbplus_judge(frame->data, frame->len, frame->errata);
	return (struct ptm_psbplus){
		.on = frame->assume->enabled, .ip = frame->assume->ip, .has_mode = true};
}

/* Is there no PSB at the begin of the stream, and something assumed instead? */
static const struct ptm_assume_sync *assumed(const struct ptm_segment *seg, size_t begin)
{
	const struct ptm_assume_sync *assume;

	if (seg->stream == NULL || seg->offset + begin != 0)
		return NULL;
	assume = &seg->stream->assume;
	return assume->given && ptm_psb_find(seg->data, seg->len + seg->look, 0, false) != 0
		       ? assume
		       : NULL;
}

static void note_tsc(struct ptm_tally *tally, uint64_t tsc)
{
	if (tally->tsc_min == 0 || tsc < tally->tsc_min)
		tally->tsc_min = tsc;
	if (tsc > tally->tsc_max)
		tally->tsc_max = tsc;
}

static void note_spacing(struct ptm_tally *tally, uint64_t bytes)
{
	if (tally->frame_min == 0 || bytes < tally->frame_min)
		tally->frame_min = bytes;
	if (bytes > tally->frame_max)
		tally->frame_max = bytes;
	tally->frame_sum += bytes;
	tally->frame_n++;
}

/* Pass over the short TNT packets from here on: most packets are.  Returns whether there was one.
 */
static bool scan_tnts(struct ptm_lexer *lx, struct ptm_tally *tally)
{
	const uint8_t *begin = lx->pos;
	unsigned at = 64;
	uint64_t bits;

	while (at == 64 && lx->block_item == 0 && lx->end - lx->pos >= 8) {
		at = ptm_tnts(ptm_load_le64(lx->pos), &bits);
		tally->tnt_bits += (unsigned)__builtin_popcountll(bits);
		lx->pos += at / 8;
	}
	tally->packets[PTM_PKT_TNT8] += (uint64_t)(lx->pos - begin);
	tally->packet_bytes[PTM_PKT_TNT8] += (uint64_t)(lx->pos - begin);
	return lx->pos != begin;
}

struct ptm_frame_scan ptm_frame_scan(const struct ptm_frame *frame, struct ptm_tally *tally)
{
	struct ptm_frame_scan scan = {.status = PTM_LEX_OK};
	bool cut = false; /* the OVF that follows stands inside a CYC */
	struct ptm_lexer lx;
	struct ptm_pkt pkt;

	ptm_frame_lexer(frame, frame->len, &lx);
	while ((scan.status = ptm_errata_lex(frame->errata, &lx, &pkt)) == PTM_LEX_OK) {
		tally->packets[pkt.kind]++;
		tally->packet_bytes[pkt.kind] += pkt.size;
		if (pkt.kind == PTM_PKT_TNT8 || pkt.kind == PTM_PKT_TNT64)
			tally->tnt_bits += pkt.n;
		else if (pkt.kind == PTM_PKT_TSC)
			note_tsc(tally, pkt.payload);
		if (pkt.kind == PTM_PKT_OVF) {
			scan.has_ovf = true;
			scan.ovf_at = (size_t)(lx.pos - frame->data) - pkt.size;
		}
		if (pkt.kind != PTM_PKT_PAD && !ptm_pkt_is_time(pkt.kind))
			scan.ovf_last = pkt.kind == PTM_PKT_OVF && !cut;
		cut = pkt.kind == PTM_PKT_CYC && pkt.n != 0;
		if (scan_tnts(&lx, tally))
			scan.ovf_last = cut = false;
	}
	scan.good = (size_t)(lx.pos - frame->data);
	if (scan.status != PTM_LEX_END || scan.good - scan.ovf_at > PTM_OVF_LOOK)
		scan.ovf_last = false;
	tally->frames++;
	if (frame->next != NULL)
		note_spacing(tally, frame->len);
	return scan;
}

void ptm_frame_account(const struct ptm_frame *frame, size_t decoded, struct ptm_tally *tally)
{
	struct ptm_lexer lx;
	struct ptm_pkt pkt;

	ptm_lexer_init(&lx, frame->data, decoded);
	while (ptm_errata_lex(frame->errata, &lx, &pkt) == PTM_LEX_OK) {
		if (pkt.kind == PTM_PKT_PAD)
			tally->bytes[PTM_BYTES_PADDING] += pkt.size;
		else if (pkt.kind == PTM_PKT_OVF)
			tally->bytes[PTM_BYTES_OVERFLOW] += pkt.size;
		else
			tally->bytes[PTM_BYTES_DECODED] += pkt.size;
	}
	tally->bytes[PTM_BYTES_SKIPPED] += frame->len - (size_t)(lx.pos - frame->data);
}

bool ptm_frame_ends_in_ovf(const uint8_t *data, size_t len)
{
	struct ptm_frame frame = {.data = data, .len = len};
	struct ptm_tally unused = {0};

	return len <= PTM_FRAME_MAX && ptm_frame_scan(&frame, &unused).ovf_last;
}

bool ptm_frame_rest_is_time(const struct ptm_frame *frame, const struct ptm_lexer *lx)
{
	struct ptm_lexer rest = *lx;
	struct ptm_pkt pkt;
	enum ptm_lex_status status;

	while ((status = ptm_errata_lex(frame->errata, &rest, &pkt)) == PTM_LEX_OK)
		if (pkt.kind != PTM_PKT_PAD && !ptm_pkt_is_time(pkt.kind))
			return false;
	return status == PTM_LEX_END;
}

/* What lies before the first frame, and behind the longest one. */
static int emit_head(const struct ptm_segment *seg, struct ptm_emit *emit, struct ptm_error *err)
{
	emit->tally.bytes[PTM_BYTES_HEAD] += seg->head;
	if (!seg->no_sync)
		return 0;
	return ptm_emit_gap(emit, PTM_GAP_NO_SYNC, seg->offset - seg->head, seg->head, NULL, err);
}

static int emit_excess(uint64_t offset, uint64_t bytes, struct ptm_emit *emit,
		       struct ptm_error *err)
{
	if (bytes == 0)
		return 0;
	emit->tally.bytes[PTM_BYTES_SKIPPED] += bytes;
	return ptm_emit_gap(emit, PTM_GAP_TOO_LONG, offset, bytes, NULL, err);
}

int ptm_frames_walk(const struct ptm_segment *seg, ptm_frame_fn fn, void *ctx,
		    struct ptm_emit *emit, struct ptm_error *err)
{
	const size_t avail = seg->len + seg->look;
	const struct ptm_cpu unknown = {0};
	const struct ptm_errata errata =
		ptm_errata_of(seg->stream != NULL ? &seg->stream->cpu : &unknown);
	bool ovf_pending = seg->ovf_pending;
	size_t begin = 0;

	PTM_TRY(emit_head(seg, emit, err));
	while (begin < seg->len) {
		const struct ptm_assume_sync *assume = assumed(seg, begin);
		/* With the bytes behind the segment: which PSB ends a run is only told by the end
		 * of the run. */
		size_t found = ptm_psb_find(seg->data, avail,
					    begin + (assume != NULL ? 0 : PTM_PSB_SIZE), false);
		size_t end = found < seg->len ? found : seg->len;
		struct ptm_psbplus next;
		struct ptm_frame frame = {.data = seg->data + begin,
					  .len = end - begin,
					  .offset = seg->offset + begin,
					  .errata = &errata,
					  .next_offset = seg->offset + end,
					  .ovf_pending = ovf_pending,
					  .assume = assume};
		bool ovf_last = false;
		uint64_t excess = end == seg->len ? seg->skipped : 0;

		if (frame.len > PTM_FRAME_MAX) {
			excess += frame.len - PTM_FRAME_MAX;
			frame.len = PTM_FRAME_MAX;
		}
		if (end < avail && excess == 0) {
			next = ptm_psbplus_judge(seg->data + end, avail - end, &errata);
			frame.next = &next;
		}
		PTM_TRY(fn(ctx, &frame, &ovf_last, emit, err));
		PTM_TRY(emit_excess(frame.offset + frame.len, excess, emit, err));
		if (seg->cancel != NULL && atomic_load_explicit(seg->cancel, memory_order_relaxed))
			return PTM_FAIL(err, PTM_E_CANCELED, "Canceled");
		ovf_pending = ovf_last && excess == 0;
		begin = end;
	}
	if (seg->missing > 0)
		return ptm_emit_gap(emit, PTM_GAP_TRUNCATED, seg->missing_at, seg->missing, NULL,
				    err);
	return 0;
}
