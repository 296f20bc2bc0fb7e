/* SPDX-License-Identifier: Apache-2.0
 *
 * os_thread_test.c - threads have names, leave signals alone and fail with words; clocks and memory
 * move.
 */
#include "os/thread.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

struct seen {
	char name[16];
	sigset_t mask;
};

static void *look(void *arg)
{
	struct seen *seen = arg;

	/* The name is set by the starter, perhaps after we began. */
	for (int i = 0; i < 1000; i++) {
		(void)pthread_getname_np(pthread_self(), seen->name, sizeof(seen->name));
		if (strncmp(seen->name, "worker", 6) == 0)
			break;
		(void)usleep(1000);
	}
	(void)pthread_sigmask(SIG_BLOCK, NULL, &seen->mask);
	return arg;
}

static void test_start(void **state)
{
	struct seen seen = {0};
	pthread_t thread;
	sigset_t mask;
	void *ret;

	(void)state;
	assert_int_equal(ptm_thread_start(&thread, "worker-number-123", look, &seen, NULL), 0);
	assert_int_equal(pthread_join(thread, &ret), 0);
	assert_ptr_equal(ret, &seen);
	assert_string_equal(seen.name, "worker-number-1");
	assert_int_equal(sigismember(&seen.mask, SIGINT), 1);
	assert_int_equal(sigismember(&seen.mask, SIGTERM), 1);
	assert_int_equal(sigismember(&seen.mask, SIGSEGV), 0);
	assert_int_equal(sigismember(&seen.mask, SIGBUS), 0);
	(void)pthread_sigmask(SIG_BLOCK, NULL, &mask);
	assert_int_equal(sigismember(&mask, SIGINT), 0);
}

static int starved_child(void)
{
	struct rlimit none = {0, 0};
	struct ptm_error err = {0};
	struct seen seen;
	pthread_t thread;

	/* The limit does not hold for root: become nobody. */
	if (setrlimit(RLIMIT_NPROC, &none) < 0 || (geteuid() == 0 && setuid(65534) < 0))
		return 77;
	if (ptm_thread_start(&thread, "worker", look, &seen, &err) == 0)
		return 77;
	if (err.code != PTM_E_SYSTEM || strstr(err.cause[0].text, "worker") == NULL)
		return 1;
	return 0;
}

static void test_start_fails(void **state)
{
	int status = 0;
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(starved_child());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		print_message("skipped: threads cannot be limited here\n");
	else
		assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_clocks(void **state)
{
	double now = ptm_now(), cpu = ptm_cpu_seconds();
	clock_t begin = clock();

	(void)state;
	(void)usleep(30000);
	assert_true(ptm_now() - now >= 0.03);
	assert_true(ptm_now() - now < 10);
	while (clock() - begin < CLOCKS_PER_SEC / 20)
		;
	assert_true(ptm_cpu_seconds() - cpu >= 0.045);
	assert_true(ptm_cpu_seconds() - cpu < 10);
}

static void test_peak_rss(void **state)
{
	size_t len = (size_t)64 << 20;
	uint64_t before = ptm_peak_rss(), with;
	char *p = malloc(len);

	(void)state;
	assert_non_null(p);
	memset(p, 1, len);
	assert_int_equal(p[len / 2], 1);
	with = ptm_peak_rss();
	assert_true(before > 0);
	assert_true(with >= before + len / 2);
	free(p);
	/* A peak stays, but for the pages that the kernel counts in batches. */
	assert_true(ptm_peak_rss() >= before + len / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_start),
		cmocka_unit_test(test_start_fails),
		cmocka_unit_test(test_clocks),
		cmocka_unit_test(test_peak_rss),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
