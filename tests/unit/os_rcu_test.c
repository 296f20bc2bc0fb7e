/* SPDX-License-Identifier: Apache-2.0
 *
 * os_rcu_test.c - the wrapper of RCU and its table: what is found, who wins, and when what was
 * deferred is called.  tests/tools/rcu_late_reader.c holds the planted misuse.
 */
#include "os/rcu.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <pthread.h>

#include <cmocka.h>

struct item {
	struct ptm_rcu_map_node node;
	uint64_t key;
	uint64_t maker;
	uint64_t check; /* key * 31 + maker, written last */
};

static struct item *item_of(struct ptm_rcu_map_node *node)
{
	return (struct item *)(void *)((char *)node - offsetof(struct item, node));
}

static bool match(const struct ptm_rcu_map_node *node, const void *key)
{
	return ((const struct item *)(const void *)node)->key == *(const uint64_t *)key;
}

static struct item *make(uint64_t key, uint64_t maker)
{
	struct item *item = malloc(sizeof(*item));

	assert_non_null(item);
	item->key = key;
	item->maker = maker;
	item->check = key * 31 + maker;
	return item;
}

static void drop(struct ptm_rcu_map_node *node, void *ctx)
{
	(*(uint64_t *)ctx)++;
	free(item_of(node));
}

static uint64_t mix(uint64_t key)
{
	return key * 0x9e3779b97f4a7c15u;
}

static struct item *find(struct ptm_rcu_map *map, uint64_t hash, uint64_t key)
{
	struct ptm_rcu_map_node *node = ptm_rcu_map_find(map, hash, match, &key);

	return node == NULL ? NULL : item_of(node);
}

static void test_map(void **state)
{
	struct ptm_rcu_map *map = ptm_rcu_map_create(3, NULL);
	struct item *a = make(1, 0), *b = make(2, 0), *again = make(1, 7);
	uint64_t n = 0;

	(void)state;
	assert_non_null(map);
	ptm_rcu_register();
	assert_null(find(map, 5, 1));
	assert_ptr_equal(ptm_rcu_map_add_unique(map, 5, match, &a->key, &a->node), &a->node);
	/* Another key of the same hash. */
	assert_null(find(map, 5, 2));
	assert_ptr_equal(ptm_rcu_map_add_unique(map, 5, match, &b->key, &b->node), &b->node);
	assert_ptr_equal(ptm_rcu_map_add_unique(map, 5, match, &again->key, &again->node),
			 &a->node);
	assert_ptr_equal(find(map, 5, 1), a);
	assert_ptr_equal(find(map, 5, 2), b);
	assert_null(find(map, 6, 1));
	ptm_rcu_unregister();
	ptm_rcu_map_destroy(map, drop, &n); /* not registered */
	assert_int_equal(n, 2);
	free(again);
	ptm_rcu_map_destroy(NULL, drop, &n);
}

static void put(struct ptm_rcu_map *map, uint64_t key)
{
	struct item *item = make(key, 0);

	assert_ptr_equal(ptm_rcu_map_add_unique(map, mix(key), match, &item->key, &item->node),
			 &item->node);
}

enum { ITEMS = 100000 };

static void find_some(struct ptm_rcu_map *map)
{
	for (uint64_t key = 0; key < ITEMS; key += ITEMS / 100)
		assert_non_null(find(map, mix(key), key));
}

/* What finding takes of the processor, when all that it touches is in the caches. */
static int64_t cost(struct ptm_rcu_map *map)
{
	struct timespec begin, end;

	find_some(map);
	assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin), 0);
	find_some(map);
	assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end), 0);
	return (end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec;
}

/* The table with @buckets to begin with and the keys below ITEMS. */
static struct ptm_rcu_map *filled(size_t buckets)
{
	struct ptm_rcu_map *map = ptm_rcu_map_create(buckets, NULL);

	assert_non_null(map);
	for (uint64_t key = 0; key < ITEMS; key++)
		put(map, key);
	return map;
}

/* Many more nodes than buckets: finding comes to cost what it does in a table that had a bucket for
 * each from the beginning, and some hundred times as much while all are in a few.  Destroyed by a
 * thread that is on line. */
static void test_growth(void **state)
{
	struct ptm_rcu_map *map, *wide;
	uint64_t n = 0, last = ITEMS;

	(void)state;
	ptm_rcu_register();
	map = filled(1);
	wide = filled(ITEMS);
	for (uint64_t key = 0; key < ITEMS; key++) {
		struct item *item = find(map, mix(key), key);

		assert_non_null(item);
		assert_int_equal(item->key, key);
	}
	assert_null(find(map, mix(ITEMS), ITEMS));
	/* Growth needs no reader to be quiescent, but time, and somebody who adds. */
	while (cost(map) > 4 * cost(wide)) {
		assert_true(last < ITEMS + 400);
		put(map, last++);
		(void)usleep(10000);
	}
	ptm_rcu_map_destroy(map, drop, &n);
	assert_int_equal(n, last);
	n = 0;
	ptm_rcu_map_destroy(wide, drop, &n);
	assert_int_equal(n, ITEMS);
	ptm_rcu_unregister();
}

enum { RACERS = 4, KEYS = 20000 };

struct racer {
	pthread_t thread;
	struct ptm_rcu_map *map;
	pthread_barrier_t *start;
	uint64_t id, won, bad;
	struct item *seen[KEYS];
};

static void *race(void *arg)
{
	struct racer *r = arg;

	ptm_rcu_register();
	ptm_rcu_offline();
	(void)pthread_barrier_wait(r->start);
	ptm_rcu_online();
	for (uint64_t key = 0; key < KEYS; key++) {
		struct item *mine = make(key, r->id), *in;

		in = item_of(
			ptm_rcu_map_add_unique(r->map, mix(key), match, &mine->key, &mine->node));
		r->won += in == mine;
		if (in != mine)
			free(mine);
		r->bad += in->key != key || in->check != key * 31 + in->maker ||
			  find(r->map, mix(key), key) != in;
		r->seen[key] = in;
		if (key % 64 == 0)
			ptm_rcu_quiescent();
	}
	ptm_rcu_unregister();
	return NULL;
}

static void test_race(void **state)
{
	struct racer *racers = calloc(RACERS, sizeof(*racers));
	struct ptm_rcu_map *map = ptm_rcu_map_create(1, NULL);
	pthread_barrier_t start;
	uint64_t won = 0, n = 0;

	(void)state;
	assert_non_null(racers);
	assert_non_null(map);
	assert_int_equal(pthread_barrier_init(&start, NULL, RACERS), 0);
	for (uint64_t i = 0; i < RACERS; i++) {
		racers[i].map = map;
		racers[i].start = &start;
		racers[i].id = i;
		assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
	}
	for (size_t i = 0; i < RACERS; i++) {
		assert_int_equal(pthread_join(racers[i].thread, NULL), 0);
		won += racers[i].won;
		assert_int_equal(racers[i].bad, 0);
	}
	assert_int_equal(won, KEYS);
	for (size_t i = 1; i < RACERS; i++)
		assert_memory_equal(racers[i].seen, racers[0].seen, sizeof(racers[0].seen));
	ptm_rcu_map_destroy(map, drop, &n);
	assert_int_equal(n, KEYS);
	(void)pthread_barrier_destroy(&start);
	free(racers);
}

/* A generation: what is retired at once. */
struct generation {
	struct ptm_rcu_head head;
	struct ptm_rcu_map *map;
	uint64_t id;
};

static _Atomic(struct generation *) current;
static atomic_uint_fast64_t dropped, retired;
static atomic_bool signals_blocked;

static struct generation *generation_make(uint64_t id, uint64_t items)
{
	struct generation *g = calloc(1, sizeof(*g));

	assert_non_null(g);
	g->id = id;
	g->map = ptm_rcu_map_create(16, NULL);
	assert_non_null(g->map);
	ptm_rcu_register();
	for (uint64_t key = 0; key < items; key++) {
		struct item *item = make(key, id);

		(void)ptm_rcu_map_add_unique(g->map, mix(key), match, &item->key, &item->node);
	}
	ptm_rcu_unregister();
	return g;
}

static void generation_free(struct ptm_rcu_head *head)
{
	struct generation *g =
		(struct generation *)(void *)((char *)head - offsetof(struct generation, head));
	uint64_t n = 0;
	sigset_t mask;

	(void)pthread_sigmask(SIG_BLOCK, NULL, &mask);
	atomic_store(&signals_blocked, sigismember(&mask, SIGINT) == 1);
	ptm_rcu_map_destroy(g->map, drop, &n);
	free(g);
	atomic_fetch_add(&dropped, n);
	atomic_fetch_add(&retired, 1);
}

struct holder {
	pthread_barrier_t step;
	uint64_t held, still;
};

static void *hold(void *arg)
{
	struct holder *h = arg;
	struct item *item;

	ptm_rcu_register();
	ptm_rcu_register(); /* nests */
	item = find(atomic_load_explicit(&current, memory_order_acquire)->map, mix(3), 3);
	h->held = item->maker;
	(void)pthread_barrier_wait(&h->step); /* on line on purpose */
	(void)pthread_barrier_wait(&h->step);
	h->still = item->maker;
	ptm_rcu_unregister(); /* still registered, on line */
	(void)pthread_barrier_wait(&h->step);
	(void)pthread_barrier_wait(&h->step);
	h->still += item->maker;
	ptm_rcu_quiescent();
	ptm_rcu_offline();
	ptm_rcu_offline(); /* nests */
	(void)pthread_barrier_wait(&h->step);
	ptm_rcu_online();
	(void)pthread_barrier_wait(&h->step); /* off line still */
	ptm_rcu_online();
	ptm_rcu_unregister();
	return NULL;
}

/* The deferred call comes after the reader is quiescent, not before. */
static void test_generation(void **state)
{
	struct generation *old = generation_make(1, 10);
	struct holder h = {0};
	pthread_t thread;

	(void)state;
	atomic_store(&retired, 0);
	atomic_store(&dropped, 0);
	atomic_store(&current, old);
	assert_int_equal(pthread_barrier_init(&h.step, NULL, 2), 0);
	assert_int_equal(pthread_create(&thread, NULL, hold, &h), 0);
	(void)pthread_barrier_wait(&h.step);
	atomic_store(&current, generation_make(2, 5));
	ptm_rcu_defer(&old->head, generation_free); /* not registered */
	for (int i = 0; i < 2; i++) {
		(void)usleep(50000);
		assert_int_equal(atomic_load(&retired), 0);
		(void)pthread_barrier_wait(&h.step);
		if (i == 0)
			(void)pthread_barrier_wait(&h.step);
	}
	(void)pthread_barrier_wait(&h.step);
	ptm_rcu_barrier();
	assert_int_equal(atomic_load(&retired), 1);
	assert_int_equal(atomic_load(&dropped), 10);
	assert_true(atomic_load(&signals_blocked));
	(void)pthread_barrier_wait(&h.step);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(h.held, 1);
	assert_int_equal(h.still, 2);
	generation_free(&atomic_load(&current)->head);
	(void)pthread_barrier_destroy(&h.step);
}

static atomic_bool stop;

/* Readers, each with its own habit of being quiescent, over generations that come and go. */
static void *churn(void *arg)
{
	uint64_t *bad = arg, habit = *bad, n = 0;

	*bad = 0;
	ptm_rcu_register();
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		struct generation *g = atomic_load_explicit(&current, memory_order_acquire);

		for (uint64_t key = 0; key < 40; key++) {
			struct item *item = find(g->map, mix(key), key), *mine;

			if (item == NULL) {
				mine = make(key, g->id);
				item = item_of(ptm_rcu_map_add_unique(g->map, mix(key), match, &key,
								      &mine->node));
				if (item != mine)
					free(mine);
			}
			*bad += item->maker != g->id || item->check != key * 31 + g->id;
		}
		if (habit == 0)
			ptm_rcu_quiescent();
		if (habit == 1 && ++n % 8 == 0) {
			ptm_rcu_offline();
			(void)usleep(10);
			ptm_rcu_online();
		}
		if (habit == 2) {
			ptm_rcu_unregister();
			ptm_rcu_register();
		}
	}
	ptm_rcu_unregister();
	return NULL;
}

static void test_churn(void **state)
{
	enum { READERS = 3, GENERATIONS = 200 };
	pthread_t threads[READERS];
	uint64_t bad[READERS];

	(void)state;
	atomic_store(&retired, 0);
	atomic_store(&stop, false);
	atomic_store(&current, generation_make(0, 20));
	for (size_t i = 0; i < READERS; i++) {
		bad[i] = i;
		assert_int_equal(pthread_create(&threads[i], NULL, churn, &bad[i]), 0);
	}
	ptm_rcu_register();
	for (uint64_t id = 1; id <= GENERATIONS; id++) {
		struct generation *old = atomic_load(&current);

		atomic_store(&current, generation_make(id, id % 20));
		ptm_rcu_defer(&old->head, generation_free);
		if (id % 10 == 0)
			ptm_rcu_barrier();
		ptm_rcu_quiescent();
	}
	ptm_rcu_barrier(); /* on line */
	assert_int_equal(atomic_load(&retired), GENERATIONS);
	ptm_rcu_unregister();
	atomic_store(&stop, true);
	for (size_t i = 0; i < READERS; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(bad[i], 0);
	}
	generation_free(&atomic_load(&current)->head);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_map),   cmocka_unit_test(test_growth),
		cmocka_unit_test(test_race),  cmocka_unit_test(test_generation),
		cmocka_unit_test(test_churn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
