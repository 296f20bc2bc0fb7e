/* SPDX-License-Identifier: Apache-2.0
 *
 * step.h - the back end that single-steps a program by ptrace.
 */
#ifndef PTM_RECORD_STEP_H
#define PTM_RECORD_STEP_H

#include "base/error.h"
#include "ptmill/record.h"
#include "record/flow.h"

/* Run the program @path with @argv to its end and report its flow to @sink.  Address randomisation
 * is off where that is allowed. Stores the exit code, or 128 + signal, at @exit_code.  Child
 * processes run on unobserved; a second thread, or an exec after the first, ends the recording with
 * an error, and the program.  A signal that appears at config->pass_on, which may be NULL, is sent
 * to the program once.  With config->ptwrite, PTWRITE works on any CPU.
 *
 * Returns 0, or -PTM_E_NOINPUT, -PTM_E_SYSTEM, or what the sink returned. */
int ptm_step_run(const char *path, char *const argv[], const struct ptm_record_config *config,
		 const struct ptm_flow_sink *sink, int *exit_code, struct ptm_error *err);

#endif
