/* SPDX-License-Identifier: Apache-2.0
 *
 * edge.c - the table of edges.
 */
#include "flow/edge.h"

#include <stdlib.h>
#include <sys/mman.h>

_Static_assert(PTM_EDGE_DEEP <= 15, "it has four bits in a slot");
_Static_assert(1 + PTM_SYM_MAX / 8 * 6 <= PTM_SLOT_REST_MAX, "what is left of packets");
_Static_assert(1 + PTM_EDGE_BITS <= PTM_SLOT_REST_MAX, "what is left of bits");

/* In the key of a slot that is being filled: no other has this bit. */
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
	return &edges->slot[ptm_slot_index(edges->shift, PTM_KEY_STATE(key), PTM_SYM_WHAT(key)) ^
			    i];
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

bool ptm_sym_bits(uint64_t sym, uint32_t *bits, unsigned *n)
{
	const uint32_t what = PTM_SYM_WHAT(sym);

	*bits = 0;
	*n = 0;
	if ((sym & PTM_SYM_PACKETS) == 0) {
		*n = 31u - (unsigned)__builtin_clz(what);
		*bits = what ^ 1u << *n;
		return true;
	}
	for (unsigned at = 0; at < (sym & PTM_SYM_SIZE); at += 8) {
		const uint32_t packet = what >> at & 0xff;
		unsigned in;

		if (packet < 4 || (packet & 1) != 0)
			return false;
		in = 30u - (unsigned)__builtin_clz(packet);
		*bits = *bits << in | (packet >> 1 & ((1u << in) - 1));
		*n += in;
	}
	return true;
}

/* What stands in the place of the next state: with what is popped goes what is left, so that the
 * look-up behind it does not wait for that to be worked out.  It is less than all 24 bits. */
static uint32_t next_of(const struct ptm_edge *edge)
{
	const unsigned left = edge->rest > 0 ? edge->rest - 1 : 0;
	uint32_t bits;
	unsigned n;

	if (!edge->pop)
		return edge->next;
	(void)ptm_sym_bits(edge->sym, &bits, &n);
	return ((bits & ((1u << left) - 1)) | 1u << left) << (32 - PTM_STATE_BITS);
}

void ptm_edge_pack(struct ptm_slot *slot, const struct ptm_edge *edge)
{
	const uint32_t how = edge->npush |
			     (edge->rest == 0 && (edge->sym & PTM_SYM_TIP) ? 0 : PTM_SLOT_ALONG) |
			     (edge->pop ? PTM_SLOT_POP : 0) | (edge->drop ? PTM_SLOT_DROP : 0);

	slot->b = edge->b;
	slot->next = next_of(edge) | edge->rest | (edge->deepest & 7) << 5;
	slot->guard = edge->guard | (edge->guard != 0 ? PTM_GUARD_YES : PTM_GUARD_NO) |
		      (edge->deepest > 7 ? PTM_GUARD_DEEP : 0);
	slot->push[0] = edge->push[0] | edge->n;
	slot->push[1] = edge->push[1] | how;
	atomic_store_explicit(&slot->key, PTM_EDGE_KEY(edge->state, edge->sym),
			      memory_order_release);
}

void ptm_edge_unpack(struct ptm_edge *edge, const struct ptm_slot *slot)
{
	const uint64_t key = atomic_load_explicit(&slot->key, memory_order_acquire);
	const uint32_t how = PTM_SLOT_HOW(slot);

	*edge = (struct ptm_edge){
		.state = PTM_KEY_STATE(key),
		.sym = key & PTM_SYM_MASK,
		.guard = slot->guard & ~PTM_STATE_FREE,
		.next = (how & PTM_SLOT_POP) != 0 ? 0 : slot->next & ~PTM_STATE_FREE,
		.rest = PTM_SLOT_REST(slot),
		.push = {slot->push[0] & ~PTM_STATE_FREE, slot->push[1] & ~PTM_STATE_FREE},
		.n = PTM_SLOT_N(slot),
		.npush = how & PTM_SLOT_NPUSH,
		.deepest = PTM_SLOT_DEEPEST(slot),
		.pop = (how & PTM_SLOT_POP) != 0,
		.drop = (how & PTM_SLOT_DROP) != 0,
		.b = slot->b,
	};
}

/* Fill a slot that is ours. */
static void fill(struct ptm_slot *to, const struct ptm_slot *from, uint64_t key)
{
	to->b = from->b;
	to->next = from->next;
	to->guard = from->guard;
	to->push[0] = from->push[0];
	to->push[1] = from->push[1];
	atomic_store_explicit(&to->key, key, memory_order_release);
}

enum ptm_edge_added ptm_edges_add(struct ptm_edges *edges, const struct ptm_slot *slot)
{
	const uint64_t key = atomic_load_explicit(&slot->key, memory_order_acquire);

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
		/* Somebody adds one with this key at this moment: if it is another, ours will be
		 * added the next time. */
		if (found == (key | BUSY))
			return PTM_EDGE_THERE;
		if (found == key && ((s->guard ^ slot->guard) & ~PTM_STATE_FREE) == 0)
			return PTM_EDGE_THERE;
	}
	return PTM_EDGE_NO_ROOM;
}
