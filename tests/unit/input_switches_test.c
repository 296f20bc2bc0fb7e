/* SPDX-License-Identifier: Apache-2.0
 *
 * input_switches_test.c - context switches: perf's records, and its time as TSC.
 *
 * The layout of the records is that of perf_event_open(2); they are written here by hand.
 */
#include "input/switches.h"

#include "base/bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const struct ptm_desc_time plain = {.known = true, .mult = 1};

static size_t put(uint8_t *to, uint32_t type, uint16_t misc, uint16_t size, uint64_t ns)
{
	size_t id = type == 15 ? 16 : 8;

	memset(to, 0xee, size);
	ptm_store_le(to, type, 4);
	ptm_store_le(to + 4, misc, 2);
	ptm_store_le(to + 6, size, 2);
	ptm_store_le(to + id, 11, 4);
	ptm_store_le(to + id + 4, 12, 4);
	ptm_store_le(to + id + 8, ns, 8);
	return size;
}

/* A header without anything behind it. */
static size_t put_empty(uint8_t *to)
{
	ptm_store_le(to, 99, 4);
	ptm_store_le(to + 4, 0, 2);
	ptm_store_le(to + 6, 8, 2);
	return 8;
}

static void test_time(void **state)
{
	/* tsc = floor(((ns - zero) mod 2^64) * 2^shift / mult), by hand or with exact integers. */
	static const struct {
		uint32_t mult;
		uint16_t shift;
		uint64_t zero, ns, tsc;
	} cases[] = {
		{1, 0, 0, 0, 0},
		{1, 0, 5, 12, 7},
		{1, 0, UINT64_MAX, 12, 13},
		{1, 0, 0, UINT64_MAX, UINT64_MAX},
		{3, 1, 0, 10, 6},
		{4294967295, 32, 0, 4294967295, 4294967296},
		{4294967295, 32, 0, 4294967294, 4294967294},
		{4294967295, 63, 0, 1, 2147483648},
		{2147483648, 31, 0, UINT64_MAX, UINT64_MAX},
		{1076264588, 31, UINT64_C(18433473881008870804), UINT64_C(7002359266274235),
		 UINT64_C(40450066217607635)},
	};
	struct ptm_desc_time time = {0};
	uint64_t tsc;

	(void)state;
	assert_false(ptm_switches_tsc(&time, 1, &tsc));
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		time = (struct ptm_desc_time){true, cases[i].mult, cases[i].shift, cases[i].zero};
		assert_true(ptm_switches_tsc(&time, cases[i].ns, &tsc));
		assert_true(tsc == cases[i].tsc);
	}
	/* 2^64 does not fit. */
	time = (struct ptm_desc_time){true, 2147483647, 31, 0};
	assert_false(ptm_switches_tsc(&time, UINT64_MAX, &tsc));
	time = (struct ptm_desc_time){true, 1, 1, 0};
	assert_false(ptm_switches_tsc(&time, (uint64_t)1 << 63, &tsc));
}

static void test_records(void **state)
{
	struct ptm_desc_stream s = {0};
	uint8_t buf[256];
	size_t n = 0, left = 100;

	(void)state;
	n += put(buf + n, 15, 1 << 13, 32, 5);
	n += put(buf + n, 2, 0, 24, 0);
	n += put(buf + n, 14, 0, 24, 5);
	/* A preempted thread, and a sample id with further fields behind the time. */
	n += put(buf + n, 14, 3 << 13, 40, 6);
	n += put_empty(buf + n);
	/* Whatever is cut is left. */
	for (size_t cut = 0; cut < 24; cut++) {
		(void)put(buf + n, 14, 0, 24, 7);
		s.switches.n = 0;
		left = 100;
		assert_int_equal(ptm_switches_parse(&s, &plain, buf, n + cut, 0, "f", &left, NULL),
				 n);
		assert_int_equal(s.switches.n, 3);
		assert_int_equal(left, 97);
	}
	assert_int_equal(s.switches.v[0].tsc, 5);
	assert_int_equal(s.switches.v[0].pid, 11);
	assert_int_equal(s.switches.v[0].tid, 12);
	assert_false(s.switches.v[0].in);
	assert_true(s.switches.v[1].in);
	assert_int_equal(s.switches.v[2].tsc, 6);
	assert_false(s.switches.v[2].in);
	free(s.switches.v);
}

static void expect_error(const uint8_t *rec, size_t n, const struct ptm_desc_time *time,
			 size_t left, const char *message)
{
	struct ptm_desc_stream s = {0};
	struct ptm_error err = {0};

	/* A first good record at offset 1000. */
	uint8_t buf[256];
	size_t first = put(buf, 14, 0, 24, 50);

	memcpy(buf + first, rec, n);
	assert_int_equal(
		ptm_switches_parse(&s, time, buf, first + n, 1000, "f.switch", &left, &err),
		-PTM_E_FORMAT);
	assert_string_equal(err.cause[0].text, message);
	free(s.switches.v);
}

static void test_damage(void **state)
{
	struct ptm_desc_time wide = {.known = true, .mult = 1, .shift = 57};
	uint8_t rec[64];

	(void)state;
	(void)put(rec, 15, 0, 32, 60);
	ptm_store_le(rec + 6, 7, 2);
	expect_error(rec, 32, &plain, 9,
		     "Bad context switch record: shorter than its header: offset=1024, "
		     "path=\"f.switch\"");
	ptm_store_le(rec + 6, 0, 2);
	expect_error(rec, 8, &plain, 9,
		     "Bad context switch record: shorter than its header: offset=1024, "
		     "path=\"f.switch\"");
	ptm_store_le(rec + 6, 31, 2);
	expect_error(rec, 32, &plain, 9,
		     "Bad context switch record: too short for a process, a thread, and a time: "
		     "offset=1024, path=\"f.switch\"");
	(void)put(rec, 14, 0, 24, 49);
	expect_error(rec, 24, &plain, 9,
		     "Bad context switch record: its time is before that of the record before: "
		     "offset=1024, path=\"f.switch\"");
	(void)put(rec, 14, 0, 24, 128);
	expect_error(rec, 24, &wide, 9,
		     "Bad context switch record: its time is beyond the TSC: offset=1024, "
		     "path=\"f.switch\"");
	(void)put(rec, 14, 0, 24, 127);
	expect_error(rec, 24, &wide, 1,
		     "Bad context switch record: too many (at most 67108864 in all): offset=1024, "
		     "path=\"f.switch\"");
}

static void write_file(const char *path, const void *data, size_t len)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	(void)fclose(f);
}

/* A file longer than the buffer, with records of all sizes across its border, and one that ends in
 * a record. */
static void test_file(void **state)
{
	char dir[] = "/tmp/ptm-switches-XXXXXX", path[64], expect[256];
	size_t len = 0, count = 0, left = SIZE_MAX, cap = 600000;
	uint8_t *data = (uint8_t *)malloc(cap + 65536);
	struct ptm_desc_stream s = {0};
	struct ptm_error err = {0};

	(void)state;
	assert_non_null(data);
	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/s", dir);
	while (len < cap) {
		bool other = count % 97 == 96;
		uint16_t size = (uint16_t)(other ? 65528 : 32 + 8 * (count % 5));

		len += put(data + len, other ? 3 : 15, 0, size, count);
		count++;
	}
	write_file(path, data, len);
	assert_int_equal(ptm_switches_read(&s, &plain, path, &left, &err), 0);
	assert_int_equal(s.switches.n, count - count / 97);
	for (size_t i = 0; i < s.switches.n; i++)
		assert_int_equal(s.switches.v[i].tsc, i + i / 96);
	s.switches.n = 0;
	write_file(path, data, 32 + 9);
	assert_int_equal(ptm_switches_read(&s, &plain, path, &left, &err), -PTM_E_FORMAT);
	(void)snprintf(expect, sizeof(expect),
		       "Bad context switch record: the file ends in it: offset=32, path=\"%s\"",
		       path);
	assert_string_equal(err.cause[0].text, expect);
	(void)unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(ptm_switches_read(&s, &plain, path, &left, &err), -PTM_E_NOINPUT);
	(void)unlink(path);
	(void)rmdir(dir);
	free(s.switches.v);
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_time),
		cmocka_unit_test(test_records),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
