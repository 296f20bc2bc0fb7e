/* SPDX-License-Identifier: Apache-2.0
 *
 * dump.c - the packets of a trace, one a line.
 *
 * A worker lexes its segment frame by frame, so the lines are the same however the stream was cut
 * into segments.  Bytes that are no packets get a line of their own, with their number.
 */
#include "sink/common.h"

#include "flow/frame.h"
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

/* Gaps come as events; of the packets themselves there are none. */
static int put_gaps(void *ctx, const struct ptm_batch *batch, struct ptm_error *err)
{
	struct ptm_lines *lines = (struct ptm_lines *)ctx;

	for (size_t i = 0; i < batch->nevents; i++) {
		const struct ptm_event *ev = &batch->events[i];
		bool ok = true;

		if (ev->arg == PTM_GAP_BAD_PACKET)
			ok = put_note(lines, ev->offset, "bad", ev->value, "skipped");
		else if (ev->arg == PTM_GAP_TRUNCATED)
			ok = put_note(lines, ev->offset, "truncated", ev->value, "skipped");
		else if (ev->arg == PTM_GAP_TOO_LONG)
			ok = put_note(lines, ev->offset, "skipped", ev->value,
				      "too many without a psb");
		if (!ok)
			return ptm_lines_failed(err);
	}
	return 0;
}

static int dump_frame(void *ctx, const struct ptm_frame *frame, bool *ovf_last,
		      struct ptm_emit *emit, struct ptm_error *err)
{
	const struct ptm_frame_scan scan = ptm_frame_scan(frame, &emit->tally);
	struct ptm_lines *lines = (struct ptm_lines *)ctx;
	struct ptm_lexer lx;
	struct ptm_pkt pkt;

	*ovf_last = scan.ovf_last;
	PTM_TRY(ptm_emit_flush(emit, err));
	ptm_frame_lexer(frame, scan.good, &lx);
	while (ptm_errata_lex(frame->errata, &lx, &pkt) == PTM_LEX_OK) {
		uint64_t offset = frame->offset + (uint64_t)(lx.pos - frame->data) - pkt.size;

		if (!put_packet(lines, offset, &pkt))
			return ptm_lines_failed(err);
	}
	ptm_frame_account(frame, scan.good, &emit->tally);
	if (scan.status == PTM_LEX_END)
		return 0;
	return ptm_emit_gap(emit,
			    scan.status == PTM_LEX_BAD ? PTM_GAP_BAD_PACKET : PTM_GAP_TRUNCATED,
			    frame->offset + scan.good, frame->len - scan.good, NULL, err);
}

static int dump_raw(struct ptm_sink *sink, void *worker, const struct ptm_segment *seg,
		    struct ptm_emit *emit, struct ptm_job_out *out, struct ptm_error *err)
{
	struct ptm_lines lines;
	int status;

	(void)sink;
	(void)worker;
	ptm_lines_init(&lines, out);
	ptm_emit_init(emit, put_gaps, &lines);
	if (seg->head > 0 && !put_note(&lines, seg->offset - seg->head, "head", seg->head,
				       seg->no_sync ? "without a psb" : "before the first psb"))
		return ptm_lines_failed(err);
	status = ptm_frames_walk(seg, dump_frame, &lines, emit, err);
	if (status >= 0)
		status = ptm_emit_flush(emit, err);
	ptm_lines_flush(&lines);
	return status;
}

static const struct ptm_sink_ops dump_ops = {
	.segment_size = 64u << 10, /* some ten bytes of text a byte of trace */
	.raw = dump_raw,
	.streams = ptm_file_sink_streams,
	.stream_begin = ptm_file_sink_stream_begin,
	.deliver = ptm_file_sink_deliver,
	.finish = ptm_file_sink_finish,
	.destroy = ptm_file_sink_destroy,
};

struct ptm_sink *ptm_sink_dump_create(const char *path, struct ptm_error *err)
{
	return (struct ptm_sink *)ptm_file_sink_create(sizeof(struct ptm_file_sink), &dump_ops,
						       path, err);
}
