/* SPDX-License-Identifier: Apache-2.0
 *
 * frames.h - a job's output cut into frames, for sinks whose deliverer has to look at it: blocks
 * that a batch began or left open, and how certain the instructions are.
 *
 * Where batches and segments end says nothing, so what goes on across such a place is joined by the
 * deliverer.  A frame is a header of eight bytes and a payload, padded to a multiple of eight; it
 * never straddles two chunks, so payloads are aligned.  The frames of a batch are
 *
 *     [body: events] (mark | block) [body ...] [block, open]
 *
 * where the block is the first of the batch, or its only one, and then it may be open, too.
 */
#ifndef PTM_SINK_FRAMES_H
#define PTM_SINK_FRAMES_H

#include "pipeline/sink.h"
#include "ptmill/iter.h"
#include "sink/common.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ptm_frame_kind {
	PTM_FRAME_BODY = 0,  /* what the sink makes of it; PTM_LINES_FRAMED makes these */
	PTM_FRAME_MARK = 1,  /* no payload: instructions follow */
	PTM_FRAME_BLOCK = 2, /* a struct ptm_block */
};

enum {
	PTM_FRAME_OPEN = 1,    /* of a block: what follows may belong to it */
	PTM_FRAME_RESYNCED = 2 /* of a mark */
};

struct ptm_frame {
	uint32_t len; /* of the payload */
	uint8_t kind; /* enum ptm_frame_kind */
	uint8_t flags;
	uint16_t zero;
};

_Static_assert(sizeof(struct ptm_frame) == PTM_LINES_HEAD, "frames.h and common.h disagree");

/* In the worker: a frame of its own behind all that @lines holds.  False when canceled or out of
 * memory. */
bool ptm_frame_mark(struct ptm_lines *lines, bool resynced);
bool ptm_frame_block(struct ptm_lines *lines, const struct ptm_block *block, bool open);

/* A frame of @len bytes at most a chunk: returns its payload, to be filled at once. */
void *ptm_frame_body(struct ptm_lines *lines, size_t len);

/* In the deliverer: what it read, and the block that may go on. */
struct ptm_frame_reader {
	const uint8_t *pos, *end;
	struct ptm_block held;
	bool has_held;
};

/* The pieces as they are to be shown. */
enum ptm_piece_kind { PTM_PIECE_NONE, PTM_PIECE_BODY, PTM_PIECE_MARK, PTM_PIECE_BLOCK };

struct ptm_piece {
	enum ptm_piece_kind kind;
	const void *body;
	size_t len;
	bool resynced; /* of a mark */
	struct ptm_block block;
};

/* Read what was delivered.  The piece's body is borrowed from it.  PTM_PIECE_NONE: it is used up.
 */
void ptm_frame_feed(struct ptm_frame_reader *reader, const void *data, size_t len);
void ptm_frame_next(struct ptm_frame_reader *reader, struct ptm_piece *piece);

/* Nothing follows: the block that was held back, if any. */
void ptm_frame_last(struct ptm_frame_reader *reader, struct ptm_piece *piece);

#endif
