/* SPDX-License-Identifier: Apache-2.0
 *
 * loops_body.h - the loops of loops.h, as PTM_LOOPS: included by the files that compile them.
 *
 * Lexing: what stands before the next odd byte are TNT packets, up to eight in one load.  Their
 * bits are gathered at once, so that no branch depends on how many they are.  A TIP's target
 * depends on the packet only, so it is resolved here, and what the walk needs next is fetched
 * ahead.
 *
 * Walking: each symbol is one look-up of an edge.
 */
#include "flow/loops.h"

#include "base/bytes.h"
#include "flow/tnts.h"

#include <string.h>

#define UNLIKELY(x)   __builtin_expect(!!(x), 0)
#define ALWAYS_INLINE inline __attribute__((always_inline))

/* Bits of the stretch that wait to become a symbol, the oldest on top. */
struct pending {
	uint64_t bits;
	unsigned n;
};

/* Behind the pending bits those of @x that @mask has, from the byte at the lowest address on. */
static inline void gather(struct pending *p, uint64_t x, uint64_t mask)
{
#ifdef __BMI2__
	const unsigned n = (unsigned)__builtin_popcountll(mask);

	p->bits = p->bits << n | _pext_u64(__builtin_bswap64(x), __builtin_bswap64(mask));
	p->n += n;
#else
	for (; mask != 0; mask >>= 8, x >>= 8) {
		const unsigned n = (unsigned)__builtin_popcount(mask & 0xff);

		p->bits = p->bits << n | (x & mask & 0xff) >> 1;
		p->n += n;
	}
#endif
}

/* Add the short TNT packets that @x, eight bytes of a trace, begins with.  Returns how many bits of
 * @x that is. */
static ALWAYS_INLINE unsigned take_tnts(struct pending *p, uint64_t x)
{
	uint64_t bits;
	const unsigned at = ptm_tnts(x, &bits);

	gather(p, x, bits);
	return at;
}

/* A stretch on its way from packets to symbols. */
struct lexing {
	const uint8_t *pos, *end;
	struct pending pending;
	struct ptm_item *item, *last; /* the next one; behind that no packet is begun */
	uint64_t last_ip;
	uint32_t state; /* where the next symbol begins, if that is known */
	const struct ptm_slot *slots;
	unsigned shift;
	uint32_t tag; /* of nodes found lately */
};

/* The edge of a symbol behind a TIP will be looked up soon, and is mostly not in the first cache.
 * For others this fetches what is there already: no branch is cheaper. */
static ALWAYS_INLINE void put(struct lexing *l, uint32_t sym, uint32_t target)
{
	const uint32_t known = l->state != 0 ? sym : 0;

	l->item->sym = sym;
	l->item->target = target;
	l->item++;
	__builtin_prefetch(ptm_slot_at(l->slots, l->shift, l->state, known));
	l->state = target;
}

static ALWAYS_INLINE void put_full(struct lexing *l)
{
	while (l->pending.n > PTM_EDGE_BITS) {
		l->pending.n -= PTM_EDGE_BITS;
		put(l,
		    PTM_SYM(l->pending.bits >> l->pending.n & ((1u << PTM_EDGE_BITS) - 1),
			    PTM_EDGE_BITS, 0),
		    0);
	}
}

/* The symbol of what is pending. */
static inline uint32_t last_sym(const struct pending *p, unsigned tip)
{
	return PTM_SYM(ptm_low_bits(p->bits, p->n), p->n, tip);
}

/* By IPBytes of a TIP: bytes of the address, how far to shift up and down again to extend its sign,
 * and the bits of last-IP that it replaces. */
static const uint8_t ip_bytes[8] = {0, 2, 4, 6, 6, 0, 8, 0};
static const uint8_t ip_extend[8] = {0, 0, 0, 16, 0, 0, 0, 0};
static const uint64_t ip_mask[8] = {0, 0xffff,     0xffffffff, UINT64_MAX, 0xffffffffffff,
				    0, UINT64_MAX, 0};

/* The address of the TIP at @p.  Returns the packet's size, 0 if it has none.  Branches on IPBytes
 * are mostly foreseen, a table would have the next packet wait for this one's. */
static ALWAYS_INLINE unsigned tip_address(const uint8_t *p, unsigned kind, uint64_t *ip)
{
	const uint64_t raw = ptm_load_le64(p + 1);

	if (kind == 1) {
		*ip = (*ip & ~UINT64_C(0xffff)) | (raw & 0xffff);
		return 3;
	}
	if (kind == 2) {
		*ip = (*ip & ~UINT64_C(0xffffffff)) | (raw & 0xffffffff);
		return 5;
	}
	if (ip_mask[kind] == 0)
		return 0;
	*ip = ((uint64_t)((int64_t)(raw << ip_extend[kind]) >> ip_extend[kind]) & ip_mask[kind]) |
	      (*ip & ~ip_mask[kind]);
	return 1u + ip_bytes[kind];
}

/* A long TNT.  Returns its size, or 0. */
static inline unsigned take_long_tnt(struct pending *p, const uint8_t *packet)
{
	const uint64_t raw = ptm_load_le(packet + 2, 6);
	unsigned n;

	if (raw <= 1)
		return 0;
	n = 63u - (unsigned)__builtin_clzll(raw);
	p->bits = p->bits << n | (raw ^ UINT64_C(1) << n);
	p->n += n;
	return 8;
}

/* Time packets, and PAD.  Returns the size, or 0. */
static inline unsigned take_time(struct ptm_stretch *s, const uint8_t *p)
{
	if ((p[0] & 3) == 3) { /* CYC */
		unsigned n = 1;

		if ((p[0] & 4) == 0)
			return 1;
		if (s->odd_time)
			return 0;
		while ((p[n] & 1) != 0 && n < 8)
			n++;
		return n < 8 ? n + 1 : 0; /* longer ones may not fit into 64 bits */
	}
	if (p[0] == 0x59) /* MTC */
		return 2;
	if (p[0] == 0x19) {
		s->has_tsc = true;
		s->tsc = ptm_load_le(p + 1, 7);
		return 8;
	}
	if (p[0] == 2 && p[1] == 0x73 && !s->odd_time) /* TMA */
		return 7;
	s->pads += p[0] == 0;
	return p[0] == 0;
}

/* What is neither a short TNT nor a TIP.  Returns the size, or 0. */
static inline unsigned take_other(struct lexing *l, struct ptm_stretch *s, const uint8_t *p)
{
	unsigned size;

	if (p[0] != 2 || p[1] != 0xa3)
		return take_time(s, p);
	size = take_long_tnt(&l->pending, p);
	put_full(l);
	return size;
}

/* A TIP.  Returns its size, or 0. */
static ALWAYS_INLINE unsigned take_tip(struct lexing *l, struct ptm_walk *w)
{
	uint64_t ip = l->last_ip;
	const unsigned size = tip_address(l->pos, l->pos[0] >> 5, &ip);
	const struct ptm_front *front = ptm_walk_front(w, ip);
	uint32_t id = front->id;

	if (UNLIKELY(size == 0))
		return 0;
	if (UNLIKELY(((front->ip ^ ip) | (front->tag ^ l->tag)) != 0)) {
		uint32_t found;

		if (!ptm_loops_target(w, ip, &found))
			return 0;
		id = found;
	}
	l->last_ip = ip;
	put(l, last_sym(&l->pending, 1), PTM_STATE(id));
	l->pending.n = 0;
	return size;
}

/* Some TNT packets and the one behind them.  False: here the stretch ends. */
static ALWAYS_INLINE bool take_unit(struct lexing *l, struct ptm_stretch *s, struct ptm_walk *w)
{
	uint64_t x;
	unsigned at, size;

	if (UNLIKELY(l->pos >= l->end || l->item >= l->last))
		return false;
	x = ptm_load_le64(l->pos);
	at = take_tnts(&l->pending, x);
	put_full(l);
	l->pos += at / 8;
	if (at == 64)
		return true;
	size = (x >> at & 31) == 0x0d ? take_tip(l, w) : take_other(l, s, l->pos);
	l->pos += size;
	return size != 0;
}

static inline struct lexing begin(struct ptm_stretch *s, struct ptm_walk *w)
{
	const struct ptm_edges *edges = ptm_gen_edges(w->gen);
	/* Up to here eight bytes and a packet behind them can be read, which are fewer than
	 * PTM_TURBO_SPARE items. */
	const ptrdiff_t room = s->limit - s->pos - PTM_PKT_MAX_SIZE;

	s->pads = 0;
	s->has_tsc = false;
	return (struct lexing){.pos = s->pos,
			       .end = s->pos + (room > 0 ? room : 0),
			       .item = s->items,
			       .last = s->items + PTM_TURBO_ITEMS,
			       .last_ip = s->last_ip,
			       .state = s->state,
			       .slots = edges->slot,
			       .shift = edges->shift,
			       .tag = ptm_walk_tag(w)};
}

static inline void finish(struct lexing *l, struct ptm_stretch *s)
{
	if (l->pending.n > 0)
		put(l, last_sym(&l->pending, 0), 0);
	l->item->sym = 0; /* is read, not used */
	s->n = (unsigned)(l->item - s->items);
	s->last_ip = l->last_ip;
	s->pos = l->pos;
}

static void lex(struct ptm_stretch *s, struct ptm_walk *w)
{
	struct lexing l = begin(s, w);

	while (take_unit(&l, s, w))
		;
	finish(&l, s);
}

static inline uint32_t get(const _Atomic uint32_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

static inline bool is_other(const struct ptm_slot *e, uint64_t key, uint32_t top)
{
	return !ptm_slot_has(e, key) || !ptm_slot_holds(e, top);
}

/* A walk over the symbols of a stretch. */
struct walking {
	const struct ptm_item *item;
	uint32_t sym, state, top;
	uint32_t limit; /* the stack has PTM_STACK entries then */
	uint32_t idle;  /* edges in a row that used up nothing of idle_item */
	const struct ptm_item *idle_item;
	uint64_t n, b;
	uint32_t *stack;
	struct ptm_went *went, *went_last; /* of the log: the next one, and what is behind all */
};

/* What all walks use. */
struct tables {
	struct ptm_turbo *t;
	struct ptm_walk *w;
	const struct ptm_slot *slots;
	unsigned shift;
};

static inline struct tables tables_of(struct ptm_turbo *t, struct ptm_walk *w)
{
	const struct ptm_edges *edges = ptm_gen_edges(w->gen);

	return (struct tables){t, w, edges->slot, edges->shift};
}

/* The edge that is next; NULL: there is none. */
static ALWAYS_INLINE const struct ptm_slot *look_up(const struct walking *k, struct tables *tables)
{
	const struct ptm_slot *e = ptm_slot_at(tables->slots, tables->shift, k->state, k->sym);
	const uint64_t key = PTM_EDGE_KEY(k->state, k->sym);
	const uint32_t on_top = k->stack[k->top];

	if (UNLIKELY(is_other(e, key, on_top))) {
		e = ptm_slot_twin(e);
		if (is_other(e, key, on_top)) {
			e = ptm_loops_edge(tables->t, tables->w, k->state, k->sym, on_top);
			*tables = tables_of(tables->t, tables->w);
		}
	}
	return e;
}

/* The stack rises to @rise, above its limit: it loses entries at the other end. */
static ALWAYS_INLINE void lose_entries(struct walking *k, uint32_t rise)
{
	if (UNLIKELY(rise > PTM_LANE_ROOM)) {
		const uint32_t down = k->limit - PTM_STACK;

		memmove(k->stack, k->stack + down, (PTM_STACK + 1) * sizeof(k->stack[0]));
		k->top -= down;
		rise -= down;
	}
	k->limit = rise;
	k->stack[rise - PTM_STACK] = 0;
}

/* Where an edge leads that no TIP ends.  False: that is for the exact path to say. */
static ALWAYS_INLINE bool go_along(struct walking *k, const struct ptm_slot *e, uint32_t how,
				   uint32_t rest)
{
	k->state = get(&e->next);
	if ((how & PTM_SLOT_POP) != 0) {
		if (UNLIKELY(k->top + PTM_STACK == k->limit))
			return false;
		k->state = k->stack[k->top--];
	}
	if (rest == 0) {
		k->sym = (++k->item)->sym;
	} else {
		const uint32_t left = (uint32_t)ptm_low_bits(k->sym, rest) | 1u << rest;

		if (UNLIKELY(left == k->sym)) {
			k->idle = k->item == k->idle_item ? k->idle + 1 : 1;
			k->idle_item = k->item;
			return k->idle <= PTM_IDLE_EDGES;
		}
		k->sym = left;
	}
	return true;
}

/* Log that the walk went over an edge.  False: there is no room. */
static ALWAYS_INLINE bool log_edge(struct walking *k, uint64_t key, uint32_t guard, uint32_t how)
{
	if (UNLIKELY(k->went == k->went_last))
		return false;
	*k->went++ = (struct ptm_went){key, guard,
				       (how & (PTM_SLOT_TIP | PTM_SLOT_POP)) != 0 ? k->state : 0};
	return true;
}

/* One edge.  False: it is irregular.  @counting is known at compile time. */
static ALWAYS_INLINE bool step(struct walking *k, struct tables *tables, bool counting)
{
	const struct ptm_slot *e = look_up(k, tables);
	uint64_t found, push;
	uint32_t rise, how;

	if (UNLIKELY(e == NULL))
		return false;
	found = atomic_load_explicit(&e->key, memory_order_relaxed);
	push = atomic_load_explicit(&e->push, memory_order_relaxed);
	how = PTM_SLOT_HOW(push);
	rise = k->top + PTM_SLOT_DEEPEST(push);
	if (UNLIKELY(rise > k->limit))
		lose_entries(k, rise);
	k->top -= get(&e->guard) != 0;
	k->n += PTM_SLOT_N(found);
	k->b = k->b * tables->w->power[PTM_SLOT_N(found)] +
	       atomic_load_explicit(&e->b, memory_order_relaxed);
	if ((how & PTM_SLOT_TIP) != 0) {
		/* What follows a TIP depends on its packet only: no waiting for the edge. */
		if ((how & PTM_SLOT_DROP) != 0)
			k->top -= k->top + PTM_STACK != k->limit;
		k->state = k->item->target;
		k->sym = (++k->item)->sym;
	} else if (UNLIKELY(!go_along(k, e, how, PTM_SLOT_REST(found)))) {
		return false;
	}
	if (counting && !log_edge(k, found, get(&e->guard), how))
		return false;
	push &= PTM_SLOT_STATES;
	memcpy(&k->stack[k->top + 1], &push, sizeof(push));
	k->top += how & PTM_SLOT_NPUSH;
	return true;
}

static ALWAYS_INLINE bool walk_all(struct ptm_turbo *t, struct ptm_walk *w, bool counting)
{
	struct tables tables = tables_of(t, w);
	struct ptm_lane *lane = &t->lane;
	const struct ptm_item *end = t->stretch.items + t->stretch.n;
	struct walking k = {.item = t->stretch.items,
			    .sym = t->stretch.items[0].sym,
			    .state = lane->state,
			    .top = lane->top,
			    .limit = lane->floor + PTM_STACK,
			    .stack = lane->stack};

	if (counting) {
		k.went = t->counts->log;
		k.went_last = t->counts->log + PTM_WENT_MAX;
	}
	while (k.item < end)
		if (UNLIKELY(!step(&k, &tables, counting)))
			return false;
	if (counting)
		t->went = (size_t)(k.went - t->counts->log);
	lane->state = k.state;
	lane->top = k.top;
	lane->floor = k.limit - PTM_STACK;
	lane->n = k.n;
	lane->b = k.b;
	return true;
}

static bool walk(struct ptm_turbo *t, struct ptm_walk *w)
{
	return walk_all(t, w, false);
}

static bool walk_counting(struct ptm_turbo *t, struct ptm_walk *w)
{
	return walk_all(t, w, true);
}

const struct ptm_loops PTM_LOOPS = {lex, walk, walk_counting};
