/* SPDX-License-Identifier: Apache-2.0
 *
 * cache.c - a generation: an array of nodes, an array of their links in a hash table by address,
 * and a list of the address spaces that they lie in.
 *
 * The arrays are reserved whole as address space and get memory page by page as they fill, so that
 * an id is an index and nothing ever moves.  Ids are dealt out by one addition; a node that lost
 * the race to be published leaves its id unused.
 */
#include "flow/cache.h"

#include "os/rcu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <xxhash.h>

#define SPACES_MAX 4096
#define NODES_MIN  1024u /* of a generation: a walk holds 66, and takes them along to the next */
#define NODES_MAX  (1u << PTM_STATE_BITS) /* what edges can name */

/* Sanitizers watch what malloc() gave, not what mmap() did. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WATCHED 1
#else
#define WATCHED 0
#endif

#define EDGE_BITS_FIRST 12u
#define EDGE_BITS_MAX   26u /* places in it have 32 bits (flow/turbo.h) */
#define EDGE_LOAD       3u  /* a table is full when one slot in so many is used ... */
#define EDGE_LOAD_LEAST 8u  /* ... or in so many, where one finds no room */

/* Of one node: the node, its link, its share of the hash table's buckets. */
#define NODE_COST (sizeof(struct ptm_node) + sizeof(struct ptm_rcu_map_node) + 16)

/* Of an address space: what is mapped in it. */
struct space_id {
	uint64_t hash[2];
};

struct ptm_gen {
	struct ptm_rcu_head rcu;
	uint64_t serial;
	_Atomic unsigned holders; /* and one for the cache, while readers may be there */
	struct ptm_node *nodes;
	struct ptm_rcu_map_node *links; /* of the same index */
	uint32_t cap;
	_Atomic uint32_t used; /* ids dealt out, the unused [0] included; may overshoot cap */
	struct ptm_rcu_map *map;
	_Atomic(struct ptm_edges *) edges;
	unsigned edge_bits; /* log2 of the slots of the largest table */

	pthread_mutex_t lock; /* of the spaces, and of replacing the edges */
	struct space_id *spaces;
	unsigned nspaces;
};

struct ptm_cache {
	_Atomic(struct ptm_gen *) gen;
	uint64_t limit;
	pthread_mutex_t lock; /* of turning */
	uint64_t generations;
};

/* Zeroed pages, taken when they are touched. */
static void *reserve(size_t bytes)
{
	void *p;

	if (WATCHED)
		return calloc(1, bytes);
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		 -1, 0);
	return p != MAP_FAILED ? p : NULL;
}

static void release(void *p, size_t bytes)
{
	if (WATCHED)
		free(p);
	else if (p != NULL)
		(void)munmap(p, bytes);
}

static void gen_free(struct ptm_gen *gen)
{
	ptm_edges_destroy(atomic_load_explicit(&gen->edges, memory_order_acquire));
	ptm_rcu_map_destroy(gen->map, NULL, NULL);
	release(gen->nodes, gen->cap * sizeof(*gen->nodes));
	release(gen->links, gen->cap * sizeof(*gen->links));
	(void)pthread_mutex_destroy(&gen->lock);
	free(gen->spaces);
	free(gen);
}

void ptm_gen_hold(struct ptm_gen *gen)
{
	(void)atomic_fetch_add_explicit(&gen->holders, 1, memory_order_relaxed);
}

/* One holder less.  True: it was the last one. */
static bool drop(struct ptm_gen *gen)
{
	return atomic_fetch_sub_explicit(&gen->holders, 1, memory_order_acq_rel) == 1;
}

static struct ptm_gen *gen_of(struct ptm_rcu_head *head)
{
	return (struct ptm_gen *)(void *)((char *)head - offsetof(struct ptm_gen, rcu));
}

static void free_held(struct ptm_rcu_head *head)
{
	gen_free(gen_of(head));
}

/* Not freed here: that may wait for the thread that lets the table of nodes grow, which may wait
 * for this one to be quiescent.  The cache is done with it, so its head is free. */
void ptm_gen_release(struct ptm_gen *gen)
{
	if (drop(gen))
		ptm_rcu_defer(&gen->rcu, free_held);
}

/* It was replaced, and no reader is left. */
static void gen_retire(struct ptm_rcu_head *head)
{
	if (drop(gen_of(head)))
		gen_free(gen_of(head));
}

/* Tables of edges double from the first to the largest. */
static void plan_edges(struct ptm_gen *gen, uint64_t limit)
{
	gen->edge_bits = EDGE_BITS_FIRST;
	while (gen->edge_bits < EDGE_BITS_MAX &&
	       (sizeof(struct ptm_slot) << (gen->edge_bits + 1)) <= limit / 2)
		gen->edge_bits++;
	atomic_init(&gen->edges, ptm_edges_create(EDGE_BITS_FIRST));
}

static struct ptm_gen *gen_create(uint64_t limit, struct ptm_error *err)
{
	static _Atomic uint64_t serial;
	struct ptm_gen *gen = calloc(1, sizeof(*gen));

	if (gen == NULL) {
		(void)PTM_FAIL(err, PTM_E_NOMEM, "Out of memory for the code cache");
		return NULL;
	}
	gen->cap =
		(uint32_t)(limit / 2 / NODE_COST < NODES_MAX ? limit / 2 / NODE_COST : NODES_MAX);
	if (gen->cap < NODES_MIN)
		gen->cap = NODES_MIN;
	plan_edges(gen, limit);
	gen->serial = 1 + atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed);
	(void)pthread_mutex_init(&gen->lock, NULL);
	atomic_init(&gen->used, 1);
	atomic_init(&gen->holders, 1);
	gen->nodes = reserve(gen->cap * sizeof(*gen->nodes));
	gen->links = reserve(gen->cap * sizeof(*gen->links));
	gen->map = ptm_rcu_map_create(1024, err);
	if (gen->nodes == NULL || gen->links == NULL || gen->map == NULL ||
	    atomic_load_explicit(&gen->edges, memory_order_relaxed) == NULL) {
		(void)PTM_FAIL(err, PTM_E_NOMEM, "Out of memory for the code cache: bytes=%llu",
			       (unsigned long long)limit);
		gen_free(gen);
		return NULL;
	}
	return gen;
}

struct ptm_cache *ptm_cache_create(uint64_t limit, struct ptm_error *err)
{
	struct ptm_cache *cache = calloc(1, sizeof(*cache));
	struct ptm_gen *gen;

	if (cache == NULL) {
		(void)PTM_FAIL(err, PTM_E_NOMEM, "Out of memory for the code cache");
		return NULL;
	}
	if (limit == 0)
		limit = PTM_CACHE_LIMIT_DEFAULT;
	cache->limit = limit;
	gen = gen_create(cache->limit, err);
	if (gen == NULL) {
		free(cache);
		return NULL;
	}
	(void)pthread_mutex_init(&cache->lock, NULL);
	cache->generations = 1;
	atomic_init(&cache->gen, gen);
	return cache;
}

void ptm_cache_destroy(struct ptm_cache *cache)
{
	if (cache == NULL)
		return;
	if (drop(ptm_cache_gen(cache)))
		gen_free(ptm_cache_gen(cache));
	/* What was replaced while it was used is freed by now, too. */
	ptm_rcu_barrier();
	(void)pthread_mutex_destroy(&cache->lock);
	free(cache);
}

struct ptm_gen *ptm_cache_gen(struct ptm_cache *cache)
{
	return atomic_load_explicit(&cache->gen, memory_order_acquire);
}

int ptm_cache_turn(struct ptm_cache *cache, const struct ptm_gen *full, struct ptm_error *err)
{
	struct ptm_gen *old, *gen = NULL;

	(void)pthread_mutex_lock(&cache->lock);
	old = atomic_load_explicit(&cache->gen, memory_order_relaxed);
	if (old == full) {
		gen = gen_create(cache->limit, err);
		if (gen != NULL) {
			cache->generations++;
			atomic_store_explicit(&cache->gen, gen, memory_order_release);
			ptm_rcu_defer(&old->rcu, gen_retire);
		}
	}
	(void)pthread_mutex_unlock(&cache->lock);
	return old == full && gen == NULL ? -PTM_E_NOMEM : 0;
}

struct ptm_cache_stats ptm_cache_stats(struct ptm_cache *cache)
{
	struct ptm_cache_stats stats;
	struct ptm_gen *gen;
	uint32_t used;

	(void)pthread_mutex_lock(&cache->lock);
	gen = atomic_load_explicit(&cache->gen, memory_order_relaxed);
	used = atomic_load_explicit(&gen->used, memory_order_relaxed);
	stats.generations = cache->generations;
	stats.nodes = (used < gen->cap ? used : gen->cap) - 1;
	stats.edges = atomic_load_explicit(&ptm_gen_edges(gen)->used, memory_order_relaxed);
	stats.bytes = stats.nodes * NODE_COST +
		      ptm_edges_cap(ptm_gen_edges(gen)) * sizeof(struct ptm_slot);
	(void)pthread_mutex_unlock(&cache->lock);
	return stats;
}

int ptm_gen_space(struct ptm_gen *gen, const struct ptm_space *space)
{
	struct space_id id;
	unsigned i = 0;

	ptm_space_identity(space, id.hash);
	(void)pthread_mutex_lock(&gen->lock);
	if (gen->spaces == NULL)
		gen->spaces = calloc(SPACES_MAX, sizeof(*gen->spaces));
	while (i < gen->nspaces && memcmp(&gen->spaces[i], &id, sizeof(id)) != 0)
		i++;
	if (gen->spaces == NULL)
		i = SPACES_MAX;
	else if (i == gen->nspaces && i < SPACES_MAX)
		gen->spaces[gen->nspaces++] = id;
	(void)pthread_mutex_unlock(&gen->lock);
	return i < SPACES_MAX ? (int)i : -PTM_E_NOMEM;
}

uint64_t ptm_gen_serial(const struct ptm_gen *gen)
{
	return gen->serial;
}

struct key {
	const struct ptm_gen *gen;
	struct { /* hashed */
		uint64_t ip;
		uint32_t space;
		uint32_t mode;
	} at;
};

static uint32_t id_of(const struct ptm_gen *gen, const struct ptm_rcu_map_node *link)
{
	return (uint32_t)(link - gen->links);
}

static bool match(const struct ptm_rcu_map_node *link, const void *arg)
{
	const struct key *key = arg;
	const struct ptm_node *node = &key->gen->nodes[id_of(key->gen, link)];

	return node->ip == key->at.ip && node->space == key->at.space && node->mode == key->at.mode;
}

uint32_t ptm_gen_node(struct ptm_gen *gen, int index, const struct ptm_space *space, uint64_t ip,
		      enum ptm_mode mode)
{
	const struct key key = {gen, {ip, (uint32_t)index, mode}};
	const uint64_t hash = XXH3_64bits(&key.at, sizeof(key.at));
	struct ptm_rcu_map_node *link = ptm_rcu_map_find(gen->map, hash, match, &key);
	uint32_t id;

	if (link != NULL)
		return id_of(gen, link);
	if (atomic_load_explicit(&gen->used, memory_order_relaxed) >= gen->cap)
		return 0;
	id = atomic_fetch_add_explicit(&gen->used, 1, memory_order_relaxed);
	if (id >= gen->cap)
		return 0;
	gen->nodes[id].space = (uint16_t)index;
	ptm_node_build(&gen->nodes[id], space, ip, mode);
	return id_of(gen, ptm_rcu_map_add_unique(gen->map, hash, match, &key, &gen->links[id]));
}

struct ptm_node *ptm_gen_nodes(struct ptm_gen *gen)
{
	return gen->nodes;
}

struct ptm_edges *ptm_gen_edges(struct ptm_gen *gen)
{
	return atomic_load_explicit(&gen->edges, memory_order_acquire);
}

static void edges_free(struct ptm_rcu_head *head)
{
	ptm_edges_destroy(
		(struct ptm_edges *)(void *)((char *)head - offsetof(struct ptm_edges, rcu)));
}

/* log2 of the slots. */
static unsigned edge_bits(const struct ptm_edges *edges)
{
	return (unsigned)__builtin_ctzll(ptm_edges_cap(edges));
}

static bool may_grow(const struct ptm_gen *gen, const struct ptm_edges *edges)
{
	return edge_bits(edges) < gen->edge_bits;
}

/* Copy @full into a table of twice the size, unless somebody did.  What others add to the old one
 * meanwhile is missed and will be added again. */
static void grow_edges(struct ptm_gen *gen, struct ptm_edges *full)
{
	struct ptm_edges *edges;

	(void)pthread_mutex_lock(&gen->lock);
	if (ptm_gen_edges(gen) == full && may_grow(gen, full)) {
		edges = ptm_edges_create(edge_bits(full) + 1);
		for (size_t i = 0; edges != NULL && i < ptm_edges_cap(full); i++)
			if (ptm_slot_is_full(&full->slot[i]))
				(void)ptm_edges_add(edges, &full->slot[i]);
		if (edges != NULL) {
			atomic_store_explicit(&gen->edges, edges, memory_order_release);
			ptm_rcu_defer(&full->rcu, edges_free);
		}
	}
	(void)pthread_mutex_unlock(&gen->lock);
}

void ptm_gen_add_edge(struct ptm_gen *gen, const struct ptm_slot *edge)
{
	struct ptm_edges *edges = ptm_gen_edges(gen);
	const size_t used = atomic_load_explicit(&edges->used, memory_order_relaxed);

	if (used <= ptm_edges_cap(edges) / EDGE_LOAD &&
	    ptm_edges_add(edges, edge) != PTM_EDGE_NO_ROOM)
		return;
	/* A crowd in one place of an empty table would be one in the next, too. */
	if (used > ptm_edges_cap(edges) / EDGE_LOAD_LEAST && may_grow(gen, edges))
		grow_edges(gen, edges);
	(void)ptm_edges_add(ptm_gen_edges(gen), edge);
}
