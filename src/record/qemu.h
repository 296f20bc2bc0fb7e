/* SPDX-License-Identifier: Apache-2.0
 *
 * qemu.h - the back end that runs a program under qemu-user with a plugin of ours.
 */
#ifndef PTM_RECORD_QEMU_H
#define PTM_RECORD_QEMU_H

#include "record/capture.h"
#include "record/program.h"

/* What all threads did. */
struct ptm_qemu_result {
	int exit_code;                 /* or 128 + signal */
	uint64_t instructions, digest; /* of all streams; the digest of the first one */
	uint64_t trace_bytes, psbs, gaps, lost;
};

struct ptm_qemu;

/* True if qemu-user and the plugin are here. */
bool ptm_qemu_is_there(void);

/* Run @program with @argv to its end; its threads become streams of @cap, which may be committed
 * until ptm_qemu_destroy().  Child processes run on unobserved.
 *
 * NULL and @err: -PTM_E_NOINPUT (QEMU, the plugin or the program is missing), -PTM_E_SYSTEM (the
 * program replaces itself, or does what cannot be followed), or what writing failed with. */
struct ptm_qemu *ptm_qemu_run(const struct ptm_record_config *config,
			      const struct ptm_program *program, char *const argv[],
			      struct ptm_capture *cap, struct ptm_qemu_result *result,
			      struct ptm_error *err);
void ptm_qemu_destroy(struct ptm_qemu *qemu);

#endif
