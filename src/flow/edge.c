/* SPDX-License-Identifier: Apache-2.0
 *
 * edge.c - the table of edges.
 */
#include "flow/edge.h"

#include <stdlib.h>
#include <sys/mman.h>

/* A slot that is being filled: no edge has it, for its symbol would be 0. */
#define BUSY UINT64_C(1)

/* The last probes may go beyond the last slot. */
static size_t table_bytes(unsigned bits)
{
	return (((size_t)1 << bits) + PTM_EDGE_PROBE) * sizeof(struct ptm_edge);
}

struct ptm_edges *ptm_edges_create(unsigned bits, struct ptm_edges *older)
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
	edges->older = older;
	return edges;
}

void ptm_edges_destroy(struct ptm_edges *edges)
{
	while (edges != NULL) {
		struct ptm_edges *older = edges->older;

		(void)munmap(edges->slot, table_bytes(32 - edges->shift));
		free(edges);
		edges = older;
	}
}

const struct ptm_edge *ptm_edges_find(const struct ptm_edges *edges, uint64_t key)
{
	struct ptm_edge *e = ptm_edges_at(edges, (uint32_t)key, PTM_EDGE_SYM(key));

	for (unsigned i = 0; i < PTM_EDGE_PROBE; i++) {
		uint64_t found = atomic_load_explicit(&e[i].key, memory_order_acquire);

		if (PTM_EDGE_SAME(found, key))
			return &e[i];
		if (found == 0)
			break;
	}
	return NULL;
}

bool ptm_edges_add(struct ptm_edges *edges, const struct ptm_edge *edge)
{
	const uint64_t key = atomic_load_explicit(&edge->key, memory_order_relaxed);
	struct ptm_edge *e = ptm_edges_at(edges, (uint32_t)key, PTM_EDGE_SYM(key));

	for (unsigned i = 0; i < PTM_EDGE_PROBE; i++) {
		uint64_t found = 0;

		if (atomic_compare_exchange_strong_explicit(
			    &e[i].key, &found, BUSY, memory_order_relaxed, memory_order_relaxed)) {
			e[i].b = edge->b;
			e[i].next = edge->next;
			e[i].push[0] = edge->push[0];
			e[i].push[1] = edge->push[1];
			e[i].packed = edge->packed;
			atomic_store_explicit(&e[i].key, key, memory_order_release);
			atomic_fetch_add_explicit(&edges->used, 1, memory_order_relaxed);
			return true;
		}
		if (PTM_EDGE_SAME(found, key))
			return false;
	}
	return false;
}
