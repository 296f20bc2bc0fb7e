/* SPDX-License-Identifier: Apache-2.0
 *
 * listing.h - the deliverer of the sinks that list a trace as text, blocks or JSON: joins blocks
 * and says where resynced instructions begin and end.
 */
#ifndef PTM_SINK_LISTING_H
#define PTM_SINK_LISTING_H

#include "sink/common.h"
#include "sink/frames.h"

#define PTM_LISTING_LINE 257 /* an event in text and its newline: no line here is longer */

/* First member of these sinks.  Their workers write frames (sink/frames.h) whose bodies are lines.
 */
struct ptm_listing {
	struct ptm_file_sink file;
	/* A block as a line with its newline, at most PTM_LISTING_LINE bytes; 0: out of memory.
	 * NULL if there are no frames with blocks. */
	size_t (*block_line)(char *buf, const struct ptm_block *block);
	bool marks; /* write [resync begin] and [resync end] */

	struct ptm_frame_reader reader;
	bool resynced; /* the last instructions were */
};

/* Operations. */
int ptm_listing_stream_begin(struct ptm_sink *sink, const char *name, struct ptm_error *err);
int ptm_listing_deliver(struct ptm_sink *sink, const void *data, size_t len, struct ptm_error *err);
int ptm_listing_stream_end(struct ptm_sink *sink, const char *name, struct ptm_error *err);

/* The line of instructions that the image does not hold, `[gap class=...]`, with its newline.
 * Returns its length. */
size_t ptm_listing_unknown(char buf[PTM_LISTING_LINE], enum ptm_gap gap, uint32_t n, uint64_t ip);

#endif
