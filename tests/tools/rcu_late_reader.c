/* SPDX-License-Identifier: Apache-2.0
 *
 * rcu_late_reader.c - a reader that uses an object of a retired generation: while it may, and, as
 * planted misuse that sanitizers have to report, when it has declared itself quiescent.
 *
 *   rcu_late_reader good REST    reads, then is quiescent
 *   rcu_late_reader before REST  is quiescent until the grace period has ended, then reads
 *   rcu_late_reader after REST   is quiescent until the object has been freed, then reads
 *
 * REST says how it declares that: "quiescent" or "offline".  The steps are forced by relaxed
 * atomics, which order nothing for ThreadSanitizer.
 */
#include "os/rcu.h"
#include "os/thread.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct object {
	struct ptm_rcu_map_node node;
	uint64_t value;
};

struct generation {
	struct ptm_rcu_head head;
	struct ptm_rcu_map *map;
};

enum step { START, FOUND, RETIRED, CALLED, USED, FREED };

static _Atomic(struct generation *) current;
static atomic_int step;
static const char *mode;
static bool leave; /* whether the misuse follows ptm_rcu_offline() */

static void reached(enum step s)
{
	atomic_store_explicit(&step, s, memory_order_relaxed);
}

static void wait_for(enum step s)
{
	while (atomic_load_explicit(&step, memory_order_relaxed) < (int)s)
		(void)usleep(1000);
}

static bool match(const struct ptm_rcu_map_node *node, const void *key)
{
	return ((const struct object *)(const void *)node)->value == *(const uint64_t *)key;
}

static void drop(struct ptm_rcu_map_node *node, void *ctx)
{
	(void)ctx;
	free(node);
}

static void retire(struct ptm_rcu_head *head)
{
	struct generation *g = (struct generation *)(void *)head;

	reached(CALLED);
	if (strcmp(mode, "before") == 0)
		wait_for(USED);
	ptm_rcu_map_destroy(g->map, drop, NULL);
	free(g);
	reached(FREED);
}

/* Quiescent again and again, as the grace period may begin later than the first time. */
static void rest_until(enum step s)
{
	if (leave)
		ptm_rcu_offline();
	while (atomic_load_explicit(&step, memory_order_relaxed) < (int)s) {
		ptm_rcu_quiescent();
		(void)usleep(1000);
	}
}

__attribute__((noinline)) static uint64_t use(const struct object *object)
{
	return *(const volatile uint64_t *)&object->value;
}

static void *reader(void *arg)
{
	uint64_t key = 42, *sum = arg;
	struct object *object;

	ptm_rcu_register();
	object = (struct object *)(void *)ptm_rcu_map_find(
		atomic_load_explicit(&current, memory_order_acquire)->map, key, match, &key);
	if (object == NULL)
		abort();
	*sum = use(object);
	reached(FOUND);
	wait_for(RETIRED);
	if (strcmp(mode, "good") == 0)
		*sum += use(object);
	rest_until(strcmp(mode, "before") == 0 ? CALLED : FREED);
	if (strcmp(mode, "good") != 0)
		*sum += use(object);
	if (strcmp(mode, "before") == 0)
		reached(USED);
	wait_for(FREED);
	if (leave)
		ptm_rcu_online();
	ptm_rcu_unregister();
	return NULL;
}

int main(int argc, char **argv)
{
	struct generation *g = calloc(1, sizeof(*g));
	struct object *object = calloc(1, sizeof(*object));
	uint64_t sum = 0;
	pthread_t thread;

	if (argc != 3 || g == NULL || object == NULL)
		return 2;
	mode = argv[1];
	leave = strcmp(argv[2], "offline") == 0;
	g->map = ptm_rcu_map_create(16, NULL);
	object->value = 42;
	if (g->map == NULL)
		return 2;
	ptm_rcu_register();
	(void)ptm_rcu_map_add_unique(g->map, 42, match, &object->value, &object->node);
	ptm_rcu_unregister();
	atomic_store_explicit(&current, g, memory_order_release);
	if (ptm_thread_start(&thread, "reader", reader, &sum, NULL) < 0)
		return 2;
	wait_for(FOUND);
	atomic_store_explicit(&current, NULL, memory_order_release);
	ptm_rcu_defer(&g->head, retire);
	reached(RETIRED);
	(void)pthread_join(thread, NULL);
	ptm_rcu_barrier();
	(void)printf("%d\n", (int)sum);
	return sum == 84 ? 0 : 1;
}
