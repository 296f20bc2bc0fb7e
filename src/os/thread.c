/* SPDX-License-Identifier: Apache-2.0
 *
 * thread.c - starting threads, clocks, memory use.
 */
#include "os/thread.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

/* Everything but what an instruction of the thread itself raises, and the profiler's tick. */
static void block_signals(sigset_t *old)
{
	static const int keep[] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
				   SIGTRAP, SIGABRT, SIGSYS, SIGPROF};
	sigset_t set;

	(void)sigfillset(&set);
	for (size_t i = 0; i < sizeof(keep) / sizeof(keep[0]); i++)
		(void)sigdelset(&set, keep[i]);
	(void)pthread_sigmask(SIG_BLOCK, &set, old);
}

int ptm_thread_start(pthread_t *thread, const char *name, ptm_thread_fn fn, void *arg,
		     struct ptm_error *err)
{
	char short_name[16];
	sigset_t old;
	int e;

	/* A new thread inherits the mask: no signal can reach it before it runs. */
	block_signals(&old);
	e = pthread_create(thread, NULL, fn, arg);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (e != 0) {
		errno = e;
		return PTM_FAIL(err, PTM_E_SYSTEM,
				"Cannot start thread \"%s\": %m (try fewer threads)", name);
	}
	(void)snprintf(short_name, sizeof(short_name), "%s", name);
	(void)pthread_setname_np(*thread, short_name);
	return 0;
}

static double seconds(clockid_t clock)
{
	struct timespec t = {0};

	(void)clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double ptm_now(void)
{
	return seconds(CLOCK_MONOTONIC);
}

double ptm_cpu_seconds(void)
{
	return seconds(CLOCK_PROCESS_CPUTIME_ID);
}

double ptm_thread_cpu_seconds(void)
{
	return seconds(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t ptm_peak_rss(void)
{
	struct rusage usage = {0};
	uint64_t kib = 0;
	char line[128];
	FILE *f = fopen("/proc/self/status", "re");

	/* VmHWM rather than ru_maxrss, which a program inherits from the one that executed it. */
	while (f != NULL && kib == 0 && fgets(line, sizeof(line), f) != NULL)
		(void)sscanf(line, "VmHWM: %" SCNu64, &kib); /* NOLINT(cert-err34-c) */
	if (f != NULL)
		(void)fclose(f);
	if (kib == 0 && getrusage(RUSAGE_SELF, &usage) == 0)
		kib = (uint64_t)usage.ru_maxrss;
	return kib * 1024;
}
