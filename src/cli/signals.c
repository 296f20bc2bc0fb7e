/* SPDX-License-Identifier: Apache-2.0
 *
 * signals.c - a thread that waits for signals: nothing needs to be async-signal-safe then.
 */
#include "signals.h"

#include "cli.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CLI_SIGNAL_AGAIN 0.5 /* seconds between a first and a second signal */

struct cli_signals {
	struct ptm_session *session; /* borrowed; set before the thread starts */
	const char *output;          /* borrowed; set before the thread starts */
	sigset_t set;                /* set before the thread starts */
	pthread_t thread;
	pthread_mutex_t lock;
	bool armed;       /* guarded by the lock */
	atomic_bool done; /* release in destroy(); pairs with the acquire in watch() */
	double came_at;   /* monotonic seconds; the thread's */
	int came;         /* written by the thread, read after it is joined */
};

int cli_stopped(int sig, const char *output)
{
	if (output == NULL)
		cli_say("Stopped by SIG%s: the output is not complete", sigabbrev_np(sig));
	else
		cli_say("Stopped by SIG%s: nothing was written: path=\"%s\"", sigabbrev_np(sig),
			output);
	return ptm_err_exit_code(PTM_E_CANCELED);
}

/* Opening inputs and images may wait (a FIFO, a dead file server), and nobody looks whether the
 * session is canceled then.  With the lock held, no output can come into being meanwhile. */
static void end_unless_armed(struct cli_signals *s, int sig)
{
	(void)pthread_mutex_lock(&s->lock);
	if (!s->armed)
		_exit(cli_stopped(sig, s->output));
	(void)pthread_mutex_unlock(&s->lock);
}

static double now(void)
{
	struct timespec ts = {0, 0};

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void *watch(void *arg)
{
	struct cli_signals *s = arg;

	for (;;) {
		int sig = 0;

		if (sigwait(&s->set, &sig) != 0)
			continue;
		/* Acquire: pairs with the release in cli_signals_destroy(), which wakes us. */
		if (atomic_load_explicit(&s->done, memory_order_acquire))
			return NULL;
		end_unless_armed(s, sig);
		/* timeout(1) sends its signal to the process and to its group: that is one. */
		if (s->came != 0 && now() - s->came_at < CLI_SIGNAL_AGAIN)
			continue;
		if (s->came != 0) {
			/* The user insists: die of it, as if we had never caught it. */
			sigset_t one;

			(void)signal(sig, SIG_DFL);
			(void)sigemptyset(&one);
			(void)sigaddset(&one, sig);
			(void)pthread_sigmask(SIG_UNBLOCK, &one, NULL);
			(void)raise(sig);
		}
		s->came = sig;
		s->came_at = now();
		ptm_session_cancel(s->session);
	}
}

static void fail(struct ptm_error *err, int e)
{
	err->code = PTM_E_SYSTEM;
	err->ncauses = 1;
	err->cause[0].where = __func__;
	(void)snprintf(err->cause[0].text, sizeof(err->cause[0].text),
		       "Cannot start the thread that waits for signals: %s", strerror(e));
}

struct cli_signals *cli_signals_create(struct ptm_session *session, const char *output,
				       struct ptm_error *err)
{
	struct cli_signals *s = calloc(1, sizeof(*s));
	int e;

	if (s == NULL) {
		err->code = PTM_E_NOMEM;
		err->ncauses = 0;
		return NULL;
	}
	s->session = session;
	s->output = output;
	atomic_init(&s->done, false);
	(void)pthread_mutex_init(&s->lock, NULL);
	(void)sigemptyset(&s->set);
	(void)sigaddset(&s->set, SIGINT);
	(void)sigaddset(&s->set, SIGTERM);
	(void)sigaddset(&s->set, SIGHUP);
	(void)pthread_sigmask(SIG_BLOCK, &s->set, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	e = pthread_create(&s->thread, NULL, watch, s);
	if (e != 0) {
		fail(err, e);
		(void)pthread_mutex_destroy(&s->lock);
		free(s);
		return NULL;
	}
	(void)pthread_setname_np(s->thread, "ptm-signals");
	return s;
}

void cli_signals_arm(struct cli_signals *s)
{
	(void)pthread_mutex_lock(&s->lock);
	s->armed = true;
	(void)pthread_mutex_unlock(&s->lock);
}

int cli_signals_destroy(struct cli_signals *s)
{
	int came;

	if (s == NULL)
		return 0;
	/* Release: pairs with the acquire in watch(). */
	atomic_store_explicit(&s->done, true, memory_order_release);
	(void)pthread_kill(s->thread, SIGTERM);
	(void)pthread_join(s->thread, NULL);
	came = s->came;
	(void)pthread_mutex_destroy(&s->lock);
	free(s);
	return came;
}
