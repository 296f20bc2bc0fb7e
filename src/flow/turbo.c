/* SPDX-License-Identifier: Apache-2.0
 *
 * turbo.c - the fast path.
 *
 * First a stretch of packets becomes symbols: a TIP needs only its packet to be resolved to a node,
 * not the walk.  Then each symbol is one look-up of an edge.  Nothing is committed before the end
 * of the stretch: whatever is out of the ordinary (an error, a deferred TIP, a generation that is
 * full) gives it up, and the engine takes the same packets one by one.  So this path decides
 * nothing that the exact one has not decided before.
 */
#include "flow/turbo.h"

#include "base/bytes.h"

#include <string.h>

#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Edges in a row that use up nothing of their symbol: so many are shorter than PTM_RUNAWAY, so that
 * a longer run is for the exact path to judge. */
#define IDLE_EDGES (PTM_RUNAWAY / PTM_EDGE_INSNS - 6)

/* Edges of one symbol that differ in what they return to. */
#define GUARDS_MAX 3u

void ptm_turbo_init(struct ptm_turbo *t)
{
	memset(t, 0, sizeof(*t));
}

/* By IPBytes: bytes of the address, the bits of last-IP that it replaces, and how far to shift up
 * and down again to extend its sign. */
static const uint8_t ip_bytes[8] = {0, 2, 4, 6, 6, 0, 8, 0};
static const uint64_t ip_mask[8] = {0, 0xffff,     0xffffffff, UINT64_MAX, 0xffffffffffff,
				    0, UINT64_MAX, 0};
static const uint8_t ip_extend[8] = {0, 0, 0, 16, 0, 0, 0, 0};

/* A stretch on its way from packets to symbols. */
struct lexing {
	struct ptm_stretch *s;
	struct ptm_walk *w;
	const struct ptm_edges *edges;
	uint64_t bits; /* that wait to become a symbol, the oldest on top */
	unsigned nbits;
	uint32_t state; /* where the next symbol begins, if that is known */
	uint32_t tag;   /* of nodes found lately */
};

/* The edge of a symbol behind a TIP will be looked up soon, and is mostly not in the first cache.
 */
static inline void put(struct lexing *l, uint32_t sym, uint32_t target)
{
	struct ptm_item *item = &l->s->items[l->s->n++];

	item->sym = sym;
	item->target = target;
	__builtin_prefetch(ptm_edges_at(l->edges, l->state, sym));
	l->state = target;
}

static inline void add_bits(struct lexing *l, uint64_t bits, unsigned n)
{
	l->bits = l->bits << n | bits;
	l->nbits += n;
	while (l->nbits > PTM_EDGE_BITS) {
		l->nbits -= PTM_EDGE_BITS;
		put(l, PTM_SYM(l->bits >> l->nbits & ((1u << PTM_EDGE_BITS) - 1), PTM_EDGE_BITS, 0),
		    0);
	}
}

/* The bits that are left. */
static inline uint32_t last_bits(const struct lexing *l)
{
	return (uint32_t)l->bits & ((1u << l->nbits) - 1);
}

/* The slow part of a TIP.  False if the stretch is given up: the generation was full, so what was
 * made of it so far means nothing, and its table of edges may be gone. */
static __attribute__((noinline)) bool find_target(struct lexing *l, uint64_t ip, uint32_t *id)
{
	const uint64_t turns = l->w->turns;

	if (ptm_walk_find(l->w, ip, id) == 0 && turns == l->w->turns)
		return true;
	l->edges = ptm_gen_edges(l->w->gen);
	return false;
}

/* A TIP, whose target no walk is needed for.  Returns its size, or 0. */
static inline unsigned take_tip(struct lexing *l, const uint8_t *p)
{
	const unsigned kind = p[0] >> 5;
	const uint64_t raw = ptm_load_le64(p + 1), mask = ip_mask[kind];
	const uint64_t value = (uint64_t)((int64_t)(raw << ip_extend[kind]) >> ip_extend[kind]);
	const uint64_t ip = (value & mask) | (l->s->last_ip & ~mask);
	const struct ptm_front *front = ptm_walk_front(l->w, ip);
	uint32_t id = front->id;

	if (UNLIKELY(mask == 0))
		return 0;
	if (UNLIKELY(front->ip != ip || front->tag != l->tag) && !find_target(l, ip, &id))
		return 0;
	l->s->last_ip = ip;
	put(l, PTM_SYM(last_bits(l), l->nbits, 1), PTM_STATE(id));
	l->nbits = 0;
	return 1u + ip_bytes[kind];
}

/* Packets behind the escape 02.  Returns the size, or 0. */
static unsigned take_escaped(struct lexing *l, const uint8_t *p)
{
	uint64_t raw;
	unsigned n;

	if (p[1] == 0x73 && !l->s->odd_time) /* TMA */
		return 7;
	if (p[1] != 0xa3)
		return 0;
	raw = ptm_load_le(p + 2, 6);
	if (raw <= 1)
		return 0;
	n = 63u - (unsigned)__builtin_clzll(raw);
	add_bits(l, raw ^ UINT64_C(1) << n, n);
	l->s->flow = true;
	return 8;
}

/* Time packets.  Returns the size, or 0. */
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
	if (p[0] != 0x19)
		return 0;
	s->has_tsc = true;
	s->tsc = ptm_load_le(p + 1, 7);
	return 8;
}

static inline unsigned take_packet(struct lexing *l, const uint8_t *p)
{
	const unsigned b = p[0];

	if ((b & 1) == 0) {
		unsigned n;

		if (b == 2)
			return take_escaped(l, p);
		if (b == 0) {
			l->s->pads++;
			return 1;
		}
		n = 30u - (unsigned)__builtin_clz(b);
		add_bits(l, b >> 1 & ((1u << n) - 1), n);
		l->s->flow = true;
		return 1;
	}
	if ((b & 31) == 0x0d) {
		l->s->flow = true;
		return take_tip(l, p);
	}
	return take_time(l->s, p);
}

/* Turn packets into symbols, up to the first that is not simple.  A whole packet can be read
 * before @lx->end - PTM_PKT_MAX_SIZE. */
static __attribute__((noinline)) void lex(struct ptm_stretch *s, struct ptm_walk *w,
					  const struct ptm_lexer *lx)
{
	const ptrdiff_t room = lx->end - lx->pos - PTM_PKT_MAX_SIZE;
	const uint8_t *p = lx->pos, *end = room > 0 ? lx->pos + room : lx->pos;
	struct lexing l = {.s = s,
			   .w = w,
			   .edges = ptm_gen_edges(w->gen),
			   .state = PTM_STATE(w->at),
			   .tag = ptm_walk_tag(w)};

	s->last_ip = lx->last_ip;
	s->pads = 0;
	s->flow = false;
	s->has_tsc = false;
	s->n = 0;
	/* A long TNT makes up to four symbols, what is left one more. */
	while (p < end && s->n < PTM_TURBO_ITEMS - 5) {
		unsigned size = take_packet(&l, p);

		if (UNLIKELY(size == 0))
			break;
		p += size;
	}
	if (l.nbits > 0)
		put(&l, PTM_SYM(last_bits(&l), l.nbits, 0), 0);
	s->end = p;
}

/* An edge on its way over the nodes. */
struct build {
	struct ptm_walk *w;
	uint32_t id; /* of the node where it stands */
	uint32_t bits;
	unsigned nbits;
	bool tip;
	uint32_t n; /* instructions */
	uint64_t b;
	uint32_t push[PTM_EDGE_PUSH + PTM_NODE_PUSH + 1];
	unsigned npush, deepest;
	uint32_t top;   /* what is on the stack, if a guard may be made of it; 0: no */
	uint32_t guard; /* what was */
	bool pop, drop;
};

enum { GO_ON, END_BEFORE, END_BEHIND, IRREGULAR };

/* What the last instruction of @node does here, its bit or TIP being taken. */
static int decide(struct build *e, const struct ptm_node *node, bool *taken)
{
	const bool bit = e->nbits > 0 && (e->bits >> (e->nbits - 1) & 1);

	*taken = bit || node->klass == PTM_NODE_MORE;
	if (e->nbits == 0 && !e->tip)
		return END_BEFORE;
	if (node->klass == PTM_NODE_MORE)
		return GO_ON;
	if (node->klass == PTM_INSN_COND) {
		if (e->nbits == 0)
			return IRREGULAR;
		e->nbits--;
		return GO_ON;
	}
	if (node->klass > PTM_NODE_MORE || (e->nbits > 0 && !bit))
		return IRREGULAR;
	if (e->nbits > 0) {
		if (node->klass != PTM_INSN_RET)
			return IRREGULAR;
		e->nbits--;
		e->pop = true;
	} else {
		e->tip = false;
		if (node->klass == PTM_INSN_RET)
			e->drop = true;
	}
	return END_BEHIND;
}

/* A return within the edge, to @id. */
static int come_back(struct build *e, uint32_t id)
{
	const bool by_bit = e->pop;

	e->pop = e->drop = false;
	e->id = id;
	return by_bit ? GO_ON : END_BEHIND;
}

/* Take one node into the edge. */
static int extend(struct build *e)
{
	struct ptm_node *node = &e->w->nodes[e->id];
	const uint64_t turns = e->w->turns;
	const struct build before = *e;
	bool taken;
	int how = decide(e, node, &taken);

	if (how == END_BEFORE || how == IRREGULAR)
		return how;
	if (ptm_walk_pushes(e->w, e->id) < 0 || turns != e->w->turns)
		return IRREGULAR;
	e->b = e->b * e->w->power[node->n] + node->b;
	e->n += node->n;
	for (unsigned i = 0; i < node->npush; i++)
		e->push[e->npush++] = atomic_load_explicit(&node->push[i], memory_order_acquire);
	if (e->npush > e->deepest + (e->guard != 0))
		e->deepest = e->npush - (e->guard != 0);
	if (how == GO_ON && (ptm_walk_next(e->w, e->id, taken, &e->id) < 0 || turns != e->w->turns))
		return IRREGULAR;
	if ((e->pop || e->drop) && e->npush > 0)
		how = come_back(e, e->push[--e->npush]);
	else if (e->pop && e->top != 0 && e->guard == 0) {
		e->guard = e->top;
		how = come_back(e, PTM_STATE_ID(e->top));
	}
	if (how == GO_ON && e->w->nodes[e->id].mode != node->mode)
		return IRREGULAR;
	if (e->n > PTM_EDGE_INSNS || e->npush > PTM_EDGE_PUSH) {
		*e = before;
		return e->n == 0 ? IRREGULAR : END_BEFORE;
	}
	return how;
}

static uint64_t power_of(uint64_t n)
{
	uint64_t p = 1, k = PTM_DIGEST_K;

	for (; n > 0; n >>= 1, k *= k)
		p *= (n & 1) != 0 ? k : 1;
	return p;
}

/* Make the edge from @state over @sym, through a return to @top (0: through none).  False if there
 * is no edge. */
static bool build(struct ptm_walk *w, uint32_t state, uint32_t sym, uint32_t top,
		  struct ptm_edge *edge)
{
	const unsigned nbits = 30u - (unsigned)__builtin_clz(sym);
	struct build e = {.w = w,
			  .id = PTM_STATE_ID(state),
			  .bits = sym >> 1 & ((1u << nbits) - 1),
			  .nbits = nbits,
			  .tip = sym & 1,
			  .top = top};
	int how;

	do
		how = extend(&e);
	while (how == GO_ON);
	if (how == IRREGULAR)
		return false;
	atomic_store_explicit(&edge->key, PTM_EDGE_KEY(state, sym), memory_order_relaxed);
	edge->b = e.b;
	edge->power = power_of(e.n);
	edge->guard = e.guard;
	edge->next = how == END_BEFORE ? PTM_STATE(e.id) : 0;
	edge->rest =
		e.nbits > 0 || e.tip ? PTM_SYM(e.bits & ((1u << e.nbits) - 1), e.nbits, e.tip) : 0;
	edge->push[0] = e.npush > 0 ? PTM_STATE(e.push[0]) : 0;
	edge->push[1] = e.npush > 1 ? PTM_STATE(e.push[1]) : 0;
	edge->n = (uint16_t)e.n;
	edge->npush = (uint8_t)e.npush;
	edge->deepest = (uint8_t)e.deepest;
	edge->pop = e.pop;
	edge->drop = e.drop;
	return true;
}

/* The return stack while walking: a ring of twice the entries, so that what is stored beyond the
 * top hides nothing. */
#define RING (2 * PTM_STACK)

struct lane {
	uint32_t state;
	uint32_t top, floor; /* the entries are top, top - 1, ..., floor + 1 */
	uint64_t n, b;       /* digest of what was walked */
	uint32_t ring[RING];
};

static void load_lane(struct lane *lane, const struct ptm_walk *w)
{
	lane->state = PTM_STATE(w->at);
	lane->floor = 0;
	lane->top = w->depth;
	lane->n = lane->b = 0;
	for (unsigned i = 0; i < w->depth; i++)
		lane->ring[w->depth - i] = PTM_STATE(w->stack[(w->top - i) % PTM_STACK]);
}

static int store_lane(const struct lane *lane, struct ptm_walk *w)
{
	const struct ptm_digest digest = {lane->n, power_of(lane->n), lane->b};

	w->at = PTM_STATE_ID(lane->state);
	memset(w->stack, 0, sizeof(w->stack));
	w->depth = lane->top - lane->floor;
	w->top = w->depth % PTM_STACK;
	for (unsigned i = 1; i <= w->depth; i++)
		w->stack[i % PTM_STACK] = PTM_STATE_ID(lane->ring[(lane->floor + i) % RING]);
	w->free_run = 0;
	ptm_digest_append(&w->emit->part, &digest);
	*(w->emit->uncertain ? &w->emit->tally.resynced : &w->emit->tally.insns) += lane->n;
	return 1;
}

/* The edge was not in the first two slots.  NULL: there is none. */
static __attribute__((noinline)) const struct ptm_edge *
other_slot(struct ptm_turbo *t, struct ptm_walk *w, uint32_t state, uint32_t sym, uint32_t top)
{
	const uint64_t turns = w->turns;
	unsigned others;
	const struct ptm_edge *e =
		ptm_edges_find(ptm_gen_edges(w->gen), PTM_EDGE_KEY(state, sym), top, &others);

	if (e != NULL || state == 0)
		return e;
	/* A return that leads to many places is not worth a guard for each. */
	if (!build(w, state, sym, others < GUARDS_MAX ? top : 0, &t->built) || turns != w->turns)
		return NULL;
	t->edges_built++;
	ptm_gen_add_edge(w->gen, &t->built);
	return &t->built;
}

/* Is @e not the edge? */
static inline bool is_other(const struct ptm_edge *e, uint64_t key, uint32_t top)
{
	return atomic_load_explicit(&e->key, memory_order_acquire) != key ||
	       ptm_edge_fails(e->guard, top) != 0;
}

/* Walk over the symbols of the stretch.  False: something is irregular. */
static __attribute__((noinline)) bool walk(struct ptm_turbo *t, struct ptm_walk *w,
					   struct lane *lane)
{
	const struct ptm_item *item = t->stretch.items, *end = item + t->stretch.n;
	const struct ptm_edges *edges = ptm_gen_edges(w->gen);
	uint32_t idle = 0;
	uint32_t sym = item->sym, state = lane->state, top = lane->top, floor = lane->floor;
	uint64_t n = 0, b = 0;

	while (item < end) {
		const struct ptm_edge *e = ptm_edges_at(edges, state, sym);
		const uint64_t key = PTM_EDGE_KEY(state, sym);
		const uint32_t on_top = lane->ring[top % RING] & (0u - (uint32_t)(top != floor));

		if (UNLIKELY(is_other(e, key, on_top)) && is_other(++e, key, on_top)) {
			e = other_slot(t, w, state, sym, on_top);
			if (e == NULL)
				return false;
			edges = ptm_gen_edges(w->gen);
		}
		floor = (int32_t)(top + e->deepest - floor) > (int32_t)PTM_STACK
				? top + e->deepest - PTM_STACK
				: floor;
		top -= e->guard != 0;
		b = b * e->power + e->b;
		n += e->n;
		if (e->rest == 0 && (sym & 1) != 0) {
			/* What follows a TIP depends on its packet only: no waiting for the edge.
			 */
			top -= e->drop & (top != floor);
			state = item->target;
			sym = (++item)->sym;
			idle = 0;
		} else {
			state = e->next;
			if (e->pop != 0) {
				if (UNLIKELY(top == floor))
					return false;
				state = lane->ring[top-- % RING];
			}
			idle = e->rest == sym ? idle + 1 : 0;
			if (UNLIKELY(idle > IDLE_EDGES))
				return false;
			item += e->rest == 0;
			sym = e->rest != 0 ? e->rest : item->sym;
		}
		lane->ring[(top + 1) % RING] = e->push[0];
		lane->ring[(top + 2) % RING] = e->push[1];
		top += e->npush;
	}
	lane->state = state;
	lane->top = top;
	lane->floor = floor;
	lane->n = n;
	lane->b = b;
	return true;
}

int ptm_turbo_run(struct ptm_turbo *t, struct ptm_walk *w, struct ptm_lexer *lx)
{
	const uint64_t turns = w->turns;
	struct ptm_stretch *s = &t->stretch;
	struct lane lane;

	s->odd_time = t->odd_time;
	lex(s, w, lx);
	if (turns != w->turns)
		return w->failed ? -PTM_E_NOMEM : 0;
	s->items[s->n].sym = 0; /* is read, not used */
	load_lane(&lane, w);
	if (!walk(t, w, &lane) || turns != w->turns)
		return w->failed ? -PTM_E_NOMEM : 0;
	lx->pos = s->end;
	lx->last_ip = s->last_ip;
	return store_lane(&lane, w);
}
