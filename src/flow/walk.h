/* SPDX-License-Identifier: Apache-2.0
 *
 * walk.h - the flow itself: where it stands, and what bits, targets and addresses of packets do to
 * it.
 *
 * Between packets the flow stands at the begin of a node, of which nothing is accounted for yet; a
 * run is counted when it is left, so what an overflow or an error cuts off is never counted.
 * Packets that name a place inside a run take the prefix up to there, and the flow stands at a node
 * that begins there.
 *
 * The functions return 0; PTM_LOST if packets and code do not fit together (w->gap says why); or
 * -PTM_E_* of the environment.
 */
#ifndef PTM_FLOW_WALK_H
#define PTM_FLOW_WALK_H

#include "flow/cache.h"
#include "flow/counts.h"
#include "flow/emit.h"

#define PTM_LOST 1

/* Instructions without a packet: longer runs exist only in wrong images (or in a `jmp .`, which
 * ends with an interrupt at the IP it began with). */
#define PTM_RUNAWAY (1u << 18)

#define PTM_STACK      64u /* return addresses (SDM vol. 3, ch. Intel PT, "RET Compression") */
#define PTM_FRONT_BITS 13u

/* The ids that a walk holds, as addresses. */
struct ptm_held {
	uint64_t ip[PTM_STACK + 2];
	uint8_t mode[PTM_STACK + 2];
};

struct ptm_walk {
	struct ptm_cache *cache;
	struct ptm_gen *gen; /* of which all ids are */
	uint64_t serial;     /* of the generation that `front` is of */
	uint64_t turns;      /* how often ids changed their meaning: at a turn of generations */
	bool failed;         /* a turn failed: no id means anything, nothing goes on */
	struct ptm_held held;
	struct ptm_node *nodes;
	const struct ptm_space *space;
	int index; /* of the space in the generation */
	struct ptm_emit *emit;
	struct ptm_error *err;
	struct ptm_counts *counts; /* borrowed, set by the owner; NULL: nobody counts */

	bool on;            /* packets are enabled and the flow stands at `at` */
	enum ptm_mode mode; /* of the code there */
	uint32_t at;        /* id of a node, of which nothing has been counted */
	uint32_t probe;     /* a second id, for looking ahead */
	uint64_t bits;      /* pending TNT bits, the oldest at bit nbits - 1 */
	unsigned nbits;
	uint32_t free_run; /* instructions since the last packet */
	uint64_t passed;   /* address of the last instruction that ptm_walk_until() counted */
	uint32_t stack[PTM_STACK]; /* a ring: ids of nodes to return to */
	unsigned top, depth;
	enum ptm_mode stack_mode; /* of the last goto */
	bool mixed;               /* the stack may hold nodes of several modes */

	/* After PTM_LOST. */
	enum ptm_gap gap;
	bool has_gap_ip;
	uint64_t gap_ip;

	uint64_t power[PTM_EDGE_INSNS + 1]; /* of PTM_DIGEST_K */
	uint32_t front_tag;                 /* space and mode of the nodes found last */
	struct ptm_front {
		uint64_t ip;
		uint32_t state;
	} front[1u << PTM_FRONT_BITS]; /* by address */
};

/* @cache is borrowed. */
void ptm_walk_init(struct ptm_walk *w, struct ptm_cache *cache);

/* The begin of a frame: packets are off, nothing is known.  The thread is a reader, on line, and
 * stays so until it is done with the frame. */
void ptm_walk_reset(struct ptm_walk *w, struct ptm_emit *emit, struct ptm_error *err);

/* Before and behind what may take long: in between the thread is no reader.  As struct
 * ptm_emit.park. */
int ptm_walk_park(void *walk, bool away);

/* From here on in @space; packets are off. */
int ptm_walk_space(struct ptm_walk *w, const struct ptm_space *space);

/* The flow begins, or goes on, at @ip. */
int ptm_walk_goto(struct ptm_walk *w, uint64_t ip);

/* Packets are off: no bits, nowhere.  The stack stays. */
void ptm_walk_stop(struct ptm_walk *w);
void ptm_walk_empty_stack(struct ptm_walk *w);

/* Use up the pending bits.  Those behind an indirect branch stay until its TIP has come. */
int ptm_walk_bits(struct ptm_walk *w);

/* To the next indirect branch, uncompressed return or far transfer, and along it to @ip. */
int ptm_walk_tip(struct ptm_walk *w, uint64_t ip);

/* Ids of neighbours of the node @id, found if nobody was there: behind a conditional branch or a
 * run that goes on; and of all return addresses that it pushes, which are then in its push[].
 * Either may turn to a new generation, and then w->turns is another and @id means nothing any more.
 */
int ptm_walk_next(struct ptm_walk *w, uint32_t id, bool taken, uint32_t *next);
int ptm_walk_pushes(struct ptm_walk *w, uint32_t id);
/* The id of the node at @ip, likewise. */
int ptm_walk_find(struct ptm_walk *w, uint64_t ip, uint32_t *id);

/* Where the id of the node at @ip is kept, if it was found lately.  A multiplication is as few
 * instructions as anything, and code that lies at the same place of several pages is not together.
 */
static inline struct ptm_front *ptm_walk_front(struct ptm_walk *w, uint64_t ip)
{
	return &w->front[(uint32_t)ip * 0x9e3779b1u >> (32 - PTM_FRONT_BITS)];
}

/* Have those of the space and mode where the flow is. */
void ptm_walk_tune(struct ptm_walk *w);

/* Put @node, whole, into @tally, but for its instructions. */
void ptm_walk_tally(struct ptm_tally *tally, const struct ptm_node *node);

/* To where @stop says, if the flow gets there before it needs a packet; then `*found`.  If it does
 * not, nothing is counted. */
int ptm_walk_until(struct ptm_walk *w, const struct ptm_stop *stop, bool *found);

/* Where ptm_walk_until() stopped when it found nothing. */
uint64_t ptm_walk_missed(const struct ptm_walk *w);

/* To the instruction that needs a packet, which is counted; where it leads is for the caller to
 * say. Its class, and the address behind it. */
int ptm_walk_end(struct ptm_walk *w, unsigned *klass, uint64_t *next);

/* The flow can not go on as the packets say: count what was executed before the instruction that
 * needs one, and say @gap there.  Returns PTM_LOST, or -PTM_E_*. */
int ptm_walk_lose(struct ptm_walk *w, enum ptm_gap gap);

/* Lost, and not at any instruction. */
static inline int ptm_walk_lost(struct ptm_walk *w, enum ptm_gap gap)
{
	w->gap = gap;
	w->has_gap_ip = false;
	return PTM_LOST;
}

#endif
