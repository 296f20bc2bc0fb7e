/* SPDX-License-Identifier: Apache-2.0
 *
 * record_capture_test.c - recordings of small programs by the single-stepper: what is written, and
 * what is left on failure.
 *
 * That the packets are right is shown elsewhere, by other decoders; here exit codes, files and
 * error messages count.
 */
#include "base/error.h"
#include "ptmill/record.h"

#include <inttypes.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <ftw.h>
#include <cmocka.h>

static char dir[] = "/tmp/ptmill-record-XXXXXX";
static char out[64];

static int remove_one(const char *path, const struct stat *sb, int flag, struct FTW *ftw)
{
	(void)sb;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static int make_dir(void **state)
{
	(void)state;
	if (mkdtemp(dir) == NULL)
		return -1;
	(void)snprintf(out, sizeof(out), "%s/out", dir);
	return 0;
}

static int remove_dir(void **state)
{
	(void)state;
	return nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int remove_out(void **state)
{
	(void)state;
	(void)nftw(out, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return 0;
}

static struct ptm_record_config config_of(uint64_t limit)
{
	struct ptm_record_config config;

	ptm_record_config_init(&config);
	config.psb_period = 256;
	config.max_instructions = limit;
	return config;
}

/* Skips where ptrace is forbidden: containers may do so. */
static void record(const struct ptm_record_config *config, char *const argv[],
		   struct ptm_record_result *result)
{
	struct ptm_error err;
	int ret;

	memset(result, 0, sizeof(*result));
	result->size = sizeof(*result);
	ret = ptm_record(config, argv, out, result, &err);
	if (ret == -PTM_E_SYSTEM && strstr(err.cause[0].text, "PTRACE_TRACEME") != NULL) {
		print_message("skipped: %s\n", err.cause[0].text);
		skip();
	}
	if (ret < 0)
		print_message("%s\n", err.cause[0].text);
	assert_int_equal(ret, 0);
}

static off_t size_of(const char *name)
{
	char path[PATH_MAX];
	struct stat sb;

	(void)snprintf(path, sizeof(path), "%s/%s", out, name);
	return stat(path, &sb) == 0 ? sb.st_size : -1;
}

static void assert_nothing_left(void)
{
	assert_int_equal(rmdir(dir), 0);
	assert_int_equal(mkdir(dir, 0700), 0);
}

static void capture_is_complete(void **state)
{
	char *const argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)"exit 7", NULL};
	struct ptm_record_config config = config_of(20000);
	struct ptm_record_result result;
	uint64_t n = 0, digest = 0, offset, last = 0, psbs = 0;
	char path[PATH_MAX], line[PATH_MAX];
	FILE *f;

	(void)state;
	record(&config, argv, &result);
	assert_int_equal(result.exit_code, 7);
	assert_int_equal(result.instructions, 20000);
	assert_int_equal(size_of("trace.pt"), result.trace_bytes);
	(void)snprintf(path, sizeof(path), "%s/truth.txt", out);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "instructions %" SCNu64 " digest %" SCNx64 " ", &n, &digest), 2);
	assert_int_equal(n, 20000);
	assert_int_equal(digest, result.digest);
	while (fgets(line, sizeof(line), f) != NULL) {
		assert_int_equal(sscanf(line, "psb %" SCNu64 " %" SCNu64 " ", &offset, &n), 2);
		assert_true(psbs == 0 ? offset == 0 && n == 0 : offset >= last + 256);
		last = offset;
		psbs++;
	}
	(void)fclose(f);
	assert_int_equal(psbs, result.psbs);
	assert_true(psbs > 3);

	/* Every executable mapping has its file, as long as it needs to be. */
	(void)snprintf(path, sizeof(path), "%s/maps", out);
	f = fopen(path, "r");
	assert_non_null(f);
	for (n = 0; fgets(line, sizeof(line), f) != NULL; n++) {
		uint64_t from, to, at;
		int name = 0;

		line[strcspn(line, "\n")] = '\0';
		assert_int_equal(sscanf(line, "%" SCNx64 "-%" SCNx64 " r-xp %" SCNx64 " 00:00 0 %n",
					&from, &to, &at, &name),
				 3);
		(void)snprintf(path, sizeof(path), "images%s", line + name);
		assert_true(size_of(path) > 0 && (uint64_t)size_of(path) > at);
	}
	(void)fclose(f);
	assert_true(n >= 2);
}

static void seed_decides(void **state)
{
	char *const argv[] = {(char *)"/bin/true", NULL};
	struct ptm_record_config config = config_of(3000);
	struct ptm_record_result a, b;

	config.irq_period = 100;
	record(&config, argv, &a);
	(void)remove_out(state);
	record(&config, argv, &b);
	assert_int_equal(a.digest, b.digest);
	assert_int_equal(a.trace_bytes, b.trace_bytes);
	(void)remove_out(state);
	config.irq_period = 0;
	record(&config, argv, &b);
	assert_int_equal(a.digest, b.digest);
	assert_true(a.trace_bytes > b.trace_bytes);
}

static void killed_by_a_signal(void **state)
{
	char *const argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)"kill -TERM $$", NULL};
	struct ptm_record_config config = config_of(0);
	struct ptm_record_result result;

	(void)state;
	record(&config, argv, &result);
	assert_int_equal(result.exit_code, 128 + 15);
	assert_true(result.instructions > 1000);
}

static void expect_failure(const struct ptm_record_config *config, char *program, const char *place,
			   int code, const char *message)
{
	char *const argv[] = {program, NULL};
	struct ptm_error err;

	assert_int_equal(ptm_record(config, argv, place, NULL, &err), -code);
	assert_non_null(strstr(err.cause[0].text, message));
}

static void failures_leave_nothing(void **state)
{
	struct ptm_record_config config = config_of(0);
	char program[] = "/bin/true", missing[] = "/nonexistent/program";

	(void)state;
	expect_failure(&config, missing, out, PTM_E_NOINPUT,
		       "Cannot execute \"/nonexistent/program\"");
	assert_nothing_left();
	expect_failure(&config, program, dir, PTM_E_USAGE, "exists already");
	assert_nothing_left();
	expect_failure(&config, program, "/nonexistent/out", PTM_E_IO, "/nonexistent/out");
	config.psb_period = 1;
	expect_failure(&config, program, out, PTM_E_USAGE, "PSB");
	config = config_of(0);
	config.mtc_freq = 16;
	expect_failure(&config, program, out, PTM_E_USAGE, "MTC");
	config.size = 0;
	expect_failure(&config, program, out, PTM_E_USAGE, "size");
	assert_nothing_left();
}

static void exec_is_refused(void **state)
{
	char *const argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)"exec /bin/true", NULL};
	struct ptm_record_config config = config_of(0);
	struct ptm_error err;

	(void)state;
	assert_int_equal(ptm_record(&config, argv, out, NULL, &err), -PTM_E_SYSTEM);
	if (strstr(err.cause[0].text, "PTRACE_TRACEME") == NULL)
		assert_non_null(strstr(err.cause[0].text, "exec"));
	assert_nothing_left();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(capture_is_complete, remove_out),
		cmocka_unit_test_teardown(seed_decides, remove_out),
		cmocka_unit_test_teardown(killed_by_a_signal, remove_out),
		cmocka_unit_test(failures_leave_nothing),
		cmocka_unit_test(exec_is_refused),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
