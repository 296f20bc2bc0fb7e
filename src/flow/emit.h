/* SPDX-License-Identifier: Apache-2.0
 *
 * emit.h - collects instructions and events of one segment into batches and hands each full batch
 * on.
 */
#ifndef PTM_FLOW_EMIT_H
#define PTM_FLOW_EMIT_H

#include "base/error.h"
#include "flow/step.h"
#include "image/insn.h"

#include <stdbool.h>

#define PTM_EMIT_STEPS  4096
#define PTM_EMIT_EVENTS 512

/* Receives a batch; what it returns < 0 ends the segment. */
typedef int (*ptm_emit_fn)(void *ctx, const struct ptm_batch *batch, struct ptm_error *err);

struct ptm_emit {
	ptm_emit_fn fn;
	void *ctx;
	/* Called with true before fn, which may wait for long, and with false behind it; NULL: not.
	 * May be set after init. */
	int (*park)(void *ctx, bool away);
	void *park_ctx;
	struct ptm_tally tally;     /* of the segment */
	struct ptm_digest digest;   /* of the segment, up to the last batch handed on */
	struct ptm_digest resynced; /* likewise, of what was decoded behind a resync */

	const struct ptm_space *space; /* of the current batch */
	struct ptm_digest part;        /* of it */
	size_t nsteps, nevents;
	bool no_steps;  /* nobody wants them; may be set after init */
	bool open;      /* the last step may grow */
	bool uncertain; /* the instructions that follow lie behind a resync */
	struct ptm_step steps[PTM_EMIT_STEPS];
	struct ptm_event events[PTM_EMIT_EVENTS];
};

void ptm_emit_init(struct ptm_emit *emit, ptm_emit_fn fn, void *ctx);

/* The instructions that follow lie in @space: to be called before the first one, and on a change.
 */
int ptm_emit_space(struct ptm_emit *emit, const struct ptm_space *space, struct ptm_error *err);

/* The instructions that follow are sure, or lie behind a resync inside a frame. */
int ptm_emit_certainty(struct ptm_emit *emit, bool uncertain, struct ptm_error *err);

/* Hand on what is there.  To be called at the end of a segment. */
int ptm_emit_flush(struct ptm_emit *emit, struct ptm_error *err);

int ptm_emit_event(struct ptm_emit *emit, const struct ptm_event *ev, struct ptm_error *err);

/* A gap event, with its bytes and class accounted for. */
int ptm_emit_gap(struct ptm_emit *emit, enum ptm_gap gap, uint64_t offset, uint64_t bytes,
		 const uint64_t *ip, struct ptm_error *err);

/* A new step of @n instructions. */
int ptm_emit_step(struct ptm_emit *emit, uint64_t ip, uint32_t n, enum ptm_mode mode,
		  struct ptm_error *err);

/* Emit the instruction at @ip.  It continues the last step unless an event, a change of mode or a
 * branch that took a packet lies in between; @klass tells which it is. */
static inline int ptm_emit_insn(struct ptm_emit *emit, uint64_t ip, enum ptm_mode mode,
				enum ptm_insn_class klass, struct ptm_error *err)
{
	if (!emit->open || emit->steps[emit->nsteps - 1].mode != mode ||
	    emit->steps[emit->nsteps - 1].n == UINT32_MAX) {
		int status = ptm_emit_step(emit, ip, 1, mode, err);

		if (status < 0)
			return status;
	} else {
		emit->steps[emit->nsteps - 1].n++;
	}
	ptm_digest_add(&emit->part, ip);
	*(emit->uncertain ? &emit->tally.resynced : &emit->tally.insns) += 1;
	if (klass != PTM_INSN_OTHER) {
		emit->open = !ptm_insn_needs_packet(klass);
		emit->tally.cond += klass == PTM_INSN_COND;
		emit->tally.ret += klass == PTM_INSN_RET;
		emit->tally.indirect +=
			klass == PTM_INSN_JUMP_INDIRECT || klass == PTM_INSN_CALL_INDIRECT;
		emit->tally.call += klass == PTM_INSN_CALL || klass == PTM_INSN_CALL_INDIRECT;
		emit->tally.far += klass >= PTM_INSN_FAR_CALL;
	}
	return 0;
}

/* Emit @n instructions from @ip on along unconditional flow, whose digest is known; @closed: the
 * last one took a packet.  Branches are the caller's to count. */
static inline int ptm_emit_run(struct ptm_emit *emit, uint64_t ip, uint32_t n, enum ptm_mode mode,
			       const struct ptm_digest *digest, bool closed, struct ptm_error *err)
{
	struct ptm_step *last;

	if (n == 0)
		return 0;
	if (!emit->no_steps) {
		last = emit->open ? &emit->steps[emit->nsteps - 1] : NULL;
		if (last == NULL || last->mode != mode || last->n > UINT32_MAX - n) {
			int status = ptm_emit_step(emit, ip, n, mode, err);

			if (status < 0)
				return status;
		} else {
			last->n += n;
		}
		emit->open = !closed;
	}
	ptm_digest_append(&emit->part, digest);
	*(emit->uncertain ? &emit->tally.resynced : &emit->tally.insns) += n;
	return 0;
}

#endif
