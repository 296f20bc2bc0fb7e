/* SPDX-License-Identifier: Apache-2.0
 *
 * os_json_test.c - JSON is written exactly: numbers, escapes, bytes that are no UTF-8.
 *
 * Expected texts are written by hand from RFC 8259.
 */
#include "os/json.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Write @json (taken) and compare with @expect, white space aside. */
static void assert_text(struct ptm_json *json, const char *expect)
{
	char path[] = "/tmp/ptm-json-XXXXXX", text[4096], packed[4096];
	int fd = mkstemp(path);
	struct ptm_out *out;
	size_t n = 0;
	ssize_t len;
	FILE *f;

	assert_true(fd >= 0);
	(void)close(fd);
	out = ptm_out_open(path, NULL);
	assert_non_null(out);
	assert_int_equal(ptm_json_write(json, out, NULL), 0);
	assert_int_equal(ptm_out_commit(out, NULL), 0);
	ptm_json_destroy(json);
	f = fopen(path, "r");
	assert_non_null(f);
	len = (ssize_t)fread(text, 1, sizeof(text) - 1, f);
	(void)fclose(f);
	(void)unlink(path);
	assert_true(len > 0 && text[len - 1] == '\n');
	for (ssize_t i = 0; i < len; i++) {
		if (strchr(" \n", text[i]) == NULL)
			packed[n++] = text[i];
	}
	packed[n] = '\0';
	assert_string_equal(packed, expect);
}

static void test_numbers(void **state)
{
	struct ptm_json *o = ptm_json_object();

	(void)state;
	ptm_json_set_u64(o, "max", UINT64_MAX);
	ptm_json_set_u64(o, "over", (uint64_t)INT64_MAX + 1);
	ptm_json_set_u64(o, "zero", 0);
	ptm_json_set_hex(o, "hex", 0xabc);
	ptm_json_set_hex(o, "hexmax", UINT64_MAX);
	ptm_json_set_bool(o, "yes", true);
	ptm_json_set_bool(o, "no", false);
	assert_text(o, "{\"max\":18446744073709551615,\"over\":9223372036854775808,\"zero\":0,"
		       "\"hex\":\"0x0000000000000abc\","
		       "\"hexmax\":\"0xffffffffffffffff\",\"yes\":true,\"no\":false}");
}

static void test_doubles(void **state)
{
	struct ptm_json *o = ptm_json_object();

	(void)state;
	ptm_json_set_double(o, "a", 0.1);
	ptm_json_set_double(o, "b", 3);
	ptm_json_set_double(o, "c", 1e300);
	ptm_json_set_double(o, "d", -0.0);
	ptm_json_set_double(o, "e", (double)NAN);
	ptm_json_set_double(o, "f", (double)INFINITY);
	ptm_json_set_double(o, "g", 0.1 + 0.2);
	ptm_json_set_double(o, "h", DBL_MIN);
	assert_text(o, "{\"a\":0.1,\"b\":3.0,\"c\":1e+300,\"d\":-0.0,\"e\":null,\"f\":null,"
		       "\"g\":0.30000000000000004,\"h\":2.2250738585072014e-308}");
}

static void test_strings(void **state)
{
	struct ptm_json *o = ptm_json_object();

	(void)state;
	ptm_json_set_str(o, "control", "\x01\x1f\t\n\r\b\f");
	ptm_json_set_str(o, "quote", "\"\\/");
	ptm_json_set_str(o, "none", NULL);
	ptm_json_set_str(o, "empty", "");
	ptm_json_set_str(o, "utf8", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
	ptm_json_set_str(o, "k\x01\xff", "v");
	assert_text(o, "{\"control\":\"\\u0001\\u001f\\t\\n\\r\\b\\f\",\"quote\":\"\\\"\\\\/\","
		       "\"none\":null,\"empty\":\"\","
		       "\"utf8\":\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\","
		       "\"k\\u0001\xef\xbf\xbd\":\"v\"}");
}

#define BAD "\xef\xbf\xbd"

static void test_not_utf8(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{"a\xff"
		 "b",
		 "a" BAD "b"},
		{"\x80", BAD},
		{"\xc3", BAD},
		{"\xe2\x82", BAD BAD},
		{"\xc0\xaf", BAD BAD},                    /* overlong */
		{"\xe0\x9f\xbf", BAD BAD BAD},            /* overlong */
		{"\xed\xa0\x80", BAD BAD BAD},            /* a surrogate */
		{"\xf4\x90\x80\x80", BAD BAD BAD BAD},    /* beyond U+10FFFF */
		{"\xf0\x8f\xbf\xbf", BAD BAD BAD BAD},    /* overlong */
		{"\xed\x9f\xbf", "\xed\x9f\xbf"},         /* U+D7FF */
		{"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"}, /* U+10FFFF */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ptm_json *o = ptm_json_object();
		char expect[64];

		ptm_json_set_str(o, "v", cases[i].in);
		(void)snprintf(expect, sizeof(expect), "{\"v\":\"%s\"}", cases[i].out);
		assert_text(o, expect);
	}
}

static void test_nesting(void **state)
{
	struct ptm_json *o = ptm_json_object(), *a = ptm_json_array(), *inner = ptm_json_object();

	(void)state;
	ptm_json_set_u64(inner, "x", 1);
	ptm_json_append(a, inner);
	ptm_json_append_u64(a, 2);
	ptm_json_set(o, "list", a);
	ptm_json_set(o, "none", ptm_json_array());
	ptm_json_set_u64(o, "again", 1);
	ptm_json_set_u64(o, "again", 2);
	assert_text(o, "{\"list\":[{\"x\":1},2],\"none\":[],\"again\":2}");
}

/* What could not be had is missed at the write, however deep it lies. */
static void test_out_of_memory(void **state)
{
	struct ptm_json *o = ptm_json_object(), *a = ptm_json_array();
	struct ptm_out *out = ptm_out_open("/dev/null", NULL);
	struct ptm_error err = {0};

	(void)state;
	ptm_json_append(a, NULL);
	ptm_json_set(o, "list", a);
	ptm_json_set_u64(NULL, "x", 1);
	assert_int_equal(ptm_json_write(o, out, &err), -PTM_E_NOMEM);
	assert_int_equal(ptm_json_write(NULL, out, &err), -PTM_E_NOMEM);
	ptm_json_destroy(o);
	ptm_json_destroy(NULL);
	assert_int_equal(ptm_out_commit(out, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers), cmocka_unit_test(test_doubles),
		cmocka_unit_test(test_strings), cmocka_unit_test(test_not_utf8),
		cmocka_unit_test(test_nesting), cmocka_unit_test(test_out_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
