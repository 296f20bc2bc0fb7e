/* SPDX-License-Identifier: Apache-2.0
 *
 * signals.h - SIGINT, SIGTERM and SIGHUP stop a session.
 */
#ifndef PTM_CLI_SIGNALS_H
#define PTM_CLI_SIGNALS_H

#include "ptmill/session.h"

/* Opaque. */
struct cli_signals;

/* Begin to watch: the signals are blocked in this thread and those it starts later, and a thread of
 * its own waits for them.  Until cli_signals_arm() a signal does what cli_stopped() says and ends
 * the process.  Also ignores SIGPIPE. NULL and @err on failure.  @session and @output (NULL:
 * standard output) are borrowed.  Threads: call before others are started. */
struct cli_signals *cli_signals_create(struct ptm_session *session, const char *output,
				       struct ptm_error *err);

/* An output is about to be made, which must not stay behind: from now on the first signal cancels
 * the session, the second one ends the process. */
void cli_signals_arm(struct cli_signals *signals);

/* Print the line about a run that @sig stopped; returns the exit code. */
int cli_stopped(int sig, const char *output);

/* Stop watching; returns the signal that came, or 0.  Accepts NULL. */
int cli_signals_destroy(struct cli_signals *signals);

#endif
