/* SPDX-License-Identifier: Apache-2.0
 *
 * iter.h - the result of a run in order, to be read by a program: blocks of instructions and the
 * events between them, in batches.
 *
 * An iterator (ptm_iter_create) is pulled; a visitor (ptm_sink_visit_create) is called.  Neither
 * pays for single instructions: an expander (ptm_expander_create) makes them of the blocks that
 * somebody wants to look into.
 *
 *     while ((got = ptm_iter_next(it, &batch, &err)) > 0)
 *             for (size_t i = 0; i < batch->nblocks; i++)
 *                     count(batch->blocks[i].ip, batch->blocks[i].n);
 */
#ifndef PTMILL_ITER_H
#define PTMILL_ITER_H

#include "err.h"
#include "event.h"
#include "session.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What an instruction does to the flow, in the terms of SDM vol. 3, ch. Intel PT.  Values are
 * stable once released. */
enum ptm_branch {
	PTM_BRANCH_NONE = 0,          /* falls through */
	PTM_BRANCH_COND = 1,          /* Jcc, JrCXZ, LOOPcc */
	PTM_BRANCH_JUMP = 2,          /* direct near JMP */
	PTM_BRANCH_CALL = 3,          /* direct near CALL */
	PTM_BRANCH_JUMP_INDIRECT = 4, /* near JMP through a register or memory */
	PTM_BRANCH_CALL_INDIRECT = 5,
	PTM_BRANCH_RET = 6,        /* near RET */
	PTM_BRANCH_FAR_CALL = 7,   /* INT n, SYSCALL, SYSENTER, far CALL, VMLAUNCH, ... */
	PTM_BRANCH_FAR_RETURN = 8, /* IRET, SYSRET, SYSEXIT, RETF, ... */
	PTM_BRANCH_FAR_JUMP = 9,
	PTM_BRANCH_KINDS = 10
};

/* Names ("cond", "call-indirect"), static storage. */
PTM_API const char *ptm_branch_name(unsigned branch);

/* Flags of struct ptm_block and struct ptm_instruction. */
enum {
	/* The flow was found again inside a PSB frame after an error (PTM_RESYNC_IP): less certain.
	 */
	PTM_BLOCK_RESYNCED = 1,
	/* The engine counted n instructions here, but the images do not hold them: `bytes` is 0,
	 * and `gap` (an enum ptm_gap) tells why.  Not seen unless there is a bug in an engine. */
	PTM_BLOCK_UNKNOWN = 2
};

/* Instructions that lie one behind the other in memory and were executed so.  A block ends behind
 * each branch, taken or not, direct or not; at an event; where resynced instructions begin or end;
 * where the flow goes on elsewhere; and nowhere else.  So blocks do not depend on the engine, on
 * threads or on segments. */
struct ptm_block {
	const struct ptm_space *space; /* opaque: the address space it lies in, of the session */
	uint64_t ip;                   /* of the first instruction */
	uint64_t last;                 /* of the last one */
	uint32_t n;                    /* instructions, at least 1 */
	uint32_t bytes;
	uint8_t bits;  /* of the code: 16, 32 or 64 */
	uint8_t ends;  /* enum ptm_branch: what the last instruction is */
	uint8_t flags; /* PTM_BLOCK_* */
	uint8_t gap;   /* see PTM_BLOCK_UNKNOWN */
	uint32_t reserved;
};

/* A part of the result, of one stream.  Where a batch is cut says nothing.  The arrays are borrowed
 * together with the batch. */
struct ptm_block_batch {
	size_t stream; /* counted from 0, as for ptm_session_stream() */
	const struct ptm_block *blocks;
	size_t nblocks;
	const struct ptm_event *events; /* ascending by `step`: the event precedes that block, or
					   stands behind the last one */
	size_t nevents;
};

/* Opaque. */
struct ptm_iter;
struct ptm_expander;
struct ptm_sink;
struct ptm_space;

/* Start a run of @session whose result is pulled with ptm_iter_next().
 *
 * The iterator borrows the session, which must outlive it and not be run otherwise.  It copies
 * @options (NULL: none); their functions are called from a thread of its own.  Workers go ahead of
 * the reader as far as the session's bounded buffers let them, then wait for it.  Destroy it with
 * ptm_iter_destroy(), at any time: the run is canceled then.
 *
 * Returns NULL and @err on failure (-PTM_E_NOMEM, -PTM_E_SYSTEM). */
PTM_API struct ptm_iter *ptm_iter_create(struct ptm_session *session,
					 const struct ptm_run_options *options,
					 struct ptm_error *err);

/* The next batch, in order: streams one after the other, each from its begin to its end.
 *
 * @batch borrows the iterator's memory: it is valid until the next call on @it.
 *
 * Threads: one caller an iterator.  ptm_session_cancel() may be called by any other one.
 *
 * Returns 1 and a batch with at least one block or event; 0 at the end; or -PTM_E_*, after all that
 * precedes the error, and again whenever it is called then:
 *   -PTM_E_CANCELED  ptm_session_cancel() was called
 *   others           as ptm_session_run() */
PTM_API int ptm_iter_next(struct ptm_iter *it, const struct ptm_block_batch **batch,
			  struct ptm_error *err);

/* What the run was.  Complete once ptm_iter_next() returned 0 or an error; zeroes before. */
PTM_API struct ptm_run_stats ptm_iter_stats(const struct ptm_iter *it);

/* Cancels what still runs, waits for it, frees.  Accepts NULL. */
PTM_API void ptm_iter_destroy(struct ptm_iter *it);

/* The same result, handed to functions in the thread that calls ptm_session_run(): in its order,
 * one call at a time.  Each may be NULL.  What they return < 0 ends the run, which returns it; use
 * -PTM_E_CANCELED if nothing went wrong.  Zero-initialise, then set `size`. */
struct ptm_visitor {
	size_t size; /* sizeof(struct ptm_visitor) */
	void *ctx;   /* of all functions */
	int (*stream_begin)(void *ctx, size_t stream, const char *name);
	int (*batch)(void *ctx, const struct ptm_block_batch *batch); /* valid during the call */
	int (*stream_end)(void *ctx, size_t stream, const char *name);
};

/* Copies @visitor.  NULL and @err when out of memory.  Destroy with ptm_sink_destroy(). */
PTM_API struct ptm_sink *ptm_sink_visit_create(const struct ptm_visitor *visitor,
					       struct ptm_error *err);

struct ptm_instruction {
	uint64_t ip;
	uint8_t len;
	uint8_t bits;
	uint8_t branch;    /* enum ptm_branch */
	uint8_t flags;     /* PTM_BLOCK_RESYNCED, of its block */
	uint8_t bytes[20]; /* the code; `len` of them, the others are zero */
};

/* Makes instructions of blocks; decoded code is kept, @cache_limit bytes of it (0: 64 MiB).
 * Destroy it before the session that the blocks came from.  NULL and @err when out of memory. */
PTM_API struct ptm_expander *ptm_expander_create(size_t cache_limit, struct ptm_error *err);
PTM_API void ptm_expander_destroy(struct ptm_expander *expander);

/* Store up to @max instructions of @block, from number @first on, at @insns.
 *
 * Threads: one caller an expander; have one a thread.
 *
 * Returns how many it stored; 0 if @first is not in the block or the block is PTM_BLOCK_UNKNOWN; or
 * -PTM_E_*:
 *   -PTM_E_NOMEM  out of memory
 *   -PTM_E_USAGE  it is no block of a session: the code says otherwise */
PTM_API int ptm_expand(struct ptm_expander *expander, const struct ptm_block *block, uint32_t first,
		       struct ptm_instruction *insns, uint32_t max, struct ptm_error *err);

#ifdef __cplusplus
}
#endif
#endif
