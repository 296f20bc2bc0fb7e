/* SPDX-License-Identifier: Apache-2.0
 *
 * rcu.c - read-copy-update by liburcu (the flavour of quiescent states, QSBR) and its hash table.
 *
 * liburcu orders memory with barriers in code that ThreadSanitizer does not see, so what liburcu
 * guarantees is told to it here, and no more than that: what was written before a node was
 * published happens before it is found; what a reader did before a quiescent state happens before
 * what is deferred is called (through one token, as a grace period waits for all readers); and what
 * was called happens before ptm_rcu_barrier() returns.
 */
#include "os/rcu.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>

#include <urcu/urcu-qsbr.h>

#include <urcu/rculfhash.h>

#if defined(__SANITIZE_THREAD__)
#define PTM_RCU_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PTM_RCU_TSAN 1
#endif
#endif

#ifdef PTM_RCU_TSAN
#include <sanitizer/tsan_interface.h>
#define TSAN_RELEASE(p) __tsan_release((void *)(p))
#define TSAN_ACQUIRE(p) __tsan_acquire((void *)(p))
static char grace, called; /* only their addresses count */
#else
#define TSAN_RELEASE(p) ((void)0)
#define TSAN_ACQUIRE(p) ((void)0)
#endif

static_assert(sizeof(struct rcu_head) <= offsetof(struct ptm_rcu_head, fn), "head too small");
static_assert(alignof(struct rcu_head) <= alignof(struct ptm_rcu_head), "head not aligned");
static_assert(sizeof(struct cds_lfht_node) <= offsetof(struct ptm_rcu_map_node, next),
	      "node too small");
static_assert(alignof(struct cds_lfht_node) <= alignof(struct ptm_rcu_map_node),
	      "node not aligned");

/* Calls of ptm_rcu_register() and ptm_rcu_offline() that are open in this thread. */
static _Thread_local unsigned registered, offline;

void ptm_rcu_register(void)
{
	assert(offline == 0);
	if (registered++ == 0)
		urcu_qsbr_register_thread();
}

void ptm_rcu_unregister(void)
{
	assert(registered > 0 && offline == 0);
	if (--registered == 0) {
		TSAN_RELEASE(&grace);
		urcu_qsbr_unregister_thread();
	}
}

void ptm_rcu_offline(void)
{
	if (registered > 0 && offline++ == 0) {
		TSAN_RELEASE(&grace);
		urcu_qsbr_thread_offline();
	}
}

void ptm_rcu_online(void)
{
	assert(registered == 0 || offline > 0);
	if (registered > 0 && --offline == 0)
		urcu_qsbr_thread_online();
}

void ptm_rcu_quiescent(void)
{
	if (registered > 0 && offline == 0) {
		TSAN_RELEASE(&grace);
		urcu_qsbr_quiescent_state();
	}
}

/* What liburcu wants of the callers of a function, and how to go back from there.  Its own thread
 * that calls what was deferred is registered without our knowing, and on line. */
enum state { WAS_ONLINE, WAS_OFFLINE, WAS_UNREGISTERED };

static enum state go_online(void)
{
	if (urcu_qsbr_read_ongoing())
		return WAS_ONLINE;
	if (registered > 0) {
		urcu_qsbr_thread_online();
		return WAS_OFFLINE;
	}
	urcu_qsbr_register_thread();
	return WAS_UNREGISTERED;
}

static enum state go_offline(void)
{
	if (!urcu_qsbr_read_ongoing())
		return WAS_OFFLINE;
	TSAN_RELEASE(&grace);
	urcu_qsbr_thread_offline();
	return WAS_ONLINE;
}

static void go_back(enum state state)
{
	bool online = urcu_qsbr_read_ongoing();

	if (state == WAS_ONLINE && !online)
		urcu_qsbr_thread_online();
	if (state == WAS_ONLINE || !online)
		return;
	TSAN_RELEASE(&grace);
	if (state == WAS_OFFLINE)
		urcu_qsbr_thread_offline();
	else
		urcu_qsbr_unregister_thread();
}

/* liburcu's threads inherit this mask: signals stay with the threads of the program. */
static void block_signals(sigset_t *old)
{
	sigset_t all;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, old);
}

static void start_caller(void)
{
	sigset_t old;

	block_signals(&old);
	(void)urcu_qsbr_get_default_call_rcu_data();
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void call(struct rcu_head *storage)
{
	struct ptm_rcu_head *head = (struct ptm_rcu_head *)(void *)storage;

	TSAN_ACQUIRE(head);
	TSAN_ACQUIRE(&grace);
	head->fn(head);
	TSAN_RELEASE(&called);
}

void ptm_rcu_defer(struct ptm_rcu_head *head, ptm_rcu_fn fn)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	enum state state;

	(void)pthread_once(&once, start_caller);
	head->fn = fn;
	TSAN_RELEASE(head);
	state = go_online();
	urcu_qsbr_call_rcu((struct rcu_head *)(void *)head->opaque, call);
	go_back(state);
}

void ptm_rcu_synchronize(void)
{
	enum state state = go_offline();

	urcu_qsbr_synchronize_rcu();
	go_back(state);
	TSAN_ACQUIRE(&grace);
}

void ptm_rcu_barrier(void)
{
	enum state state = go_offline();

	urcu_qsbr_barrier();
	go_back(state);
	TSAN_ACQUIRE(&called);
}

/* A struct ptm_rcu_map is a struct cds_lfht under another name: look-ups follow one pointer less.
 */
static struct cds_lfht *table_of(struct ptm_rcu_map *map)
{
	return (struct cds_lfht *)(void *)map;
}

static struct cds_lfht_node *inner(struct ptm_rcu_map_node *node)
{
	return (struct cds_lfht_node *)(void *)node->opaque;
}

/* NULL for NULL, as the storage comes first in the node. */
static struct ptm_rcu_map_node *outer(struct cds_lfht_node *node)
{
	return (struct ptm_rcu_map_node *)(void *)node;
}

struct ptm_rcu_map *ptm_rcu_map_create(size_t buckets, struct ptm_error *err)
{
	struct cds_lfht *table = NULL;
	size_t n = 1;
	sigset_t old;

	while (n < buckets && n <= SIZE_MAX / 2)
		n *= 2;
	/* Counting keeps a large table from growing with every longer chain that chance makes. */
	block_signals(&old);
	table = cds_lfht_new_flavor(n, 1, 0, CDS_LFHT_AUTO_RESIZE | CDS_LFHT_ACCOUNTING,
				    &urcu_qsbr_flavor, NULL);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (table == NULL)
		(void)PTM_FAIL(err, PTM_E_NOMEM, "Cannot allocate a table of %zu buckets", n);
	return (struct ptm_rcu_map *)(void *)table;
}

void ptm_rcu_map_destroy(struct ptm_rcu_map *map, ptm_rcu_node_fn fn, void *ctx)
{
	struct ptm_rcu_map_node *list = NULL;
	struct cds_lfht_iter iter;
	struct cds_lfht *table;
	enum state state;

	if (map == NULL)
		return;
	table = table_of(map);
	state = go_online();
	/* A resize may still go over the nodes: they are given back when it has ended. */
	for (cds_lfht_first(table, &iter); iter.node != NULL; cds_lfht_next(table, &iter)) {
		struct ptm_rcu_map_node *node = outer(iter.node);

		TSAN_ACQUIRE(node);
		(void)cds_lfht_del(table, iter.node);
		node->next = list;
		list = node;
	}
	go_back(state);
	/* It ends when all readers have been quiescent, so not while we are on line. */
	state = go_offline();
	(void)cds_lfht_destroy(table, NULL);
	go_back(state);
	while (list != NULL) {
		struct ptm_rcu_map_node *node = list;

		list = node->next;
		if (fn != NULL)
			fn(node, ctx);
	}
}

struct wanted {
	ptm_rcu_match_fn match;
	const void *key;
};

static int match_node(struct cds_lfht_node *node, const void *arg)
{
	const struct wanted *wanted = arg;

	TSAN_ACQUIRE(node);
	return wanted->match(outer(node), wanted->key);
}

struct ptm_rcu_map_node *ptm_rcu_map_find(struct ptm_rcu_map *map, uint64_t hash,
					  ptm_rcu_match_fn match, const void *key)
{
	struct wanted wanted = {match, key};
	struct cds_lfht_iter iter;

	assert(urcu_qsbr_read_ongoing());
	cds_lfht_lookup(table_of(map), hash, match_node, &wanted, &iter);
	return outer(iter.node);
}

struct ptm_rcu_map_node *ptm_rcu_map_add_unique(struct ptm_rcu_map *map, uint64_t hash,
						ptm_rcu_match_fn match, const void *key,
						struct ptm_rcu_map_node *node)
{
	struct wanted wanted = {match, key};

	assert(urcu_qsbr_read_ongoing());
	cds_lfht_node_init(inner(node));
	TSAN_RELEASE(node);
	/* A winner that is not ours has been acquired by match_node(). */
	return outer(cds_lfht_add_unique(table_of(map), hash, match_node, &wanted, inner(node)));
}

void ptm_rcu_map_for_each(struct ptm_rcu_map *map, ptm_rcu_node_fn fn, void *ctx)
{
	struct cds_lfht_iter iter;

	assert(urcu_qsbr_read_ongoing());
	for (cds_lfht_first(table_of(map), &iter); iter.node != NULL;
	     cds_lfht_next(table_of(map), &iter)) {
		TSAN_ACQUIRE(iter.node);
		fn(outer(iter.node), ctx);
	}
}
