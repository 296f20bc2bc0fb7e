/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache of straight runs, over small programs assembled by hand.
 */
#include "image/code.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static char path[] = "/tmp/ptm_code_XXXXXX", alias[] = "/tmp/ptm_code_XXXXXX.2";

/* All programs lie in one file; each begins at a multiple of 16 and is mapped where its test needs
 * it. */
static const uint8_t image[] = {
	/* 00 */ 0x90, 0xe8, 0xfa, 0x0f, 0x00, 0x00, 0x90, 0x90,
	0x90,          0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
	/* 10 */ 0xeb, 0x00, 0x48, 0x89, 0xc8, 0xe9, 0xf6, 0x0f,
	0x00,          0x00, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
	/* 20 */ 0xf3, 0xa4, 0x74, 0xfc, 0x90, 0x90, 0x90, 0x90,
	0x90,          0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
	/* 30 */ 0xeb, 0xfe, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
	0x90,          0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
	/* 40 */ 0x90, 0x90, 0x06, 0x90, 0x90, 0x90, 0x90, 0x90,
	0x90,          0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
	/* 50 */ 0x90, 0x48, 0xb8, 0x11, 0x22, 0x33, 0x44, 0x55,
	0x66,          0x77, 0x88, 0xc3, 0x90, 0x90, 0x90, 0x90,
};

static struct ptm_space *make_space(void)
{
	struct ptm_space *space = ptm_space_create();

	assert_non_null(space);
	return space;
}

static void map_file(struct ptm_space *space, const char *file, uint64_t from, uint64_t to,
		     uint64_t base)
{
	struct ptm_error err = {0};

	assert_int_equal(ptm_space_add_raw(space, file, from, to, base, &err), 0);
}

static void map(struct ptm_space *space, uint64_t from, uint64_t to, uint64_t base)
{
	map_file(space, path, from, to, base);
}

static void seal(struct ptm_space *space)
{
	struct ptm_error err = {0};

	assert_int_equal(ptm_space_seal(space, &err), 0);
}

/* nop, call 2000 -> jmp 2002, mov, jmp 3000 -> rep movsb, je: through calls and jumps to the
 * conditional. */
static void test_chain(void **state)
{
	static const uint64_t ips[] = {0x1000, 0x1001, 0x2000, 0x2002, 0x2005, 0x3000, 0x3002};
	static const uint8_t lens[] = {1, 5, 2, 3, 5, 2, 2};
	struct ptm_space *space = make_space();
	struct ptm_code *code;
	struct ptm_run *run, *again;
	int err = 1;

	(void)state;
	map(space, 0x00, 0x10, 0x1000);
	map(space, 0x10, 0x20, 0x2000);
	map(space, 0x20, 0x30, 0x3000);
	seal(space);
	code = ptm_code_create(1 << 20, NULL);
	assert_non_null(code);
	run = ptm_code_run(code, space, 0x1000, PTM_MODE_64, 3, &err);
	assert_non_null(run);
	assert_int_equal(err, 0);
	assert_true(run->ends);
	assert_int_equal(run->n, 7);
	assert_memory_equal(run->ips, ips, sizeof(ips));
	assert_memory_equal(run->lens, lens, sizeof(lens));
	/* It ends: no length that one could ask for is an error. */
	again = ptm_code_run(code, space, 0x1000, PTM_MODE_64, 1000, &err);
	assert_ptr_equal(run, again);
	assert_int_equal(err, 0);
	assert_int_equal(again->n, 7);
	/* From the middle, and in another mode: other runs. */
	again = ptm_code_run(code, space, 0x2002, PTM_MODE_64, 1, &err);
	assert_int_equal(again->n, 4);
	assert_int_equal(again->ips[3], 0x3002);
	again = ptm_code_run(code, space, 0x2002, PTM_MODE_32, 1, &err);
	assert_int_equal(again->lens[0], 1); /* dec eax */
	assert_int_equal(again->ips[1], 0x2003);
	ptm_code_destroy(code);
	ptm_space_destroy(space);
}

/* `jmp .` grows only as far as asked, and no further than PTM_RUN_MAX. */
static void test_self_loop(void **state)
{
	struct ptm_space *space = make_space();
	struct ptm_code *code;
	struct ptm_run *run;
	int err;

	(void)state;
	map(space, 0x30, 0x40, 0x1000);
	seal(space);
	code = ptm_code_create(1 << 20, NULL);
	run = ptm_code_run(code, space, 0x1000, PTM_MODE_64, 1, &err);
	assert_in_range(run->n, 1, 64);
	run = ptm_code_run(code, space, 0x1000, PTM_MODE_64, 1000, &err);
	assert_in_range(run->n, 1000, 1064);
	assert_int_equal(err, 0);
	assert_false(run->ends);
	for (uint32_t i = 0; i < run->n; i++)
		assert_int_equal(run->ips[i], 0x1000);
	assert_int_equal(run->next, 0x1000);
	run = ptm_code_run(code, space, 0x1000, PTM_MODE_64, UINT32_MAX, &err);
	assert_int_equal(run->n, PTM_RUN_MAX);
	assert_int_equal(err, 0);
	ptm_code_destroy(code);
	ptm_space_destroy(space);
}

static void test_cut(void **state)
{
	struct ptm_space *space = make_space();
	struct ptm_code *code;
	struct ptm_run *run;
	int err;

	(void)state;
	map(space, 0x20, 0x21, 0x5000); /* f3: half an instruction */
	map(space, 0x06, 0x0b, 0x6000); /* five nops */
	map(space, 0x40, 0x50, 0x7000); /* nop, nop, no instruction */
	seal(space);
	code = ptm_code_create(1 << 20, NULL);
	run = ptm_code_run(code, space, 0x4000, PTM_MODE_64, 1, &err);
	assert_non_null(run);
	assert_int_equal(err, -PTM_E_NOMAP);
	assert_int_equal(run->n, 0);
	assert_int_equal(run->next, 0x4000);
	run = ptm_code_run(code, space, 0x5000, PTM_MODE_64, 1, &err);
	assert_int_equal(err, -PTM_E_NOMAP);
	assert_int_equal(run->n, 0);
	/* The five are there whatever follows. */
	run = ptm_code_run(code, space, 0x6000, PTM_MODE_64, 5, &err);
	assert_int_equal(err, 0);
	assert_int_equal(run->n, 5);
	assert_false(run->ends);
	run = ptm_code_run(code, space, 0x6000, PTM_MODE_64, 6, &err);
	assert_int_equal(err, -PTM_E_NOMAP);
	assert_int_equal(run->n, 5);
	assert_int_equal(run->next, 0x6005);
	run = ptm_code_run(code, space, 0x7000, PTM_MODE_64, 3, &err);
	assert_int_equal(err, -PTM_E_FORMAT);
	assert_int_equal(run->n, 2);
	assert_int_equal(run->next, 0x7002);
	ptm_code_destroy(code);
	ptm_space_destroy(space);
}

/* An instruction over the border of two mappings, at every byte; and over the border to nothing. */
static void test_border(void **state)
{
	(void)state;
	for (uint64_t cut = 0x52; cut < 0x5b; cut++) {
		struct ptm_space *space = make_space();
		struct ptm_code *code;
		struct ptm_insn insn;
		struct ptm_run *run;
		int err;

		map(space, 0x50, cut, 0x1000);
		map_file(space, alias, cut, 0x60, 0x1000 + (cut - 0x50)); /* not one mapping */
		map(space, 0x50, cut, 0x8000);
		seal(space);
		assert_int_equal(ptm_code_insn(space, 0x1001, PTM_MODE_64, &insn), 10);
		assert_int_equal(ptm_code_insn(space, 0x8001, PTM_MODE_64, &insn), -PTM_E_NOMAP);
		assert_int_equal(ptm_code_insn(space, 0x9000, PTM_MODE_64, &insn), -PTM_E_NOMAP);
		code = ptm_code_create(1 << 20, NULL);
		run = ptm_code_run(code, space, 0x1000, PTM_MODE_64, 2, &err);
		assert_int_equal(err, 0);
		assert_int_equal(run->n, 3);
		assert_true(run->ends);
		assert_int_equal(run->ips[2], 0x100b);
		ptm_code_destroy(code);
		ptm_space_destroy(space);
	}
}

static unsigned freed;

static void count_free(void *user)
{
	freed += *(unsigned *)user;
	free(user);
}

static unsigned *new_user(void)
{
	unsigned *user = malloc(sizeof(*user));

	assert_non_null(user);
	*user = 1;
	return user;
}

/* The limit drops everything, with the owner's data; what comes after is right again. */
static void test_limit(void **state)
{
	struct ptm_space *space = make_space();
	struct ptm_code *code;
	struct ptm_run *run;
	unsigned made = 0, resets = 0;
	int err;

	(void)state;
	map(space, 0x00, 0x60, 0x1000);
	seal(space);
	freed = 0;
	code = ptm_code_create(100000, count_free);
	for (unsigned i = 0; i < 20000; i++) {
		uint64_t ip = 0x1006 + i % 10;

		run = ptm_code_run(code, space, ip, PTM_MODE_64, 1 + i % 3, &err);
		assert_int_equal(err, 0);
		assert_int_equal(run->ips[0], ip);
		if (run->user == NULL) {
			resets += ip == 0x1006;
			run->user = new_user();
			made++;
			ptm_code_charge(code, 20000);
		}
	}
	/* Five or six fit. */
	assert_in_range(resets, 2, 20000);
	assert_in_range(made - freed, 1, 7);
	ptm_code_charge(code, SIZE_MAX);
	ptm_code_charge(code, SIZE_MAX);
	run = ptm_code_run(code, space, 0x1006, PTM_MODE_64, 1, &err);
	assert_null(run->user);
	assert_int_equal(freed, made);
	run->user = new_user();
	ptm_code_destroy(code);
	assert_int_equal(freed, made + 1);
	ptm_code_destroy(NULL);
	ptm_space_destroy(space);
}

/* More runs than the table begins with: all are found again, unchanged, with their data. */
static void test_many(void **state)
{
	static uint8_t nops[5000];
	char file[] = "/tmp/ptm_code_XXXXXX";
	struct ptm_space *space = make_space();
	struct ptm_error error = {0};
	struct ptm_code *code;
	int fd = mkstemp(file), err;

	(void)state;
	memset(nops, 0x90, sizeof(nops));
	assert_true(fd >= 0);
	assert_int_equal(write(fd, nops, sizeof(nops)), sizeof(nops));
	(void)close(fd);
	assert_int_equal(ptm_space_add_raw(space, file, 0, UINT64_MAX, 0x10000, &error), 0);
	(void)unlink(file);
	seal(space);
	code = ptm_code_create(64 << 20, NULL);
	for (unsigned round = 0; round < 2; round++) {
		for (uint64_t i = 0; i < 2 * 4900; i++) {
			enum ptm_mode mode = i % 2 != 0 ? PTM_MODE_32 : PTM_MODE_64;
			uint64_t ip = 0x10000 + i / 2;
			struct ptm_run *run = ptm_code_run(code, space, ip, mode, 20, &err);

			assert_int_equal(err, 0);
			assert_int_equal(run->ip, ip);
			assert_int_equal(run->mode, mode);
			assert_int_equal(run->ips[19], ip + 19);
			if (round == 0)
				run->user = &nops[i / 2];
			assert_ptr_equal(run->user, &nops[i / 2]);
		}
	}
	ptm_code_destroy(code);
	ptm_space_destroy(space);
}

/* A cache each over one space: under TSan, look-ups in a sealed space are reads. */
static void *walk(void *space)
{
	struct ptm_code *code = ptm_code_create(2000, NULL);
	uint64_t instructions = 0;
	int err;

	for (unsigned i = 0; i < 2000 && code != NULL; i++) {
		struct ptm_run *run =
			ptm_code_run(code, space, 0x1000 + i % 16, PTM_MODE_64, 20, &err);

		instructions += run != NULL ? run->n : 0;
	}
	ptm_code_destroy(code);
	return (void *)(uintptr_t)instructions;
}

static void test_threads(void **state)
{
	struct ptm_space *space = make_space();
	pthread_t threads[3];
	void *alone, *other;

	(void)state;
	map(space, 0x20, 0x60, 0x1000);
	map(space, 0x40, 0x60, 0x1008);
	seal(space);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, walk, space), 0);
	alone = walk(space);
	assert_true(alone != NULL);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(pthread_join(threads[i], &other), 0);
		assert_ptr_equal(other, alone);
	}
	ptm_space_destroy(space);
}

static int make_file(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	if (fd < 0 || write(fd, image, sizeof(image)) != (ssize_t)sizeof(image))
		return -1;
	memcpy(alias, path, strlen(path));
	return symlink(path, alias) == 0 ? close(fd) : -1;
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(alias) == 0 ? unlink(path) : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chain),   cmocka_unit_test(test_self_loop),
		cmocka_unit_test(test_cut),     cmocka_unit_test(test_border),
		cmocka_unit_test(test_limit),   cmocka_unit_test(test_many),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, make_file, remove_file);
}
