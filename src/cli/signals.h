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
 * its own waits for them.  The first one cancels @session (borrowed), the second one ends the
 * process.  Also ignores SIGPIPE. NULL and @err on failure.  Threads: call before others are
 * started. */
struct cli_signals *cli_signals_create(struct ptm_session *session, struct ptm_error *err);

/* Stop watching; returns the signal that came, or 0.  Accepts NULL. */
int cli_signals_destroy(struct cli_signals *signals);

#endif
