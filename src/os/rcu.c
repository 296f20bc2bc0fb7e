/* SPDX-License-Identifier: Apache-2.0
 *
 * rcu.c - read-copy-update by liburcu (the flavour of quiescent states, QSBR) and its hash table.
 *
 * liburcu orders memory with barriers in code that ThreadSanitizer does not see, so what liburcu
 * guarantees is told to it here, and no more than that: what was written before a node was
 * published happens before it is found; what a reader did before a quiescent state happens before
 * what is deferred is called (through one token, as a grace period waits for all readers); and what
 * was called happens before ptm_rcu_barrier() returns.
 *
 * A table grows in a thread of its own for the time that it takes: growing needs no grace period,
 * but an adder could not do it without being quiescent.  liburcu's automatic growth is not used. It
 * marks a resize as begun after it has handed it to its worker (__cds_lfht_resize_lazy_launch()); a
 * worker that is through by then leaves a table that never grows again, which was seen: 100,000
 * nodes in four buckets.  And from 0.14 on its destruction goes on when cds_lfht_destroy() has
 * returned.
 */
#include "os/rcu.h"

#include "os/thread.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

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
static_assert(sizeof(struct cds_lfht_node) <= sizeof(struct ptm_rcu_map_node), "node too small");
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

/* How much was deferred, and how much of it has been called. */
static atomic_ulong ndeferred, ncalled;

/* liburcu's thread inherits this mask: signals stay with the threads of the program. */
static void start_caller(void)
{
	sigset_t all, old;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
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
	atomic_fetch_add_explicit(&ncalled, 1, memory_order_release);
}

void ptm_rcu_defer(struct ptm_rcu_head *head, ptm_rcu_fn fn)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	enum state state;

	(void)pthread_once(&once, start_caller);
	atomic_fetch_add_explicit(&ndeferred, 1, memory_order_relaxed);
	head->fn = fn;
	TSAN_RELEASE(head);
	state = go_online();
	urcu_qsbr_call_rcu((struct rcu_head *)(void *)head->opaque, call);
	go_back(state);
}

/* Waits for its own turn behind all that was deferred before: one thread calls them in order. */
struct waiter {
	struct ptm_rcu_head head;
	pthread_mutex_t lock;
	pthread_cond_t turn;
	bool come;
};

static void wake(struct ptm_rcu_head *head)
{
	struct waiter *w = (struct waiter *)(void *)head; /* its first member */

	(void)pthread_mutex_lock(&w->lock);
	w->come = true;
	(void)pthread_cond_signal(&w->turn);
	(void)pthread_mutex_unlock(&w->lock);
}

/* Not urcu_qsbr_barrier(): the last of its callers and the calling thread free what they share, by
 * turns, which ThreadSanitizer takes for a race. */
void ptm_rcu_barrier(void)
{
	struct waiter w = {.come = false};
	enum state state;

	if (atomic_load_explicit(&ncalled, memory_order_acquire) ==
	    atomic_load_explicit(&ndeferred, memory_order_relaxed)) {
		TSAN_ACQUIRE(&called);
		return;
	}
	(void)pthread_mutex_init(&w.lock, NULL);
	(void)pthread_cond_init(&w.turn, NULL);
	state = go_offline();
	ptm_rcu_defer(&w.head, wake);
	(void)pthread_mutex_lock(&w.lock);
	while (!w.come)
		(void)pthread_cond_wait(&w.turn, &w.lock);
	(void)pthread_mutex_unlock(&w.lock);
	go_back(state);
	(void)pthread_cond_destroy(&w.turn);
	(void)pthread_mutex_destroy(&w.lock);
	TSAN_ACQUIRE(&called);
}

struct ptm_rcu_map {
	struct cds_lfht *table; /* never changes */
	/* Written by every adder, so not beside what every reader needs; all relaxed, as they only
	 * say when to grow. */
	alignas(64) atomic_size_t count;
	atomic_size_t buckets, limit; /* limit: more nodes than this, and it is to grow */
	pthread_mutex_t lock;         /* of the next two; the destroyer is alone */
	pthread_t grower;
	bool started;
	/* The grower touches nothing any more; release, pairs with start_grower(). */
	atomic_bool grown;
};

static struct cds_lfht_node *inner(struct ptm_rcu_map_node *node)
{
	return (struct cds_lfht_node *)(void *)node->opaque;
}

/* NULL for NULL, as the storage comes first in the node. */
static struct ptm_rcu_map_node *outer(struct cds_lfht_node *node)
{
	return (struct ptm_rcu_map_node *)(void *)node;
}

/* To a bucket or two for each node, again and again while adders are faster. */
static void *grow(void *arg)
{
	struct ptm_rcu_map *map = arg;
	size_t n = atomic_load_explicit(&map->buckets, memory_order_relaxed), count;

	/* liburcu puts its caller on line and off line as it needs. */
	ptm_rcu_register();
	ptm_rcu_offline();
	while ((count = atomic_load_explicit(&map->count, memory_order_relaxed)) > 2 * n) {
		while (n < 2 * count)
			n *= 2;
		cds_lfht_resize(map->table, n);
		atomic_store_explicit(&map->buckets, n, memory_order_relaxed);
	}
	ptm_rcu_online();
	ptm_rcu_unregister();
	atomic_store_explicit(&map->limit, 2 * n, memory_order_relaxed);
	atomic_store_explicit(&map->grown, true, memory_order_release);
	return NULL;
}

/* One at a time; who finds another adder here, or the grower still at work, goes on. */
static void start_grower(struct ptm_rcu_map *map)
{
	if (pthread_mutex_trylock(&map->lock) != 0)
		return;
	if (map->started && atomic_load_explicit(&map->grown, memory_order_acquire)) {
		(void)pthread_join(map->grower, NULL); /* it is about to end */
		map->started = false;
	}
	/* Read again: it may just have grown. */
	if (!map->started && atomic_load_explicit(&map->count, memory_order_relaxed) >
				     atomic_load_explicit(&map->limit, memory_order_relaxed)) {
		size_t limit = atomic_load_explicit(&map->limit, memory_order_relaxed);

		atomic_store_explicit(&map->grown, false, memory_order_relaxed);
		if (ptm_thread_start(&map->grower, "grow", grow, map, NULL) == 0)
			map->started = true;
		else /* it works without, and slower: not to be tried each time */
			atomic_store_explicit(&map->limit, 2 * limit, memory_order_relaxed);
	}
	(void)pthread_mutex_unlock(&map->lock);
}

struct ptm_rcu_map *ptm_rcu_map_create(size_t buckets, struct ptm_error *err)
{
	struct ptm_rcu_map *map = aligned_alloc(alignof(struct ptm_rcu_map), sizeof(*map));
	size_t n = 1;

	while (n < buckets && n <= SIZE_MAX / 64)
		n *= 2;
	if (map == NULL || pthread_mutex_init(&map->lock, NULL) != 0) {
		free(map);
		(void)PTM_FAIL(err, PTM_E_NOMEM, "Out of memory for a table of nodes");
		return NULL;
	}
	map->table = cds_lfht_new_flavor(n, 1, 0, 0, &urcu_qsbr_flavor, NULL);
	atomic_init(&map->count, 0);
	atomic_init(&map->buckets, n);
	atomic_init(&map->limit, 2 * n);
	atomic_init(&map->grown, false);
	map->started = false;
	if (map->table == NULL) {
		ptm_rcu_map_destroy(map, NULL, NULL);
		(void)PTM_FAIL(err, PTM_E_NOMEM, "Out of memory for a table of %zu buckets", n);
		return NULL;
	}
	return map;
}

static void remove_all(struct cds_lfht *table, ptm_rcu_node_fn fn, void *ctx)
{
	enum state state = go_online();
	struct cds_lfht_iter iter;

	/* With nobody else at the table a node is out when it has been deleted, and the iterator
	 * knows the next one already. */
	cds_lfht_first(table, &iter);
	while (iter.node != NULL) {
		struct cds_lfht_node *node = iter.node;

		TSAN_ACQUIRE(node);
		cds_lfht_next(table, &iter);
		(void)cds_lfht_del(table, node);
		if (fn != NULL)
			fn(outer(node), ctx);
	}
	go_back(state);
}

void ptm_rcu_map_destroy(struct ptm_rcu_map *map, ptm_rcu_node_fn fn, void *ctx)
{
	if (map == NULL)
		return;
	if (map->started)
		(void)pthread_join(map->grower, NULL);
	if (map->table != NULL) {
		remove_all(map->table, fn, ctx);
		(void)cds_lfht_destroy(map->table, NULL); /* waits for nobody, without workers */
	}
	(void)pthread_mutex_destroy(&map->lock);
	free(map);
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
	cds_lfht_lookup(map->table, hash, match_node, &wanted, &iter);
	return outer(iter.node);
}

struct ptm_rcu_map_node *ptm_rcu_map_add_unique(struct ptm_rcu_map *map, uint64_t hash,
						ptm_rcu_match_fn match, const void *key,
						struct ptm_rcu_map_node *node)
{
	struct wanted wanted = {match, key};
	struct ptm_rcu_map_node *in;
	size_t count;

	assert(urcu_qsbr_read_ongoing());
	cds_lfht_node_init(inner(node));
	TSAN_RELEASE(node);
	/* A winner that is not ours has been acquired by match_node(). */
	in = outer(cds_lfht_add_unique(map->table, hash, match_node, &wanted, inner(node)));
	if (in != node)
		return in;
	count = atomic_fetch_add_explicit(&map->count, 1, memory_order_relaxed) + 1;
	if (count > atomic_load_explicit(&map->limit, memory_order_relaxed))
		start_grower(map);
	return node;
}
