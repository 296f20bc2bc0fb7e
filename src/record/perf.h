/* SPDX-License-Identifier: Apache-2.0
 *
 * perf.h - the back end that lets perf record the trace of a CPU with Intel PT.
 */
#ifndef PTM_RECORD_PERF_H
#define PTM_RECORD_PERF_H

#include "record/capture.h"

/* True if the kernel offers intel_pt and perf is here. */
bool ptm_perf_is_there(void);

/* Run @argv by `perf record` to its end; the trace of its first thread becomes the stream of @cap,
 * without truth and without time.  Stores the exit code that perf passes on, and the bytes. Returns
 * 0, -PTM_E_NOINPUT (perf or the program is missing), -PTM_E_SYSTEM (perf failed, or lost a part).
 */
int ptm_perf_run(const struct ptm_record_config *config, char *const argv[],
		 struct ptm_capture *cap, int *exit_code, uint64_t *bytes, struct ptm_error *err);

#endif
