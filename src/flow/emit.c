/* SPDX-License-Identifier: Apache-2.0
 *
 * emit.c - batches: fixed arrays of steps and events, handed on when either is full.
 */
#include "flow/emit.h"

#include <string.h>

void ptm_emit_init(struct ptm_emit *emit, ptm_emit_fn fn, void *ctx)
{
	emit->fn = fn;
	emit->ctx = ctx;
	emit->park = NULL;
	memset(&emit->tally, 0, sizeof(emit->tally));
	emit->digest = PTM_DIGEST_EMPTY;
	emit->resynced = PTM_DIGEST_EMPTY;
	emit->uncertain = false;
	emit->space = NULL;
	emit->part = PTM_DIGEST_EMPTY;
	emit->nsteps = 0;
	emit->nevents = 0;
	emit->open = false;
	emit->no_steps = false;
}

int ptm_emit_space(struct ptm_emit *emit, const struct ptm_space *space, struct ptm_error *err)
{
	int status = 0;

	if (emit->space == space)
		return 0;
	if (emit->part.n > 0)
		status = ptm_emit_flush(emit, err);
	emit->space = space;
	return status;
}

int ptm_emit_certainty(struct ptm_emit *emit, bool uncertain, struct ptm_error *err)
{
	int status = 0;

	if (emit->uncertain == uncertain)
		return 0;
	if (emit->part.n > 0)
		status = ptm_emit_flush(emit, err);
	emit->uncertain = uncertain;
	return status;
}

static int hand_on(struct ptm_emit *emit, const struct ptm_batch *batch, struct ptm_error *err)
{
	int status, back;

	if (emit->park == NULL)
		return emit->fn(emit->ctx, batch, err);
	(void)emit->park(emit->park_ctx, true);
	status = emit->fn(emit->ctx, batch, err);
	back = emit->park(emit->park_ctx, false);
	return status < 0 ? status : back;
}

int ptm_emit_flush(struct ptm_emit *emit, struct ptm_error *err)
{
	struct ptm_batch batch = {.steps = emit->steps,
				  .nsteps = emit->nsteps,
				  .events = emit->events,
				  .nevents = emit->nevents,
				  .space = emit->space,
				  .digest = emit->part,
				  .resynced = emit->uncertain};
	int status = 0;

	if (batch.nsteps > 0 || batch.nevents > 0 || batch.digest.n > 0)
		status = hand_on(emit, &batch, err);
	ptm_digest_append(emit->uncertain ? &emit->resynced : &emit->digest, &emit->part);
	emit->part = PTM_DIGEST_EMPTY;
	emit->nsteps = 0;
	emit->nevents = 0;
	emit->open = false;
	return status;
}

int ptm_emit_step(struct ptm_emit *emit, uint64_t ip, uint32_t n, enum ptm_mode mode,
		  struct ptm_error *err)
{
	if (emit->nsteps == PTM_EMIT_STEPS) {
		int status = ptm_emit_flush(emit, err);

		if (status < 0)
			return status;
	}
	emit->steps[emit->nsteps++] = (struct ptm_step){ip, n, mode};
	emit->open = true;
	return 0;
}

int ptm_emit_event(struct ptm_emit *emit, const struct ptm_event *ev, struct ptm_error *err)
{
	if (emit->nevents == PTM_EMIT_EVENTS) {
		int status = ptm_emit_flush(emit, err);

		if (status < 0)
			return status;
	}
	emit->events[emit->nevents] = *ev;
	emit->events[emit->nevents++].step = (uint32_t)emit->nsteps;
	emit->open = false;
	emit->tally.events++;
	emit->tally.overflows += ev->kind == PTM_EV_OVERFLOW;
	return 0;
}

int ptm_emit_gap(struct ptm_emit *emit, enum ptm_gap gap, uint64_t offset, uint64_t bytes,
		 const uint64_t *ip, struct ptm_error *err)
{
	struct ptm_event ev = {
		.kind = PTM_EV_GAP, .arg = (uint16_t)gap, .offset = offset, .value = bytes};

	if (ip != NULL) {
		ev.flags |= PTM_EVF_HAS_IP;
		ev.ip = *ip;
	}
	emit->tally.gaps[gap]++;
	return ptm_emit_event(emit, &ev, err);
}

static uint64_t min_nonzero(uint64_t a, uint64_t b)
{
	if (a == 0 || b == 0)
		return a | b;
	return a < b ? a : b;
}

void ptm_tally_add(struct ptm_tally *sum, const struct ptm_tally *part)
{
	sum->insns += part->insns;
	sum->resynced += part->resynced;
	sum->cond += part->cond;
	sum->ret += part->ret;
	sum->indirect += part->indirect;
	sum->call += part->call;
	sum->far += part->far;
	sum->guessed += part->guessed;
	sum->events += part->events;
	sum->overflows += part->overflows;
	for (unsigned i = 0; i < PTM_PKT_KINDS; i++) {
		sum->packets[i] += part->packets[i];
		sum->packet_bytes[i] += part->packet_bytes[i];
	}
	sum->tnt_bits += part->tnt_bits;
	for (unsigned i = 0; i < PTM_BYTES_CLASSES; i++)
		sum->bytes[i] += part->bytes[i];
	for (unsigned i = 0; i < PTM_GAP_KINDS; i++)
		sum->gaps[i] += part->gaps[i];
	sum->frames += part->frames;
	sum->frame_min = min_nonzero(sum->frame_min, part->frame_min);
	if (part->frame_max > sum->frame_max)
		sum->frame_max = part->frame_max;
	sum->frame_sum += part->frame_sum;
	sum->frame_n += part->frame_n;
	sum->tsc_min = min_nonzero(sum->tsc_min, part->tsc_min);
	if (part->tsc_max > sum->tsc_max)
		sum->tsc_max = part->tsc_max;
}
