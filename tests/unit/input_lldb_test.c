/* SPDX-License-Identifier: Apache-2.0
 *
 * input_lldb_test.c - trace bundles of LLDB: what they say, and one clear line for what is wrong.
 *
 * tests/data/bundles holds small bundles made for this test.  Where PTMILL_REAL_TRACES names the
 * directory of real recordings, all of LLDB's own are read, too: counts and times of their context
 * switches were computed from the files with exact integers outside of this program.
 */
#include "input/desc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BUNDLES "tests/data/bundles/"

static void read_good(struct ptm_desc *desc, const char *path)
{
	struct ptm_error err = {0};

	assert_int_equal(ptm_desc_probe(path), PTM_DESC_LLDB);
	if (ptm_desc_read(desc, path, PTM_DESC_LLDB, &err) != 0)
		fail_msg("%s: %s", path, err.cause[0].text);
	assert_string_equal(desc->path, path);
}

static void read_bad(const char *path, enum ptm_err code, const char *message)
{
	struct ptm_error err = {0};
	struct ptm_desc desc;
	char expect[512];

	(void)snprintf(expect, sizeof(expect), "%s: %s", path, message);
	assert_int_equal(ptm_desc_read(&desc, path, PTM_DESC_LLDB, &err), -(int)code);
	assert_int_equal(err.code, code);
	assert_int_equal(err.ncauses, 1);
	assert_string_equal(err.cause[0].text, code == PTM_E_FORMAT ? expect : message);
	/* Nothing is left, and to release it again is harmless. */
	assert_null(desc.path);
	ptm_desc_fini(&desc);
}

static void check_stream(const struct ptm_desc *desc, size_t i, const char *name, const char *path,
			 size_t process, uint32_t id)
{
	const struct ptm_desc_stream *s = &desc->streams.v[i];

	assert_string_equal(s->name, name);
	assert_string_equal(s->path, path);
	assert_true(s->process == process);
	assert_int_equal(process == PTM_DESC_NO_PROCESS ? s->cpu : s->tid, id);
	assert_false(s->sum.known);
	assert_null(s->truth);
	/* Nothing is stated, so nothing can be wrong. */
	assert_int_equal(ptm_desc_check(s->path, &s->sum, NULL, NULL), 0);
}

static void check_map(const struct ptm_desc_map *map, const char *path, const char *name,
		      uint64_t address, const char *build_id)
{
	assert_string_equal(map->path, path);
	assert_string_equal(map->name, name);
	assert_string_equal(map->build_id, build_id);
	assert_true(map->address == address);
	assert_true(map->whole_elf);
}

static void test_threads(void **state)
{
	struct ptm_desc d;

	(void)state;
	read_good(&d, BUNDLES "threads.json");
	assert_true(d.has_cpu);
	assert_int_equal(d.family, 6);
	assert_int_equal(d.model, 151);
	assert_int_equal(d.stepping, 2);
	assert_false(d.time.known);
	assert_int_equal(d.kernel.n, 0);
	assert_int_equal(d.processes.n, 2);
	assert_int_equal(d.processes.v[0].pid, 301);
	assert_true(d.processes.v[1].pid == UINT32_MAX);
	assert_int_equal(d.processes.v[0].tids.n, 3);
	assert_int_equal(d.processes.v[0].tids.v[2], 303);
	assert_int_equal(d.processes.v[1].maps.n, 0);
	assert_int_equal(d.processes.v[0].maps.n, 3);
	check_map(&d.processes.v[0].maps.v[0], BUNDLES "img/server", "/opt/app/bin/server",
		  UINT64_C(0x7f0000400000), "0123abcd456789ef0123456789abcdef01020304");
	check_map(&d.processes.v[0].maps.v[1], "/opt/app/lib/plug.so", "/opt/app/lib/plug.so",
		  UINT64_C(0x7f1000000000), "");
	/* Four bytes are a checksum of LLDB's, no build-id. */
	check_map(&d.processes.v[0].maps.v[2], BUNDLES "[vdso]", "[vdso]", UINT64_MAX, "");
	assert_int_equal(d.streams.n, 3);
	check_stream(&d, 0, "tid301", BUNDLES "t/301.bin", 0, 301);
	check_stream(&d, 1, "tid302", "/srv/t/302.bin", 0, 302);
	check_stream(&d, 2, "tid900", BUNDLES "../elsewhere/900.bin", 1, 900);
	ptm_desc_fini(&d);
}

static void check_switch(const struct ptm_desc_switch *s, uint64_t tsc, uint32_t pid, uint32_t tid,
			 bool in)
{
	assert_true(s->tsc == tsc);
	assert_int_equal(s->pid, pid);
	assert_int_equal(s->tid, tid);
	assert_int_equal(s->in, in);
}

static void test_cores(void **state)
{
	const struct ptm_desc_stream *s;
	struct ptm_desc d;

	(void)state;
	read_good(&d, BUNDLES "cores.json");
	assert_true(d.time.known);
	assert_int_equal(d.time.mult, 500000000);
	assert_int_equal(d.time.shift, 30);
	assert_true(d.time.zero == UINT64_C(0xffffffffffffff00));
	assert_int_equal(d.streams.n, 2);
	check_stream(&d, 0, "cpu7", BUNDLES "c/7.bin", PTM_DESC_NO_PROCESS, 7);
	check_stream(&d, 1, "cpu2", BUNDLES "c/2.bin", PTM_DESC_NO_PROCESS, 2);
	s = &d.streams.v[0];
	assert_int_equal(d.streams.v[1].switches.n, 0);
	assert_int_equal(s->switches.n, 4);
	/* (1000 + 256) * 2^30 / 500000000 = 2697.2, and so on. */
	check_switch(&s->switches.v[0], 2697, 77, 78, true);
	check_switch(&s->switches.v[1], 4844, 77, 78, false);
	check_switch(&s->switches.v[2], 4844, 77, 77, true);
	check_switch(&s->switches.v[3], UINT64_C(265121435639146), 77, 77, false);
	ptm_desc_fini(&d);
}

static void test_kernel(void **state)
{
	struct ptm_desc d;

	(void)state;
	read_good(&d, BUNDLES "kernel.json");
	assert_int_equal(d.processes.n, 0);
	assert_int_equal(d.kernel.n, 1);
	check_map(&d.kernel.v[0], BUNDLES "vmlinux", "vmlinux", UINT64_C(0xffffffff81000000), "");
	ptm_desc_fini(&d);
	read_good(&d, BUNDLES "kernel_address.json");
	check_map(&d.kernel.v[0], BUNDLES "vmlinux", "vmlinux", UINT64_C(18446744071595261952), "");
	ptm_desc_fini(&d);
}

/* A CPU that is not known, or that cannot be, is no error. */
static void test_other_cpus(void **state)
{
	struct ptm_desc d;

	(void)state;
	read_good(&d, BUNDLES "other_vendor.json");
	assert_false(d.has_cpu);
	ptm_desc_fini(&d);
	read_good(&d, BUNDLES "no_such_cpu.json");
	assert_false(d.has_cpu);
	ptm_desc_fini(&d);
}

static const struct {
	const char *name, *message;
} malformed[] = {
	{"address_large", "processes[0].modules[0].loadAddress: must be a number below 2^64, or a "
			  "string of one (decimal, or 0x and hex)"},
	{"address_text", "processes[0].modules[0].loadAddress: must be a number below 2^64, or a "
			 "string of one (decimal, or 0x and hex)"},
	{"behind", "line 2, column 1: unexpected character"},
	{"beyond", "line 1, column 7: a number beyond 64 bits"},
	{"both", "cpus: must not be given where a thread has an \"iptTrace\""},
	{"comma", "line 2, column 18: unexpected character"},
	{"cpu_twice", "CPU 7 stands twice"},
	{"deep", "line 1, column 33: nested too deeply (at most 32 levels)"},
	{"empty", "line 1, column 1: unexpected end of data"},
	{"end", "line 2, column 28: a control character in a string"},
	{"family_text", "cpuInfo.family: must be a number from 0 to 4294967295"},
	{"kernel_cpus", "cpus: missing (must be given where \"kernel\" is)"},
	{"kernel_file", "kernel.file: missing (must be a string)"},
	{"kernel_processes", "processes: must be empty where \"kernel\" is given"},
	{"list", "must be an object"},
	{"mult_zero", "tscPerfZeroConversion.timeMult: must be a number from 1 to 4294967295"},
	{"nan", "line 2, column 13: unexpected character"},
	{"no_cpu", "cpuInfo: missing (must be an object)"},
	{"no_model", "cpuInfo.model: missing (must be a number from 0 to 4294967295)"},
	{"no_modules", "processes[1].modules: missing (must be an array)"},
	{"no_path", "processes[0].modules[0].systemPath: missing (must be a string)"},
	{"no_pid", "processes[1].pid: missing (must be a number from 0 to 4294967295)"},
	{"no_switches", "cpus[1].contextSwitchTrace: missing (must be a string)"},
	{"no_threads", "processes[1].threads: missing (must be an array)"},
	{"no_time", "tscPerfZeroConversion: missing (must be given where \"cpus\" is)"},
	{"no_trace", "names no trace: neither \"cpus\" nor a thread with an \"iptTrace\""},
	{"no_type", "type: missing (must be a string)"},
	{"nul", "line 1, column 19: the character U+0000 in a string"},
	{"open", "line 3, column 1: unexpected end of data"},
	{"pid_large", "processes[1].pid: must be a number from 0 to 4294967295"},
	{"pid_negative", "processes[1].pid: must be a number from 0 to 4294967295"},
	{"pid_twice", "process 301 stands twice"},
	{"process", "processes[1]: must be an object"},
	{"processes", "processes: must be an array"},
	{"shift", "tscPerfZeroConversion.timeShift: must be a number from 0 to 63"},
	{"tid_fraction", "processes[0].threads[1].tid: must be a number from 0 to 4294967295"},
	{"tid_twice", "thread 303 stands twice"},
	{"trace_empty", "processes[0].threads[0].iptTrace: must not be empty"},
	{"twice", "line 2, column 28: a member stands twice in this object"},
	{"type", "type: must be \"intel-pt\""},
	{"utf8", "line 1, column 16: a byte that is not UTF-8"},
	{"uuid", "processes[0].modules[0].uuid: must be hexadecimal"},
	{"uuid_odd",
	 "processes[0].modules[0].uuid: must have two digits a byte, and at most 64 bytes"},
};

static void test_malformed(void **state)
{
	char path[256];

	(void)state;
	for (size_t i = 0; i < sizeof(malformed) / sizeof(*malformed); i++) {
		(void)snprintf(path, sizeof(path), BUNDLES "bad_%s.json", malformed[i].name);
		read_bad(path, PTM_E_FORMAT, malformed[i].message);
	}
	read_bad(BUNDLES "bad_switches_missing.json", PTM_E_NOINPUT,
		 "Cannot open input: No such file or directory: path=\"" BUNDLES "gone.switch\"");
	read_bad(BUNDLES "bad_switches_dir.json", PTM_E_NOINPUT, "Not a regular file: path=\"/\"");
	read_bad(BUNDLES "none.json", PTM_E_NOINPUT,
		 "Cannot open input: No such file or directory: path=\"" BUNDLES "none.json\"");
}

static void test_probe(void **state)
{
	(void)state;
	assert_int_equal(ptm_desc_probe(BUNDLES "threads.json"), PTM_DESC_LLDB);
	/* Not of the form of an object; no such file; no bundle in the directory; no file at all.
	 */
	assert_int_equal(ptm_desc_probe(BUNDLES "bad_list.json"), PTM_DESC_NONE);
	assert_int_equal(ptm_desc_probe(BUNDLES "none.json"), PTM_DESC_NONE);
	assert_int_equal(ptm_desc_probe(BUNDLES), PTM_DESC_NONE);
	assert_int_equal(ptm_desc_probe("tests/unit/input_lldb_test.c"), PTM_DESC_NONE);
	assert_int_equal(ptm_desc_probe("/dev/null"), PTM_DESC_NONE);
	assert_int_equal(ptm_desc_probe(""), PTM_DESC_NONE);
	assert_int_equal(ptm_desc_probe("-"), PTM_DESC_NONE);
}

static const char *real_path(const char *name)
{
	static char path[1024];

	(void)snprintf(path, sizeof(path), "%s/lldb/%s", getenv("PTMILL_REAL_TRACES"), name);
	return path;
}

static bool no_real_traces(void)
{
	if (getenv("PTMILL_REAL_TRACES") != NULL)
		return false;
	print_message("PTMILL_REAL_TRACES is not set: no real bundles are read\n");
	return true;
}

static void check_real(const char *name, uint8_t model, size_t streams, size_t processes,
		       size_t maps)
{
	struct ptm_desc d;
	size_t n = 0;

	read_good(&d, real_path(name));
	assert_int_equal(d.has_cpu, model != 0);
	assert_int_equal(d.model, model);
	assert_int_equal(d.streams.n, streams);
	assert_int_equal(d.processes.n, processes);
	for (size_t i = 0; i < processes; i++)
		n += d.processes.v[i].maps.n;
	assert_int_equal(n + d.kernel.n, maps);
	ptm_desc_fini(&d);
}

static void test_real(void **state)
{
	struct ptm_desc d;

	(void)state;
	if (no_real_traces())
		return;
	check_real("intelpt-trace/trace.json", 79, 1, 1, 1);
	check_real("intelpt-trace/trace_2threads.json", 79, 2, 1, 1);
	check_real("intelpt-trace/trace_bad_image.json", 79, 1, 1, 1);
	check_real("intelpt-trace/trace_wrong_cpu.json", 0, 1, 1, 1);
	check_real("intelpt-trace-multi-file/multi-file-no-ld.json", 79, 1, 1, 3);
	check_real("intelpt-multi-core-trace/trace_missing_threads.json", 85, 2, 1, 1);
	check_real("intelpt-kernel-trace/trace.json", 85, 2, 0, 1);
	check_real("intelpt-kernel-trace/trace_with_loadAddress.json", 85, 2, 0, 1);
	/* A directory stands for the trace.json in it. */
	assert_int_equal(ptm_desc_probe(real_path("intelpt-trace")), PTM_DESC_LLDB);
	assert_int_equal(ptm_desc_read(&d, real_path("intelpt-trace"), PTM_DESC_LLDB, NULL), 0);
	assert_string_equal(d.path, real_path("intelpt-trace/trace.json"));
	assert_string_equal(d.streams.v[0].path, real_path("intelpt-trace/3842849.trace"));
	assert_string_equal(d.processes.v[0].maps.v[0].build_id,
			    "6aa9a4e26f282f33377d59fece874c715b41261a");
	ptm_desc_fini(&d);
}

/* Numbers as numbers and as strings say the same. */
static void test_real_cores(void **state)
{
	static const char *const names[] = {
		"intelpt-multi-core-trace/trace.json",
		"intelpt-multi-core-trace/trace_with_string_numbers.json"};
	const struct ptm_desc_stream *s;
	struct ptm_desc d;

	(void)state;
	if (no_real_traces())
		return;
	for (size_t i = 0; i < 2; i++) {
		read_good(&d, real_path(names[i]));
		assert_true(d.time.zero == UINT64_C(18433473881008870804));
		assert_true(d.processes.v[0].maps.v[0].address == 4194304);
		assert_int_equal(d.streams.n, 2);
		s = &d.streams.v[0];
		assert_string_equal(s->name, "cpu45");
		assert_int_equal(s->switches.n, 76);
		check_switch(&s->switches.v[0], UINT64_C(40450066217607635), 0, 0, false);
		check_switch(&s->switches.v[75], UINT64_C(40450075477822810), 0, 0, true);
		s = &d.streams.v[1];
		assert_string_equal(s->name, "cpu51");
		assert_int_equal(s->switches.n, 226);
		check_switch(&s->switches.v[0], UINT64_C(40450075435299965), 0, 0, false);
		check_switch(&s->switches.v[225], UINT64_C(40450075479203222), 0, 0, true);
		ptm_desc_fini(&d);
	}
}

static void test_real_malformed(void **state)
{
	static const struct {
		const char *name, *message;
	} cases[] = {
		{"intelpt-trace/trace_bad.json", "processes[0]: must be an object"},
		{"intelpt-trace/trace_bad2.json",
		 "cpuInfo.family: must be a number from 0 to 4294967295"},
		{"intelpt-trace/trace_bad3.json",
		 "processes[1].pid: missing (must be a number from 0 to 4294967295)"},
		{"intelpt-trace/trace_bad4.json",
		 "cpuInfo.family: missing (must be a number from 0 to 4294967295)"},
		{"intelpt-trace/trace_bad5.json",
		 "processes[1].pid: missing (must be a number from 0 to 4294967295)"},
		{"intelpt-kernel-trace/trace_kernel_wo_cpus.json",
		 "cpus: missing (must be given where \"kernel\" is)"},
		{"intelpt-kernel-trace/trace_kernel_with_process.json",
		 "processes: must be empty where \"kernel\" is given"},
	};

	(void)state;
	if (no_real_traces())
		return;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		read_bad(real_path(cases[i].name), PTM_E_FORMAT, cases[i].message);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads),        cmocka_unit_test(test_cores),
		cmocka_unit_test(test_kernel),         cmocka_unit_test(test_other_cpus),
		cmocka_unit_test(test_malformed),      cmocka_unit_test(test_probe),
		cmocka_unit_test(test_real),           cmocka_unit_test(test_real_cores),
		cmocka_unit_test(test_real_malformed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
