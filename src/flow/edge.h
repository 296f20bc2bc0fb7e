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
 * The table is a hash table: an edge stands in the slot that its key says, or in another one of the
 * group around it, of which the next lies in the same 64 bytes.  Slots are filled once and never
 * change, so a reader needs no lock: the key is stored last.  A table that fills up is copied into
 * one of twice the size; the old one is freed when nobody can read it any more.
 */
#ifndef PTM_FLOW_EDGE_H
#define PTM_FLOW_EDGE_H

#include "os/rcu.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PTM_EDGE_BITS  16u
#define PTM_EDGE_INSNS 511u /* at most, in one edge */
#define PTM_EDGE_PUSH  2u   /* calls at most that stay on the stack */
#define PTM_EDGE_DEEP  15u  /* how far the stack may rise on the way */
#define PTM_EDGE_GROUP 16u  /* slots where an edge may stand */

/* A node's id as edges have it: spread over the upper 24 bits, so that the index of a slot takes no
 * multiplication on the way from one edge to the next, and a byte is free for other things. */
#define PTM_STATE_BITS  24u
#define PTM_STATE_FREE  0xffu
#define PTM_STATE_K     0x9e3779u
#define PTM_STATE_K_INV 0xb382c9u /* PTM_STATE_K * PTM_STATE_K_INV = 1 modulo 2^24 */
#define PTM_STATE(id)   ((uint32_t)(id) * (PTM_STATE_K << (32 - PTM_STATE_BITS)))
#define PTM_STATE_ID(s)                                                                            \
	(((uint32_t)(s) >> (32 - PTM_STATE_BITS)) * PTM_STATE_K_INV & ((1u << PTM_STATE_BITS) - 1))

/* A symbol: TNT bits below a stop bit, shifted by one; bit 0 says that a TIP follows them. */
#define PTM_SYM(bits, n, tip) (((uint32_t)(bits) | 1u << (n)) << 1 | (uint32_t)(tip))
#define PTM_SYM_K             0x85ebca6bu
#define PTM_SYM_WIDTH         (PTM_EDGE_BITS + 2)

#define PTM_EDGE_KEY(state, sym) ((uint32_t)(state) | (uint64_t)(sym) << 32)

struct ptm_edge {
	uint32_t state, sym; /* where it begins, and over what */
	/* A state: the edge goes through a compressed return below its own calls, and so holds only
	 * if that is what is on the stack, and pops it; 0: it does not. */
	uint32_t guard;
	uint32_t next; /* state; 0: the TIP's target, or what is popped */
	uint32_t rest; /* 1 + the number of bits that are left over, before the TIP; 0: nothing */
	uint32_t push[PTM_EDGE_PUSH];
	uint32_t n;       /* instructions */
	uint32_t npush;   /* calls that stay on the stack, behind what is popped */
	uint32_t deepest; /* how far the stack ever rises, calls that vanish included: where it is
			     full, each of them costs an entry at its other end */
	bool pop;         /* ends in a compressed return, whose target is the next state */
	bool drop;        /* ends in an uncompressed one: it pops, if there is anything */
	uint64_t b;       /* digest of the instructions alone */
};

/* An edge in the table, packed so that what the next look-up waits for needs no unpacking. */
struct ptm_slot {
	_Atomic uint64_t key;   /* PTM_EDGE_KEY(), rest, n; 0: empty */
	_Atomic uint64_t b;     /* digest */
	_Atomic uint32_t next;  /* state */
	_Atomic uint32_t guard; /* state */
	_Atomic uint64_t push;  /* two states; in the free byte of the first deepest, in that of the
				   second PTM_SLOT_* */
};

#define PTM_SLOT_KEY_BITS      (32 + PTM_SYM_WIDTH)
#define PTM_SLOT_REST(key)     ((uint32_t)((key) >> PTM_SLOT_KEY_BITS) & 31)
#define PTM_SLOT_N(key)        ((uint32_t)((key) >> 55))
#define PTM_SLOT_STATES        UINT64_C(0xffffff00ffffff00)
#define PTM_SLOT_DEEPEST(push) ((uint32_t)(push)&PTM_STATE_FREE)
#define PTM_SLOT_HOW(push)     ((uint32_t)((push) >> 32) & PTM_STATE_FREE)
#define PTM_SLOT_NPUSH         3u /* bits of `how`: number of calls */
#define PTM_SLOT_TIP           4u /* the edge uses up its TIP */
#define PTM_SLOT_POP           8u
#define PTM_SLOT_DROP          16u

struct ptm_edges {
	struct ptm_rcu_head rcu;
	unsigned shift; /* 32 - log2 of the number of slots */
	_Atomic uint32_t used;
	struct ptm_slot *slot;
};

static inline size_t ptm_edges_cap(const struct ptm_edges *edges)
{
	return (size_t)1 << (32 - edges->shift);
}

/* The slot of a symbol. */
static inline const struct ptm_slot *ptm_slot_at(const struct ptm_slot *slots, unsigned shift,
						 uint32_t state, uint32_t sym)
{
	return &slots[(state ^ sym * PTM_SYM_K) >> shift];
}

/* The next one of its group. */
static inline const struct ptm_slot *ptm_slot_twin(const struct ptm_slot *slot)
{
	return (const struct ptm_slot *)((uintptr_t)slot ^ sizeof(*slot));
}

/* Has @slot this key? */
static inline bool ptm_slot_has(const struct ptm_slot *slot, uint64_t key)
{
	const uint64_t found = atomic_load_explicit(&slot->key, memory_order_acquire);

	return (found ^ key) << (64 - PTM_SLOT_KEY_BITS) == 0;
}

/* Does it hold with @top on the stack (0: nothing)?  One branch, mostly taken: that there is a
 * guard is not foreseen so well. */
static inline bool ptm_slot_holds(const struct ptm_slot *slot, uint32_t top)
{
	const uint32_t guard = atomic_load_explicit(&slot->guard, memory_order_relaxed);

	return ((guard ^ top) & (0u - (uint32_t)(guard != 0))) == 0;
}

/* A table of 2^@bits slots, a group at least, in zeroed memory; NULL if there is none. */
struct ptm_edges *ptm_edges_create(unsigned bits);
void ptm_edges_destroy(struct ptm_edges *edges);

/* The edge with this key that holds with @top on the stack (0: nothing); NULL if there is none, and
 * then @others says how many there are that do not hold. */
const struct ptm_slot *ptm_edges_find(const struct ptm_edges *edges, uint64_t key, uint32_t top,
				      unsigned *others);

/* An edge as a slot has it, in @slot that nobody else sees; and back. */
void ptm_edge_pack(struct ptm_slot *slot, const struct ptm_edge *edge);
void ptm_edge_unpack(struct ptm_edge *edge, const struct ptm_slot *slot);

/* Is there an edge in @slot, whole? */
bool ptm_slot_is_full(const struct ptm_slot *slot);

/* Publish a copy of @slot: PTM_EDGE_NEW, unless somebody did already, or there is no room in its
 * group.  Threads: any number at once. */
enum ptm_edge_added { PTM_EDGE_NEW, PTM_EDGE_THERE, PTM_EDGE_NO_ROOM };
enum ptm_edge_added ptm_edges_add(struct ptm_edges *edges, const struct ptm_slot *slot);

#endif
