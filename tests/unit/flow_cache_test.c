/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_cache_test.c - the shared cache of nodes: who wins a race, what a full generation leaves
 * valid and for how long, which address spaces are the same, what a limit bounds.
 *
 * The code is made of blocks of 16 bytes, each of a few NOPs and a branch, so that every field of
 * a node is known by counting.  tests/stress/t04_cache.sh puts whole engines on one cache.
 */
#include "flow/cache.h"

#include "os/rcu.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define A      UINT64_C(0x401000)
#define BLOCK  16u
#define BLOCKS 4096u

/* Block i: i % 8 NOPs, and what i / 8 % 4 says. */
enum { JZ, RET, CALL, JMP_RAX };
#define CALLED 9u /* a NOP and a RET */

static unsigned nops(unsigned block)
{
	return block % 8;
}

static unsigned kind(unsigned block)
{
	return block / 8 % 4;
}

static void put_block(uint8_t *b, unsigned block)
{
	const unsigned n = nops(block);
	const int32_t to = (int32_t)((CALLED - block) * BLOCK - n - 5);

	memset(b, 0xcc, BLOCK);
	memset(b, 0x90, n);
	switch (kind(block)) {
	case JZ: /* to itself */
		memcpy(b + n, (const uint8_t[]){0x74, 0xfe}, 2);
		break;
	case RET:
		b[n] = 0xc3;
		break;
	case CALL:
		b[n] = 0xe8;
		memcpy(b + n + 1, &to, 4);
		break;
	case JMP_RAX:
		memcpy(b + n, (const uint8_t[]){0xff, 0xe0}, 2);
		break;
	}
}

/* A file of code, and what lies in its last block. */
static void make_file(char *path, uint8_t last)
{
	static uint8_t code[BLOCKS * BLOCK];
	int fd;

	for (unsigned i = 0; i < BLOCKS; i++)
		put_block(code + i * BLOCK, i);
	code[sizeof(code) - 1] = last;
	(void)strcpy(path, "/tmp/ptm-cache-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, code, sizeof(code)), sizeof(code));
	close(fd);
}

static struct ptm_space *space_of(const char *path, uint64_t base)
{
	struct ptm_space *space = ptm_space_create();

	assert_non_null(space);
	assert_int_equal(ptm_space_add_raw(space, path, 0, UINT64_MAX, base, NULL), 0);
	assert_int_equal(ptm_space_seal(space, NULL), 0);
	return space;
}

static struct ptm_space *make_space(void)
{
	struct ptm_space *space;
	char path[32];

	make_file(path, 0xcc);
	space = space_of(path, A);
	unlink(path);
	return space;
}

/* Is @node what begins behind @skip NOPs of @block?  Counted by hand, but for the formula of the
 * digest. */
static bool is_node(const struct ptm_node *node, unsigned block, unsigned skip, int index)
{
	const uint64_t end = A + block * BLOCK + nops(block);
	const uint8_t sizes[] = {2, 1, 5, 2};
	const uint64_t called = A + CALLED * BLOCK;
	struct ptm_digest d = PTM_DIGEST_EMPTY;
	uint64_t next = end + sizes[kind(block)];
	bool ok = true;

	for (uint64_t ip = A + block * BLOCK + skip; ip <= end; ip++)
		ptm_digest_add(&d, ip);
	if (kind(block) == CALL) {
		ptm_digest_add(&d, called);
		ptm_digest_add(&d, called + 1);
		next = called + 2;
	}
	switch (kind(block)) {
	case JZ:
		ok = node->klass == PTM_INSN_COND && node->len == 2 && node->target == end;
		break;
	case RET:
	case CALL:
		ok = node->klass == PTM_INSN_RET && node->len == 1;
		break;
	case JMP_RAX:
		ok = node->klass == PTM_INSN_JUMP_INDIRECT && node->len == 2;
		break;
	}
	return ok && node->ip == A + block * BLOCK + skip && node->n == d.n && node->b == d.b &&
	       node->next == next && node->npush == (kind(block) == CALL) &&
	       node->calls == (kind(block) == CALL) && node->mode == PTM_MODE_64 &&
	       !node->guessed && node->binds == 1u << PTM_BINDS_NONE && node->space == index;
}

/* ---- a race ---- */

enum { RACERS = 8, SKIPS = 2 };

struct racer {
	pthread_t thread;
	pthread_barrier_t *start;
	struct ptm_cache *cache;
	const struct ptm_space *space;
	unsigned id, bad;
	int index;
	uint32_t ids[BLOCKS][SKIPS];
};

static void *race(void *arg)
{
	struct racer *r = (struct racer *)arg;
	struct ptm_gen *gen;

	ptm_rcu_register();
	ptm_rcu_offline();
	(void)pthread_barrier_wait(r->start);
	ptm_rcu_online();
	gen = ptm_cache_gen(r->cache);
	r->index = ptm_gen_space(gen, r->space);
	for (unsigned i = 0; i < BLOCKS; i++) {
		/* The even ones run in the same order, the others against them. */
		const unsigned block = r->id % 2 == 0 ? i : BLOCKS - 1 - i;

		for (unsigned skip = 0; skip < SKIPS && skip <= nops(block); skip++) {
			uint32_t id = ptm_gen_node(gen, r->index, r->space,
						   A + block * BLOCK + skip, PTM_MODE_64);

			r->bad +=
				id == 0 || !is_node(&ptm_gen_nodes(gen)[id], block, skip, r->index);
			r->ids[block][skip] = id;
		}
	}
	ptm_rcu_unregister();
	return NULL;
}

static void test_race(void **state)
{
	struct racer *racers = (struct racer *)calloc(RACERS, sizeof(*racers));
	struct ptm_cache *cache = ptm_cache_create(0, NULL);
	struct ptm_space *space = make_space();
	struct ptm_cache_stats stats;
	pthread_barrier_t start;

	(void)state;
	assert_non_null(racers);
	assert_non_null(cache);
	assert_int_equal(pthread_barrier_init(&start, NULL, RACERS), 0);
	for (unsigned i = 0; i < RACERS; i++) {
		racers[i].start = &start;
		racers[i].cache = cache;
		racers[i].space = space;
		racers[i].id = i;
		assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
	}
	for (unsigned i = 0; i < RACERS; i++) {
		assert_int_equal(pthread_join(racers[i].thread, NULL), 0);
		assert_int_equal(racers[i].bad, 0);
		assert_int_equal(racers[i].index, 0);
		assert_memory_equal(racers[i].ids, racers[0].ids, sizeof(racers[0].ids));
	}
	/* An eighth of the blocks has no second begin; ids of losers are spent, too. */
	stats = ptm_cache_stats(cache);
	assert_int_equal(stats.generations, 1);
	assert_in_range(stats.nodes, BLOCKS * SKIPS - BLOCKS / 8, RACERS * BLOCKS * SKIPS);
	ptm_cache_destroy(cache);
	ptm_space_destroy(space);
	(void)pthread_barrier_destroy(&start);
	free(racers);
}

/* ---- a full generation ---- */

/* Nodes from the first block on until there is no room; returns how many. */
static unsigned fill(struct ptm_gen *gen, const struct ptm_space *space)
{
	int index = ptm_gen_space(gen, space);
	unsigned n = 0;

	assert_true(index >= 0);
	for (unsigned block = 0; block < BLOCKS; block++)
		for (unsigned skip = 0; skip <= nops(block); skip++, n++) {
			uint32_t id = ptm_gen_node(gen, index, space, A + block * BLOCK + skip,
						   PTM_MODE_64);

			if (id == 0)
				return n;
			assert_true(is_node(&ptm_gen_nodes(gen)[id], block, skip, index));
		}
	return n;
}

struct holder {
	pthread_barrier_t step;
	struct ptm_cache *cache;
	const struct ptm_space *space;
	struct ptm_gen *gen;
	bool valid;
};

/* Holds nodes of a generation on line, while it is replaced. */
static void *hold(void *arg)
{
	struct holder *h = (struct holder *)arg;
	uint32_t id, again;
	int index;

	ptm_rcu_register();
	h->gen = ptm_cache_gen(h->cache);
	index = ptm_gen_space(h->gen, h->space);
	id = ptm_gen_node(h->gen, index, h->space, A + 5 * BLOCK, PTM_MODE_64);
	(void)pthread_barrier_wait(&h->step);
	(void)pthread_barrier_wait(&h->step);
	(void)usleep(50000); /* time in which it could go wrong */
	again = ptm_gen_node(h->gen, index, h->space, A + 5 * BLOCK, PTM_MODE_64);
	h->valid = id != 0 && id == again && is_node(&ptm_gen_nodes(h->gen)[id], 5, 0, index) &&
		   ptm_cache_gen(h->cache) != h->gen;
	ptm_rcu_unregister();
	(void)pthread_barrier_wait(&h->step);
	return NULL;
}

static void test_turn(void **state)
{
	struct holder h = {.cache = ptm_cache_create(1 << 18, NULL), .space = make_space()};
	struct ptm_gen *gen;
	pthread_t thread;
	unsigned n;

	(void)state;
	assert_non_null(h.cache);
	assert_int_equal(pthread_barrier_init(&h.step, NULL, 2), 0);
	assert_int_equal(pthread_create(&thread, NULL, hold, &h), 0);
	(void)pthread_barrier_wait(&h.step);
	gen = h.gen;
	ptm_rcu_register();
	n = fill(gen, h.space);
	assert_in_range(n, 1000, 4000);
	/* What is there is found when nothing more goes in. */
	assert_int_not_equal(ptm_gen_node(gen, 0, h.space, A, PTM_MODE_64), 0);
	assert_int_equal(ptm_gen_node(gen, 0, h.space, A, PTM_MODE_32), 0);
	assert_int_equal(ptm_cache_turn(h.cache, gen, NULL), 0);
	assert_ptr_not_equal(ptm_cache_gen(h.cache), gen);
	assert_int_equal(ptm_cache_stats(h.cache).generations, 2);
	assert_int_equal(ptm_cache_stats(h.cache).nodes, 0);
	/* Somebody else saw the old one full, too. */
	assert_int_equal(ptm_cache_turn(h.cache, gen, NULL), 0);
	assert_int_equal(ptm_cache_stats(h.cache).generations, 2);
	assert_int_equal(fill(ptm_cache_gen(h.cache), h.space), n);
	ptm_rcu_unregister();
	(void)pthread_barrier_wait(&h.step);
	(void)pthread_barrier_wait(&h.step);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(h.valid);
	ptm_rcu_barrier();
	ptm_cache_destroy(h.cache);
	ptm_space_destroy((struct ptm_space *)h.space);
	(void)pthread_barrier_destroy(&h.step);
}

/* ---- address spaces ---- */

static int index_of(struct ptm_gen *gen, struct ptm_space *space)
{
	int index = ptm_gen_space(gen, space);

	ptm_space_destroy(space);
	return index;
}

static struct ptm_space *elf_at(uint64_t base)
{
	struct ptm_space *space = ptm_space_create();

	assert_int_equal(ptm_space_add_elf(space, "/proc/self/exe", true, base, NULL), 0);
	assert_int_equal(ptm_space_seal(space, NULL), 0);
	return space;
}

static struct ptm_space *with_missing(const char *path)
{
	struct ptm_space *space = ptm_space_create();

	assert_int_equal(ptm_space_add_raw(space, path, 0, UINT64_MAX, A, NULL), 0);
	assert_int_equal(ptm_space_add_file(space, "/nonexistent", 0x10000000, 4096, 0, "", NULL),
			 0);
	assert_int_equal(ptm_space_seal(space, NULL), 0);
	return space;
}

static void test_spaces(void **state)
{
	struct ptm_cache *cache = ptm_cache_create(1 << 20, NULL);
	struct ptm_gen *gen = ptm_cache_gen(cache);
	char one[32], copy[32], other[32];
	int index, elf;

	(void)state;
	make_file(one, 0xcc);
	make_file(copy, 0xcc);
	make_file(other, 0x90);
	index = index_of(gen, space_of(one, A));
	assert_int_equal(index_of(gen, space_of(one, A)), index);
	assert_int_equal(index_of(gen, space_of(copy, A)), index);
	assert_int_not_equal(index_of(gen, space_of(one, A + 4096)), index);
	assert_int_not_equal(index_of(gen, space_of(other, A)), index);
	/* Where nothing is mapped, a node says so; what is missing is not mapped. */
	assert_int_equal(index_of(gen, with_missing(one)), index);
	elf = index_of(gen, elf_at(0x10000));
	assert_int_equal(index_of(gen, elf_at(0x10000)), elf);
	assert_int_not_equal(index_of(gen, elf_at(0x20000)), elf);
	assert_int_not_equal(elf, index);
	/* Each index is one of a bounded number. */
	for (unsigned i = 0; i < 5000 && index >= 0; i++)
		index = index_of(gen, space_of(one, A * 2 + i * UINT64_C(4096)));
	assert_true(index < 0);
	assert_int_equal(index_of(gen, elf_at(0x10000)), elf);
	unlink(one);
	unlink(copy);
	unlink(other);
	ptm_cache_destroy(cache);
}

/* The same address in two spaces, and in two modes. */
static void test_keys(void **state)
{
	struct ptm_cache *cache = ptm_cache_create(1 << 20, NULL);
	struct ptm_gen *gen = ptm_cache_gen(cache);
	struct ptm_space *space = make_space(), *moved;
	struct ptm_node *nodes = ptm_gen_nodes(gen);
	uint32_t a, b, c;
	char path[32];

	(void)state;
	make_file(path, 0xcc);
	moved = space_of(path, A - BLOCK);
	unlink(path);
	ptm_rcu_register();
	a = ptm_gen_node(gen, ptm_gen_space(gen, space), space, A + 2 * BLOCK, PTM_MODE_64);
	b = ptm_gen_node(gen, ptm_gen_space(gen, moved), moved, A + 2 * BLOCK, PTM_MODE_64);
	c = ptm_gen_node(gen, ptm_gen_space(gen, space), space, A + 2 * BLOCK, PTM_MODE_32);
	assert_int_equal(nodes[a].n, 3);
	assert_int_equal(nodes[b].n, 4);
	assert_int_equal(nodes[c].n, 3);
	assert_int_equal(nodes[c].mode, PTM_MODE_32);
	assert_true(a != b && b != c && a != c);
	assert_int_equal(ptm_gen_node(gen, 0, space, A + 2 * BLOCK, PTM_MODE_64), a);
	ptm_rcu_unregister();
	ptm_cache_destroy(cache);
	ptm_space_destroy(space);
	ptm_space_destroy(moved);
}

/* ---- limits ---- */

static uint64_t resident(void)
{
	unsigned long size = 0, pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu %lu", &size, &pages), 2);
	(void)fclose(f);
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void test_limit(void **state)
{
	static const uint64_t limits[] = {1 << 20, 3 << 19, 1200001};
	struct ptm_space *space = make_space();

	(void)state;
	ptm_rcu_register();
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct ptm_cache *cache = ptm_cache_create(limits[i], NULL);
		unsigned n = fill(ptm_cache_gen(cache), space);
		struct ptm_cache_stats stats = ptm_cache_stats(cache);

		assert_int_equal(stats.generations, 1);
		assert_int_equal(stats.nodes, n);
		/* The nodes themselves are a good part of what a cache takes. */
		assert_in_range(n * sizeof(struct ptm_node), limits[i] / 4, stats.bytes);
		assert_true(stats.bytes <= limits[i]);
		ptm_cache_destroy(cache);
	}
	ptm_rcu_unregister();
	ptm_space_destroy(space);
}

/* A tiny limit is raised to what engines can work with; a large one costs what is used of it. */
static void test_extremes(void **state)
{
	struct ptm_space *space = make_space();
	struct ptm_cache *cache = ptm_cache_create(1, NULL);
	uint64_t before;

	(void)state;
	assert_non_null(cache);
	ptm_rcu_register();
	assert_in_range(fill(ptm_cache_gen(cache), space), 128, 2000);
	ptm_cache_destroy(cache);
	before = resident();
	cache = ptm_cache_create(UINT64_C(4) << 30, NULL);
	assert_non_null(cache);
	(void)fill(ptm_cache_gen(cache), space);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	assert_true(resident() < before + (8 << 20));
#endif
	ptm_cache_destroy(cache);
	ptm_rcu_unregister();
	ptm_space_destroy(space);
	(void)before;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_race),   cmocka_unit_test(test_turn),
		cmocka_unit_test(test_spaces), cmocka_unit_test(test_keys),
		cmocka_unit_test(test_limit),  cmocka_unit_test(test_extremes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
