/* SPDX-License-Identifier: Apache-2.0
 *
 * loops_body.h - the loops of loops.h, as PTM_LOOPS: included by the files that compile them.
 *
 * Lexing: what stands before the next odd byte are TNT packets, up to eight in one load.  If they
 * are few and a TIP follows, they are a symbol as they are.  Else their bits are gathered at once,
 * so that no branch depends on how many they are.  A TIP's target depends on the packet only, so it
 * is resolved here, and what the walk needs next is fetched ahead.
 *
 * Walking: each symbol is one look-up of an edge.  Behind a TIP its place is known from the lexing,
 * and nothing waits for the edge before it.
 */
#include "flow/loops.h"

#include "base/bytes.h"
#include "flow/tnts.h"

#include <string.h>

#define LIKELY(x)     __builtin_expect(!!(x), 1)
#define UNLIKELY(x)   __builtin_expect(!!(x), 0)
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define NEVER_INLINE  __attribute__((noinline))

#define TIP 0x0du /* the lowest five bits of its packet */

/* The table of edges. */
struct tables {
	const struct ptm_slot *slots;
	unsigned shift;
};

static inline struct tables tables_of(const struct ptm_walk *w)
{
	const struct ptm_edges *edges = ptm_gen_edges(w->gen);

	return (struct tables){edges->slot, edges->shift};
}

/* Where in it the edge of @state and a symbol made of @what stands, in bytes. */
static inline uint32_t place_of(const struct tables *tables, uint32_t state, uint32_t what)
{
	return (uint32_t)sizeof(struct ptm_slot) * ptm_slot_index(tables->shift, state, what);
}

static inline const struct ptm_slot *slot_in(const struct tables *tables, uint32_t place)
{
	return (const struct ptm_slot *)((const char *)tables->slots + place);
}

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
	const uint8_t *pos, *end; /* the next packet; behind that none is begun */
	struct pending pending;
	struct ptm_item *item; /* the next one */
	uint64_t last_ip;
	uint32_t state; /* where the next symbol begins; 0: that is not known */
	struct tables tables;
	const struct ptm_guesses *guesses;
};

/* A symbol, and where its TIP leads.  Its edge is fetched: it will be looked up soon, and is mostly
 * not in the first cache. */
static ALWAYS_INLINE void put_item(struct lexing *l, uint64_t key, uint32_t target, uint32_t place)
{
	*l->item++ = (struct ptm_item){key, target, place};
	__builtin_prefetch(slot_in(&l->tables, place));
	l->state = target;
}

/* A symbol behind a TIP. */
static ALWAYS_INLINE void put(struct lexing *l, uint32_t what, uint32_t flags, uint32_t target)
{
	const uint64_t key = (uint64_t)what << 32 | (l->state + flags); /* it has room for them */

	put_item(l, key, target, place_of(&l->tables, l->state, what));
}

/* Which guess is for the place of the edge of @sym, whose state is not known.  So it is not the
 * first item, and the one before it is made of bits: the last four of them say which of several
 * edges it is as well as any longer history, and make few guesses. */
static inline uint32_t guess_index(uint64_t sym, const struct ptm_item *before)
{
	const uint64_t all = (sym >> 32 | sym << 32) ^ (before->key << 8 & UINT64_C(0xf0000000000));

	return (uint32_t)(all * PTM_DIGEST_K >> (64 - PTM_GUESS_BITS));
}

/* A symbol behind anything. */
static ALWAYS_INLINE void put_any(struct lexing *l, uint64_t sym, uint32_t target)
{
	if (l->state != 0)
		put(l, PTM_SYM_WHAT(sym), sym & PTM_SYM_FLAGS, target);
	else
		put_item(l, sym, target, l->guesses->first[guess_index(sym, l->item - 1)]);
}

static inline void put_full(struct lexing *l)
{
	while (l->pending.n > PTM_EDGE_BITS) {
		l->pending.n -= PTM_EDGE_BITS;
		put_any(l,
			PTM_SYM(l->pending.bits >> l->pending.n & ((1u << PTM_EDGE_BITS) - 1),
				PTM_EDGE_BITS, false),
			0);
	}
}

/* The symbol of what is pending. */
static inline uint64_t last_sym(const struct pending *p, bool tip)
{
	return PTM_SYM(ptm_low_bits(p->bits, p->n), p->n, tip);
}

/* By IPBytes of a TIP: bytes of the address, how far to shift up and down again to extend its sign,
 * and the bits of last-IP that it replaces. */
static const uint8_t ip_bytes[8] = {0, 2, 4, 6, 6, 0, 8, 0};
static const uint8_t ip_extend[8] = {0, 0, 0, 16, 0, 0, 0, 0};
static const uint64_t ip_mask[8] = {0, 0xffff,     0xffffffff, UINT64_MAX, 0xffffffffffff,
				    0, UINT64_MAX, 0};

/* The address of the TIP at @p, whose first byte is @first.  Returns where the packet ends, NULL if
 * it has none.  Branches on IPBytes are mostly foreseen, a table would have the next packet wait
 * for this one's. */
static ALWAYS_INLINE const uint8_t *tip_address(const uint8_t *p, uint8_t first, uint64_t *ip)
{
	const unsigned kind = first >> 5;
	uint64_t raw;

	if (first == (1 << 5 | TIP)) {
		*ip = (*ip & ~UINT64_C(0xffff)) | ptm_load_le16(p + 1);
		return p + 3;
	}
	if (first == (2 << 5 | TIP)) {
		*ip = (*ip & ~UINT64_C(0xffffffff)) | ptm_load_le32(p + 1);
		return p + 5;
	}
	if (ip_mask[kind] == 0)
		return NULL;
	raw = ptm_load_le64(p + 1);
	*ip = ((uint64_t)((int64_t)(raw << ip_extend[kind]) >> ip_extend[kind]) & ip_mask[kind]) |
	      (*ip & ~ip_mask[kind]);
	return p + 1 + ip_bytes[kind];
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

/* The state that the TIP at @p leads to.  Returns where it ends, or NULL. */
static ALWAYS_INLINE const uint8_t *take_tip(struct lexing *l, struct ptm_walk *w, const uint8_t *p,
					     uint8_t first, uint32_t *target)
{
	uint64_t ip = l->last_ip;
	const uint8_t *end = tip_address(p, first, &ip);
	const struct ptm_front *front = ptm_walk_front(w, ip);

	if (UNLIKELY(end == NULL))
		return NULL;
	*target = front->state;
	if (UNLIKELY(front->ip != ip)) {
		uint32_t found;

		if (!ptm_loops_target(w, ip, &found))
			return NULL;
		*target = PTM_STATE(found);
	}
	l->last_ip = ip;
	return end;
}

/* Some TNT packets and the one behind them.  False: here the stretch ends. */
static ALWAYS_INLINE bool take_unit(struct lexing *l, struct ptm_stretch *s, struct ptm_walk *w)
{
	const uint64_t x = ptm_load_le64(l->pos);
	const unsigned at = take_tnts(&l->pending, x);
	const uint8_t *end;
	uint32_t target;
	unsigned size;

	put_full(l);
	l->pos += at / 8;
	if (at == 64)
		return true;
	if ((x >> at & 31) == TIP) {
		end = take_tip(l, w, l->pos, (uint8_t)(x >> at), &target);
		if (UNLIKELY(end == NULL))
			return false;
		put_any(l, last_sym(&l->pending, true), target);
		l->pending.n = 0;
		l->pos = end;
		return true;
	}
	size = take_other(l, s, l->pos);
	l->pos += size;
	return size != 0;
}

/* What is no symbol as it is, up to where bits no longer wait.  False: here the stretch ends. */
static ALWAYS_INLINE bool take_units(struct lexing *from, struct ptm_stretch *s, struct ptm_walk *w)
{
	struct lexing l = *from;
	bool more;

	do {
		more = take_unit(&l, s, w);
	} while (more && l.pos < l.end && l.pending.n != 0);
	*from = l;
	return more;
}

/* @pos and @at bits.  How many packets they are is mostly foreseen, and then the next symbol need
 * not wait for this one's bytes; as arithmetic, which the compiler would make of it, it would. */
static ALWAYS_INLINE const uint8_t *behind_tnts(const uint8_t *pos, unsigned at)
{
	if (at == 8) {
		pos += 1;
		__asm__("" : "+r"(pos));
	} else if (at == 16) {
		pos += 2;
		__asm__("" : "+r"(pos));
	} else {
		pos += at / 8;
	}
	return pos;
}

/* A symbol of some TNT packets and the TIP behind them, or the TIP alone: @x is what comes next.
 * Returns where it ends, NULL if it is something else. */
static ALWAYS_INLINE const uint8_t *take_symbol(struct lexing *l, struct ptm_walk *w, uint64_t x)
{
	/* The first bits of the packets that may be one, and of what is behind them. */
	const uint64_t odd = x & PTM_BYTES(1) >> (56 - PTM_SYM_MAX);
	const uint8_t *end;
	uint32_t target;
	unsigned at;
	uint8_t first;

	if ((x & 1) != 0) {
		if (UNLIKELY((x & 31) != TIP))
			return NULL;
		end = take_tip(l, w, l->pos, (uint8_t)x, &target);
		if (LIKELY(end != NULL))
			put(l, 0, PTM_SYM_HOW(0, true), target);
		return end;
	}
	if (UNLIKELY(odd == 0))
		return NULL;
	at = (unsigned)__builtin_ctzll(odd);
	first = (uint8_t)(x >> at);
	if (UNLIKELY((first & 31) != TIP))
		return NULL;
	end = take_tip(l, w, behind_tnts(l->pos, at), first, &target);
	if (LIKELY(end != NULL))
		put(l, (uint32_t)ptm_low_bits(x, at), PTM_SYM_HOW(at, true), target);
	return end;
}

/* Such symbols, as long as there are any.  Nothing is pending, and so it is known where the first
 * one begins. */
static NEVER_INLINE void take_symbols(struct lexing *from, struct ptm_walk *w)
{
	struct lexing l = *from;

	while (l.pos < l.end) {
		const uint8_t *end = take_symbol(&l, w, ptm_load_le64(l.pos));

		if (UNLIKELY(end == NULL))
			break;
		l.pos = end;
	}
	from->pos = l.pos;
	from->item = l.item;
	from->last_ip = l.last_ip;
	from->state = l.state;
}

/* Have places in the table as it is now only. */
static inline void tune_guesses(struct ptm_guesses *guesses, const struct tables *tables)
{
	if (guesses->slots == tables->slots && guesses->shift == tables->shift)
		return;
	memset(guesses, 0, sizeof(*guesses));
	guesses->slots = tables->slots;
	guesses->shift = tables->shift;
}

static inline struct lexing begin(struct ptm_turbo *t, struct ptm_walk *w)
{
	struct ptm_stretch *s = &t->stretch;
	const struct tables tables = tables_of(w);

	/* Up to here eight bytes and a packet behind them can be read.  An item is made of two at
	 * least: a TIP has three, and sixteen bits take more. */
	const ptrdiff_t left = s->limit - s->pos - PTM_PKT_MAX_SIZE;
	const ptrdiff_t room =
		left < (ptrdiff_t)PTM_TURBO_BYTES ? left : (ptrdiff_t)PTM_TURBO_BYTES;

	ptm_walk_tune(w);
	s->pads = 0;
	s->has_tsc = false;
	tune_guesses(&t->guesses, &tables);
	return (struct lexing){.pos = s->pos,
			       .end = s->pos + (room > 0 ? room : 0),
			       .item = s->items,
			       .last_ip = s->last_ip,
			       .state = s->state,
			       .tables = tables,
			       .guesses = &t->guesses};
}

static inline void finish(struct lexing *l, struct ptm_stretch *s)
{
	if (l->pending.n > 0)
		put_any(l, last_sym(&l->pending, false), 0);
	*l->item = (struct ptm_item){.key = l->state}; /* where a TIP at the end leads */
	s->n = (unsigned)(l->item - s->items);
	s->last_ip = l->last_ip;
	s->pos = l->pos;
}

static void lex(struct ptm_turbo *t, struct ptm_walk *w)
{
	struct ptm_stretch *s = &t->stretch;
	struct lexing l = begin(t, w);

	do {
		if (!s->careful)
			take_symbols(&l, w);
	} while (l.pos < l.end && take_units(&l, s, w));
	finish(&l, s);
}

static inline bool is_other(const struct ptm_slot *e, uint64_t key, uint32_t top)
{
	return !ptm_slot_has(e, key) || !ptm_slot_holds(e, top);
}

/* A walk over the symbols of a stretch. */
struct walking {
	const struct ptm_item *item, *end;
	uint64_t key;    /* of the next edge ... */
	uint32_t place;  /* ... and where it should be in the table */
	uint32_t *rest;  /* the guess that `place` is; NULL: that of the symbol */
	uint32_t *top;   /* of the stack */
	uint32_t *limit; /* it has PTM_STACK entries then */
	uint32_t idle;   /* edges in a row that used up nothing of idle_item */
	const struct ptm_item *idle_item;
	uint64_t n, b;
	uint32_t *stack; /* states, with anything in the free bytes */
	const uint64_t *power;
	struct ptm_guesses *guesses;
	struct ptm_went *went, *went_last; /* of the log: the next one, and what is behind all */
};

/* The stack is empty where its top is here. */
static ALWAYS_INLINE uint32_t *bottom_of(const struct walking *k)
{
	return k->limit - PTM_STACK;
}

/* The edge that is next, from the first slot for it on; NULL: it is in none of those near it. */
static inline const struct ptm_slot *look_near(const struct walking *k, const struct tables *tables,
					       uint32_t top)
{
	const uint32_t place = place_of(tables, PTM_KEY_STATE(k->key), PTM_SYM_WHAT(k->key));
	const struct ptm_slot *first = slot_in(tables, place);

	for (unsigned i = 0; i < PTM_EDGE_NEAR; i++) {
		const struct ptm_slot *e = ptm_slot_next(first, i);

		if (!is_other(e, k->key, top))
			return e;
	}
	return NULL;
}

/* The next edge stands at @e: guess so the next time. */
static inline void learn(const struct walking *k, const struct tables *tables,
			 const struct ptm_slot *e)
{
	const uint32_t place = (uint32_t)((const char *)e - (const char *)tables->slots);

	if (k->key == k->item->key)
		return;
	if (k->rest != NULL)
		*k->rest = place;
	else
		k->guesses->first[guess_index(k->item->key, k->item - 1)] = place;
}

/* The edge that is next, which is not where it should be; NULL: there is none. */
static inline const struct ptm_slot *look_further(const struct walking *k, struct tables *tables,
						  struct ptm_turbo *t, struct ptm_walk *w)
{
	const uint32_t on_top = *k->top & ~PTM_STATE_FREE;
	const struct ptm_slot *e = look_near(k, tables, on_top);

	if (e == NULL) {
		e = ptm_loops_edge(t, w, k->key, on_top);
		/* If that is another table now, the places of the stretch are wrong: it comes here
		 * again. */
		*tables = tables_of(w);
	}
	if (e != NULL && e != &t->built)
		learn(k, tables, e);
	return e;
}

/* The stack rises to @rise, above its limit: it loses entries at the other end. */
static ALWAYS_INLINE void lose_entries(struct walking *k, uint32_t *rise)
{
	if (UNLIKELY(rise > k->stack + PTM_LANE_ROOM)) {
		const ptrdiff_t down = bottom_of(k) - k->stack;

		memmove(k->stack, k->stack + down, (PTM_STACK + 1) * sizeof(k->stack[0]));
		k->top -= down;
		rise -= down;
	}
	k->limit = rise;
	*bottom_of(k) = 0;
}

/* What is left of the symbol in @key: @rest, as in the edge.  ptm_sym_bits() would do, but costs
 * perl 4 % of all. */
static inline uint64_t left_of(uint64_t key, uint32_t rest)
{
	struct pending p = {PTM_SYM_WHAT(key), 0};
	uint64_t mask;

	/* There is an edge of them, so they are TNT packets. */
	if ((key & PTM_SYM_PACKETS) != 0) {
		p.bits = 0;
		(void)ptm_tnts(PTM_SYM_WHAT(key), &mask);
		gather(&p, PTM_SYM_WHAT(key), mask);
	}
	return PTM_SYM(ptm_low_bits(p.bits, rest - 1), rest - 1, 0) | (key & PTM_SYM_TIP);
}

/* Where an edge leads that no TIP ends.  False: that is for the exact path to say. */
static ALWAYS_INLINE bool go_along(struct walking *k, const struct ptm_slot *e, uint32_t how)
{
	const uint32_t rest = PTM_SLOT_REST(e);
	uint32_t state = e->next & ~PTM_STATE_FREE;
	uint64_t sym;

	if ((how & PTM_SLOT_POP) != 0) {
		if (UNLIKELY(k->top == bottom_of(k)))
			return false;
		sym = (uint64_t)(e->next >> (32 - PTM_STATE_BITS)) << 32 | (k->key & PTM_SYM_TIP);
		state = *k->top-- & ~PTM_STATE_FREE;
	} else if (rest != 0) {
		sym = left_of(k->key, rest);
		if (UNLIKELY(sym == (k->key & PTM_SYM_MASK))) {
			k->idle = k->item == k->idle_item ? k->idle + 1 : 1;
			k->idle_item = k->item;
			if (k->idle > PTM_IDLE_EDGES)
				return false;
		}
	}
	if (rest == 0) {
		sym = (++k->item)->key;
		k->place = k->item->place;
		k->rest = NULL;
	} else {
		k->rest = &k->guesses->rest[k->place / sizeof(*e) % PTM_GUESS_REST];
		k->place = *k->rest;
	}
	k->key = PTM_EDGE_KEY(state, sym);
	return true;
}

/* Behind a TIP.  Where it leads depends on its packet only: no waiting for the edge. */
static ALWAYS_INLINE void go_next(struct walking *k)
{
	k->item++;
	k->key = k->item->key;
	k->place = k->item->place;
}

/* Log that the walk goes over an edge.  False: there is no room. */
static ALWAYS_INLINE bool log_edge(struct walking *k, const struct ptm_slot *e)
{
	const uint32_t how = PTM_SLOT_HOW(e);
	const uint32_t to = (how & PTM_SLOT_ALONG) == 0 ? k->item->target
			    : (how & PTM_SLOT_POP) != 0 ? *k->top & ~PTM_STATE_FREE
							: 0;

	if (UNLIKELY(k->went == k->went_last))
		return false;
	*k->went++ = (struct ptm_went){k->key, e->guard & ~PTM_STATE_FREE, to};
	return true;
}

/* Over the edge @e.  False: it is irregular.  @counting is known at compile time. */
static ALWAYS_INLINE bool step(struct walking *k, const struct ptm_slot *e, bool counting)
{
	const uint32_t n = PTM_SLOT_N(e), how = PTM_SLOT_HOW(e);

	if (UNLIKELY(k->top + PTM_EDGE_DEEP > k->limit) &&
	    UNLIKELY(k->top + PTM_SLOT_DEEPEST(e) > k->limit))
		lose_entries(k, k->top + PTM_SLOT_DEEPEST(e));
	k->top -= ptm_slot_guarded(e);
	if (counting && !log_edge(k, e))
		return false;
	k->n += n;
	k->b = k->b * k->power[n] + e->b;
	if (LIKELY((how & ~PTM_SLOT_NPUSH) == 0)) {
		go_next(k);
	} else if ((how & PTM_SLOT_ALONG) == 0) {
		k->top -= k->top != bottom_of(k);
		go_next(k);
	} else if (UNLIKELY(!go_along(k, e, how))) {
		return false;
	}
	memcpy(k->top + 1, e->push, sizeof(e->push));
	k->top += how & PTM_SLOT_NPUSH;
	return true;
}

static ALWAYS_INLINE struct walking set_out(struct ptm_turbo *t, struct ptm_walk *w)
{
	const struct ptm_stretch *s = &t->stretch;
	const struct ptm_lane *lane = &t->lane;

	return (struct walking){.item = s->items,
				.end = s->items + s->n,
				.key = s->items[0].key,
				.place = s->items[0].place,
				.top = t->lane.stack + lane->top,
				.limit = t->lane.stack + lane->floor + PTM_STACK,
				.stack = t->lane.stack,
				.guesses = &t->guesses,
				.power = w->power};
}

static ALWAYS_INLINE bool walk_all(struct ptm_turbo *t, struct ptm_walk *w, bool counting)
{
	struct tables tables = tables_of(w);
	struct walking k = set_out(t, w);

	if (counting) {
		k.went = t->counts->log;
		k.went_last = t->counts->log + PTM_WENT_MAX;
	}
	while (k.item < k.end) {
		const struct ptm_slot *e = slot_in(&tables, k.place);

		if (UNLIKELY(is_other(e, k.key, *k.top)))
			e = look_further(&k, &tables, t, w);
		if (UNLIKELY(e == NULL) || UNLIKELY(!step(&k, e, counting)))
			return false;
	}
	if (counting)
		t->went = (size_t)(k.went - t->counts->log);
	t->lane.state = PTM_KEY_STATE(k.key);
	t->lane.top = (uint32_t)(k.top - k.stack);
	t->lane.floor = (uint32_t)(bottom_of(&k) - k.stack);
	t->lane.n = k.n;
	t->lane.b = k.b;
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
