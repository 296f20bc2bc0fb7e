/* SPDX-License-Identifier: Apache-2.0
 *
 * turbo.h - the fast path: stretches of TNT, TIP and time packets, by edges.
 */
#ifndef PTM_FLOW_TURBO_H
#define PTM_FLOW_TURBO_H

#include "fmt/pt_packet.h"
#include "flow/edge_counts.h"
#include "flow/walk.h"

/* Stretches that are lexed carefully where one had to be. */
#define PTM_TURBO_CAREFUL 16u

#define PTM_TURBO_BYTES 6144u /* of a trace in a stretch, up to a packet more */

/* A symbol: some branches, mostly with a TIP behind them. */
struct ptm_item {
	uint64_t key;    /* as in an edge, with the state where it begins if a TIP leads there */
	uint32_t target; /* of its TIP: a state; 0 without one */
	uint32_t place;  /* of its edge in the table, in bytes: the first one for its key if the
			    state is there, else a guess */
};

/* A stretch of packets, and what it is made of. */
struct ptm_stretch {
	const uint8_t *pos;   /* its first packet; lexed: behind its last one */
	const uint8_t *limit; /* behind the frame */
	uint64_t last_ip;     /* before, and behind it */
	uint32_t state;       /* where the first symbol begins */
	bool odd_time;        /* as in struct ptm_turbo */
	bool careful;         /* no packets as they are for symbols: PAD is among them */
	bool has_tsc;
	uint64_t tsc;  /* of the last TSC packet */
	uint64_t pads; /* bytes */
	unsigned n;    /* 0: nothing but PAD and time */
	struct ptm_item items[(PTM_TURBO_BYTES + PTM_PKT_MAX_SIZE) / 2 + 1];
};

/* The return stack while walking: it grows up to its end, and is then moved down. */
#define PTM_LANE_ROOM 1024u

/* A walk in the terms of edges. */
struct ptm_lane {
	uint32_t state;      /* where it ends */
	uint32_t top, floor; /* the entries are stack[top], ..., stack[floor + 1] */
	uint64_t n, b;       /* digest of what was walked */
	uint32_t stack[PTM_LANE_ROOM + PTM_EDGE_DEEP + 1];
};

/* Where edges stood whose place is only known when the edge before them is: what is looked up there
 * next need not wait for that.  Only guesses: a slot is taken by its key, and another one if that
 * is not there. */
#define PTM_GUESS_BITS 16u
#define PTM_GUESS_REST 4096u
struct ptm_guesses {
	const struct ptm_slot *slots;         /* the table, ... */
	unsigned shift;                       /* ... and its size, so that all places are in it */
	uint32_t first[1u << PTM_GUESS_BITS]; /* by the symbol and branches before it */
	uint32_t rest[PTM_GUESS_REST];        /* of what is left of a symbol, by the edge before */
};

struct ptm_loops;

/* Room for the fast path; one an engine. */
struct ptm_turbo {
	struct ptm_stretch stretch;
	struct ptm_lane lane;
	struct ptm_guesses guesses;
	const struct ptm_loops *loops;  /* for this CPU */
	struct ptm_edge_counts *counts; /* NULL: nobody counts */
	size_t went;                    /* entries of its log that are of this stretch */
	struct ptm_slot built;
	bool odd_time;        /* the CPU has errata of long CYC and of TMA: they are not simple */
	unsigned careful;     /* stretches to lex carefully */
	uint64_t edges_built; /* how often an edge was not there yet */
};

void ptm_turbo_init(struct ptm_turbo *t);
void ptm_turbo_fini(struct ptm_turbo *t);

/* Count what is executed: in tallies, and in @sum (borrowed, see flow/edge_counts.h) unless that is
 * NULL.  Returns 0 or -PTM_E_NOMEM. */
int ptm_turbo_count(struct ptm_turbo *t, struct ptm_counts *sum, struct ptm_error *err);

/* Take packets from @lx on, as far as they are simple, with a walk that is on and has no bits
 * pending.  Returns 1 if all is done: @lx and @w have moved, t->stretch tells over what; 0 if
 * something in the stretch needs a closer look: nothing has moved, and it goes up to
 * t->stretch.pos; or -PTM_E_*. */
int ptm_turbo_run(struct ptm_turbo *t, struct ptm_walk *w, struct ptm_lexer *lx);

#endif
