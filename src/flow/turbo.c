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

#include "flow/loops.h"

#include <string.h>

/* Edges of one symbol that differ in what they return to. */
#define GUARDS_MAX 3u

const struct ptm_loops *ptm_loops_best(void)
{
#ifdef PTM_LOOPS_BMI2
	/* Zen 1 and 2 have PEXT in microcode, which takes up to 300 cycles. */
	__builtin_cpu_init();
	if (__builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
	    __builtin_cpu_supports("lzcnt") && __builtin_cpu_supports("popcnt") &&
	    !__builtin_cpu_is("amdfam17h"))
		return &ptm_loops_bmi2;
#endif
	return &ptm_loops_plain;
}

void ptm_turbo_init(struct ptm_turbo *t)
{
	memset(t, 0, sizeof(*t));
	t->loops = ptm_loops_best();
}

bool ptm_loops_target(struct ptm_walk *w, uint64_t ip, uint32_t *id)
{
	const uint64_t turns = w->turns;

	return ptm_walk_find(w, ip, id) == 0 && turns == w->turns;
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
	if (e->n > PTM_EDGE_INSNS || e->npush > PTM_EDGE_PUSH || e->deepest > PTM_EDGE_DEEP) {
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
	edge->state = state;
	edge->sym = sym;
	edge->b = e.b;
	edge->guard = e.guard;
	edge->next = how == END_BEFORE ? PTM_STATE(e.id) : 0;
	edge->rest = e.nbits > 0 || e.tip ? e.nbits + 1 : 0;
	edge->push[0] = e.npush > 0 ? PTM_STATE(e.push[0]) : 0;
	edge->push[1] = e.npush > 1 ? PTM_STATE(e.push[1]) : 0;
	edge->n = e.n;
	edge->npush = e.npush;
	edge->deepest = e.deepest;
	edge->pop = e.pop;
	edge->drop = e.drop;
	return true;
}

static void load_lane(struct ptm_lane *lane, const struct ptm_walk *w)
{
	lane->state = PTM_STATE(w->at);
	lane->floor = 0;
	lane->top = w->depth;
	lane->n = lane->b = 0;
	lane->stack[0] = 0;
	for (unsigned i = 0; i < w->depth; i++)
		lane->stack[w->depth - i] = PTM_STATE(w->stack[(w->top - i) % PTM_STACK]);
}

static void store_lane(const struct ptm_lane *lane, struct ptm_walk *w)
{
	const struct ptm_digest digest = {lane->n, power_of(lane->n), lane->b};

	w->at = PTM_STATE_ID(lane->state);
	memset(w->stack, 0, sizeof(w->stack));
	w->depth = lane->top - lane->floor;
	w->top = w->depth % PTM_STACK;
	for (unsigned i = 1; i <= w->depth; i++)
		w->stack[i % PTM_STACK] = PTM_STATE_ID(lane->stack[lane->floor + i]);
	w->free_run = 0;
	ptm_digest_append(&w->emit->part, &digest);
	*(w->emit->uncertain ? &w->emit->tally.resynced : &w->emit->tally.insns) += lane->n;
}

const struct ptm_slot *ptm_loops_edge(struct ptm_turbo *t, struct ptm_walk *w, uint32_t state,
				      uint32_t sym, uint32_t top)
{
	const uint64_t turns = w->turns;
	struct ptm_edge built;
	unsigned others;
	const struct ptm_slot *e =
		ptm_edges_find(ptm_gen_edges(w->gen), PTM_EDGE_KEY(state, sym), top, &others);

	if (e != NULL || state == 0)
		return e;
	/* A return that leads to many places is not worth a guard for each. */
	if (!build(w, state, sym, others < GUARDS_MAX ? top : 0, &built) || turns != w->turns)
		return NULL;
	t->edges_built++;
	ptm_edge_pack(&t->built, &built);
	ptm_gen_add_edge(w->gen, &t->built);
	return &t->built;
}

int ptm_turbo_run(struct ptm_turbo *t, struct ptm_walk *w, struct ptm_lexer *lx)
{
	const uint64_t turns = w->turns;
	struct ptm_stretch *s = &t->stretch;

	s->pos = lx->pos;
	s->limit = lx->end;
	s->last_ip = lx->last_ip;
	s->state = PTM_STATE(w->at);
	s->odd_time = t->odd_time;
	t->loops->lex(s, w);
	if (turns != w->turns)
		return w->failed ? -PTM_E_NOMEM : 0;
	load_lane(&t->lane, w);
	if (!t->loops->walk(t, w) || turns != w->turns)
		return w->failed ? -PTM_E_NOMEM : 0;
	lx->pos = s->pos;
	lx->last_ip = s->last_ip;
	store_lane(&t->lane, w);
	return 1;
}
