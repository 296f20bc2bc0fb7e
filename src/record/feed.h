/* SPDX-License-Identifier: Apache-2.0
 *
 * feed.h - turns the executed flow into encoder calls, and keeps the truth about it.
 */
#ifndef PTM_RECORD_FEED_H
#define PTM_RECORD_FEED_H

#include "base/digest.h"
#include "base/vec.h"
#include "record/blocks.h"
#include "record/encoder.h"
#include "record/flow.h"

#define PTM_CHECKPOINT_EVERY 1000000
#define PTM_FEED_TRAIL       64 /* straight runs */

enum ptm_truth_kind {
	PTM_TRUTH_CHECKPOINT,
	PTM_TRUTH_PSB,
	PTM_TRUTH_GAP /* offset is that of its OVF packet */
};

/* One line of the truth: what was executed up to here. */
struct ptm_truth_line {
	enum ptm_truth_kind kind;
	uint64_t offset; /* PSB, GAP */
	uint64_t n, digest;
	uint64_t lost; /* GAP: instructions inside */
};

/* Where packets went off though the program had come by since the last packet. */
struct ptm_ambiguous {
	uint64_t times;
	uint64_t offset, n; /* of the first: of its FUP, and instructions up to there */
};

struct ptm_feed {
	struct ptm_enc *enc;         /* owned */
	struct ptm_enc_quick *quick; /* of it */
	struct ptm_digest digest;
	uint64_t limit;       /* instructions, 0: none */
	uint64_t until;       /* instructions up to the next checkpoint, or the limit */
	uint64_t lost;        /* instructions inside all gaps so far */
	uint64_t lost_before; /* ... before the current one */
	uint64_t psbs, gaps;
	struct ptm_ambiguous ambiguous;
	bool out_of_memory;
	/* The straight runs since the last packet that names a place, a ring: addresses of their
	 * first and last instructions; and where the present one began. */
	struct {
		uint64_t begin, last;
	} trail[PTM_FEED_TRAIL];
	uint64_t ntrail, run;
	PTM_VEC(struct ptm_truth_line) truth; /* owned */
};

/* The trace begins at @cycles (encoder.h).  Returns 0 or -PTM_E_NOMEM. */
int ptm_feed_init(struct ptm_feed *feed, const struct ptm_record_config *config,
		  ptm_enc_write_fn write, void *ctx, uint64_t cycles);
void ptm_feed_fini(struct ptm_feed *feed);

/* A ptm_flow_sink event function; @ctx is the feed. */
int ptm_feed_event(void *ctx, const struct ptm_flow_event *ev);

/* All of @block retired, the next instruction is at @next; or its first @n instructions did.  @lens
 * are the lengths of its instructions.  Packets are on.  Return as ptm_feed_event(), but when
 * enough is recorded, packets are off. */
int ptm_feed_block(struct ptm_feed *feed, const struct ptm_block *block, const uint8_t *lens,
		   uint64_t next);
int ptm_feed_prefix(struct ptm_feed *feed, const struct ptm_block *block, const uint8_t *lens,
		    unsigned n);

/* Write out the rest of the trace.  Returns 0 or -PTM_E_*. */
int ptm_feed_finish(struct ptm_feed *feed);

#endif
