/* SPDX-License-Identifier: Apache-2.0
 *
 * flow.h - what a back end tells about the program it runs: the executed flow, in program order.
 *
 * ON, then any number of INSN and PTWRITE, then OFF or INTERRUPT, and again.  An instruction is
 * told when it has retired, a rep instruction once, with its last iteration.
 */
#ifndef PTM_RECORD_FLOW_H
#define PTM_RECORD_FLOW_H

#include "image/insn.h"

#include <stdint.h>
#include <sys/types.h>

enum ptm_flow_kind {
	PTM_FLOW_ON,       /* user code goes on at ip */
	PTM_FLOW_INSN,     /* insn at ip retired, the next one is at next */
	PTM_FLOW_OFF,      /* insn at ip retired and entered the kernel (SYSCALL, SYSENTER) */
	PTM_FLOW_PTWRITE,  /* as INSN, of a PTWRITE whose operand is known */
	PTM_FLOW_INTERRUPT /* the kernel was entered before the instruction at ip retired */
};

struct ptm_flow_event {
	enum ptm_flow_kind kind;
	uint64_t ip, next;
	const struct ptm_insn *insn; /* INSN, PTWRITE and OFF; borrowed for the call */
	uint64_t value;              /* PTWRITE: of so many bytes */
	unsigned bytes;
};

/* Where a back end reports to.  All return >= 0 or -PTM_E_*, which ends the recording. */
struct ptm_flow_sink {
	void *ctx;
	/* One event.  Returns 1 if enough is recorded, 0 to go on. */
	int (*event)(void *ctx, const struct ptm_flow_event *ev);
	/* These @len bytes at @address are about to be executed; not told of each time. */
	int (*code)(void *ctx, uint64_t address, const uint8_t *bytes, size_t len);
	/* The executable mappings of stopped process @pid may have changed. */
	int (*mappings)(void *ctx, pid_t pid);
	/* Stopped process @pid is about to unmap or change its memory from @begin to @end,
	 * exclusive. */
	int (*losing)(void *ctx, pid_t pid, uint64_t begin, uint64_t end);
	/* Process @pid is stopped for the last time and about to lose its memory. */
	int (*leaving)(void *ctx, pid_t pid);
};

#endif
