/* SPDX-License-Identifier: Apache-2.0
 *
 * block_list.c - blocks and events, one a line: as text, or as JSON.
 *
 * The same blocks come again and again, so a worker keeps the lines of those it saw lately in a
 * direct-mapped table; making a line (of JSON, above all) is much slower than copying one.
 */
#include "sink/blocks.h"
#include "sink/listing.h"

#include "flow/event.h"
#include "os/json.h"
#include "ptmill/sink.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define MEMO_BITS 13
#define MEMO_LINE 160 /* longer lines are not kept */

/* The line of a block, by all that it shows. */
struct memo {
	uint64_t ip;
	uint32_t n; /* 0: empty */
	uint32_t bytes;
	uint8_t bits, ends, flags, gap;
	uint32_t len;
	char line[MEMO_LINE];
};

struct list_sink {
	struct ptm_listing list;
	size_t (*event_line)(char *buf, const struct ptm_event *ev);
};

struct list_worker {
	struct ptm_blocks *blocks; /* the first member */
	struct memo memo[1u << MEMO_BITS];
};

/* One batch under way. */
struct listing {
	const struct list_sink *sink;
	struct list_worker *worker;
	struct ptm_lines lines;
	bool no_memory;
};

const char *ptm_branch_name(unsigned branch)
{
	static const char *const names[PTM_BRANCH_KINDS] = {
		[PTM_BRANCH_NONE] = "none",
		[PTM_BRANCH_COND] = "cond",
		[PTM_BRANCH_JUMP] = "jump",
		[PTM_BRANCH_CALL] = "call",
		[PTM_BRANCH_JUMP_INDIRECT] = "jump-indirect",
		[PTM_BRANCH_CALL_INDIRECT] = "call-indirect",
		[PTM_BRANCH_RET] = "ret",
		[PTM_BRANCH_FAR_CALL] = "far-call",
		[PTM_BRANCH_FAR_RETURN] = "far-return",
		[PTM_BRANCH_FAR_JUMP] = "far-jump",
	};

	return branch < PTM_BRANCH_KINDS ? names[branch] : "unknown";
}

static size_t text_block(char *buf, const struct ptm_block *block)
{
	if (block->flags & PTM_BLOCK_UNKNOWN)
		return ptm_listing_unknown(buf, (enum ptm_gap)block->gap, block->n, block->ip);
	return (size_t)snprintf(buf, PTM_LISTING_LINE,
				"%016" PRIx64 " %" PRIu32 " %" PRIu32 " %s\n", block->ip, block->n,
				block->bytes, ptm_branch_name(block->ends));
}

static size_t text_event(char *buf, const struct ptm_event *ev)
{
	size_t len = ptm_event_format(ev, buf, PTM_LISTING_LINE - 1);

	buf[len] = '\n';
	return len + 1;
}

static size_t json_line(char *buf, struct ptm_json *json)
{
	size_t len = ptm_json_print(json, buf, PTM_LISTING_LINE - 1);

	ptm_json_destroy(json);
	if (len == 0)
		return 0;
	buf[len] = '\n';
	return len + 1;
}

/* The class of a gap, spelled as in the text. */
static void json_word(struct ptm_json *json, const char *key, const char *word)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%s", word);
	for (char *s = text; *s != '\0'; s++)
		*s = *s == ' ' ? '-' : *s;
	ptm_json_set_str(json, key, text);
}

static size_t json_unknown(char *buf, const struct ptm_block *block)
{
	struct ptm_json *json = ptm_json_object();

	ptm_json_set_str(json, "kind", "gap");
	json_word(json, "class", ptm_gap_name(block->gap));
	ptm_json_set_u64(json, "instructions", block->n);
	ptm_json_set_hex(json, "ip", block->ip);
	return json_line(buf, json);
}

static size_t json_block(char *buf, const struct ptm_block *block)
{
	struct ptm_json *json;

	if (block->flags & PTM_BLOCK_UNKNOWN)
		return json_unknown(buf, block);
	json = ptm_json_object();
	ptm_json_set_str(json, "kind", "block");
	ptm_json_set_hex(json, "ip", block->ip);
	ptm_json_set_u64(json, "instructions", block->n);
	ptm_json_set_u64(json, "bytes", block->bytes);
	ptm_json_set_u64(json, "bits", block->bits);
	ptm_json_set_str(json, "ends", ptm_branch_name(block->ends));
	if (block->flags & PTM_BLOCK_RESYNCED)
		ptm_json_set_bool(json, "resynced", true);
	return json_line(buf, json);
}

static void json_field(struct ptm_json *json, const struct ptm_event_field *f)
{
	switch (f->style) {
	case PTM_FIELD_DEC:
		ptm_json_set_u64(json, f->key, f->v);
		break;
	case PTM_FIELD_HEX:
	case PTM_FIELD_ADDR:
		ptm_json_set_hex(json, f->key, f->v);
		break;
	case PTM_FIELD_WORD:
		json_word(json, f->key, f->word);
		break;
	}
}

static size_t json_event(char *buf, const struct ptm_event *ev)
{
	struct ptm_event_field fields[PTM_EVENT_FIELDS];
	unsigned n = ptm_event_fields(ev, fields);
	struct ptm_json *json = ptm_json_object();

	ptm_json_set_str(json, "kind", ev->kind == PTM_EV_GAP ? "gap" : "event");
	if (ev->kind != PTM_EV_GAP)
		ptm_json_set_str(json, "event", ptm_event_name(ev->kind));
	for (unsigned i = 0; i < n; i++)
		json_field(json, &fields[i]);
	return json_line(buf, json);
}

static struct memo *memo_of(struct list_worker *worker, const struct ptm_block *block)
{
	uint64_t hash = (block->ip ^ (uint64_t)block->n << 48) * UINT64_C(0x9e3779b97f4a7c15);

	return &worker->memo[hash >> (64 - MEMO_BITS)];
}

static bool memo_is(const struct memo *memo, const struct ptm_block *block)
{
	return memo->ip == block->ip && memo->n == block->n && memo->bytes == block->bytes &&
	       memo->bits == block->bits && memo->ends == block->ends &&
	       memo->flags == block->flags && memo->gap == block->gap;
}

static bool make_line(struct listing *listing, const struct ptm_block *block, struct memo *memo)
{
	struct ptm_lines *lines = &listing->lines;
	size_t len = listing->sink->list.block_line(lines->pos, block);

	if (len == 0) {
		listing->no_memory = true;
		return false;
	}
	if (len <= MEMO_LINE) {
		*memo = (struct memo){.ip = block->ip,
				      .n = block->n,
				      .bytes = block->bytes,
				      .bits = block->bits,
				      .ends = block->ends,
				      .flags = block->flags,
				      .gap = block->gap,
				      .len = (uint32_t)len};
		memcpy(memo->line, lines->pos, len);
	}
	lines->pos += len;
	return true;
}

static bool put_block(void *ctx, const struct ptm_block *block)
{
	struct listing *listing = (struct listing *)ctx;
	struct memo *memo = memo_of(listing->worker, block);

	if (!ptm_lines_room(&listing->lines, PTM_LISTING_LINE))
		return false;
	if (!memo_is(memo, block))
		return make_line(listing, block, memo);
	memcpy(listing->lines.pos, memo->line, MEMO_LINE);
	listing->lines.pos += memo->len;
	return true;
}

static bool put_first(void *ctx, const struct ptm_block *block, bool open)
{
	return ptm_frame_block(&((struct listing *)ctx)->lines, block, open);
}

static bool put_open(void *ctx, const struct ptm_block *block)
{
	return put_first(ctx, block, true);
}

/* Without the time: it is an estimate, and says nothing about the flow. */
static bool put_event(void *ctx, const struct ptm_event *ev)
{
	struct listing *listing = (struct listing *)ctx;
	struct ptm_event shown = *ev;
	size_t len;

	if (!ptm_lines_room(&listing->lines, PTM_LISTING_LINE))
		return false;
	shown.flags &= (uint8_t)~PTM_EVF_HAS_TSC;
	len = listing->sink->event_line(listing->lines.pos, &shown);
	listing->lines.pos += len;
	listing->no_memory = len == 0;
	return len > 0;
}

static const struct ptm_blocks_ops blocks_ops = {put_first, put_block, put_open, put_event};

static int list_work(struct ptm_sink *sink, void *worker, const struct ptm_batch *batch,
		     struct ptm_job_out *out, struct ptm_error *err)
{
	struct listing listing = {.sink = (const struct list_sink *)sink,
				  .worker = (struct list_worker *)worker};
	int status;

	ptm_lines_init_framed(&listing.lines, out);
	status = ptm_blocks_make(listing.worker->blocks, batch, &blocks_ops, &listing);
	ptm_lines_flush(&listing.lines);
	if (status == -PTM_E_NOMEM || listing.no_memory)
		return PTM_FAIL(err, PTM_E_NOMEM, "Cannot make blocks: out of memory");
	return status < 0 ? ptm_lines_failed(err) : 0;
}

static void *list_worker_create(struct ptm_sink *sink, struct ptm_error *err)
{
	(void)sink;
	return ptm_blocks_worker_create(sizeof(struct list_worker), err);
}

/* Every line of JSON says what it is, so a single stream is named, too. */
static int json_stream_begin(struct ptm_sink *sink, const char *name, struct ptm_error *err)
{
	struct ptm_listing *list = (struct ptm_listing *)sink;
	struct ptm_json *json = ptm_json_object();
	int status;

	list->resynced = false;
	list->reader = (struct ptm_frame_reader){.has_held = false};
	ptm_json_set_str(json, "kind", "stream");
	ptm_json_set_str(json, "name", name);
	status = ptm_json_write_line(json, list->file.out, err);
	ptm_json_destroy(json);
	return status;
}

#define LIST_OPS(begin)                                                                            \
	{                                                                                          \
		.segment_size = 16u << 10, .want = PTM_WANT_STEPS,                                 \
		.worker_create = list_worker_create, .worker_destroy = ptm_blocks_worker_destroy,  \
		.work = list_work, .streams = ptm_file_sink_streams, .stream_begin = (begin),      \
		.deliver = ptm_listing_deliver, .stream_end = ptm_listing_stream_end,              \
		.finish = ptm_file_sink_finish, .destroy = ptm_file_sink_destroy                   \
	}

static const struct ptm_sink_ops text_ops = LIST_OPS(ptm_listing_stream_begin);
static const struct ptm_sink_ops json_ops = LIST_OPS(json_stream_begin);

struct ptm_sink *ptm_sink_blocks_create(bool json, const char *path, struct ptm_error *err)
{
	struct list_sink *sink = (struct list_sink *)ptm_file_sink_create(
		sizeof(*sink), json ? &json_ops : &text_ops, path, err);

	if (sink == NULL)
		return NULL;
	sink->list.marks = !json;
	sink->list.block_line = json ? json_block : text_block;
	sink->event_line = json ? json_event : text_event;
	return &sink->list.file.sink;
}
