/* SPDX-License-Identifier: Apache-2.0
 *
 * sink_stat_test.c - figures of hand-made tallies, as JSON (read back by json-c) and as a table.
 */
#include "sink_job.h"

#include <json-c/json.h>
#include <math.h>

/* Two segments that make up one stream of 1000 bytes. */
static const struct ptm_tally tallies[2] = {
	{.insns = 300,
	 .resynced = 30,
	 .cond = 40,
	 .ret = 6,
	 .indirect = 3,
	 .call = 7,
	 .far = 1,
	 .events = 5,
	 .packets = {[PTM_PKT_PSB] = 2, [PTM_PKT_TNT8] = 8, [PTM_PKT_PAD] = 20},
	 .packet_bytes = {[PTM_PKT_PSB] = 32, [PTM_PKT_TNT8] = 8, [PTM_PKT_PAD] = 20},
	 .tnt_bits = 44,
	 .bytes = {[PTM_BYTES_DECODED] = 300, [PTM_BYTES_HEAD] = 100, [PTM_BYTES_PADDING] = 20},
	 .frames = 2,
	 .frame_min = 120,
	 .frame_max = 200,
	 .frame_sum = 320,
	 .frame_n = 2,
	 .tsc_min = 5000000,
	 .tsc_max = 9000000},
	{.insns = 100,
	 .resynced = 12,
	 .cond = 20,
	 .ret = 4,
	 .indirect = 5,
	 .call = 3,
	 .far = 1,
	 .events = 2,
	 .overflows = 1,
	 .packets = {[PTM_PKT_PSB] = 1, [PTM_PKT_OVF] = 3},
	 .packet_bytes = {[PTM_PKT_PSB] = 16, [PTM_PKT_OVF] = 6},
	 .tnt_bits = 20,
	 .bytes = {[PTM_BYTES_DECODED] = 400, [PTM_BYTES_OVERFLOW] = 6, [PTM_BYTES_SKIPPED] = 174},
	 .gaps = {[PTM_GAP_NO_IMAGE] = 2, [PTM_GAP_BAD_PACKET] = 1},
	 .frames = 1,
	 .frame_min = 0,
	 .frame_max = 0,
	 .tsc_min = 4000000,
	 .tsc_max = 7000000},
};

static void feed(struct ptm_sink *sink, const char *name, uint64_t missing)
{
	assert_int_equal(sink->ops->stream_begin(sink, name, NULL), 0);
	for (unsigned i = 0; i < 2; i++) {
		struct ptm_segment_end end = {.size = i == 0 ? 420 : 580 + missing,
					      .digest = {1, PTM_DIGEST_K, 0xabc + i},
					      .tsc_hz = 2e9,
					      .tally = &tallies[i]};

		assert_int_equal(sink->ops->segment_end(sink, &end, NULL), 0);
	}
}

static const struct ptm_run_stats run = {.workers = 3,
					 .pinned = 2,
					 .segments = 4,
					 .bytes = 2000,
					 .insns = 800,
					 .seconds = 0.5,
					 .cpu_seconds = 1.25};

/* The text of a finished report on @nstreams streams. */
static char *report(bool json, unsigned nstreams, bool with_run, uint64_t missing)
{
	static const char *const names[] = {"a.pt", "dir/b \"quoted\".pt"};
	char *path = make_path();
	struct ptm_sink *sink = ptm_sink_stat_create(json, path, NULL);
	char *text;

	assert_non_null(sink);
	for (unsigned i = 0; i < nstreams; i++)
		feed(sink, names[i], missing);
	if (with_run)
		ptm_sink_stat_run(sink, &run);
	assert_int_equal(ptm_sink_finish(sink, NULL), 0);
	ptm_sink_destroy(sink);
	text = read_text(path);
	assert_int_equal(unlink(path), 0);
	free(path);
	return text;
}

/* The value at a path of keys, separated by '/'. */
static struct json_object *get(struct json_object *j, const char *path)
{
	char copy[128];
	char *save = NULL;

	assert_true(strlen(path) < sizeof(copy));
	(void)strcpy(copy, path);
	for (char *key = strtok_r(copy, "/", &save); key != NULL;
	     key = strtok_r(NULL, "/", &save)) {
		if (json_object_is_type(j, json_type_array))
			j = json_object_array_get_idx(j, (size_t)strtoul(key, NULL, 10));
		else if (!json_object_object_get_ex(j, key, &j))
			return NULL;
	}
	return j;
}

static uint64_t get_u64(struct json_object *j, const char *path)
{
	struct json_object *v = get(j, path);

	assert_non_null(v);
	assert_true(json_object_is_type(v, json_type_int));
	return json_object_get_uint64(v);
}

static double get_double(struct json_object *j, const char *path)
{
	struct json_object *v = get(j, path);

	assert_non_null(v);
	return json_object_get_double(v);
}

static struct json_object *parse(char *text)
{
	enum json_tokener_error status;
	struct json_object *j = json_tokener_parse_verbose(text, &status);

	assert_int_equal(status, json_tokener_success);
	free(text);
	return j;
}

/* Sums by hand of the two tallies above. */
static void check_stream(struct json_object *j, const char *at, uint64_t times)
{
	static const struct {
		const char *key;
		uint64_t v;
	} sums[] = {
		{"size", 1000},
		{"instructions", 400},
		{"resynced", 42},
		{"branches/total", 80},
		{"branches/conditional", 60},
		{"branches/returns", 10},
		{"branches/indirect", 8},
		{"branches/far", 2},
		{"branches/calls", 10},
		{"tnt_bits", 64},
		{"packets/psb/count", 3},
		{"packets/psb/bytes", 48},
		{"packets/tnt.8/count", 8},
		{"packets/pad/bytes", 20},
		{"packets/ovf/count", 3},
		{"psb_spacing/count", 3},
		{"events", 7},
		{"overflows", 1},
		{"gaps/total", 3},
		{"gaps/no image", 2},
		{"gaps/bad packet", 1},
		{"bytes/decoded", 700},
		{"bytes/head", 100},
		{"bytes/padding", 20},
		{"bytes/overflow", 6},
		{"bytes/lost", 0},
		{"bytes/skipped", 174},
		{"bytes/sum", 1000},
		{"bytes/size", 1000},
	};
	struct json_object *s = get(j, at);

	assert_non_null(s);
	for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++)
		assert_int_equal(get_u64(s, sums[i].key), sums[i].v * times);
	assert_int_equal(get_u64(s, "psb_spacing/min"), 120);
	assert_int_equal(get_u64(s, "psb_spacing/max"), 200);
	assert_true(get_double(s, "psb_spacing/mean") ==
		    160.0); /* 320 bytes, 2 PSBs with a next one */
	assert_true(get_double(s, "trace_bits_per_branch") == 100.0);
	assert_true(get_double(s, "trace_bytes_per_instruction") == 2.5);
	assert_true(json_object_get_boolean(get(s, "bytes/exact")));
	assert_null(get(s, "packets/tip"));
	assert_null(get(s, "gaps/seam"));
}

static void test_json_one(void **state)
{
	struct json_object *j = parse(report(true, 1, false, 0));
	char digest[32];

	(void)state;
	assert_int_equal(json_object_array_length(get(j, "streams")), 1);
	check_stream(j, "streams/0", 1);
	assert_string_equal(json_object_get_string(get(j, "streams/0/name")), "a.pt");
	(void)sprintf(digest, "0x%016llx", (unsigned long long)(0xabcu * PTM_DIGEST_K + 0xabd));
	assert_string_equal(json_object_get_string(get(j, "streams/0/digest")), digest);
	/* 5 M ticks at 2 GHz, 1000 bytes. */
	assert_int_equal(get_u64(j, "streams/0/time/tsc_first"), 4000000);
	assert_int_equal(get_u64(j, "streams/0/time/tsc_last"), 9000000);
	assert_true(get_double(j, "streams/0/time/seconds") == 0.0025);
	assert_true(get_double(j, "streams/0/time/trace_mb_per_second") == 0.4);
	assert_true(fabs(get_double(j, "streams/0/time/ring_1_gib_seconds") - 2684.35456) < 1e-6);
	assert_null(get(j, "total"));
	assert_null(get(j, "run"));
	json_object_put(j);
}

static void test_json_two(void **state)
{
	struct json_object *j = parse(report(true, 2, true, 0));

	(void)state;
	assert_int_equal(json_object_array_length(get(j, "streams")), 2);
	check_stream(j, "streams/0", 1);
	check_stream(j, "streams/1", 1);
	assert_string_equal(json_object_get_string(get(j, "streams/1/name")),
			    "dir/b \"quoted\".pt");
	check_stream(j, "total", 2);
	assert_null(get(j, "total/name"));
	assert_int_equal(get_u64(j, "run/workers"), 3);
	assert_int_equal(get_u64(j, "run/pinned"), 2);
	assert_int_equal(get_u64(j, "run/segments"), 4);
	assert_true(get_double(j, "run/seconds") == 0.5);
	assert_true(get_double(j, "run/cpu_seconds") == 1.25);
	assert_true(get_double(j, "run/bytes_per_second") == 4000.0);
	assert_true(get_double(j, "run/instructions_per_second") == 1600.0);
	json_object_put(j);
}

/* Bytes that no class has are not hidden. */
static void test_inexact(void **state)
{
	struct json_object *j = parse(report(true, 1, false, 1));
	char *text = report(false, 1, false, 1);

	(void)state;
	assert_false(json_object_get_boolean(get(j, "streams/0/bytes/exact")));
	assert_int_equal(get_u64(j, "streams/0/bytes/sum"), 1000);
	assert_int_equal(get_u64(j, "streams/0/bytes/size"), 1001);
	json_object_put(j);
	assert_non_null(strstr(text, "DIFFERS FROM THE SUM"));
	free(text);
}

/* Nothing decoded: ratios do not apply, and are no numbers. */
static void test_empty(void **state)
{
	static const struct ptm_tally none;
	struct ptm_segment_end end = {.digest = PTM_DIGEST_EMPTY, .tally = &none};

	(void)state;
	for (unsigned json = 0; json < 2; json++) {
		char *path = make_path();
		struct ptm_sink *sink = ptm_sink_stat_create(json != 0, path, NULL);
		struct json_object *j;
		char *text;

		assert_int_equal(sink->ops->stream_begin(sink, "e", NULL), 0);
		assert_int_equal(sink->ops->segment_end(sink, &end, NULL), 0);
		assert_int_equal(ptm_sink_finish(sink, NULL), 0);
		ptm_sink_destroy(sink);
		text = read_text(path);
		assert_null(strstr(text, "nan"));
		if (json != 0) {
			j = parse(text);
			assert_true(json_object_object_get_ex(get(j, "streams/0"),
							      "trace_bits_per_branch", NULL));
			assert_null(get(j, "streams/0/trace_bits_per_branch"));
			assert_true(json_object_get_boolean(get(j, "streams/0/bytes/exact")));
			json_object_put(j);
		} else {
			free(text);
		}
		assert_int_equal(unlink(path), 0);
		free(path);
	}
}

static void test_table(void **state)
{
	static const char expected[] =
		"stream a.pt\n"
		"  instructions                          400\n"
		"  digest                 0x%016llx\n"
		"  resynced                               42\n"
		"  branches with a packet                 80\n"
		"    conditional                          60\n"
		"    returns                              10\n"
		"    indirect                              8\n"
		"    far                                   2\n"
		"  calls                                  10\n"
		"  tnt bits                               64\n"
		"  trace bits a branch               100.000\n"
		"  trace bytes an instruction          2.500\n"
		"  events                                  7\n"
		"  overflows                               1\n"
		"  gaps                                    3\n"
		"    bad packet                            1\n"
		"    no image                              2\n"
		"  psbs                                    3\n"
		"    least bytes apart                   120\n"
		"    mean                            160.000\n"
		"    most                                200\n"
		"  packets                             count          bytes\n"
		"    pad                                  20             20\n"
		"    psb                                   3             48\n"
		"    tnt.8                                 8              8\n"
		"    ovf                                   3              6\n"
		"  seconds of trace                    0.003\n"
		"  MB of trace a second                0.400\n"
		"  seconds in a 1 GiB ring          2684.355\n"
		"  bytes\n"
		"    decoded                             700\n"
		"    head                                100\n"
		"    padding                              20\n"
		"    overflow                              6\n"
		"    lost                                  0\n"
		"    skipped                             174\n"
		"    sum                                1000\n"
		"    size of the trace                  1000, every byte is accounted for\n";
	char want[sizeof(expected) + 64];
	char *text = report(false, 1, false, 0);

	(void)state;
	(void)snprintf(want, sizeof(want), expected,
		       (unsigned long long)(0xabcu * PTM_DIGEST_K + 0xabd));
	assert_string_equal(text, want);
	free(text);
	text = report(false, 2, true, 0);
	assert_non_null(strstr(text, "\ntotal\n  instructions                          800\n"));
	assert_null(strstr(text, "wall"));
	free(text);
}

/* Other sinks are left alone. */
static void test_run_of_another(void **state)
{
	struct ptm_sink *sink = ptm_sink_dump_create("/dev/null", NULL);

	(void)state;
	ptm_sink_stat_run(sink, &run);
	assert_int_equal(ptm_sink_finish(sink, NULL), 0);
	ptm_sink_destroy(sink);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_json_one), cmocka_unit_test(test_json_two),
		cmocka_unit_test(test_inexact),  cmocka_unit_test(test_empty),
		cmocka_unit_test(test_table),    cmocka_unit_test(test_run_of_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
