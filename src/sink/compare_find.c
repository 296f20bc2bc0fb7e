/* SPDX-License-Identifier: Apache-2.0
 *
 * compare_find.c - finds the first item in which two engines differ over a frame.
 *
 * A frame can hold more instructions than memory.  So each engine decodes it twice.  The first time
 * leaves a trail: the hash of all items so far, at every `every` items; where it grows too long,
 * every other hash is dropped.  The first hash that differs tells between which two the difference
 * lies; the second time keeps the items there, and a few around them.
 */
#include "sink/compare_find.h"

#include "base/vec.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define TRAIL_EVERY 1024u  /* items: what a window holds, in most frames */
#define TRAIL_MAX   65536u /* hashes */
#define WINDOW_MAX  (1u << 20)
#define SHOWN       4u /* items before and behind */

struct trail {
	struct ptm_items items;
	uint64_t every;
	uint64_t hash;
	PTM_VEC(uint64_t) hashes; /* after every, 2 * every, ... items */
};

/* The items whose number of counted items before them lies in [from, to). */
struct window {
	struct ptm_items items;
	uint64_t from, to;
	bool cut; /* there were more than WINDOW_MAX */
	PTM_VEC(struct ptm_item) list;
};

void ptm_report_printf(struct ptm_report *report, const char *fmt, ...)
{
	size_t room = sizeof(report->text) - report->len;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(report->text + report->len, room, fmt, ap);
	va_end(ap);
	if (n > 0)
		report->len += (uint32_t)((size_t)n < room ? (size_t)n : room - 1);
}

static int no_memory(struct ptm_error *err)
{
	return PTM_FAIL(err, PTM_E_NOMEM, "Cannot compare engines: out of memory");
}

/* Keep every other hash, so that the trail reaches twice as far. */
static void thin_out(struct trail *trail)
{
	for (size_t i = 1; i < trail->hashes.n; i += 2)
		trail->hashes.v[i / 2] = trail->hashes.v[i];
	trail->hashes.n /= 2;
	trail->every *= 2;
}

static int trail_item(void *ctx, const struct ptm_item *item, struct ptm_error *err)
{
	struct trail *trail = (struct trail *)ctx;

	if (!item->counted)
		return 0;
	trail->hash = trail->hash * PTM_DIGEST_K + ptm_item_hash(item);
	if ((item->at + 1) % trail->every != 0)
		return 0;
	if (!ptm_vec_push(&trail->hashes, trail->hash))
		return no_memory(err);
	if (trail->hashes.n == TRAIL_MAX)
		thin_out(trail);
	return 0;
}

static int window_item(void *ctx, const struct ptm_item *item, struct ptm_error *err)
{
	struct window *window = (struct window *)ctx;

	if (item->at < window->from || item->at >= window->to)
		return 0;
	if (window->list.n == WINDOW_MAX) {
		window->cut = true;
		return 0;
	}
	return ptm_vec_push(&window->list, *item) ? 0 : no_memory(err);
}

static int decode(const struct ptm_lane *lane, const struct ptm_segment *frame,
		  struct ptm_items *items, struct ptm_error *err)
{
	ptm_emit_init(lane->emit, ptm_items_batch, items);
	return lane->engine->ops->decode(lane->engine, frame, lane->emit, err);
}

/* How many items are sure to agree: a multiple of the trails' step, which becomes the same. */
static uint64_t agreed(struct trail trail[2])
{
	size_t i = 0;

	while (trail[0].every != trail[1].every)
		thin_out(&trail[trail[0].every < trail[1].every ? 0 : 1]);
	while (i < trail[0].hashes.n && i < trail[1].hashes.n &&
	       trail[0].hashes.v[i] == trail[1].hashes.v[i])
		i++;
	return i * trail[0].every;
}

static int leave_trails(struct ptm_finder *finder, const struct ptm_segment *frame, bool events,
			uint64_t *begin, uint64_t *every, struct ptm_error *err)
{
	struct trail trail[2] = {{.every = TRAIL_EVERY}, {.every = TRAIL_EVERY}};
	int status = 0;

	for (unsigned i = 0; i < 2 && status >= 0; i++) {
		trail[i].items = (struct ptm_items){.code = finder->code,
						    .cancel = frame->cancel,
						    .count_events = events,
						    .fn = trail_item,
						    .ctx = &trail[i]};
		status = decode(&finder->lane[i], frame, &trail[i].items, err);
	}
	if (status >= 0) {
		*begin = agreed(trail);
		*every = trail[0].every;
	}
	free(trail[0].hashes.v);
	free(trail[1].hashes.v);
	return status;
}

/* The next counted item from @i on, or the end. */
static size_t next_counted(const struct window *window, size_t i)
{
	while (i < window->list.n && !window->list.v[i].counted)
		i++;
	return i;
}

/* Where the windows part: an index into each, its end if there is no such item. */
static void part(const struct window window[2], size_t at[2])
{
	at[0] = next_counted(&window[0], 0);
	at[1] = next_counted(&window[1], 0);
	while (at[0] < window[0].list.n && at[1] < window[1].list.n &&
	       ptm_item_hash(&window[0].list.v[at[0]]) == ptm_item_hash(&window[1].list.v[at[1]])) {
		at[0] = next_counted(&window[0], at[0] + 1);
		at[1] = next_counted(&window[1], at[1] + 1);
	}
}

static void show_insn(struct ptm_finder *finder, const struct ptm_item *item,
		      struct ptm_report *report)
{
	char text[PTM_DISASM_MAX];
	uint8_t bytes[16];
	struct ptm_insn insn;
	int len = 0;
	size_t n = 0;

	if (!item->unknown)
		len = ptm_code_insn(item->space, item->ip, (enum ptm_mode)item->mode, &insn);
	if (len > 0 && ptm_space_read(item->space, item->ip, bytes, (size_t)len) == (size_t)len)
		n = ptm_disasm_format(finder->disasm, bytes, (size_t)len, item->ip,
				      (enum ptm_mode)item->mode, text);
	else
		n = (size_t)snprintf(text, sizeof(text), "(not in the images)");
	ptm_report_printf(report, "%016" PRIx64 "  %.*s%s\n", item->ip, (int)n, text,
			  item->resynced ? " (resynced)" : "");
}

static void show_event(const struct ptm_item *item, struct ptm_report *report)
{
	struct ptm_event shown = item->event;
	char text[256];

	shown.flags &= (uint8_t)~PTM_EVF_HAS_TSC;
	(void)ptm_event_format(&shown, text, sizeof(text));
	ptm_report_printf(report, "%s near offset 0x%" PRIx64 "\n", text, shown.offset);
}

static void show_lane(struct ptm_finder *finder, unsigned lane, const struct window *window,
		      size_t at, struct ptm_report *report)
{
	size_t begin = at > SHOWN ? at - SHOWN : 0;

	ptm_report_printf(report, "    %s:\n", finder->lane[lane].engine->ops->name);
	for (size_t i = begin; i <= at + SHOWN && i < window->list.n; i++) {
		const struct ptm_item *item = &window->list.v[i];

		ptm_report_printf(report, "    %s ", i == at ? ">" : " ");
		if (item->is_event)
			show_event(item, report);
		else
			show_insn(finder, item, report);
	}
	if (at == window->list.n)
		ptm_report_printf(report, "    > (the frame ends)\n");
}

static void show(struct ptm_finder *finder, const struct ptm_segment *frame,
		 const struct window window[2], const size_t at[2], struct ptm_report *report)
{
	unsigned known = at[0] < window[0].list.n ? 0 : 1;

	if (at[known] == window[known].list.n) {
		/* The digests differ and the steps do not, or there was too much to look at. */
		ptm_report_printf(
			report, "  frame at offset 0x%" PRIx64 ": the difference is not in %s\n",
			frame->offset,
			window[0].cut || window[1].cut ? "what could be looked at" : "the steps");
		return;
	}
	ptm_report_printf(report, "  frame at offset 0x%" PRIx64 ", behind %" PRIu64 " %s of it:\n",
			  frame->offset, window[known].list.v[at[known]].at,
			  window[known].items.count_events ? "instructions and events"
							   : "instructions");
	for (unsigned i = 0; i < 2; i++)
		show_lane(finder, i, &window[i], at[i], report);
}

int ptm_compare_find(struct ptm_finder *finder, const struct ptm_segment *frame, bool events,
		     struct ptm_report *report, struct ptm_error *err)
{
	struct window window[2] = {{.from = 0}, {.from = 0}};
	uint64_t begin = 0, every = 0;
	size_t at[2];
	int status = leave_trails(finder, frame, events, &begin, &every, err);

	for (unsigned i = 0; i < 2 && status >= 0; i++) {
		window[i].items = (struct ptm_items){.code = finder->code,
						     .cancel = frame->cancel,
						     .count_events = events,
						     .fn = window_item,
						     .ctx = &window[i]};
		window[i].from = begin > SHOWN ? begin - SHOWN : 0;
		window[i].to = begin + every + SHOWN + 1;
		status = decode(&finder->lane[i], frame, &window[i].items, err);
	}
	if (status >= 0) {
		part(window, at);
		show(finder, frame, window, at, report);
	}
	free(window[0].list.v);
	free(window[1].list.v);
	return status;
}
