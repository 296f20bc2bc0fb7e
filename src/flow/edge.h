/* SPDX-License-Identifier: Apache-2.0
 *
 * edge.h - edges: what a run of TNT bits, with or without a TIP behind it, does to the flow.
 *
 * An edge leads from a node over up to PTM_EDGE_BITS branches; everything on the way is folded in:
 * the instructions and their digest, and the calls, of which those that return on the way vanish.
 * It goes through one return below its own calls, as long as that leads where it led before (its
 * guard).  It ends early, with the rest of its symbol, at a further one, at too many calls, and at
 * too many instructions.
 *
 * The table is open addressing with linear probing.  Slots are filled once and never change, so a
 * reader needs no lock: the key is stored last.  A table that fills up is copied into one of twice
 * the size; the old one is freed when nobody can read it any more.
 */
#ifndef PTM_FLOW_EDGE_H
#define PTM_FLOW_EDGE_H

#include "os/rcu.h"

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

#define PTM_EDGE_KEY(state, sym) ((uint32_t)(state) | (uint64_t)(sym) << 32)

/* An edge: a cache line, for two that are used one after the other hardly ever lie side by side. */
struct ptm_edge {
	_Atomic uint64_t key; /* PTM_EDGE_KEY(); 0: empty */
	uint64_t b;           /* digest of the instructions alone ... */
	uint64_t power;       /* ... and PTM_DIGEST_K to the power of their number */
	/* A state: the edge goes through a compressed return below its own calls, and so holds only
	 * if that is what is on the stack, and pops it; 0: it does not. */
	uint32_t guard;
	uint32_t next; /* state; 0: the TIP's target, or what is popped */
	uint32_t rest; /* symbol that is left over; 0: none */
	uint32_t push[PTM_EDGE_PUSH];
	uint16_t n;      /* instructions */
	uint8_t npush;   /* calls that stay on the stack, behind what is popped */
	uint8_t deepest; /* how far the stack ever rises, calls that vanish included: where it is
			    full, each of them costs an entry at its other end */
	uint8_t pop;     /* 1: ends in a compressed return, whose target is the next state */
	uint8_t drop;    /* 1: ends in an uncompressed one: it pops, if there is anything */
	uint8_t unused[10];
};

struct ptm_edges {
	struct ptm_rcu_head rcu;
	unsigned shift; /* 32 - log2 of the number of slots */
	_Atomic uint32_t used;
	struct ptm_edge *slot;
};

static inline size_t ptm_edges_cap(const struct ptm_edges *edges)
{
	return (size_t)1 << (32 - edges->shift);
}

/* Does an edge with the guard @guard not hold with @top on the stack? */
static inline uint32_t ptm_edge_fails(uint32_t guard, uint32_t top)
{
	return (guard ^ top) & (0u - (uint32_t)(guard != 0));
}

/* The first slot to look at. */
static inline struct ptm_edge *ptm_edges_at(const struct ptm_edges *edges, uint32_t state,
					    uint32_t sym)
{
	return &edges->slot[(state ^ sym * PTM_SYM_K) >> edges->shift];
}

/* A table of 2^@bits slots in zeroed memory; NULL if there is none. */
struct ptm_edges *ptm_edges_create(unsigned bits);
void ptm_edges_destroy(struct ptm_edges *edges);

/* The edge with this key that holds with @top on the stack (0: nothing); NULL if there is none, and
 * then @others says how many there are that do not hold. */
const struct ptm_edge *ptm_edges_find(const struct ptm_edges *edges, uint64_t key, uint32_t top,
				      unsigned *others);

/* Publish a copy of @edge, unless somebody did already, or there is no room near its place.
 * Returns true if it is new.  Threads: any number at once. */
bool ptm_edges_add(struct ptm_edges *edges, const struct ptm_edge *edge);

#endif
