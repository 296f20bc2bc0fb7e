/* SPDX-License-Identifier: Apache-2.0
 *
 * Which address spaces are the same: those with the same bytes at the same addresses; and what it
 * costs to know.
 */
#include "image/space.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

static char dir[] = "/tmp/ptm_identity_XXXXXX";

static const char *put(const char *name, const void *data, size_t len)
{
	static char path[4][64];
	static unsigned turn;
	char *out = path[turn++ % 4];
	FILE *file;

	(void)snprintf(out, sizeof(path[0]), "%s/%s", dir, name);
	file = fopen(out, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, len, file), len);
	assert_int_equal(fclose(file), 0);
	return out;
}

#define PAGE 4096u

/* A file of two pages, of which the byte at @at is another one than in its siblings. */
static const char *put_pages(const char *name, size_t at)
{
	uint8_t bytes[2 * PAGE];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i >> 5);
	bytes[at] ^= 0xff;
	return put(name, bytes, sizeof(bytes));
}

/* One part of a file, in a space beside @other, or with files of its own. */
static struct ptm_space *space_of(const struct ptm_space *other, const char *path, uint64_t begin,
				  uint64_t len, uint64_t offset)
{
	struct ptm_space *space = ptm_space_create_beside(other);

	assert_int_equal(ptm_space_add_file(space, path, begin, len, offset, "", NULL), 0);
	assert_int_equal(ptm_space_seal(space, NULL), 0);
	return space;
}

/* Is @space, which is destroyed, of the identity @id? */
static bool is_same(struct ptm_space *space, const uint64_t id[2])
{
	uint64_t got[2];

	ptm_space_identity(space, got);
	ptm_space_destroy(space);
	return memcmp(got, id, sizeof(got)) == 0;
}

/* The same bytes at the same addresses, and nothing else. */
static void test_identity(void **state)
{
	const char *path = put_pages("pages", 0), *copy = put_pages("copy", 0);
	const char *patched = put_pages("patched", PAGE + 7);
	struct ptm_space *space = space_of(NULL, path, 0x1000, 2 * PAGE, 0);
	uint64_t id[2];

	(void)state;
	ptm_space_identity(space, id);
	for (unsigned beside = 0; beside < 2; beside++) {
		const struct ptm_space *other = beside ? space : NULL;

		assert_true(is_same(space_of(other, path, 0x1000, 2 * PAGE, 0), id));
		assert_true(is_same(space_of(other, copy, 0x1000, 2 * PAGE, 0), id));
		assert_false(is_same(space_of(other, patched, 0x1000, 2 * PAGE, 0), id));
		assert_false(is_same(space_of(other, path, 0x2000, 2 * PAGE, 0), id));
		assert_false(is_same(space_of(other, path, 0x1000, 2 * PAGE - 1, 0), id));
		assert_false(is_same(space_of(other, path, 0x1000, 2 * PAGE - 1, 1), id));
	}
	ptm_space_destroy(space);
}

/* Two files whose first page is the same, and whose second is not; parts that begin at the same
 * place of a file. */
static void test_identity_parts(void **state)
{
	const char *path = put_pages("pages", PAGE), *other = put_pages("other", PAGE + 7);
	struct ptm_space *whole = space_of(NULL, path, 0x1000, 2 * PAGE, 0);
	struct ptm_space *half = space_of(whole, path, 0x1000, PAGE, 0);
	uint64_t whole_id[2], half_id[2];

	(void)state;
	ptm_space_identity(half, half_id);
	ptm_space_identity(whole, whole_id);
	assert_true(is_same(space_of(whole, other, 0x1000, PAGE, 0), half_id));
	assert_false(is_same(space_of(whole, other, 0x1000, 2 * PAGE, 0), whole_id));
	assert_true(is_same(space_of(NULL, path, 0x1000, 2 * PAGE, 0), whole_id));
	ptm_space_destroy(half);
	ptm_space_destroy(whole);
}

/* One byte of a file hidden under another file's. */
static void test_identity_patch(void **state)
{
	const char *path = put_pages("pages", 0), *byte = put("byte", "\x01", 1);
	struct ptm_space *space = space_of(NULL, path, 0x1000, PAGE, 0);
	struct ptm_space *over = ptm_space_create_beside(space);
	uint64_t id[2];

	(void)state;
	ptm_space_identity(space, id);
	assert_int_equal(ptm_space_add_file(over, path, 0x1000, PAGE, 0, "", NULL), 0);
	assert_int_equal(ptm_space_add_file(over, byte, 0x1800, 1, 0, "", NULL), 0);
	assert_int_equal(ptm_space_seal(over, NULL), 0);
	assert_false(is_same(over, id));
	ptm_space_destroy(space);
}

/* What one process has read is not read again for the others: the bytes cannot be read any more. */
static void test_identity_once(void **state)
{
	const char *path = put_pages("pages", 0);
	struct ptm_space *space = space_of(NULL, path, 0x1000, 2 * PAGE, 0);
	struct ptm_mapping m = ptm_space_get(space, 0);
	uint64_t id[2];

	(void)state;
	ptm_space_identity(space, id);
	assert_int_equal(mprotect((void *)(uintptr_t)m.data, 2 * PAGE, PROT_NONE), 0);
	assert_true(is_same(space_of(space, path, 0x1000, 2 * PAGE, 0), id));
	assert_false(is_same(space_of(space, path, 0x5000, 2 * PAGE, 0), id));
	ptm_space_destroy(space);
}

enum { ASKERS = 4, SPACES = 8 };

struct asker {
	pthread_t thread;
	struct ptm_space **spaces;
	uint64_t ids[SPACES][2];
};

static void *ask(void *arg)
{
	struct asker *asker = arg;

	for (size_t i = 0; i < SPACES; i++)
		ptm_space_identity(asker->spaces[i], asker->ids[i]);
	return NULL;
}

/* Threads that ask at once for spaces of the same files, half of them of the same part. */
static void test_identity_threads(void **state)
{
	const char *path = put_pages("pages", 0);
	struct ptm_space *spaces[SPACES], *first = space_of(NULL, path, 0x1000, 1, 0);
	struct asker askers[ASKERS];

	(void)state;
	for (size_t i = 0; i < SPACES; i++)
		spaces[i] = space_of(first, path, 0x1000, 2 * PAGE - i / 2, 0);
	for (size_t i = 0; i < ASKERS; i++) {
		askers[i].spaces = spaces;
		assert_int_equal(pthread_create(&askers[i].thread, NULL, ask, &askers[i]), 0);
	}
	for (size_t i = 0; i < ASKERS; i++)
		assert_int_equal(pthread_join(askers[i].thread, NULL), 0);
	for (size_t i = 1; i < ASKERS; i++)
		assert_memory_equal(askers[i].ids, askers[0].ids, sizeof(askers[0].ids));
	for (size_t i = 0; i < SPACES; i++) {
		for (size_t k = 0; k < i; k++)
			assert_int_equal(memcmp(askers[0].ids[k], askers[0].ids[i], 16) == 0,
					 k / 2 == i / 2);
		ptm_space_destroy(spaces[i]);
	}
	ptm_space_destroy(first);
}

static int make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) != NULL ? 0 : -1;
}

static int remove_dir(void **state)
{
	char command[64];

	(void)state;
	(void)snprintf(command, sizeof(command), "rm -r %s", dir);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_identity),         cmocka_unit_test(test_identity_parts),
		cmocka_unit_test(test_identity_patch),   cmocka_unit_test(test_identity_once),
		cmocka_unit_test(test_identity_threads),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
