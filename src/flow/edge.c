/* SPDX-License-Identifier: Apache-2.0
 *
 * edge.c - the table of edges.
 */
#include "flow/edge.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A slot that is being filled: no edge has it, for its symbol would be 0. */
#define BUSY UINT64_C(1)

/* The last probes may go beyond the last slot. */
static size_t table_bytes(unsigned bits)
{
	return (((size_t)1 << bits) + PTM_EDGE_PROBE) * sizeof(struct ptm_edge);
}

struct ptm_edges *ptm_edges_create(unsigned bits)
{
	struct ptm_edges *edges = calloc(1, sizeof(*edges));
	void *p;

	if (edges == NULL)
		return NULL;
	p = mmap(NULL, table_bytes(bits), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) {
		free(edges);
		return NULL;
	}
	edges->slot = p;
	edges->shift = 32 - bits;
	return edges;
}

void ptm_edges_destroy(struct ptm_edges *edges)
{
	if (edges == NULL)
		return;
	(void)munmap(edges->slot, table_bytes(32 - edges->shift));
	free(edges);
}

const struct ptm_edge *ptm_edges_find(const struct ptm_edges *edges, uint64_t key, uint32_t top,
				      unsigned *others)
{
	struct ptm_edge *e = ptm_edges_at(edges, (uint32_t)key, (uint32_t)(key >> 32));

	*others = 0;
	for (unsigned i = 0; i < PTM_EDGE_PROBE; i++) {
		uint64_t found = atomic_load_explicit(&e[i].key, memory_order_acquire);

		if (found == key && ptm_edge_fails(e[i].guard, top) == 0)
			return &e[i];
		if (found == 0)
			break;
		*others += found == key;
	}
	return NULL;
}

/* Fill a slot that is ours. */
static void fill(struct ptm_edge *slot, const struct ptm_edge *edge, uint64_t key)
{
	slot->b = edge->b;
	slot->power = edge->power;
	slot->guard = edge->guard;
	slot->next = edge->next;
	slot->rest = edge->rest;
	memcpy(slot->push, edge->push, sizeof(slot->push));
	slot->n = edge->n;
	slot->npush = edge->npush;
	slot->deepest = edge->deepest;
	slot->pop = edge->pop;
	slot->drop = edge->drop;
	atomic_store_explicit(&slot->key, key, memory_order_release);
}

bool ptm_edges_add(struct ptm_edges *edges, const struct ptm_edge *edge)
{
	const uint64_t key = atomic_load_explicit(&edge->key, memory_order_relaxed);
	struct ptm_edge *e = ptm_edges_at(edges, (uint32_t)key, (uint32_t)(key >> 32));

	for (unsigned i = 0; i < PTM_EDGE_PROBE; i++) {
		uint64_t found = 0;

		if (atomic_compare_exchange_strong_explicit(
			    &e[i].key, &found, BUSY, memory_order_acquire, memory_order_acquire)) {
			fill(&e[i], edge, key);
			atomic_fetch_add_explicit(&edges->used, 1, memory_order_relaxed);
			return true;
		}
		if (found == key && e[i].guard == edge->guard)
			return false;
	}
	return false;
}
