/* SPDX-License-Identifier: Apache-2.0
 *
 * capture.h - the directory that a recording is written to.
 *
 * trace.pt; maps, in the format of /proc/PID/maps, executable mappings only; images/PATH, the
 * mapped files and memory; truth.txt.
 */
#ifndef PTM_RECORD_CAPTURE_H
#define PTM_RECORD_CAPTURE_H

#include "base/error.h"
#include "record/feed.h"

#include <sys/types.h>

struct ptm_capture;

/* Make a temporary directory beside @out_dir, which must not exist.  NULL and @err on failure. */
struct ptm_capture *ptm_capture_create(const char *out_dir, struct ptm_error *err);

/* Remove what was not committed, free.  NULL is allowed. */
void ptm_capture_destroy(struct ptm_capture *cap);

/* A ptm_enc_write_fn; @ctx is the capture. */
int ptm_capture_write(void *ctx, const uint8_t *bytes, size_t len);

/* Take over the executable mappings of stopped process @pid, and their files.  @ctx is the capture.
 */
int ptm_capture_mappings(void *ctx, pid_t pid);

/* The same, and copy the executable memory that has no file (vdso, generated code) as it is now. */
int ptm_capture_leaving(void *ctx, pid_t pid);

/* Write truth and maps, and give the directory its name. */
int ptm_capture_commit(struct ptm_capture *cap, const struct ptm_feed *feed);

#endif
