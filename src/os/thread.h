/* SPDX-License-Identifier: Apache-2.0
 *
 * thread.h - starting threads, and what a run has used so far.
 */
#ifndef PTM_OS_THREAD_H
#define PTM_OS_THREAD_H

#include "base/error.h"

#include <pthread.h>

typedef void *(*ptm_thread_fn)(void *arg);

/* Start a thread called @name (15 characters are kept).  It runs with asynchronous signals blocked,
 * so that SIGINT and the like stay with the threads of the program.  Returns 0, or -PTM_E_SYSTEM
 * and @err.  Wait for it with pthread_join(). */
int ptm_thread_start(pthread_t *thread, const char *name, ptm_thread_fn fn, void *arg,
		     struct ptm_error *err);

/* Seconds on the monotonic clock. */
double ptm_now(void);

/* CPU seconds of the whole process, user and system. */
double ptm_cpu_seconds(void);

/* CPU seconds of the calling thread. */
double ptm_thread_cpu_seconds(void);

/* The most memory that the process has had resident, in bytes. */
uint64_t ptm_peak_rss(void);

#endif
