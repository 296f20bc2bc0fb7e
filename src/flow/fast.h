/* SPDX-License-Identifier: Apache-2.0
 *
 * fast.h - the fast engine between its files: one frame on its way through it.
 */
#ifndef PTM_FLOW_FAST_H
#define PTM_FLOW_FAST_H

#include "flow/engine.h"
#include "flow/errata.h"
#include "flow/frame.h"
#include "flow/turbo.h"
#include "flow/walk.h"
#include "fmt/pt_time.h"

/* Events that wait for a FUP which says where they happened. */
#define PTM_FUP_EVENTS 8

/* Packets between two looks at whether the run was canceled. */
#define PTM_CANCEL_PACKETS 65536u

struct ptm_fast {
	struct ptm_engine base;
	struct ptm_engine_options options;
	struct ptm_cache *own_cache; /* owned; NULL: the cache of the options is used */
	struct ptm_walk walk;
	struct ptm_turbo turbo;
	const struct ptm_stream_context *stream;
	struct ptm_errata errata;  /* of the stream's CPU */
	const atomic_bool *cancel; /* of the segment; may be NULL */
	bool timed;                /* somebody wants time packets put together */
	struct ptm_emit *emit;
	struct ptm_error *err;

	/* The frame under way; all that follows is zeroed at its begin. */
	const struct ptm_frame *frame;
	struct ptm_lexer lx;
	struct ptm_psbplus plus; /* its own */
	size_t at;               /* of the packet under way */
	bool in_psbplus;
	uint32_t npackets;
	bool has_tsc;
	uint64_t tsc;                      /* of the last TSC packet */
	struct ptm_time time;              /* if timed */
	uint64_t bytes[PTM_BYTES_CLASSES]; /* that were decoded */

	/* MODE.Exec waits for the next packet with an IP. */
	bool mode_pending;
	enum ptm_mode mode;
	uint16_t iflag;
	struct ptm_event fup_events[PTM_FUP_EVENTS];
	unsigned nfup_events;
	bool fup_shared; /* that FUP also begins an asynchronous event */

	/* A FUP stood here: TIP or TIP.PGD complete an asynchronous event. */
	bool async;
	uint64_t async_ip;
	/* Packets before a TIP or TIP.PGD that is due, told behind it. */
	struct ptm_event later[PTM_FUP_EVENTS];
	unsigned nlater;

	bool enabled; /* packets are, in a trace without TNT packets: nothing is walked */

	bool overflow;  /* the last flow packet was OVF; a FUP says where the flow goes on */
	bool ovf_last;  /* nothing but time and PAD since */
	bool cut_cyc;   /* the last packet was a CYC that an OVF cut off (SKD007) ... */
	bool cut_ovf;   /* ... or the one before that was */
	bool stray_fup; /* the next FUP says nothing (APL12) */
	size_t ovf_at;
	bool off_known; /* tracing went off, and would go on at off_ip */
	uint64_t off_ip;

	/* The flow is lost since lost_at, and is looked for. */
	bool lost;
	size_t lost_at;
	struct ptm_event gap;
	bool behind_full_tnt; /* a TIP now may be deferred */

	const uint8_t *closely; /* up to here packets are taken one by one; NULL: no matter */
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

/* Tell what was kept until the TIP, or because that will not come. */
int ptm_fast_tell_later(struct ptm_fast *f);

/* The kind of the packet behind the one under way, and behind @skip others, that is not time, PAD,
 * or one that may stand within a compound event (only so many of these are passed over);
 * PTM_PKT_KINDS at the end. */
unsigned ptm_fast_peek(const struct ptm_fast *f, unsigned skip);

#endif
