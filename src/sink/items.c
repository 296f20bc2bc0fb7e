/* SPDX-License-Identifier: Apache-2.0
 *
 * items.c - batches taken apart into instructions and events.
 */
#include "sink/items.h"

static uint64_t add(uint64_t h, uint64_t value)
{
	return h * PTM_DIGEST_K + ptm_digest_mix(value);
}

uint64_t ptm_event_hash(const struct ptm_event *ev)
{
	unsigned flags = ev->flags & (PTM_EVF_HAS_IP | PTM_EVF_HAS_TO);
	uint64_t h = add(1, ev->kind | flags << 8 | (uint64_t)ev->arg << 16);

	h = add(h, flags & PTM_EVF_HAS_IP ? ev->ip : 0);
	h = add(h, flags & PTM_EVF_HAS_TO ? ev->to : 0);
	/* How many bytes a gap skips follows from where the error was noticed, of which libipt
	 * knows no more than the packet that it read last. */
	return add(h, ev->kind == PTM_EV_GAP ? 0 : ev->value);
}

uint64_t ptm_item_hash(const struct ptm_item *item)
{
	if (item->is_event)
		return ptm_event_hash(&item->event);
	return add((uint64_t)item->resynced << 1 | (uint64_t)item->unknown << 2, item->ip);
}

static int put(struct ptm_items *items, struct ptm_item *item, struct ptm_error *err)
{
	item->at = items->n;
	item->counted = !item->is_event || items->count_events;
	items->n += item->counted;
	return items->fn(items->ctx, item, err);
}

/* @n instructions that nobody can show. */
static int put_unknown(struct ptm_items *items, struct ptm_item *item, uint32_t n,
		       struct ptm_error *err)
{
	item->unknown = true;
	while (n-- > 0)
		PTM_TRY(put(items, item, err));
	return 0;
}

static int put_step(struct ptm_items *items, const struct ptm_batch *batch, struct ptm_step step,
		    struct ptm_error *err)
{
	struct ptm_item item = {
		.resynced = batch->resynced, .mode = (uint8_t)step.mode, .space = batch->space};

	while (step.n > 0) {
		uint32_t want = step.n < PTM_RUN_MAX ? step.n : PTM_RUN_MAX;
		int why = 0;
		const struct ptm_run *run = ptm_code_run(items->code, batch->space, step.ip,
							 (enum ptm_mode)step.mode, want, &why);

		if (run == NULL)
			return PTM_FAIL(err, PTM_E_NOMEM,
					"Cannot expand instructions: out of memory");
		if (run->n < want)
			want = run->n;
		for (uint32_t i = 0; i < want; i++) {
			item.ip = run->ips[i];
			PTM_TRY(put(items, &item, err));
		}
		step.n -= want;
		step.ip = item.ip = run->next;
		if (step.n > 0 && (want < PTM_RUN_MAX || run->ends))
			return put_unknown(items, &item, step.n, err);
	}
	return 0;
}

int ptm_items_batch(void *ctx, const struct ptm_batch *batch, struct ptm_error *err)
{
	struct ptm_items *items = (struct ptm_items *)ctx;
	size_t step = 0;

	if (items->cancel != NULL && atomic_load_explicit(items->cancel, memory_order_relaxed))
		return PTM_FAIL(err, PTM_E_CANCELED, "Canceled");
	for (size_t i = 0; i <= batch->nevents; i++) {
		size_t end = i < batch->nevents ? batch->events[i].step : batch->nsteps;
		struct ptm_item item = {.is_event = true, .space = batch->space};

		for (; step < end; step++)
			PTM_TRY(put_step(items, batch, batch->steps[step], err));
		if (i == batch->nevents)
			break;
		item.event = batch->events[i];
		PTM_TRY(put(items, &item, err));
	}
	return 0;
}
