/* SPDX-License-Identifier: Apache-2.0
 *
 * record_seen_test.c - executed code that was replaced at its address, by what was executed later
 * and by what a capture keeps.
 */
#include "record/seen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static struct ptm_seen seen;
static struct ptm_error err;

static void run(uint64_t address, const char *bytes, size_t len)
{
	assert_int_equal(ptm_seen_code(&seen, address, (const uint8_t *)bytes, len), 0);
}

static void by_what_is_executed_later(void **state)
{
	(void)state;
	run(0x1ffe, "abcd", 4);
	run(0x1ffe, "abcd", 4);
	/* Beside it, and what lies between two pieces. */
	run(0x1ff0, "0123456789", 10);
	run(0x2004, "xyz", 3);
	run(0x2002, "..", 2);
	assert_int_equal(seen.times, 0);
	/* On both pages: once. */
	run(0x1fff, "BCD", 3);
	assert_int_equal(seen.times, 1);
	assert_int_equal(seen.first, 0x1fff);
	/* The new code is what is known now. */
	run(0x1ffe, "aBCD", 4);
	assert_int_equal(seen.times, 1);
	run(0x2005, "YZ", 2);
	assert_int_equal(seen.times, 2);
	assert_int_equal(seen.first, 0x1fff);
	ptm_seen_fini(&seen);
}

static void many_pages(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 3000; i++)
		run(i * 0x5000, "page", 4);
	for (uint64_t i = 0; i < 3000; i++)
		run(i * 0x5000 + 3, i == 1234 ? "x" : "e", 1);
	assert_int_equal(seen.times, 1);
	assert_int_equal(seen.first, 1234 * 0x5000 + 3);
	ptm_seen_fini(&seen);
}

static void by_what_is_kept(void **state)
{
	char dir[] = "/tmp/ptmill-seen-XXXXXX", path[64];
	struct ptm_images *images = calloc(1, sizeof(*images));
	uint8_t page[8192] = {0};

	(void)state;
	assert_non_null(images);
	assert_non_null(mkdtemp(dir));
	ptm_images_init(images, strdup(dir), &err);
	memcpy(page + 0x10, "kept", 4);
	memcpy(page + 0x1010, "lost", 4);
	assert_int_equal(ptm_images_add_memory(images, 0x10000, page, sizeof(page)), 0);
	/* A later mapping hides the second page. */
	memcpy(page + 0x1010, "new!", 4);
	assert_int_equal(ptm_images_add_memory(images, 0x11000, page + 0x1000, 0x1000), 0);
	assert_int_equal(ptm_images_settle(images), 0);
	run(0x10010, "kept", 4);
	run(0x90000, "nowhere", 7);
	assert_int_equal(ptm_seen_compare(&seen, images), 0);
	assert_int_equal(seen.times, 0);
	run(0x11010, "lost", 4);
	assert_int_equal(ptm_seen_compare(&seen, images), 0);
	assert_int_equal(seen.times, 1);
	assert_int_equal(seen.first, 0x11010);
	for (size_t i = 0; i < images->images.n; i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, images->images.v[i].name);
		assert_int_equal(unlink(path), 0);
	}
	assert_int_equal(rmdir(dir), 0);
	ptm_images_fini(images);
	free(images);
	ptm_seen_fini(&seen);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_what_is_executed_later),
		cmocka_unit_test(many_pages),
		cmocka_unit_test(by_what_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
