/* SPDX-License-Identifier: Apache-2.0
 *
 * edge.h - edges: what a run of TNT bits, with or without a TIP behind it, does to the flow.
 *
 * An edge leads from a node over the branches of a symbol; everything on the way is folded in: the
 * instructions and their digest, and the calls, of which those that return on the way vanish. It
 * goes through one return below its own calls, as long as that leads where it led before (its
 * guard).  It ends early, with the rest of its symbol, at a further one, at too many calls, and at
 * too many instructions.
 *
 * The table is a hash table: an edge stands in the slot that its key says, or in another one of the
 * group around it, of which the next lies in the same cache line.  Slots are filled once and never
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

#define PTM_EDGE_BITS  16u  /* in a symbol of bits */
#define PTM_EDGE_INSNS 255u /* at most, in one edge: as in a node */
#define PTM_EDGE_PUSH  2u   /* calls at most that stay on the stack */
#define PTM_EDGE_DEEP  15u  /* how far the stack may rise on the way */
#define PTM_EDGE_GROUP 16u  /* slots where an edge may stand ... */
#define PTM_EDGE_NEAR  4u   /* ... and those of them that the loops look at themselves */

/* A node's id as edges have it: spread over the upper 24 bits, so that the index of a slot takes no
 * multiplication on the way from one edge to the next, and a byte is free for other things. */
#define PTM_STATE_BITS  24u
#define PTM_STATE_FREE  0xffu
#define PTM_STATE_K     0x9e3779u
#define PTM_STATE_K_INV 0xb382c9u /* PTM_STATE_K * PTM_STATE_K_INV = 1 modulo 2^24 */
#define PTM_STATE(id)   ((uint32_t)(id) * (PTM_STATE_K << (32 - PTM_STATE_BITS)))
#define PTM_STATE_ID(s)                                                                            \
	(((uint32_t)(s) >> (32 - PTM_STATE_BITS)) * PTM_STATE_K_INV & ((1u << PTM_STATE_BITS) - 1))

/* A symbol, which is the key of an edge but for the state: in the upper half what it is made of, in
 * the lowest byte what that is, and whether a TIP follows.  It is made of short TNT packets as they
 * are in the trace, up to four, whose bits nobody has to gather to look them up; or of TNT bits
 * below a stop bit, which go on where an edge stopped, or where packets were cut by others. */
#define PTM_SYM_TIP     2u
#define PTM_SYM_PACKETS 4u
#define PTM_SYM_SIZE    0x38u /* of the packets, in bits */
#define PTM_SYM_MAX     32u   /* bits of packets in one symbol */
#define PTM_SYM_FLAGS   (PTM_SYM_TIP | PTM_SYM_PACKETS | PTM_SYM_SIZE)
#define PTM_SYM(bits, n, tip)                                                                      \
	((uint64_t)((uint32_t)(bits) | 1u << (n)) << 32 | ((tip) ? PTM_SYM_TIP : 0))
#define PTM_SYM_HOW(size, tip)         (PTM_SYM_PACKETS + (size) + ((tip) ? PTM_SYM_TIP : 0))
#define PTM_SYM_OF(packets, size, tip) ((uint64_t)(packets) << 32 | PTM_SYM_HOW(size, tip))
#define PTM_SYM_WHAT(sym)              ((uint32_t)((sym) >> 32))
#define PTM_SYM_MASK                   (UINT64_C(0xffffffff) << 32 | PTM_SYM_FLAGS)
#define PTM_SYM_K                      0x85ebca6bu

#define PTM_EDGE_KEY(state, sym) ((uint32_t)(state) | (uint64_t)(sym))
#define PTM_KEY_STATE(key)       ((uint32_t)(key) & ~PTM_STATE_FREE)

struct ptm_edge {
	uint64_t sym;   /* over what it leads ... */
	uint32_t state; /* ... and where it begins */
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

/* An edge in the table: half a cache line.  Only who fills it writes it, and all but the key is
 * read by those only who found the key. */
struct ptm_slot {
	_Atomic uint64_t key; /* PTM_EDGE_KEY(); 0: empty */
	uint64_t b;           /* digest */
	uint32_t next;  /* state; in the free byte `rest`, and `deepest`; if it pops, bits that are
			   left over, below a stop bit, in the place of the state */
	uint32_t guard; /* state; in the free byte PTM_GUARD_*, and of `deepest` 8 */
	uint32_t push[2]; /* states; in the free bytes `n`, and PTM_SLOT_* */
};

/* How far to shift what differs between a guard and the stack, so that it says whether the guard
 * holds: by the free byte; or, if there is none, by all 32 bits. */
#define PTM_GUARD_YES  8u
#define PTM_GUARD_NO   32u
#define PTM_GUARD_DEEP 0x80u

#define PTM_SLOT_REST_MAX      31u
#define PTM_SLOT_REST(slot)    ((slot)->next & PTM_SLOT_REST_MAX)
#define PTM_SLOT_DEEPEST(slot) (((slot)->next >> 5 & 7) | ((slot)->guard & PTM_GUARD_DEEP) >> 4)
#define PTM_SLOT_N(slot)       ((slot)->push[0] & PTM_STATE_FREE)
#define PTM_SLOT_HOW(slot)     ((slot)->push[1] & PTM_STATE_FREE)
#define PTM_SLOT_NPUSH         3u /* number of calls */
#define PTM_SLOT_ALONG         4u /* the edge uses up no TIP, or leaves something before it */
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

/* The index of the first slot for a symbol that is made of @what. */
static inline uint32_t ptm_slot_index(unsigned shift, uint32_t state, uint32_t what)
{
	return (state ^ what * PTM_SYM_K) >> shift;
}

/* The @i-th slot to look at for a key whose first one is @slot. */
static inline const struct ptm_slot *ptm_slot_next(const struct ptm_slot *slot, unsigned i)
{
	return (const struct ptm_slot *)((uintptr_t)slot ^ i * sizeof(*slot));
}

/* Has @slot this key? */
static inline bool ptm_slot_has(const struct ptm_slot *slot, uint64_t key)
{
	return atomic_load_explicit(&slot->key, memory_order_acquire) == key;
}

/* 1 if @slot has a guard, else 0. */
static inline uint32_t ptm_slot_guarded(const struct ptm_slot *slot)
{
	return slot->guard / PTM_GUARD_YES & 1;
}

/* Does it hold with @top on the stack (0: nothing), whatever is in its free byte?  One branch,
 * mostly taken: that there is a guard is not foreseen so well. */
static inline bool ptm_slot_holds(const struct ptm_slot *slot, uint32_t top)
{
	return (uint64_t)(slot->guard ^ top) >> (slot->guard & 63) == 0;
}

/* The TNT bits of @sym, the oldest on top, and how many.  False: these are no TNT packets. */
bool ptm_sym_bits(uint64_t sym, uint32_t *bits, unsigned *n);

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
