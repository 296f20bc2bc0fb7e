/* SPDX-License-Identifier: Apache-2.0
 *
 * launch.h - starts a program under qemu-user: finds QEMU and our plugin.
 */
#ifndef PTM_RECORD_LAUNCH_H
#define PTM_RECORD_LAUNCH_H

#include "record/program.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PTM_QEMU_NAME   "qemu-x86_64"
#define PTM_PLUGIN_NAME "ptmill-qemu.so"

/* The path of the plugin; to be freed, NULL if there is none. */
char *ptm_find_plugin(void);

/* Start @program with @argv under QEMU, whose plugin gets the shared memory @fd; equal @seed, equal
 * random numbers of the kernel.  The process dies with the calling thread.  Returns 0 or -PTM_E_*.
 */
int ptm_launch(const struct ptm_program *program, char *const argv[], int fd, uint64_t seed,
	       pid_t *pid, struct ptm_error *err);

#endif
