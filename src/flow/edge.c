/* SPDX-License-Identifier: Apache-2.0
 *
 * edge.c - the table of edges.
 */
#include "flow/edge.h"

#include <stdlib.h>
#include <sys/mman.h>

/* In the key of a slot that is being filled: no state has this bit. */
#define BUSY UINT64_C(1)

bool ptm_slot_is_full(const struct ptm_slot *slot)
{
	const uint64_t key = atomic_load_explicit(&slot->key, memory_order_acquire);

	return key != 0 && (key & BUSY) == 0;
}

static size_t table_bytes(const struct ptm_edges *edges)
{
	return ptm_edges_cap(edges) * sizeof(struct ptm_slot);
}

struct ptm_edges *ptm_edges_create(unsigned bits)
{
	struct ptm_edges *edges = calloc(1, sizeof(*edges));
	void *p;

	if (edges == NULL)
		return NULL;
	edges->shift = 32 - bits;
	p = mmap(NULL, table_bytes(edges), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) {
		free(edges);
		return NULL;
	}
	/* Look-ups are scattered over all of it. */
	(void)madvise(p, table_bytes(edges), MADV_HUGEPAGE);
	edges->slot = p;
	return edges;
}

void ptm_edges_destroy(struct ptm_edges *edges)
{
	if (edges == NULL)
		return;
	(void)munmap(edges->slot, table_bytes(edges));
	free(edges);
}

/* The @i-th slot to look at for a key. */
static struct ptm_slot *slot_at(const struct ptm_edges *edges, uint64_t key, unsigned i)
{
	const uint32_t sym = (uint32_t)(key >> 32) & ((1u << PTM_SYM_WIDTH) - 1);
	const struct ptm_slot *first = ptm_slot_at(edges->slot, edges->shift, (uint32_t)key, sym);

	return &edges->slot[(size_t)(first - edges->slot) ^ i];
}

const struct ptm_slot *ptm_edges_find(const struct ptm_edges *edges, uint64_t key, uint32_t top,
				      unsigned *others)
{
	*others = 0;
	for (unsigned i = 0; i < PTM_EDGE_GROUP; i++) {
		const struct ptm_slot *s = slot_at(edges, key, i);

		if (ptm_slot_has(s, key)) {
			if (ptm_slot_holds(s, top))
				return s;
			++*others;
		}
		if (atomic_load_explicit(&s->key, memory_order_relaxed) == 0)
			break;
	}
	return NULL;
}

void ptm_edge_pack(struct ptm_slot *slot, const struct ptm_edge *edge)
{
	const uint32_t how = edge->npush | (edge->rest == 0 && edge->sym & 1 ? PTM_SLOT_TIP : 0) |
			     (edge->pop ? PTM_SLOT_POP : 0) | (edge->drop ? PTM_SLOT_DROP : 0);

	atomic_store_explicit(&slot->b, edge->b, memory_order_relaxed);
	atomic_store_explicit(&slot->next, edge->next, memory_order_relaxed);
	atomic_store_explicit(&slot->guard, edge->guard, memory_order_relaxed);
	atomic_store_explicit(&slot->push,
			      (edge->push[0] | edge->deepest) | (uint64_t)(edge->push[1] | how)
									<< 32,
			      memory_order_relaxed);
	atomic_store_explicit(&slot->key,
			      PTM_EDGE_KEY(edge->state, edge->sym) |
				      (uint64_t)edge->rest << PTM_SLOT_KEY_BITS |
				      (uint64_t)edge->n << 55,
			      memory_order_release);
}

void ptm_edge_unpack(struct ptm_edge *edge, const struct ptm_slot *slot)
{
	const uint64_t key = atomic_load_explicit(&slot->key, memory_order_acquire);
	const uint64_t push = atomic_load_explicit(&slot->push, memory_order_relaxed);
	const uint32_t how = PTM_SLOT_HOW(push);

	*edge = (struct ptm_edge){
		.state = (uint32_t)key,
		.sym = (uint32_t)(key >> 32) & ((1u << PTM_SYM_WIDTH) - 1),
		.guard = atomic_load_explicit(&slot->guard, memory_order_relaxed),
		.next = atomic_load_explicit(&slot->next, memory_order_relaxed),
		.rest = PTM_SLOT_REST(key),
		.push = {(uint32_t)push & ~PTM_STATE_FREE,
			 (uint32_t)(push >> 32) & ~PTM_STATE_FREE},
		.n = PTM_SLOT_N(key),
		.npush = how & PTM_SLOT_NPUSH,
		.deepest = PTM_SLOT_DEEPEST(push),
		.pop = (how & PTM_SLOT_POP) != 0,
		.drop = (how & PTM_SLOT_DROP) != 0,
		.b = atomic_load_explicit(&slot->b, memory_order_relaxed),
	};
}

/* Fill a slot that is ours. */
static void fill(struct ptm_slot *to, const struct ptm_slot *from, uint64_t key)
{
	atomic_store_explicit(&to->b, atomic_load_explicit(&from->b, memory_order_relaxed),
			      memory_order_relaxed);
	atomic_store_explicit(&to->next, atomic_load_explicit(&from->next, memory_order_relaxed),
			      memory_order_relaxed);
	atomic_store_explicit(&to->guard, atomic_load_explicit(&from->guard, memory_order_relaxed),
			      memory_order_relaxed);
	atomic_store_explicit(&to->push, atomic_load_explicit(&from->push, memory_order_relaxed),
			      memory_order_relaxed);
	atomic_store_explicit(&to->key, key, memory_order_release);
}

enum ptm_edge_added ptm_edges_add(struct ptm_edges *edges, const struct ptm_slot *slot)
{
	const uint64_t key = atomic_load_explicit(&slot->key, memory_order_acquire);
	const uint32_t guard = atomic_load_explicit(&slot->guard, memory_order_relaxed);

	for (unsigned i = 0; i < PTM_EDGE_GROUP; i++) {
		struct ptm_slot *s = slot_at(edges, key, i);
		uint64_t found = 0;

		if (atomic_compare_exchange_strong_explicit(&s->key, &found, key | BUSY,
							    memory_order_acquire,
							    memory_order_acquire)) {
			fill(s, slot, key);
			atomic_fetch_add_explicit(&edges->used, 1, memory_order_relaxed);
			return PTM_EDGE_NEW;
		}
		if (found == key && atomic_load_explicit(&s->guard, memory_order_relaxed) == guard)
			return PTM_EDGE_THERE;
	}
	return PTM_EDGE_NO_ROOM;
}
