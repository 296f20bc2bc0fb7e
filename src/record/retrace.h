/* SPDX-License-Identifier: Apache-2.0
 *
 * retrace.h - the flow of one thread, from the blocks that it was about to execute.
 */
#ifndef PTM_RECORD_RETRACE_H
#define PTM_RECORD_RETRACE_H

#include "record/blocks.h"
#include "record/feed.h"

#define PTM_RETRACE_SIGNALS 8

/* A handler is about to begin. */
struct ptm_retrace_signal {
	uint64_t frame; /* address of the signal frame */
	uint64_t ip;    /* the interrupted instruction, by the frame */
	bool fault;     /* it is the program's own fault */
};

struct ptm_retrace {
	struct ptm_feed *feed;           /* borrowed */
	const struct ptm_blocks *blocks; /* borrowed */
	struct ptm_error *err;
	uint32_t pending; /* the block that was begun last, not told yet; 0: none */
	bool on;          /* the feed was told ON */
	bool in_syscall;  /* the pending block's system call was executed */
	int64_t syscall;  /* its number */
	unsigned nsignals;
	struct ptm_retrace_signal signals[PTM_RETRACE_SIGNALS];
	struct ptm_retrace_signal last; /* the last one that was told */
};

void ptm_retrace_init(struct ptm_retrace *rt, struct ptm_feed *feed,
		      const struct ptm_blocks *blocks, struct ptm_error *err);

/* Block @id, which is known, begins.  Returns 1 if enough is recorded (not to be called again), 0,
 * or -PTM_E_*. */
int ptm_retrace_block(struct ptm_retrace *rt, uint32_t id);

/* System call @nr begins. */
void ptm_retrace_syscall(struct ptm_retrace *rt, int64_t nr);

/* The next block is a handler's. */
void ptm_retrace_signal(struct ptm_retrace *rt, const struct ptm_retrace_signal *signal);

/* Nothing follows.  Returns >= 0 or -PTM_E_*. */
int ptm_retrace_end(struct ptm_retrace *rt);

#endif
