/* SPDX-License-Identifier: Apache-2.0
 *
 * listing.c - delivering text, blocks and JSON.
 */
#include "sink/listing.h"

#include <inttypes.h>
#include <stdio.h>

/* Instructions follow: say so if they are another kind than the last ones. */
static int mark(struct ptm_listing *list, bool resynced, struct ptm_error *err)
{
	if (list->resynced == resynced)
		return 0;
	list->resynced = resynced;
	if (!list->marks)
		return 0;
	return ptm_out_printf(list->file.out, err, "[resync %s]\n", resynced ? "begin" : "end");
}

static int put_block(struct ptm_listing *list, const struct ptm_block *block, struct ptm_error *err)
{
	char line[PTM_LISTING_LINE];
	size_t len;

	PTM_TRY(mark(list, (block->flags & PTM_BLOCK_RESYNCED) != 0, err));
	len = list->block_line(line, block);
	if (len == 0)
		return PTM_FAIL(err, PTM_E_NOMEM, "Cannot write block: out of memory");
	return ptm_out_write(list->file.out, line, len, err);
}

int ptm_listing_stream_begin(struct ptm_sink *sink, const char *name, struct ptm_error *err)
{
	struct ptm_listing *list = (struct ptm_listing *)sink;

	list->resynced = false;
	list->reader = (struct ptm_frame_reader){.has_held = false};
	return ptm_file_sink_stream_begin(sink, name, err);
}

int ptm_listing_deliver(struct ptm_sink *sink, const void *data, size_t len, struct ptm_error *err)
{
	struct ptm_listing *list = (struct ptm_listing *)sink;
	struct ptm_piece piece;

	ptm_frame_feed(&list->reader, data, len);
	for (;;) {
		ptm_frame_next(&list->reader, &piece);
		switch (piece.kind) {
		case PTM_PIECE_NONE:
			return 0;
		case PTM_PIECE_BODY:
			PTM_TRY(ptm_out_write(list->file.out, piece.body, piece.len, err));
			break;
		case PTM_PIECE_MARK:
			PTM_TRY(mark(list, piece.resynced, err));
			break;
		case PTM_PIECE_BLOCK:
			PTM_TRY(put_block(list, &piece.block, err));
			break;
		}
	}
}

int ptm_listing_stream_end(struct ptm_sink *sink, const char *name, struct ptm_error *err)
{
	struct ptm_listing *list = (struct ptm_listing *)sink;
	struct ptm_piece piece;

	(void)name;
	ptm_frame_last(&list->reader, &piece);
	if (piece.kind == PTM_PIECE_BLOCK)
		PTM_TRY(put_block(list, &piece.block, err));
	return mark(list, false, err);
}

size_t ptm_listing_unknown(char buf[PTM_LISTING_LINE], enum ptm_gap gap, uint32_t n, uint64_t ip)
{
	char class[32];

	(void)snprintf(class, sizeof(class), "%s", ptm_gap_name(gap));
	for (char *s = class; *s != '\0'; s++)
		*s = *s == ' ' ? '-' : *s;
	return (size_t)snprintf(buf, PTM_LISTING_LINE,
				"[gap class=%s instructions=%" PRIu32 " ip=%016" PRIx64 "]\n",
				class, n, ip);
}
