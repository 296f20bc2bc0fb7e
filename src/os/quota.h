/* SPDX-License-Identifier: Apache-2.0
 *
 * quota.h - the CPU bandwidth that control groups grant us, in whole CPUs.
 */
#ifndef PTM_OS_QUOTA_H
#define PTM_OS_QUOTA_H

#include "base/error.h"

/* Parse the text of a cpu.max file ("150000 100000", "max 100000").  Returns the CPUs rounded up, 0
 * for no limit, -1 if it is something else. */
int ptm_quota_parse(const char *text);

/* Read one cpu.max file.  Returns the CPUs rounded up, 0 for no limit, -PTM_E_NOINPUT if it cannot
 * be read, -PTM_E_USAGE if it is no cpu.max file. */
int ptm_quota_read(const char *path, struct ptm_error *err);

/* The smallest quota of our own control groups (v2 cpu.max, v1 cpu.cfs_quota_us) from our own up to
 * the root of the hierarchy that we see; 0 for no limit.  @root stands before every path: "" but
 * for tests. */
unsigned ptm_quota_own(const char *root);

#endif
