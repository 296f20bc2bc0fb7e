/* SPDX-License-Identifier: Apache-2.0
 *
 * frames.c - frames of a job's output: made in the worker, read and joined by the deliverer.
 */
#include "sink/frames.h"

#include "sink/blocks.h"

static size_t padded(size_t len)
{
	return (len + 7) & ~(size_t)7;
}

/* Room for a frame of its own. */
static void *frame(struct ptm_lines *lines, enum ptm_frame_kind kind, unsigned flags, size_t len)
{
	const struct ptm_frame head = {
		.len = (uint32_t)len, .kind = (uint8_t)kind, .flags = (uint8_t)flags};
	uint8_t *room;

	ptm_lines_flush(lines);
	room = ptm_job_room(lines->out, sizeof(head) + padded(len));
	if (room == NULL)
		return NULL;
	memcpy(room, &head, sizeof(head));
	memset(room + sizeof(head) + len, 0, padded(len) - len);
	ptm_job_used(lines->out, sizeof(head) + padded(len));
	return room + sizeof(head);
}

bool ptm_frame_mark(struct ptm_lines *lines, bool resynced)
{
	return frame(lines, PTM_FRAME_MARK, resynced ? PTM_FRAME_RESYNCED : 0, 0) != NULL;
}

bool ptm_frame_block(struct ptm_lines *lines, const struct ptm_block *block, bool open)
{
	void *room = frame(lines, PTM_FRAME_BLOCK, open ? PTM_FRAME_OPEN : 0, sizeof(*block));

	if (room == NULL)
		return false;
	memcpy(room, block, sizeof(*block));
	return true;
}

void *ptm_frame_body(struct ptm_lines *lines, size_t len)
{
	return frame(lines, PTM_FRAME_BODY, 0, len);
}

void ptm_frame_feed(struct ptm_frame_reader *reader, const void *data, size_t len)
{
	reader->pos = data;
	reader->end = reader->pos + len;
}

/* Take the held block, joined with @next if it goes on there.  False: it does not, and stands
 * alone. */
static bool join_held(struct ptm_frame_reader *reader, struct ptm_block *next)
{
	if (!reader->has_held)
		return true;
	reader->has_held = false;
	if (!ptm_block_continues(&reader->held, next))
		return false;
	ptm_block_append(&reader->held, next);
	*next = reader->held;
	return true;
}

void ptm_frame_next(struct ptm_frame_reader *reader, struct ptm_piece *piece)
{
	while (reader->pos != reader->end) {
		const uint8_t *payload = reader->pos + sizeof(struct ptm_frame);
		struct ptm_frame head;

		memcpy(&head, reader->pos, sizeof(head));
		if (head.kind == PTM_FRAME_BLOCK) {
			piece->kind = PTM_PIECE_BLOCK;
			memcpy(&piece->block, payload, sizeof(piece->block));
			if (!join_held(reader, &piece->block)) {
				piece->block = reader->held;
				return; /* this frame comes again */
			}
		} else if (reader->has_held) {
			ptm_frame_last(reader, piece);
			return;
		}
		reader->pos = payload + padded(head.len);
		if (head.kind == PTM_FRAME_BLOCK && (head.flags & PTM_FRAME_OPEN)) {
			reader->held = piece->block;
			reader->has_held = true;
			continue;
		}
		if (head.kind == PTM_FRAME_MARK) {
			piece->kind = PTM_PIECE_MARK;
			piece->resynced = (head.flags & PTM_FRAME_RESYNCED) != 0;
		} else if (head.kind == PTM_FRAME_BODY) {
			piece->kind = PTM_PIECE_BODY;
			piece->body = payload;
			piece->len = head.len;
		}
		return;
	}
	piece->kind = PTM_PIECE_NONE;
}

void ptm_frame_last(struct ptm_frame_reader *reader, struct ptm_piece *piece)
{
	piece->kind = reader->has_held ? PTM_PIECE_BLOCK : PTM_PIECE_NONE;
	piece->block = reader->held;
	reader->has_held = false;
}
