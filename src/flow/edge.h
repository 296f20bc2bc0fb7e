/* SPDX-License-Identifier: Apache-2.0
 *
 * edge.h - edges: what a run of TNT bits, with or without a TIP behind it, does to the flow.
 *
 * An edge leads from a node over up to PTM_EDGE_BITS branches; everything on the way is folded in:
 * the instructions and their digest, and the calls, of which those that return on the way vanish.
 * It ends early, with the rest of its symbol, at a return below its own calls, at too many calls,
 * and at too many instructions.
 *
 * The table is open addressing with linear probing.  Slots are filled once and never change, so a
 * reader needs no lock: the key is stored last.  A table that fills up is copied into one of twice
 * the size; the old one stays, for who still reads it, until the generation goes.
 */
#ifndef PTM_FLOW_EDGE_H
#define PTM_FLOW_EDGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PTM_EDGE_BITS  16u
#define PTM_EDGE_INSNS 1023u /* at most, in one edge */
#define PTM_EDGE_PUSH  2u    /* calls at most that stay on the stack */
#define PTM_EDGE_PROBE 8u    /* slots looked at from the first on */

/* A node's id as edges have it: spread over 32 bits, so that the index of a slot takes no
 * multiplication on the way from one edge to the next. */
#define PTM_STATE_K     0x9e3779b1u
#define PTM_STATE_K_INV 0x0e8b2f51u /* PTM_STATE_K * PTM_STATE_K_INV = 1 modulo 2^32 */
#define PTM_STATE(id)   ((uint32_t)(id)*PTM_STATE_K)
#define PTM_STATE_ID(s) ((uint32_t)(s)*PTM_STATE_K_INV)

/* A symbol: TNT bits below a stop bit, shifted by one; bit 0 says that a TIP follows them. */
#define PTM_SYM(bits, n, tip) (((uint32_t)(bits) | 1u << (n)) << 1 | (uint32_t)(tip))
#define PTM_SYM_K             0x85ebca6bu

/* A key: the state and the symbol that an edge is found by; beside them, how deep its own calls
 * were at the deepest, those that vanish included: where the return stack is full, each of them
 * costs an entry at its other end. */
#define PTM_EDGE_KEY(state, sym) ((uint32_t)(state) | (uint64_t)(sym) << 32)
#define PTM_EDGE_KEY_BITS        50u /* the symbol has 18 */
#define PTM_EDGE_SYM(key)        ((uint32_t)((key) >> 32) & ((1u << (PTM_EDGE_KEY_BITS - 32)) - 1))
#define PTM_EDGE_DEEPEST(key)    ((uint32_t)((key) >> PTM_EDGE_KEY_BITS))
#define PTM_EDGE_SAME(a, b)      (((a) ^ (b)) << (64 - PTM_EDGE_KEY_BITS) == 0)

/* The fields of `packed`. */
#define PTM_EDGE_N(p)     ((p)&1023u) /* instructions */
#define PTM_EDGE_NPUSH(p) ((p) >> 10 & 3u)
#define PTM_EDGE_POP      (1u << 12)  /* a compressed return: its target is the next state */
#define PTM_EDGE_DROP     (1u << 13)  /* an uncompressed one: it pops, if there is anything */
#define PTM_EDGE_REST(p)  ((p) >> 14) /* symbol that is left over; 0: none */

struct ptm_edge {
	_Atomic uint64_t key; /* PTM_EDGE_KEY(), deepest << PTM_EDGE_KEY_BITS; 0: empty */
	uint64_t b;           /* digest of the instructions alone */
	uint32_t next;        /* state; 0: the TIP's target, or what is popped */
	uint32_t push[PTM_EDGE_PUSH];
	uint32_t packed;
};

struct ptm_edges {
	struct ptm_edges *older; /* the table that this one replaced */
	unsigned shift;          /* 32 - log2 of the number of slots */
	_Atomic uint32_t used;
	struct ptm_edge *slot;
};

static inline size_t ptm_edges_cap(const struct ptm_edges *edges)
{
	return (size_t)1 << (32 - edges->shift);
}

/* The first slot to look at. */
static inline struct ptm_edge *ptm_edges_at(const struct ptm_edges *edges, uint32_t state,
					    uint32_t sym)
{
	return &edges->slot[(state ^ sym * PTM_SYM_K) >> edges->shift];
}

/* A table of 2^@bits slots in zeroed memory; NULL if there is none. */
struct ptm_edges *ptm_edges_create(unsigned bits, struct ptm_edges *older);
/* With all older ones. */
void ptm_edges_destroy(struct ptm_edges *edges);

/* The edge, or NULL.  @key: PTM_EDGE_KEY(). */
const struct ptm_edge *ptm_edges_find(const struct ptm_edges *edges, uint64_t key);

/* Publish a copy of @edge, unless somebody did already, or there is no room near its place.
 * Returns true if it is new.  Threads: any number at once. */
bool ptm_edges_add(struct ptm_edges *edges, const struct ptm_edge *edge);

#endif
