/* SPDX-License-Identifier: Apache-2.0
 *
 * input_capture_test.c - captures: what capture.json says, what is refused, what leaves the
 * directory.
 *
 * Each test makes a directory of its own: d/c is the capture, d/out lies outside of it.  The rules
 * are those of docs/capture-format.md.
 */
#include "input/desc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define FORMAT "\"format\": \"ptmill-capture\", \"version\": 1"
#define DIGEST "\"bytes\": 3, \"xxh3_64\": \"0x78af5f94892f3950\""
#define CPU0   "\"kind\": \"cpu\", \"cpu\": 0"
#define STREAM "{\"name\": \"a\", " CPU0 ", \"file\": \"streams/a.pt\", " DIGEST "}"
#define MAP                                                                                        \
	"\"address\": 4096, \"size\": 2, \"offset\": 0, \"image\": \"images/x\", \"path\": \"/x\""

static char dir[64];

static const char *path_in(const char *name)
{
	static char path[8][256];
	static unsigned next;
	char *p = path[next++ % 8];

	(void)snprintf(p, sizeof(path[0]), "%s/%s", dir, name);
	return p;
}

static void write_file(const char *name, const char *text)
{
	FILE *f = fopen(path_in(name), "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
	(void)fclose(f);
}

static int setup(void **state)
{
	(void)state;
	(void)strcpy(dir, "/tmp/ptm-capture-XXXXXX");
	assert_non_null(mkdtemp(dir));
	assert_int_equal(mkdir(path_in("c"), 0700), 0);
	assert_int_equal(mkdir(path_in("cc"), 0700), 0);
	assert_int_equal(mkdir(path_in("out"), 0700), 0);
	assert_int_equal(mkdir(path_in("c/streams"), 0700), 0);
	assert_int_equal(mkdir(path_in("c/images"), 0700), 0);
	write_file("out/secret", "secret");
	write_file("cc/secret", "secret");
	write_file("c/streams/a.pt", "abc");
	write_file("c/images/x", "xx");
	assert_int_equal(symlink("../../out/secret", path_in("c/images/out")), 0);
	assert_int_equal(symlink("../../cc/secret", path_in("c/images/prefix")), 0);
	assert_int_equal(symlink("../out", path_in("c/outdir")), 0);
	assert_int_equal(symlink("/etc/hostname", path_in("c/images/etc")), 0);
	assert_int_equal(symlink("x", path_in("c/images/in")), 0);
	assert_int_equal(symlink("../../c/images/x", path_in("c/images/round")), 0);
	assert_int_equal(symlink("gone", path_in("c/images/nowhere")), 0);
	assert_int_equal(symlink("loop", path_in("c/images/loop")), 0);
	assert_int_equal(mkfifo(path_in("c/images/fifo"), 0600), 0);
	return 0;
}

static int remove_one(const char *path, const struct stat *sb, int flag, struct FTW *ftw)
{
	(void)sb;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static int teardown(void **state)
{
	(void)state;
	return nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static int read_text(struct ptm_desc *desc, const char *text, struct ptm_error *err)
{
	write_file("c/capture.json", text);
	assert_int_equal(ptm_desc_probe(path_in("c")), PTM_DESC_CAPTURE);
	return ptm_desc_read(desc, path_in("c"), PTM_DESC_CAPTURE, err);
}

static void expect_error(const char *text, enum ptm_err code, const char *message)
{
	struct ptm_error err = {0};
	struct ptm_desc desc;
	char expect[512];

	if (read_text(&desc, text, &err) == 0)
		fail_msg("not refused: %s", text);
	(void)snprintf(expect, sizeof(expect), "%s/c/capture.json: %s", dir, message);
	assert_string_equal(err.cause[0].text, expect);
	assert_int_equal(err.code, code);
	assert_int_equal(err.ncauses, 1);
	assert_null(desc.path);
}

static const char whole[] =
	"{" FORMAT ", \"later\": [{}],\n"
	"\"cpu\": {\"vendor\": \"GenuineIntel\", \"family\": 6, \"model\": 143, \"stepping\": 8},\n"
	"\"clocks\": {\"mtc_freq\": 3, \"nom_freq\": 29, \"cpuid_0x15\": {\"eax\": 2, \"ebx\": "
	"168},\n"
	"  \"perf\": {\"mult\": 2, \"shift\": 1, \"zero\": \"18446744073709551615\"}},\n"
	"\"processes\": [\n"
	" {\"pid\": 9, \"threads\": [10, 9], \"mappings\": [\n"
	"  {\"address\": \"0xfffffffffffff000\", \"size\": \"0x1000\", \"offset\": "
	"18446744073709547519,\n"
	"   \"image\": \"images/x\", \"path\": \"/usr/lib/x\\u001b[31m.so\", \"build_id\": "
	"\"00AAff\"},\n"
	"  {\"address\": 4096, \"size\": 1, \"offset\": 0, \"image\": \"images/gone\", \"path\": "
	"\"[vdso]\"}]},\n"
	" {\"pid\": 4}],\n"
	"\"kernel\": [{" MAP "}],\n"
	"\"streams\": [\n"
	" {\"name\": \"tid10\", \"kind\": \"thread\", \"pid\": 9, \"tid\": 10, \"file\": "
	"\"streams/a.pt\", " DIGEST ",\n"
	"  \"truth\": \"truth/a.txt\", \"truth_bytes\": 5,\n"
	"  \"truth_xxh3_64\": \"0x0123456789abcdef\"},\n"
	" {\"name\": \"cpu3\", \"kind\": \"cpu\", \"cpu\": 3, \"file\": \"images/in\", \"bytes\": "
	"\"0xffffffffffffffff\",\n"
	"  \"xxh3_64\": \"0x0000000000000001\", \"switches\": \"streams/3.switch\"}]}\n";

/* Is the trace of the first stream what the capture says? */
static int check_trace(const struct ptm_desc *d, struct ptm_error *err)
{
	return ptm_desc_check(d->streams.v[0].path, &d->streams.v[0].sum, NULL, err);
}

static void check_streams(const struct ptm_desc *d)
{
	const struct ptm_desc_stream *s = d->streams.v;

	assert_int_equal(d->streams.n, 2);
	assert_string_equal(s[0].name, "tid10");
	assert_string_equal(s[0].path, path_in("c/streams/a.pt"));
	assert_string_equal(s[0].truth, path_in("c/truth/a.txt"));
	assert_int_equal(s[0].process, 0);
	assert_int_equal(s[0].tid, 10);
	assert_true(s[0].sum.known);
	assert_int_equal(s[0].sum.bytes, 3);
	assert_true(s[0].sum.digest == UINT64_C(0x78af5f94892f3950));
	assert_true(s[0].truth_sum.known);
	assert_int_equal(s[0].truth_sum.bytes, 5);
	assert_true(s[0].truth_sum.digest == UINT64_C(0x0123456789abcdef));
	assert_string_equal(s[1].name, "cpu3");
	assert_true(s[1].process == PTM_DESC_NO_PROCESS);
	assert_int_equal(s[1].cpu, 3);
	assert_true(s[1].sum.bytes == UINT64_MAX);
	assert_null(s[1].truth);
	assert_false(s[1].truth_sum.known);
	/* (6 - zero) * 2 / 2 */
	assert_int_equal(s[1].switches.n, 1);
	assert_int_equal(s[1].switches.v[0].tsc, 7);
}

static void test_whole(void **state)
{
	static const char record[] = {14, 0, 0, 0, 0, 32, 24, 0, 1, 1, 1, 1, 2, 2, 2, 2, 6};
	const struct ptm_desc_map *m;
	struct ptm_error err = {0};
	struct ptm_desc d;
	FILE *f = fopen(path_in("c/streams/3.switch"), "wb");
	char bytes[24] = {0};

	(void)state;
	assert_non_null(f);
	memcpy(bytes, record, sizeof(record));
	assert_int_equal(fwrite(bytes, 1, sizeof(bytes), f), sizeof(bytes));
	(void)fclose(f);
	if (read_text(&d, whole, &err) != 0)
		fail_msg("%s", err.cause[0].text);
	assert_string_equal(d.path, path_in("c/capture.json"));
	assert_true(d.has_cpu && d.family == 6 && d.model == 143 && d.stepping == 8);
	assert_true(d.mtc_freq == 3 && d.nom_freq == 29);
	assert_true(d.cpuid_0x15_eax == 2 && d.cpuid_0x15_ebx == 168);
	assert_true(d.time.known && d.time.mult == 2 && d.time.shift == 1 &&
		    d.time.zero == UINT64_MAX);
	assert_int_equal(d.processes.n, 2);
	assert_int_equal(d.processes.v[0].pid, 9);
	assert_int_equal(d.processes.v[0].tids.n, 2);
	assert_int_equal(d.processes.v[0].tids.v[0], 10);
	assert_int_equal(d.processes.v[0].maps.n, 2);
	m = d.processes.v[0].maps.v;
	assert_false(m[0].whole_elf);
	assert_true(m[0].address == UINT64_C(0xfffffffffffff000) && m[0].size == 4096 &&
		    m[0].file_offset == UINT64_C(18446744073709547519));
	assert_string_equal(m[0].path, path_in("c/images/x"));
	assert_string_equal(m[0].name, "/usr/lib/x?[31m.so");
	assert_string_equal(m[0].build_id, "00aaff");
	/* A missing image is found out when it is needed. */
	assert_string_equal(m[1].path, path_in("c/images/gone"));
	assert_string_equal(m[1].build_id, "");
	assert_int_equal(d.kernel.n, 1);
	check_streams(&d);
	assert_int_equal(check_trace(&d, &err), 0);
	ptm_desc_fini(&d);
}

static void test_minimal(void **state)
{
	struct ptm_desc d;

	(void)state;
	assert_int_equal(
		read_text(&d, "{" FORMAT ", \"cpu\": null, \"streams\": [" STREAM "]}", NULL), 0);
	assert_false(d.has_cpu);
	assert_false(d.time.known);
	assert_int_equal(d.streams.n, 1);
	ptm_desc_fini(&d);
}

/* Named by the file, from within, with a slash at the end, under another name. */
static void test_names(void **state)
{
	static const char text[] = "{" FORMAT ", \"streams\": [" STREAM "]}";
	char cwd[512];
	struct ptm_desc d;

	(void)state;
	write_file("c/capture.json", text);
	write_file("c/other.json", text);
	assert_int_equal(ptm_desc_probe(path_in("c/other.json")), PTM_DESC_CAPTURE);
	assert_int_equal(ptm_desc_read(&d, path_in("c/other.json"), PTM_DESC_CAPTURE, NULL), 0);
	assert_string_equal(d.streams.v[0].path, path_in("c/streams/a.pt"));
	ptm_desc_fini(&d);
	assert_int_equal(ptm_desc_read(&d, path_in("c/"), PTM_DESC_CAPTURE, NULL), 0);
	assert_string_equal(d.streams.v[0].path, path_in("c/streams/a.pt"));
	ptm_desc_fini(&d);
	assert_non_null(getcwd(cwd, sizeof(cwd)));
	assert_int_equal(chdir(path_in("c")), 0);
	assert_int_equal(ptm_desc_probe("."), PTM_DESC_CAPTURE);
	assert_int_equal(ptm_desc_read(&d, "capture.json", PTM_DESC_CAPTURE, NULL), 0);
	assert_string_equal(d.streams.v[0].path, "streams/a.pt");
	assert_int_equal(check_trace(&d, NULL), 0);
	ptm_desc_fini(&d);
	assert_int_equal(chdir(cwd), 0);
	/* A directory of that name is none. */
	assert_int_equal(remove(path_in("c/capture.json")), 0);
	assert_int_equal(mkdir(path_in("c/capture.json"), 0700), 0);
	assert_int_equal(ptm_desc_probe(path_in("c")), PTM_DESC_NONE);
}

static void test_malformed(void **state)
{
#define WITH(more)    "{" FORMAT ", " more ", \"streams\": [" STREAM "]}"
#define MAPPING(more) WITH("\"processes\": [{\"pid\": 1, \"mappings\": [{" more "}]}]")
#define STREAMS(more) "{" FORMAT ", \"processes\": [{\"pid\": 1}], \"streams\": [" more "]}"
	static const struct {
		const char *text, *message;
	} cases[] = {
		{"{", "line 1, column 2: unexpected end of data"},
		{"[]", "must be an object"},
		{"{\"version\": 1}", "format: missing (must be a string)"},
		{"{\"format\": \"other\"}", "format: must be \"ptmill-capture\""},
		{"{\"format\": \"ptmill-capture\"}",
		 "version: missing (must be a number from 0 to 18446744073709551615)"},
		{"{\"format\": \"ptmill-capture\", \"version\": 2}",
		 "version: 2 is not known here, only 1 is"},
		{"{" FORMAT "}", "streams: missing (must be an array)"},
		{"{" FORMAT ", \"streams\": []}", "streams: must not be empty"},
		{WITH("\"cpu\": 6"), "cpu: must be an object"},
		{WITH("\"cpu\": {\"vendor\": \"x\", \"family\": 65536}"),
		 "cpu.family: must be a number from 0 to 65535"},
		{WITH("\"cpu\": {\"vendor\": \"x\", \"family\": 6, \"model\": 1, \"stepping\": "
		      "16}"),
		 "cpu.stepping: must be a number from 0 to 15"},
		{WITH("\"clocks\": {\"mtc_freq\": 16}"),
		 "clocks.mtc_freq: must be a number from 0 to 15"},
		{WITH("\"clocks\": {\"cpuid_0x15\": {\"eax\": 1}}"),
		 "clocks.cpuid_0x15.ebx: missing (must be a number from 0 to 4294967295)"},
		{WITH("\"clocks\": {\"perf\": {\"mult\": 0}}"),
		 "clocks.perf.mult: must be a number from 1 to 4294967295"},
		{WITH("\"clocks\": {\"perf\": {\"mult\": 1, \"shift\": 64}}"),
		 "clocks.perf.shift: must be a number from 0 to 63"},
		{WITH("\"processes\": [1]"), "processes[0]: must be an object"},
		{WITH("\"processes\": [{\"pid\": 1}, {\"pid\": 2}, {\"pid\": 1}]"),
		 "processes[2]: process 1 stands twice"},
		{WITH("\"processes\": [{\"pid\": 1, \"threads\": [1, -1]}]"),
		 "processes[0].threads[1]: must be a number from 0 to 4294967295"},
		{MAPPING("\"address\": \"x\""), "processes[0].mappings[0].address: must be a "
						"number below 2^64, or a string of one "
						"(decimal, or 0x and hex)"},
		{MAPPING("\"address\": 1, \"size\": 0, \"offset\": 0"),
		 "processes[0].mappings[0].size: must not be 0"},
		{MAPPING("\"address\": 2, \"size\": 18446744073709551615, \"offset\": 0"),
		 "processes[0].mappings[0]: its address and size go beyond 2^64"},
		{MAPPING("\"address\": 0, \"size\": 1, \"offset\": 18446744073709551615"),
		 "processes[0].mappings[0]: its offset and size go beyond 2^64"},
		{MAPPING(MAP ", \"build_id\": \"00-11\""),
		 "processes[0].mappings[0].build_id: must be hexadecimal"},
		{MAPPING(MAP ", \"build_id\": \"001\""),
		 "processes[0].mappings[0].build_id: must have two digits a byte, and at most 64 "
		 "bytes"},
		{MAPPING(MAP ", \"from\": 0"),
		 "processes[0].mappings[0].from: reserved, not known in version 1"},
		{WITH("\"kernel\": [{}]"),
		 "kernel[0].address: missing (must be a number below 2^64, or a string of one "
		 "(decimal, or 0x and hex))"},
		{STREAMS("{\"name\": \"a b\"}"),
		 "streams[0].name: must be 1 to 64 letters, digits, and . _ - :"},
		{STREAMS("{\"name\": \"\"}"),
		 "streams[0].name: must be 1 to 64 letters, digits, and . _ - :"},
		{STREAMS("{\"name\": \"a\", \"kind\": \"x\"}"),
		 "streams[0].kind: must be \"thread\" or \"cpu\""},
		{STREAMS("{\"name\": \"a\", \"kind\": \"thread\", \"pid\": 2, \"tid\": 1}"),
		 "streams[0].pid: not one of the processes"},
		{STREAMS("{\"name\": \"a\", " CPU0
			 ", \"file\": \"a\", \"bytes\": 0, \"xxh3_64\": \"0x123\"}"),
		 "streams[0].xxh3_64: must be \"0x\" and 16 hexadecimal digits"},
		{STREAMS("{\"name\": \"a\", " CPU0
			 ", \"file\": \"a\", \"bytes\": 0, \"xxh3_64\": 7}"),
		 "streams[0].xxh3_64: must be a string"},
		{STREAMS("{\"name\": \"a\", " CPU0 ", \"file\": \"a\", " DIGEST
			 ", \"truth\": \"a\", \"truth_bytes\": 1}"),
		 "streams[0].truth_xxh3_64: missing (must be a string)"},
		{STREAMS("{\"name\": \"a\", " CPU0 ", \"file\": \"a\", " DIGEST
			 ", \"truth\": \"a\", \"truth_xxh3_64\": \"0x0123456789abcdef\"}"),
		 "streams[0].truth_bytes: missing (must be a number below 2^64, or a string of one "
		 "(decimal, or 0x and hex))"},
		{STREAMS("{\"name\": \"a\", " CPU0 ", \"file\": \"a\", " DIGEST
			 ", \"truth\": \"a\", \"truth_bytes\": 1, \"truth_xxh3_64\": \"0x1\"}"),
		 "streams[0].truth_xxh3_64: must be \"0x\" and 16 hexadecimal digits"},
		{STREAMS("{\"name\": \"a\", " CPU0 ", \"file\": \"a\", " DIGEST
			 ", \"switches\": \"a\"}"),
		 "streams[0].switches: clocks.perf must be given, too"},
		{STREAMS("{\"name\": \"a\", \"kind\": \"thread\", \"pid\": 1, \"tid\": 1, "
			 "\"file\": \"a\", " DIGEST ", \"switches\": \"a\"}"),
		 "streams[0].switches: only a stream of kind \"cpu\" has them"},
		{STREAMS(STREAM ", " STREAM), "streams: the name \"a\" stands twice"},
		{STREAMS(STREAM ", {\"name\": \"b\", " CPU0 ", \"file\": \"b\", " DIGEST "}"),
		 "streams[1]: CPU 0 stands twice"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		expect_error(cases[i].text, PTM_E_FORMAT, cases[i].message);
}

#define SIZED(bytes, blocks)                                                                       \
	"{" FORMAT ", \"streams\": [{\"name\": \"a\", " CPU0                                       \
	", \"file\": \"streams/a.pt\", \"bytes\": " bytes                                          \
	", \"xxh3_64\": \"0x0123456789abcdef\", "                                                  \
	"\"blocks\": " blocks "}]}"
#define SUM1 "0123456789abcdef"
#define SUM2 "fedcba9876543210"

static void test_blocks(void **state)
{
	static const char *const odd[] = {
		SIZED("1", "{\"size\": 16777216, \"xxh3_64\": \"" SUM1 "\"}"),
		SIZED("4096", "{\"size\": 4096, \"xxh3_64\": \"" SUM1 "\"}"),
		SIZED("0", "{\"size\": 4096, \"xxh3_64\": \"\"}"),
		SIZED("0", "null"),
	};
	static const size_t counts[] = {1, 1, 0, 0};
	struct ptm_desc d;

	(void)state;
	assert_int_equal(read_text(&d,
				   SIZED("4097", "{\"size\": 4096, \"xxh3_64\": \"" SUM1 SUM2
						 "\", \"later\": 1}"),
				   NULL),
			 0);
	assert_int_equal(d.streams.v[0].blocks.size, 4096);
	assert_int_equal(d.streams.v[0].blocks.digests.n, 2);
	assert_true(d.streams.v[0].blocks.digests.v[0] == UINT64_C(0x0123456789abcdef));
	assert_true(d.streams.v[0].blocks.digests.v[1] == UINT64_C(0xfedcba9876543210));
	ptm_desc_fini(&d);
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		assert_int_equal(read_text(&d, odd[i], NULL), 0);
		assert_int_equal(d.streams.v[0].blocks.digests.n, counts[i]);
		ptm_desc_fini(&d);
	}
	assert_int_equal(read_text(&d, "{" FORMAT ", \"streams\": [" STREAM "]}", NULL), 0);
	assert_int_equal(d.streams.v[0].blocks.size, 0);
	ptm_desc_fini(&d);
}

static void test_bad_blocks(void **state)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
		{SIZED("1", "[]"), "blocks: must be an object"},
		{SIZED("1", "{\"xxh3_64\": \"" SUM1 "\"}"),
		 "blocks.size: missing (must be a number from 4096 to 16777216)"},
		{SIZED("1", "{\"size\": 2048, \"xxh3_64\": \"" SUM1 "\"}"),
		 "blocks.size: must be a number from 4096 to 16777216"},
		{SIZED("1", "{\"size\": 33554432, \"xxh3_64\": \"" SUM1 "\"}"),
		 "blocks.size: must be a number from 4096 to 16777216"},
		{SIZED("1", "{\"size\": 12288, \"xxh3_64\": \"" SUM1 "\"}"),
		 "blocks.size: must be a power of two"},
		{SIZED("1", "{\"size\": 4096}"), "blocks.xxh3_64: missing (must be a string)"},
		{SIZED("1", "{\"size\": 4096, \"xxh3_64\": [\"" SUM1 "\"]}"),
		 "blocks.xxh3_64: must be a string"},
		{SIZED("4097", "{\"size\": 4096, \"xxh3_64\": \"" SUM1 "\"}"),
		 "blocks.xxh3_64: must have 32 digits, 16 a block"},
		{SIZED("4096", "{\"size\": 4096, \"xxh3_64\": \"" SUM1 SUM2 "\"}"),
		 "blocks.xxh3_64: must have 16 digits, 16 a block"},
		{SIZED("0", "{\"size\": 4096, \"xxh3_64\": \"" SUM1 "\"}"),
		 "blocks.xxh3_64: must have 0 digits, 16 a block"},
		{SIZED("1", "{\"size\": 4096, \"xxh3_64\": \"" SUM1 "0\"}"),
		 "blocks.xxh3_64: must have 16 digits, 16 a block"},
		{SIZED("18446744073709551615", "{\"size\": 4096, \"xxh3_64\": \"\"}"),
		 "blocks.xxh3_64: must have 72057594037927936 digits, 16 a block"},
		{SIZED("1", "{\"size\": 4096, \"xxh3_64\": \"0x23456789abcdef\"}"),
		 "blocks.xxh3_64: must be lower-case hexadecimal digits"},
		{SIZED("4097", "{\"size\": 4096, \"xxh3_64\": \"" SUM1 "FEDCBA9876543210\"}"),
		 "blocks.xxh3_64: must be lower-case hexadecimal digits"},
	};
	char message[256];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		(void)snprintf(message, sizeof(message), "streams[0].%s", cases[i].message);
		expect_error(cases[i].text, PTM_E_FORMAT, message);
	}
}

/* Every member that is a path, with one that is refused and with one that is fine. */
static void check_path(const char *path, const char *message)
{
	static const struct {
		const char *text, *place;
	} members[] = {
		{"{" FORMAT ", \"streams\": [{\"name\": \"a\", " CPU0 ", \"file\": \"%s\", " DIGEST
		 "}]}",
		 "streams[0].file"},
		{"{" FORMAT ", \"streams\": [{\"name\": \"a\", " CPU0 ", \"file\": \"a\", " DIGEST
		 ", \"truth\": \"%s\"}]}",
		 "streams[0].truth"},
		{"{" FORMAT ", \"clocks\": {\"perf\": {\"mult\": 1, \"shift\": 0, \"zero\": 0}}, "
		 "\"streams\": [{\"name\": \"a\", " CPU0 ", \"file\": \"a\", " DIGEST
		 ", \"switches\": \"%s\"}]}",
		 "streams[0].switches"},
		{"{" FORMAT
		 ", \"kernel\": [{\"address\": 0, \"size\": 1, \"offset\": 0, \"image\": "
		 "\"%s\", \"path\": \"/x\"}], \"streams\": [" STREAM "]}",
		 "kernel[0].image"},
		{"{" FORMAT ", \"processes\": [{\"pid\": 1, \"mappings\": [{\"address\": 0, "
		 "\"size\": 1, \"offset\": 0, \"image\": \"%s\", \"path\": \"/x\"}]}], "
		 "\"streams\": [" STREAM "]}",
		 "processes[0].mappings[0].image"},
	};
	char text[1024], expect[256];
	struct ptm_desc d;

	for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		(void)snprintf(text, sizeof(text), members[i].text, path);
#pragma GCC diagnostic pop
		if (message != NULL) {
			(void)snprintf(expect, sizeof(expect), "%s: %s", members[i].place, message);
			expect_error(text, PTM_E_FORMAT, expect);
		} else if (strcmp(members[i].place, "streams[0].switches") != 0) {
			/* The content of a file of switches is another matter. */
			assert_int_equal(read_text(&d, text, NULL), 0);
			ptm_desc_fini(&d);
		}
	}
}

static void test_paths(void **state)
{
	static const char parts[] = "must be a path without \".\" and empty parts";

	(void)state;
	check_path("/etc/hostname", "leaves the capture");
	check_path("..", "leaves the capture");
	check_path("../out/secret", "leaves the capture");
	check_path("images/../../out/secret", "leaves the capture");
	check_path("images/../images/x", "leaves the capture");
	check_path("images/..", "leaves the capture");
	check_path("images/out", "leaves the capture");
	check_path("images/etc", "leaves the capture");
	/* A directory whose name begins with that of the capture is another one. */
	check_path("images/prefix", "leaves the capture");
	check_path("outdir/secret", "leaves the capture");
	check_path("outdir", "leaves the capture");
	/* Also if there is nothing behind the link. */
	check_path("outdir/none/none", "leaves the capture");
	check_path("images/nowhere", "a link that leads nowhere");
	check_path("images/nowhere/x", "a link that leads nowhere");
	check_path("images", "not a regular file");
	check_path("images/fifo", "not a regular file");
	check_path("", "must not be empty");
	check_path("./images/x", parts);
	check_path("images//x", parts);
	check_path("images/x/", parts);
	check_path("images/./x", parts);
	check_path("images/a\\u000ab", "a control character in a path");
	check_path("images/x", NULL);
	check_path("images/in", NULL);
	check_path("images/..x", NULL);
	check_path("images/x..", NULL);
	/* A link that leads out and back in leads in. */
	check_path("images/round", NULL);
	check_path("images/none/none", NULL);
	check_path("images/x/none", NULL);
	expect_error("{" FORMAT
		     ", \"kernel\": [{\"address\": 0, \"size\": 1, \"offset\": 0, \"image\": "
		     "\"images/loop\"}]}",
		     PTM_E_NOINPUT,
		     "kernel[0].image: cannot be examined: Too many levels of symbolic links");
}

static void expect_other(const char *what)
{
	struct ptm_error err = {0};
	struct ptm_desc d;
	char expect[256];

	assert_int_equal(read_text(&d, "{" FORMAT ", \"streams\": [" STREAM "]}", &err), 0);
	assert_int_equal(check_trace(&d, &err), -PTM_E_FORMAT);
	(void)snprintf(expect, sizeof(expect),
		       "%s/c/streams/a.pt: the file is not what capture.json says (%s)", dir, what);
	assert_string_equal(err.cause[0].text, expect);
	ptm_desc_fini(&d);
}

/* The digests are those that xxhsum -H3 prints. */
static void test_digest(void **state)
{
	struct ptm_error err = {0};
	struct ptm_desc d;

	(void)state;
	assert_int_equal(read_text(&d, "{" FORMAT ", \"streams\": [" STREAM "]}", &err), 0);
	assert_int_equal(check_trace(&d, &err), 0);
	assert_int_equal(remove(path_in("c/streams/a.pt")), 0);
	assert_int_equal(check_trace(&d, &err), -PTM_E_NOINPUT);
	ptm_desc_fini(&d);
	write_file("c/streams/a.pt", "a");
	expect_other("size 1, not 3");
	write_file("c/streams/a.pt", "");
	expect_other("size 0, not 3");
	write_file("c/streams/a.pt", "abd");
	expect_other("digest 0x6b4467b443c76228, not 0x78af5f94892f3950");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_whole),  TEST(test_minimal),    TEST(test_names), TEST(test_malformed),
		TEST(test_blocks), TEST(test_bad_blocks), TEST(test_paths), TEST(test_digest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
