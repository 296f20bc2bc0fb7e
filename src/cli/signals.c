/* SPDX-License-Identifier: Apache-2.0
 *
 * signals.c - a thread that waits for signals: nothing needs to be async-signal-safe then.
 */
#include "signals.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cli_signals {
	struct ptm_session *session; /* borrowed; set before the thread starts */
	sigset_t set;                /* set before the thread starts */
	pthread_t thread;
	atomic_bool done; /* release in destroy(); pairs with the acquire in watch() */
	int came;         /* written by the thread, read after it is joined */
};

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

struct cli_signals *cli_signals_create(struct ptm_session *session, struct ptm_error *err)
{
	struct cli_signals *s = calloc(1, sizeof(*s));
	int e;

	if (s == NULL) {
		err->code = PTM_E_NOMEM;
		err->ncauses = 0;
		return NULL;
	}
	s->session = session;
	atomic_init(&s->done, false);
	(void)sigemptyset(&s->set);
	(void)sigaddset(&s->set, SIGINT);
	(void)sigaddset(&s->set, SIGTERM);
	(void)sigaddset(&s->set, SIGHUP);
	(void)pthread_sigmask(SIG_BLOCK, &s->set, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	e = pthread_create(&s->thread, NULL, watch, s);
	if (e != 0) {
		fail(err, e);
		free(s);
		return NULL;
	}
	(void)pthread_setname_np(s->thread, "ptm-signals");
	return s;
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
	free(s);
	return came;
}
