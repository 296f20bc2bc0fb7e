/* SPDX-License-Identifier: Apache-2.0
 *
 * fast.h - the fast engine between its files: one frame on its way through it.
 */
#ifndef PTM_FLOW_FAST_H
#define PTM_FLOW_FAST_H

#include "flow/engine.h"
#include "flow/errata.h"
#include "flow/frame.h"
#include "flow/walk.h"

/* Events that wait for a FUP which says where they happened. */
#define PTM_FUP_EVENTS 8

struct ptm_fast {
	struct ptm_engine base;
	struct ptm_engine_options options;
	struct ptm_cache *own_cache; /* owned; NULL: the cache of the options is used */
	struct ptm_walk walk;
	const struct ptm_stream_context *stream;
	struct ptm_errata errata; /* of the stream's CPU */
	struct ptm_emit *emit;
	struct ptm_error *err;

	/* The frame under way; all that follows is zeroed at its begin. */
	const struct ptm_frame *frame;
	struct ptm_lexer lx;
	struct ptm_psbplus plus; /* its own */
	size_t at;               /* of the packet under way */
	bool in_psbplus;
	bool has_tsc;
	uint64_t tsc;                      /* of the last TSC packet */
	uint64_t bytes[PTM_BYTES_CLASSES]; /* that were decoded */

	/* MODE.Exec waits for the next packet with an IP. */
	bool mode_pending;
	enum ptm_mode mode;
	uint16_t iflag;
	struct ptm_event fup_events[PTM_FUP_EVENTS];
	unsigned nfup_events;

	/* A FUP stood here: TIP or TIP.PGD complete an asynchronous event. */
	bool async;
	uint64_t async_ip;
	struct ptm_event async_events[PTM_FUP_EVENTS]; /* packets in between, told behind it */
	unsigned nasync_events;

	bool overflow; /* the last flow packet was OVF; a FUP says where the flow goes on */
	bool ovf_last; /* nothing but time and PAD since */
	size_t ovf_at;
	bool off_known; /* tracing went off, and would go on at off_ip */
	uint64_t off_ip;

	/* The flow is lost since lost_at, and is looked for. */
	bool lost;
	size_t lost_at;
	struct ptm_event gap;
	bool behind_full_tnt; /* a TIP now may be deferred */
};

/* The packets that are not the flow itself: what they tell, or keep for later.  Return as the
 * functions of walk.h. */
int ptm_fast_event(struct ptm_fast *f, const struct ptm_pkt *pkt);

/* Emit an event at the packet under way. */
int ptm_fast_emit(struct ptm_fast *f, struct ptm_event *ev);

/* Tell what waits for a FUP: at @ip, or without one because none will come. */
int ptm_fast_bind(struct ptm_fast *f, uint64_t ip);
int ptm_fast_unbind(struct ptm_fast *f);

/* MODE.Exec takes effect at @ip. */
int ptm_fast_mode(struct ptm_fast *f, uint64_t ip);

/* The kind of the next packet behind the one under way that is not time, PAD, or (if @status) one
 * that may stand within a compound event; PTM_PKT_KINDS at the end. */
unsigned ptm_fast_peek(const struct ptm_fast *f, bool status);

#endif
