/* SPDX-License-Identifier: Apache-2.0
 *
 * os_json_read_test.c - JSON is read exactly, or refused with the place.
 *
 * What is JSON and what is not is from RFC 8259.
 */
#include "os/json_read.h"

#include "os/json_scan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void expect_error(const char *text, size_t len, const char *message)
{
	struct ptm_error err = {0};
	struct ptm_json_doc *doc = ptm_json_read_text("a.json", text, len, &err);

	if (doc != NULL)
		fail_msg("not refused: %s", text);
	assert_int_equal(err.code, PTM_E_FORMAT);
	assert_int_equal(err.ncauses, 1);
	assert_string_equal(err.cause[0].text, message);
}

static void test_not_json(void **state)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
		{"", "a.json: line 1, column 1: unexpected end of data"},
		{" \n ", "a.json: line 2, column 2: unexpected end of data"},
		{"{", "a.json: line 1, column 2: unexpected end of data"},
		{"{\"a\":1]", "a.json: line 1, column 7: object value separator ',' expected"},
		{"[1 2]", "a.json: line 1, column 4: array value separator ',' expected"},
		{"[1,]", "a.json: line 1, column 4: unexpected character"},
		{"{\"a\":1,}", "a.json: line 1, column 8: unexpected character"},
		{"{}{}", "a.json: line 1, column 3: unexpected character"},
		{"{}\n\nx", "a.json: line 3, column 1: unexpected character"},
		{"{\"a\" 1}",
		 "a.json: line 1, column 6: object property name separator ':' expected"},
		{"{a:1}", "a.json: line 1, column 2: quoted object property name expected"},
		{"[tru]", "a.json: line 1, column 5: boolean expected"},
		{"[NaN]", "a.json: line 1, column 2: unexpected character"},
		{"[-Infinity]", "a.json: line 1, column 2: not a number"},
		{"[01]", "a.json: line 1, column 2: not a number"},
		{"[1.]", "a.json: line 1, column 2: not a number"},
		{"[1e]", "a.json: line 1, column 2: not a number"},
		{"[-]", "a.json: line 1, column 2: not a number"},
		{"[.5]", "a.json: line 1, column 2: unexpected character"},
		{"[+1]", "a.json: line 1, column 2: unexpected character"},
		{"['a']", "a.json: line 1, column 2: unexpected character"},
		{"[] // end", "a.json: line 1, column 4: unexpected character"},
		{"/* */ []", "a.json: line 1, column 1: unexpected character"},
		{"[\"a\nb\"]", "a.json: line 1, column 4: a control character in a string"},
		{"[\"a", "a.json: line 1, column 2: a string that does not end"},
		{"[\"a\\", "a.json: line 1, column 2: a string that does not end"},
		{"[\"\\q\"]", "a.json: line 1, column 4: invalid string sequence"},
		{"[\"\\u0000\"]", "a.json: line 1, column 3: the character U+0000 in a string"},
		/* Overlong, a surrogate, beyond U+10FFFF, a lone continuation, cut short. */
		{"[\"\xc0\x80\"]", "a.json: line 1, column 3: a byte that is not UTF-8"},
		{"[\"\xed\xa0\x80\"]", "a.json: line 1, column 3: a byte that is not UTF-8"},
		{"[\"\xf4\x90\x80\x80\"]", "a.json: line 1, column 3: a byte that is not UTF-8"},
		{"[\"x\x80\"]", "a.json: line 1, column 4: a byte that is not UTF-8"},
		{"[\"\xe2\x82", "a.json: line 1, column 3: a byte that is not UTF-8"},
		{"[18446744073709551616]", "a.json: line 1, column 2: a number beyond 64 bits"},
		{"[-9223372036854775809]", "a.json: line 1, column 2: a number beyond 64 bits"},
		{"{\"a\":1,\"a\":1}",
		 "a.json: line 1, column 1: a member stands twice in this object"},
		{"[{\"a\":{}},\n{\"b\":[{}],\"c\":{\"d\":1,\"\\u0064\":{}}},{\"a\":1,\"a\":1}]",
		 "a.json: line 2, column 15: a member stands twice in this object"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		expect_error(cases[i].text, strlen(cases[i].text), cases[i].message);
	expect_error("[1\0]", 4, "a.json: line 1, column 3: unexpected character");
	expect_error("[\"\0\"]", 5, "a.json: line 1, column 3: a control character in a string");
}

/* @unit, as often as that, between @head and @tail. */
static char *repeat(const char *head, const char *unit, size_t times, const char *tail)
{
	size_t n = strlen(unit);
	char *text = (char *)malloc(strlen(head) + n * times + strlen(tail) + 1), *to = text;

	assert_non_null(text);
	to = stpcpy(to, head);
	for (size_t i = 0; i < times; i++)
		to = stpcpy(to, unit);
	(void)strcpy(to, tail);
	return text;
}

static void test_limits(void **state)
{
	char *text;
	struct ptm_json_doc *doc;

	(void)state;
	/* 32 levels are fine, 33 are not. */
	text = repeat("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "]", 32, "");
	doc = ptm_json_read_text("a.json", text, strlen(text), NULL);
	assert_non_null(doc);
	ptm_json_doc_destroy(doc);
	free(text);
	text = repeat("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "]", 33, "");
	expect_error(text, strlen(text),
		     "a.json: line 1, column 33: nested too deeply (at most 32 levels)");
	free(text);
	text = repeat("[\n", "{},", PTM_JSON_MAX_OBJECTS, "{}]");
	expect_error(text, strlen(text),
		     "a.json: line 2, column 3145729: too many objects (at most 1048576)");
	free(text);
	text = repeat("[\n", "1,", PTM_JSON_MAX_VALUES, "1]");
	expect_error(text, strlen(text),
		     "a.json: line 2, column 8388608: too many values (at most 4194304)");
	free(text);
	text = repeat("[]", " ", PTM_JSON_MAX_BYTES - 1, "");
	expect_error(text, strlen(text), "a.json: too long for JSON (at most 67108864 bytes)");
	free(text);
}

static void test_getters(void **state)
{
	static const char text[] =
		"{\"n\":[0,-0,18446744073709551615,9223372036854775808,-1,1.0,1e2,\"7\",\"0xFf\","
		"\"18446744073709551615\",\"18446744073709551616\",\"0xffffffffffffffff\","
		"\"0x10000000000000000\",\"\",\"0x\",\" 1\",\"-1\",\"1 \",true,null],"
		"\"s\":\"a\\u00e9\\/\",\"z\":null}";
	/* As a number, and as a number or string. */
	static const struct {
		bool number, u64;
		uint64_t v;
	} expect[] = {
		{true, true, 0},          {true, true, 0},
		{true, true, UINT64_MAX}, {true, true, (uint64_t)1 << 63},
		{false, false, 0},        {false, false, 0},
		{false, false, 0},        {false, true, 7},
		{false, true, 255},       {false, true, UINT64_MAX},
		{false, false, 0},        {false, true, UINT64_MAX},
		{false, false, 0},        {false, false, 0},
		{false, false, 0},        {false, false, 0},
		{false, false, 0},        {false, false, 0},
		{false, false, 0},        {false, false, 0},
	};
	struct ptm_json_doc *doc = ptm_json_read_text("a.json", text, sizeof(text) - 1, NULL);
	struct ptm_json_at root, list, at;
	const char *s;
	size_t n;
	uint64_t v;

	(void)state;
	assert_non_null(doc);
	root = ptm_json_root(doc);
	list = ptm_json_member(&root, "n");
	assert_int_equal(ptm_json_get_array(&list, &n, NULL), 0);
	assert_int_equal(n, sizeof(expect) / sizeof(*expect));
	for (size_t i = 0; i < n; i++) {
		at = ptm_json_element(&list, i);
		assert_int_equal(ptm_json_get_number(&at, 0, UINT64_MAX, &v, NULL) == 0,
				 expect[i].number);
		if (expect[i].number)
			assert_true(v == expect[i].v);
		assert_int_equal(ptm_json_get_u64(&at, &v, NULL) == 0, expect[i].u64);
		if (expect[i].u64)
			assert_true(v == expect[i].v);
	}
	at = ptm_json_member(&root, "s");
	assert_int_equal(ptm_json_get_str(&at, &s, NULL), 0);
	assert_string_equal(s, "a\xc3\xa9/");
	at = ptm_json_member(&root, "z");
	assert_false(ptm_json_is_there(&at));
	ptm_json_doc_destroy(doc);
}

static void test_places(void **state)
{
	static const char text[] = "{\"p\":[{\"t\":[{\"id\":5}]}]}";
	struct ptm_json_doc *doc = ptm_json_read_text("b.json", text, sizeof(text) - 1, NULL);
	struct ptm_json_at root, p, p0, t, t0, id, no;
	struct ptm_error err = {0};
	const char *s;
	size_t n;
	uint64_t v;

	(void)state;
	assert_non_null(doc);
	root = ptm_json_root(doc);
	p = ptm_json_member(&root, "p");
	p0 = ptm_json_element(&p, 0);
	t = ptm_json_member(&p0, "t");
	t0 = ptm_json_element(&t, 0);
	id = ptm_json_member(&t0, "id");
	no = ptm_json_member(&id, "no");
	assert_int_equal(ptm_json_get_number(&id, 6, 9, &v, &err), -PTM_E_FORMAT);
	assert_string_equal(err.cause[0].text,
			    "b.json: p[0].t[0].id: must be a number from 6 to 9");
	assert_int_equal(ptm_json_get_number(&id, 5, 5, &v, &err), 0);
	assert_int_equal(ptm_json_get_str(&id, &s, &err), -PTM_E_FORMAT);
	assert_string_equal(err.cause[0].text, "b.json: p[0].t[0].id: must be a string");
	assert_int_equal(ptm_json_get_array(&p0, &n, &err), -PTM_E_FORMAT);
	assert_string_equal(err.cause[0].text, "b.json: p[0]: must be an array");
	assert_int_equal(ptm_json_check_object(&p, &err), -PTM_E_FORMAT);
	assert_string_equal(err.cause[0].text, "b.json: p: must be an object");
	assert_int_equal(ptm_json_get_u64(&no, &v, &err), -PTM_E_FORMAT);
	assert_string_equal(err.cause[0].text,
			    "b.json: p[0].t[0].id.no: missing (must be a number below 2^64, or a "
			    "string of one (decimal, or 0x and hex))");
	assert_int_equal(ptm_json_fail(&root, PTM_E_NOMAP, &err, "x %d", 3), -PTM_E_NOMAP);
	assert_string_equal(err.cause[0].text, "b.json: x 3");
	ptm_json_doc_destroy(doc);
}

/* A long path is cut at its beginning: the message stays whole. */
static void test_long_name(void **state)
{
	char name[301], expect[400];
	struct ptm_error err = {0};

	(void)state;
	for (size_t i = 0; i < 300; i++)
		name[i] = (char)('a' + i % 26);
	name[300] = '\0';
	assert_null(ptm_json_read_text(name, "[", 1, &err));
	(void)snprintf(expect, sizeof(expect), "...%s: line 1, column 2: unexpected end of data",
		       name + 300 - 96);
	assert_string_equal(err.cause[0].text, expect);
}

static void test_file(void **state)
{
	char path[] = "/tmp/ptm-json-read-XXXXXX";
	int fd = mkstemp(path);
	char *text = repeat("{\"a\":[", "12345678,", 1000000, "9]}\n");
	struct ptm_error err = {0};
	struct ptm_json_doc *doc;
	struct ptm_json_at root, a;
	size_t n = 0;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	(void)close(fd);
	free(text);
	doc = ptm_json_read_file(path, &err);
	assert_non_null(doc);
	root = ptm_json_root(doc);
	a = ptm_json_member(&root, "a");
	assert_int_equal(ptm_json_get_array(&a, &n, NULL), 0);
	assert_int_equal(n, 1000001);
	ptm_json_doc_destroy(doc);
	(void)unlink(path);
	assert_null(ptm_json_read_file(path, &err));
	assert_int_equal(err.code, PTM_E_NOINPUT);
	assert_null(ptm_json_read_file("/tmp", &err));
	assert_int_equal(err.code, PTM_E_NOINPUT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_not_json),  cmocka_unit_test(test_limits),
		cmocka_unit_test(test_getters),   cmocka_unit_test(test_places),
		cmocka_unit_test(test_long_name), cmocka_unit_test(test_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
