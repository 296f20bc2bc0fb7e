/* SPDX-License-Identifier: Apache-2.0
 *
 * engine.h - the interface of a flow engine: a segment in, steps and events out.
 *
 * A segment is a run of whole PSB frames: from one PSB to a later one, or to the end of the stream.
 * An engine keeps no state from one segment to the next, so the result does not depend on how a
 * stream was cut.
 */
#ifndef PTM_FLOW_ENGINE_H
#define PTM_FLOW_ENGINE_H

#include "base/error.h"
#include "flow/counts.h"
#include "flow/emit.h"
#include "image/timeline.h"
#include "ptmill/session.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What an engine needs to know about the stream that a segment is of. */
struct ptm_stream_context {
	struct ptm_timeline images; /* of spaces that are sealed and outlive the run */
	struct ptm_cpu cpu;
	struct ptm_timing timing;
	struct ptm_assume_sync assume;
	bool notnt; /* recorded without TNT packets (IA32_RTIT_CTL.DisTNT): events, no instructions
		     */
};

struct ptm_segment {
	const struct ptm_stream_context *stream; /* borrowed; read by all workers */
	/* Borrowed; starts at a PSB if len > 0, but for the begin of a stream that is assumed to be
	 * in sync. */
	const uint8_t *data;
	size_t len;       /* bytes that belong to this segment */
	size_t look;      /* further bytes behind them: the next segment's PSB+ */
	uint64_t offset;  /* of data[0] in the stream */
	uint64_t head;    /* bytes before data[0] that precede the stream's first PSB */
	uint64_t skipped; /* bytes behind data[len) that were too many for a frame: accounted for,
			     not decoded */
	/* Bytes that the container promises at stream offset missing_at, but that are not there. */
	uint64_t missing, missing_at;
	bool no_sync;     /* the whole stream has no PSB: head is its size */
	bool ovf_pending; /* the last packet before data[0], PAD and time skipped, is an OVF */
	const atomic_bool *cancel; /* asked at every frame, and in long ones; may be NULL */
};

struct ptm_engine {
	const struct ptm_engine_ops *ops;
};

/* What the receiver of the results reads beside events and digests; an engine may yield more. */
enum {
	PTM_WANT_STEPS = 1, /* batches with steps; else a batch may have a digest and no steps */
	PTM_WANT_TALLY = 2, /* the tally's figures on branches and packets */
	PTM_WANT_TIME =
		4, /* the time of events from all clocks; else that of the last TSC packet */
	PTM_WANT_COUNTS = 8, /* what is executed how often; the options have `counts` then */
};

/* Zero: everything by default. */
struct ptm_engine_options {
	struct ptm_cache *cache; /* shared by the workers' engines, borrowed; NULL: the engine has
				    its own */
	enum ptm_resync resync;
	unsigned want; /* PTM_WANT_* */
	/* Of this engine alone, borrowed: what it executes is counted there, also what lies behind
	 * a resync inside a frame.  NULL unless PTM_WANT_COUNTS. */
	struct ptm_counts *counts;
};

struct ptm_engine_ops {
	const char *name;
	/* One engine a worker; NULL and @err on failure. */
	struct ptm_engine *(*create)(const struct ptm_engine_options *options,
				     struct ptm_error *err);
	void (*destroy)(struct ptm_engine *engine);
	/* Decode a segment into @emit, in order.  Damage is emitted as PTM_EV_GAP.  Returns 0 or
	 * -PTM_E_* of the environment (memory, cancellation, what the sink returned). */
	int (*decode)(struct ptm_engine *engine, const struct ptm_segment *seg,
		      struct ptm_emit *emit, struct ptm_error *err);
	/* Have all that was decoded in the options' counts.  To be called when nothing more is to
	 * come.  Returns as decode().  NULL: it is there already. */
	int (*settle)(struct ptm_engine *engine, struct ptm_error *err);
};

extern const struct ptm_engine_ops ptm_engine_fast; /* create() and the others in one thread */
extern const struct ptm_engine_ops ptm_engine_ipt;

/* What is worth saying about a CPU before decoding starts: NULL, or one line (unknown model). */
const char *ptm_engine_cpu_warning(const struct ptm_cpu *cpu);

#endif
