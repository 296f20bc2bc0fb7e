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
#include "flow/way.h"

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

void ptm_turbo_fini(struct ptm_turbo *t)
{
	ptm_edge_counts_destroy(t->counts);
}

int ptm_turbo_count(struct ptm_turbo *t, struct ptm_counts *sum, struct ptm_error *err)
{
	t->counts = ptm_edge_counts_create(sum);
	return t->counts != NULL ? 0
				 : PTM_FAIL(err, PTM_E_NOMEM, "Out of memory for counts of edges");
}

bool ptm_loops_target(struct ptm_walk *w, uint64_t ip, uint32_t *id)
{
	const uint64_t turns = w->turns;

	return ptm_walk_find(w, ip, id) == 0 && turns == w->turns;
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
static bool build(struct ptm_turbo *t, struct ptm_walk *w, uint32_t state, uint64_t sym,
		  uint32_t top, struct ptm_edge *edge)
{
	enum ptm_way_went went = PTM_WAY_ON;
	struct ptm_way way;
	uint64_t b = 0;

	if (!ptm_way_begin(&way, w->nodes, state, sym, top)) {
		t->careful = PTM_TURBO_CAREFUL;
		return false;
	}
	way.w = w;
	while (went == PTM_WAY_ON) {
		const struct ptm_node *node;

		went = ptm_way_go(&way);
		if (went == PTM_WAY_IRREGULAR)
			return false;
		node = &w->nodes[way.over];
		if (went != PTM_WAY_BEFORE)
			b = b * w->power[node->n] + node->b;
	}
	edge->state = state;
	edge->sym = sym;
	edge->b = b;
	edge->guard = way.guard;
	edge->next = went == PTM_WAY_BEFORE ? PTM_STATE(way.id) : 0;
	edge->rest = way.nbits > 0 || way.tip ? way.nbits + 1 : 0;
	edge->push[0] = way.npush > 0 ? PTM_STATE(way.push[0]) : 0;
	edge->push[1] = way.npush > 1 ? PTM_STATE(way.push[1]) : 0;
	edge->n = way.n;
	edge->npush = way.npush;
	edge->deepest = way.deepest;
	edge->pop = way.pop;
	edge->drop = way.drop;
	return true;
}

static void load_lane(struct ptm_lane *lane, const struct ptm_walk *w)
{
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

const struct ptm_slot *ptm_loops_edge(struct ptm_turbo *t, struct ptm_walk *w, uint64_t key,
				      uint32_t top)
{
	const uint64_t turns = w->turns;
	struct ptm_edge built;
	unsigned others;
	const struct ptm_slot *e = ptm_edges_find(ptm_gen_edges(w->gen), key, top, &others);

	if (e != NULL || PTM_KEY_STATE(key) == 0)
		return e;
	/* A return that leads to many places is not worth a guard for each. */
	if (!build(t, w, PTM_KEY_STATE(key), key & PTM_SYM_MASK, others < GUARDS_MAX ? top : 0,
		   &built) ||
	    turns != w->turns)
		return NULL;
	t->edges_built++;
	ptm_edge_pack(&t->built, &built);
	ptm_gen_add_edge(w->gen, &t->built);
	return &t->built;
}

/* Walk the lane, if there is nothing irregular. */
static bool walk(struct ptm_turbo *t, struct ptm_walk *w)
{
	return t->counts != NULL ? t->loops->walk_counting(t, w) : t->loops->walk(t, w);
}

/* Lex and walk a stretch.  Returns 1; 0 if it has to be given up; or -PTM_E_NOMEM. */
static int take(struct ptm_turbo *t, struct ptm_walk *w, const struct ptm_lexer *lx)
{
	const uint64_t turns = w->turns;
	struct ptm_stretch *s = &t->stretch;

	s->pos = lx->pos;
	s->limit = lx->end;
	s->last_ip = lx->last_ip;
	s->state = PTM_STATE(w->at);
	s->odd_time = t->odd_time;
	s->careful = t->careful > 0;
	t->careful -= s->careful;
	t->loops->lex(t, w);
	if (turns != w->turns)
		return w->failed ? -PTM_E_NOMEM : 0;
	load_lane(&t->lane, w);
	if (!walk(t, w) || turns != w->turns)
		return w->failed ? -PTM_E_NOMEM : 0;
	return 1;
}

int ptm_turbo_run(struct ptm_turbo *t, struct ptm_walk *w, struct ptm_lexer *lx)
{
	const unsigned careful = t->careful;
	const uint64_t turns = w->turns;
	int status = take(t, w, lx);

	/* PAD and TNT packets together are no symbol, and nothing is wrong with them. */
	if (status == 0 && t->careful > careful && turns == w->turns)
		status = take(t, w, lx);
	if (status <= 0)
		return status;
	if (t->counts != NULL)
		PTM_TRY(ptm_edge_counts_add(t->counts, w, t->went));
	lx->pos = t->stretch.pos;
	lx->last_ip = t->stretch.last_ip;
	store_lane(&t->lane, w);
	return 1;
}
