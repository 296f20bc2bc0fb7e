/* SPDX-License-Identifier: Apache-2.0
 *
 * items.h - what an engine yields as one sequence of items: every instruction and every event.
 *
 * For looking closely at a small part of a trace: each step is expanded, each item costs a call.
 */
#ifndef PTM_SINK_ITEMS_H
#define PTM_SINK_ITEMS_H

#include "flow/engine.h"
#include "image/code.h"

struct ptm_item {
	uint64_t at; /* counted items that precede it */
	bool counted;
	bool is_event;
	bool resynced; /* of an instruction: decoded behind a resync inside a frame */
	bool unknown;  /* of an instruction: the images do not hold it; ip is where they end */
	uint8_t mode;  /* enum ptm_mode */
	uint64_t ip;
	const struct ptm_space *space;
	struct ptm_event event;
};

typedef int (*ptm_item_fn)(void *ctx, const struct ptm_item *item, struct ptm_error *err);

struct ptm_items {
	struct ptm_code *code;     /* borrowed */
	const atomic_bool *cancel; /* borrowed; may be NULL */
	bool count_events;         /* events count, too, and not instructions alone */
	ptm_item_fn fn;            /* called for each item, in order */
	void *ctx;
	uint64_t n; /* counted items so far; begins as 0 */
};

/* A ptm_emit_fn: @ctx is a struct ptm_items.  The engine must be one that was asked for steps. */
int ptm_items_batch(void *ctx, const struct ptm_batch *batch, struct ptm_error *err);

/* What of an item two engines must agree on.  Of an event that is not where its packet lies, which
 * is told roughly, nor its time, which is an estimate, nor how many bytes a gap skips. */
uint64_t ptm_item_hash(const struct ptm_item *item);
uint64_t ptm_event_hash(const struct ptm_event *ev);

#endif
