/* SPDX-License-Identifier: Apache-2.0
 *
 * fmt_scan_test.c - ptm_psb_find() against hand-made cases and against a scan that only follows the
 * definition.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fmt/pt_packet.h"

#include <stdlib.h>
#include <string.h>

static bool pair_at(const uint8_t *d, size_t len, size_t i)
{
	return i + 1 < len && d[i] == 0x02 && d[i + 1] == 0x82;
}

/* The definition: take the first run of pairs that is long enough; its last 16 bytes are the PSB.
 */
static size_t naive_find(const uint8_t *d, size_t len, size_t from, bool more)
{
	for (size_t i = from; i < len; i++) {
		size_t pairs = 0;

		while (pair_at(d, len, i + 2 * pairs))
			pairs++;
		size_t end = i + 2 * pairs;
		bool open = more && pairs > 0 && (end == len || (end == len - 1 && d[end] == 0x02));

		if (open)
			return len;
		if (pairs >= 8)
			return end - 16;
		if (pairs > 0)
			i = end - 1;
	}
	return len;
}

static void put_pairs(uint8_t *d, size_t at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		d[at + i] = (i & 1) == 0 ? 0x02 : 0x82;
}

/* The buffer has exactly @len bytes, begins at an odd address if @shift is odd, and nothing behind
 * it may be read. */
static size_t find(const uint8_t *d, size_t len, size_t from, bool more, size_t shift)
{
	uint8_t *block = malloc(len + shift + (len + shift == 0));

	assert_non_null(block);
	if (len != 0)
		memcpy(block + shift, d, len);
	size_t r = ptm_psb_find(block + shift, len, from, more);
	free(block);
	return r;
}

static void test_known(void **state)
{
	uint8_t d[256] = {0};

	(void)state;
	assert_int_equal(find(d, 0, 0, false, 0), 0);
	assert_int_equal(find(d, 256, 0, false, 0), 256);
	put_pairs(d, 100, 16);
	assert_int_equal(find(d, 256, 0, false, 0), 100);
	assert_int_equal(find(d, 256, 0, true, 0), 100);
	assert_int_equal(find(d, 256, 100, true, 0), 100);
	/* From behind its begin the rest is too short. */
	assert_int_equal(find(d, 256, 101, false, 0), 256);
	/* Cut at its end: complete, unless more may follow. */
	assert_int_equal(find(d, 116, 0, false, 0), 100);
	assert_int_equal(find(d, 116, 0, true, 0), 116);
	assert_int_equal(find(d, 117, 0, true, 0), 100);
	/* One byte short. */
	assert_int_equal(find(d, 115, 0, false, 0), 115);
	/* A TIP `2d 02 82` before it: the last 16 bytes. */
	d[97] = 0x2d;
	put_pairs(d, 98, 18);
	assert_int_equal(find(d, 256, 0, false, 0), 100);
	/* A 02 behind it may be half a pair, if data follow. */
	d[116] = 0x02;
	assert_int_equal(find(d, 117, 0, false, 0), 100);
	assert_int_equal(find(d, 117, 0, true, 0), 117);
	assert_int_equal(find(d, 118, 0, true, 0), 100);
}

/* Every run length at every place of a small buffer, in every alignment, with every stretch of the
 * tail. */
static void test_all_runs(void **state)
{
	(void)state;
	for (size_t run = 0; run <= 40; run++)
		for (size_t at = 0; at < 72; at++)
			for (size_t tail = 0; tail < 70; tail += tail < 4 ? 1 : 11) {
				uint8_t d[256];
				size_t len = at + run + tail;

				memset(d, at % 3 == 0 ? 0x82 : (int)at, sizeof(d));
				put_pairs(d, at, run);
				for (int more = 0; more < 2; more++)
					assert_int_equal(find(d, len, 0, more != 0, at & 7),
							 naive_find(d, len, 0, more != 0));
			}
}

static uint64_t rng_state = UINT64_C(0x13198a2e03707344);

static uint32_t random_u32(void)
{
	rng_state = rng_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(rng_state >> 32);
}

/* Random runs, odd pieces of pairs and noise, one after the other. */
static size_t adversarial(uint8_t *d, size_t size)
{
	size_t n = 0;

	while (n < size) {
		size_t piece = random_u32() % 41;
		uint32_t how = random_u32() % 4;

		for (size_t i = 0; i < piece && n < size; i++, n++) {
			uint8_t next = n > 0 && d[n - 1] == 0x02 ? 0x82 : 0x02;

			d[n] = how <= 1   ? next
			       : how == 2 ? (uint8_t)((random_u32() & 1) != 0 ? 0x02 : 0x82)
					  : (uint8_t)random_u32();
		}
	}
	return n;
}

static void test_adversarial(void **state)
{
	(void)state;
	for (int round = 0; round < 20000; round++) {
		uint8_t d[400];
		size_t len = adversarial(d, random_u32() % (sizeof(d) + 1));
		bool more = (random_u32() & 1) != 0;
		size_t from = 0;

		/* Walk over all PSBs, as a splitter does. */
		for (;;) {
			size_t want = naive_find(d, len, from, more);

			assert_int_equal(find(d, len, from, more, random_u32() & 7), want);
			if (want == len)
				break;
			from = want + 1 + random_u32() % 16;
		}
	}
}

/* Reading in chunks, with the undecided end carried over, finds what one scan over the whole finds.
 */
static void test_chunks(void **state)
{
	(void)state;
	for (int round = 0; round < 5000; round++) {
		uint8_t d[300];
		size_t len = adversarial(d, sizeof(d));
		size_t chunk = 1 + random_u32() % 60;
		size_t want = naive_find(d, len, 0, false);
		size_t have = 0;
		size_t got;

		do {
			have = have + chunk < len ? have + chunk : len;
			got = find(d, have, 0, have < len, 0);
		} while (got == have && have < len);
		assert_int_equal(got, want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known),
		cmocka_unit_test(test_all_runs),
		cmocka_unit_test(test_adversarial),
		cmocka_unit_test(test_chunks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
