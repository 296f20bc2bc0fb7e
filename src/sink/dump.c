/* SPDX-License-Identifier: Apache-2.0
 *
 * dump.c - the packets of a trace, one a line.
 *
 * A worker lexes its segment frame by frame, from each PSB to the next: lexing starts anew at a PSB
 * wherever the packet before it would have ended, so the lines are the same however the stream was
 * cut into segments.  Bytes that are no packets get a line of their own, with their number.
 */
#include "sink/common.h"

#include "ptmill/sink.h"

#include <inttypes.h>
#include <stdio.h>

#define LINE_MAX_LEN 192 /* offset, two spaces, 128 bytes of packet or one sentence, newline */

/* `offset  name  text` for bytes that are no packet. */
static bool put_note(struct ptm_lines *lines, uint64_t offset, const char *name, uint64_t bytes,
		     const char *text)
{
	int n;

	if (!ptm_lines_room(lines, LINE_MAX_LEN))
		return false;
	lines->pos = ptm_put_hex16(lines->pos, offset);
	n = snprintf(lines->pos, LINE_MAX_LEN - 16, "  %-12s%" PRIu64 " bytes %s\n", name, bytes,
		     text);
	lines->pos += n;
	return true;
}

static bool put_packet(struct ptm_lines *lines, uint64_t offset, const struct ptm_pkt *pkt)
{
	if (!ptm_lines_room(lines, LINE_MAX_LEN))
		return false;
	lines->pos = ptm_put_hex16(lines->pos, offset);
	*lines->pos++ = ' ';
	*lines->pos++ = ' ';
	lines->pos += ptm_pkt_format(pkt, lines->pos, 128);
	*lines->pos++ = '\n';
	return true;
}

static void count_packet(struct ptm_tally *tally, const struct ptm_pkt *pkt)
{
	tally->packets[pkt->kind]++;
	tally->packet_bytes[pkt->kind] += pkt->size;
	if (pkt->kind == PTM_PKT_PAD)
		tally->bytes[PTM_BYTES_PADDING] += pkt->size;
	else if (pkt->kind == PTM_PKT_OVF)
		tally->bytes[PTM_BYTES_OVERFLOW] += pkt->size;
	else
		tally->bytes[PTM_BYTES_DECODED] += pkt->size;
	if (pkt->kind == PTM_PKT_TNT8 || pkt->kind == PTM_PKT_TNT64)
		tally->tnt_bits += pkt->n;
}

static bool dump_frame(struct ptm_lines *lines, const uint8_t *data, size_t len, uint64_t offset,
		       struct ptm_tally *tally)
{
	enum ptm_lex_status status;
	struct ptm_lexer lx;
	struct ptm_pkt pkt;
	uint64_t rest;

	ptm_lexer_init(&lx, data, len);
	while ((status = ptm_lex_next(&lx, &pkt)) == PTM_LEX_OK) {
		if (!put_packet(lines, offset + (uint64_t)(lx.pos - data) - pkt.size, &pkt))
			return false;
		count_packet(tally, &pkt);
	}
	rest = (uint64_t)(lx.end - lx.pos);
	if (status == PTM_LEX_END)
		return true;
	tally->bytes[PTM_BYTES_SKIPPED] += rest;
	tally->gaps[status == PTM_LEX_BAD ? PTM_GAP_BAD_PACKET : PTM_GAP_TRUNCATED]++;
	return put_note(lines, offset + len - rest, status == PTM_LEX_BAD ? "bad" : "truncated",
			rest, "skipped");
}

static void count_frame(struct ptm_tally *tally, size_t len, bool complete)
{
	tally->frames++;
	if (!complete)
		return;
	if (tally->frame_min == 0 || len < tally->frame_min)
		tally->frame_min = len;
	if (len > tally->frame_max)
		tally->frame_max = len;
}

static bool dump_segment(struct ptm_lines *lines, const struct ptm_segment *seg,
			 struct ptm_tally *tally)
{
	const size_t avail = seg->len + seg->look;

	tally->bytes[PTM_BYTES_HEAD] += seg->head;
	tally->gaps[PTM_GAP_NO_SYNC] += seg->no_sync;
	if (seg->head > 0 && !put_note(lines, seg->offset - seg->head, "head", seg->head,
				       seg->no_sync ? "without a psb" : "before the first psb"))
		return false;
	for (size_t begin = 0, end; begin < seg->len; begin = end) {
		/* With the bytes behind the segment: which PSB ends a run is only told by the end
		 * of the run. */
		size_t found = ptm_psb_find(seg->data, avail, begin + PTM_PSB_SIZE, false);
		bool complete = found < seg->len || (seg->look > 0 && seg->skipped == 0);

		end = found < seg->len ? found : seg->len;
		if (!dump_frame(lines, seg->data + begin, end - begin, seg->offset + begin, tally))
			return false;
		count_frame(tally, end - begin, complete);
	}
	if (seg->skipped == 0)
		return true;
	tally->bytes[PTM_BYTES_SKIPPED] += seg->skipped;
	tally->gaps[PTM_GAP_TOO_LONG]++;
	return put_note(lines, seg->offset + seg->len, "skipped", seg->skipped,
			"too many without a psb");
}

static int dump_raw(struct ptm_sink *sink, const struct ptm_segment *seg, struct ptm_tally *tally,
		    struct ptm_job_out *out, struct ptm_error *err)
{
	struct ptm_lines lines;
	bool ok;

	(void)sink;
	ptm_lines_init(&lines, out);
	ok = dump_segment(&lines, seg, tally);
	ptm_lines_flush(&lines);
	return ok ? 0 : ptm_lines_failed(err);
}

static const struct ptm_sink_ops dump_ops = {
	.segment_size = 64u << 10, /* some ten bytes of text a byte of trace */
	.raw = dump_raw,
	.deliver = ptm_file_sink_deliver,
	.finish = ptm_file_sink_finish,
	.destroy = ptm_file_sink_destroy,
};

struct ptm_sink *ptm_sink_dump_create(const char *path, struct ptm_error *err)
{
	return (struct ptm_sink *)ptm_file_sink_create(sizeof(struct ptm_file_sink), &dump_ops,
						       path, err);
}
