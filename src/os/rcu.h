/* SPDX-License-Identifier: Apache-2.0
 *
 * rcu.h - read-copy-update: objects that many threads read without a lock and that are freed when
 * no reader can hold them any more, and a hash table of such objects.
 *
 * A registered thread is on line: whatever it found may be used until it says that it holds nothing
 * (ptm_rcu_quiescent(), ptm_rcu_offline(), ptm_rcu_unregister()).  An object that was made
 * unreachable and then given to ptm_rcu_defer() is freed after every thread that was on line has
 * said so once.  So a thread that waits while on line holds up the freeing, and one that waits on
 * line for the freeing waits for ever.
 */
#ifndef PTM_OS_RCU_H
#define PTM_OS_RCU_H

#include "base/error.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Make this thread a reader, on line.  May be nested; not between offline and online. */
void ptm_rcu_register(void);
void ptm_rcu_unregister(void);

/* Around every wait (a lock that is held long, a queue, a read from a pipe, a join): in between,
 * the thread holds nothing that it found, and must not call ptm_rcu_map_find() or
 * ptm_rcu_map_add_unique().  May be nested; nothing happens in a thread that is not registered. */
void ptm_rcu_offline(void);
void ptm_rcu_online(void);

/* This thread holds nothing that it found before.  Cheap: call it between segments.  Nothing
 * happens in a thread that is not registered, or is off line. */
void ptm_rcu_quiescent(void);

/* To be embedded in an object that is freed by ptm_rcu_defer(). */
struct ptm_rcu_head {
	alignas(8) void *opaque[2];
	void (*fn)(struct ptm_rcu_head *head);
};
typedef void (*ptm_rcu_fn)(struct ptm_rcu_head *head);

/* Call @fn(@head) in another thread after all that are readers now have been quiescent.  The object
 * must not be reachable for new readers.  @fn may call ptm_rcu_defer() and ptm_rcu_map_destroy(),
 * and none of the other functions here.  Does not wait and does not fail; the first call of a
 * process starts a thread (when there is none to be had, liburcu ends the process).
 * Threads: any, registered or not, on line or not. */
void ptm_rcu_defer(struct ptm_rcu_head *head, ptm_rcu_fn fn);

/* Wait until all that was deferred by now has been called, not what those calls deferred in turn;
 * the caller holds nothing that it found afterwards.
 * Threads: any, registered or not, on line or not; but not while holding a lock that a reader on
 * line waits for. */
void ptm_rcu_barrier(void);

/* A hash table that grows by itself.  Nodes are embedded in the caller's objects, are in one table
 * at a time and stay in it until it is destroyed: what goes, goes with its table. */
struct ptm_rcu_map;
struct ptm_rcu_map_node {
	alignas(8) void *opaque[2];
};

/* Whether the object of @node has the key @key.  Called for nodes of equal hash only. */
typedef bool (*ptm_rcu_match_fn)(const struct ptm_rcu_map_node *node, const void *key);
typedef void (*ptm_rcu_node_fn)(struct ptm_rcu_map_node *node, void *ctx);

/* @buckets: how many to begin with (a power of two is made of it); a bucket is 16 bytes.  Returns
 * NULL when memory is short.  Threads: any.  Destroy with ptm_rcu_map_destroy(). */
struct ptm_rcu_map *ptm_rcu_map_create(size_t buckets, struct ptm_error *err);

/* Call @fn (may be NULL) for each node, which is out of the table by then and may be freed, and
 * free the table.  Does not wait for readers.  Accepts NULL.
 * Threads: any, registered or not, on line or not; but no other may use the table any more: it was
 * unreachable for a grace period (call this from @fn of ptm_rcu_defer()), or all readers have
 * ended. */
void ptm_rcu_map_destroy(struct ptm_rcu_map *map, ptm_rcu_node_fn fn, void *ctx);

/* The node with this key, or NULL.  @hash is of the caller's making, the same for the same key; its
 * low bits choose the bucket.  Threads: registered and on line. */
struct ptm_rcu_map_node *ptm_rcu_map_find(struct ptm_rcu_map *map, uint64_t hash,
					  ptm_rcu_match_fn match, const void *key);

/* Publish @node, whose object is complete and has the key @key, unless there is one with that key.
 * Returns the node that is in the table: @node, or the one that was there, and then @node is still
 * the caller's.  Threads: registered and on line. */
struct ptm_rcu_map_node *ptm_rcu_map_add_unique(struct ptm_rcu_map *map, uint64_t hash,
						ptm_rcu_match_fn match, const void *key,
						struct ptm_rcu_map_node *node);

#endif
