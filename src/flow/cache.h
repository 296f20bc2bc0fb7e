/* SPDX-License-Identifier: Apache-2.0
 *
 * cache.h - the shared cache of decoded code: nodes of address spaces, found by address.
 *
 * The nodes live in a generation: arrays that are filled from the front and never changed, so that
 * an id names a node for as long as the generation lives.  Nothing is ever taken out of one.  When
 * one is full a new, empty one takes its place, and the old one is freed when no worker can hold it
 * any more (os/rcu.h): so eviction never has to find out who names what.
 *
 * Threads: all functions but create and destroy may be called by any number of registered readers.
 */
#ifndef PTM_FLOW_CACHE_H
#define PTM_FLOW_CACHE_H

#include "base/error.h"
#include "flow/edge.h"
#include "flow/node.h"
#include "ptmill/session.h"

#include <stddef.h>

struct ptm_gen;

/* ptm_cache_create() and ptm_cache_destroy() are public: ptmill/session.h.  The limit is that of
 * one generation, half for nodes, half for edges.  A cache may outlive the session that filled it:
 * address spaces are known again by what is mapped in them.  When it is destroyed no reader holds
 * anything of it any more. */

/* The current generation: borrowed until the caller's next quiescent state (ptm_rcu_quiescent(),
 * ptm_rcu_offline(), ptm_rcu_unregister()). */
struct ptm_gen *ptm_cache_gen(struct ptm_cache *cache);
/* A number that no other generation of the process has: addresses are used again. */
uint64_t ptm_gen_serial(const struct ptm_gen *gen);

/* @full has no room: put an empty one in its place, unless somebody did already.  Returns 0, or
 * -PTM_E_NOMEM. */
int ptm_cache_turn(struct ptm_cache *cache, const struct ptm_gen *full, struct ptm_error *err);

/* @gen stays alive until it is released, also for who is no reader meanwhile. */
void ptm_gen_hold(struct ptm_gen *gen);
void ptm_gen_release(struct ptm_gen *gen);

/* The index of @space, or of one with the same content, in @gen.  Negative: no room. */
int ptm_gen_space(struct ptm_gen *gen, const struct ptm_space *space);

/* The node at @ip: built if there is none.  @index is that of @space.  Returns its id, 0 if the
 * generation is full. */
uint32_t ptm_gen_node(struct ptm_gen *gen, int index, const struct ptm_space *space, uint64_t ip,
		      enum ptm_mode mode);

/* The nodes by id; [0] is no node. */
struct ptm_node *ptm_gen_nodes(struct ptm_gen *gen);

/* The edges between its nodes: borrowed like the generation.  Another table takes its place when it
 * fills up. */
struct ptm_edges *ptm_gen_edges(struct ptm_gen *gen);
/* Publish a copy of @edge; without effect when there is no room. */
void ptm_gen_add_edge(struct ptm_gen *gen, const struct ptm_slot *edge);

struct ptm_cache_stats {
	uint64_t generations; /* that were begun */
	uint64_t nodes;       /* in the current one */
	uint64_t edges;       /* likewise */
	uint64_t bytes;       /* that these take */
};
struct ptm_cache_stats ptm_cache_stats(struct ptm_cache *cache);

#endif
