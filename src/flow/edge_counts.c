/* SPDX-License-Identifier: Apache-2.0
 *
 * edge_counts.c - the hash table of edges, and going over them again.
 */
#include "flow/edge_counts.h"

#include "flow/way.h"

#include <stdlib.h>
#include <string.h>

#define BITS_FIRST 12u
#define BITS_MAX   19u
#define AHEAD      8u /* entries of the log whose places are fetched ahead */

struct ptm_edge_count {
	struct ptm_went edge; /* key 0: not in use */
	uint64_t times;
	uint64_t tally; /* of once over it, packed */
};

/* Figures of the tally, each in as many bits as ADDENDS of them take, with no more than one a bit,
 * or one an instruction in an edge. */
#define ADDENDS 32u
enum { CALL = 0, GUESSED = 14, COND = 28, RET = 38, INDIRECT = 48, FAR = 54, END = 60 };
_Static_assert(PTM_EDGE_INSNS *ADDENDS < 1u << 14, "calls and guesses do not fit");
_Static_assert((PTM_SYM_MAX / 8 * 6 + 1) * ADDENDS < 1u << 10, "branches do not fit");
_Static_assert(ADDENDS < 1u << 6, "what is there once does not fit");

#define ONE(field)                  (UINT64_C(1) << (field))
#define FIELD(packed, field, after) ((packed) >> (field) & ((1u << ((after) - (field))) - 1))

/* As often as an end of a node was taken; of all ends but that of a branch that is taken: [0]. */
struct visits {
	uint64_t times[2];
};

struct ptm_edge_counts *ptm_edge_counts_create(struct ptm_counts *sum)
{
	struct ptm_edge_counts *counts = (struct ptm_edge_counts *)calloc(1, sizeof(*counts));

	if (counts == NULL)
		return NULL;
	counts->sum = sum;
	counts->bits = BITS_FIRST;
	counts->slot = (struct ptm_edge_count *)calloc(1u << BITS_FIRST, sizeof(*counts->slot));
	if (counts->slot == NULL) {
		free(counts);
		return NULL;
	}
	return counts;
}

void ptm_edge_counts_destroy(struct ptm_edge_counts *counts)
{
	if (counts == NULL)
		return;
	if (counts->gen != NULL)
		ptm_gen_release(counts->gen);
	free(counts->slot);
	free(counts);
}

static int no_memory(struct ptm_error *err)
{
	return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory for counts of what is executed");
}

/* ---- over the edges again ---- */

static void begin_again(struct ptm_way *way, struct ptm_node *nodes, const struct ptm_went *edge)
{
	(void)ptm_way_begin(way, nodes, PTM_KEY_STATE(edge->key), edge->key & PTM_SYM_MASK,
			    edge->guard);
}

static bool goes_over(enum ptm_way_went went)
{
	return went == PTM_WAY_ON || went == PTM_WAY_BEHIND;
}

static uint64_t tally_of(struct ptm_node *nodes, const struct ptm_went *edge)
{
	enum ptm_way_went went = PTM_WAY_ON;
	struct ptm_way way;
	uint64_t sum = 0;

	begin_again(&way, nodes, edge);
	while (went == PTM_WAY_ON && goes_over(went = ptm_way_go(&way))) {
		const struct ptm_node *node = &nodes[way.over];
		struct ptm_tally tally = {0};

		ptm_walk_tally(&tally, node);
		sum += tally.call * ONE(CALL) + tally.guessed * ONE(GUESSED) +
		       tally.cond * ONE(COND) + tally.ret * ONE(RET) +
		       tally.indirect * ONE(INDIRECT) + tally.far * ONE(FAR);
	}
	return sum;
}

static void unpack(struct ptm_tally *tally, uint64_t sum)
{
	tally->call += FIELD(sum, CALL, GUESSED);
	tally->guessed += FIELD(sum, GUESSED, COND);
	tally->cond += FIELD(sum, COND, RET);
	tally->ret += FIELD(sum, RET, INDIRECT);
	tally->indirect += FIELD(sum, INDIRECT, FAR);
	tally->far += FIELD(sum, FAR, END);
}

/* Nodes that were gone over, by id. */
struct visited {
	struct visits *v;
	size_t n;
};

static bool visit(struct visited *visited, uint32_t id, bool taken, uint64_t times)
{
	if (id >= visited->n) {
		size_t n = 2 * (size_t)id + 1024;
		struct visits *v = (struct visits *)realloc(visited->v, n * sizeof(*v));

		if (v == NULL)
			return false;
		memset(&v[visited->n], 0, (n - visited->n) * sizeof(*v));
		visited->v = v;
		visited->n = n;
	}
	visited->v[id].times[taken] += times;
	return true;
}

static int add(struct ptm_edge_counts *counts, enum ptm_count_kind kind,
	       const struct ptm_node *node, uint64_t ip, uint64_t to, uint64_t times)
{
	if (times == 0)
		return 0;
	return ptm_counts_add(counts->sum, counts->space, kind, (enum ptm_mode)node->mode, ip, to,
			      times, counts->err);
}

/* The nodes of an edge, and where those lead that end in what is no conditional branch. */
static int expand(struct ptm_edge_counts *counts, const struct ptm_edge_count *e,
		  struct visited *visited)
{
	struct ptm_node *nodes = ptm_gen_nodes(counts->gen);
	enum ptm_way_went went = PTM_WAY_ON;
	struct ptm_way way;

	begin_again(&way, nodes, &e->edge);
	while (went == PTM_WAY_ON && goes_over(went = ptm_way_go(&way))) {
		const struct ptm_node *node = &nodes[way.over];
		const bool cond = node->klass == PTM_INSN_COND;
		const uint32_t to = went == PTM_WAY_ON ? way.id : PTM_STATE_ID(e->edge.to);

		if (!visit(visited, way.over, cond && way.taken, e->times))
			return no_memory(counts->err);
		if (!cond && node->klass < PTM_NODE_MORE)
			PTM_TRY(add(counts, PTM_COUNT_TARGET, node, ptm_node_last(node),
				    nodes[to].ip, e->times));
	}
	return 0;
}

static int count_node(struct ptm_edge_counts *counts, const struct ptm_node *node,
		      const uint64_t times[2])
{
	PTM_TRY(add(counts, PTM_COUNT_RUN, node, node->ip, node->n, times[0] + times[1]));
	if (node->klass != PTM_INSN_COND)
		return 0;
	PTM_TRY(add(counts, PTM_COUNT_COND, node, ptm_node_last(node), 0, times[0]));
	return add(counts, PTM_COUNT_COND, node, ptm_node_last(node), 1, times[1]);
}

static int expand_all(struct ptm_edge_counts *counts)
{
	const struct ptm_node *nodes = ptm_gen_nodes(counts->gen);
	struct visited visited = {0};
	int status = 0;

	for (size_t i = 0; i < (size_t)1 << counts->bits && status >= 0; i++)
		if (counts->slot[i].edge.key != 0)
			status = expand(counts, &counts->slot[i], &visited);
	/* There are fewer nodes than places for them. */
	for (size_t i = 0; i < visited.n && status >= 0; i++)
		if ((visited.v[i].times[0] | visited.v[i].times[1]) != 0)
			status = count_node(counts, &nodes[i], visited.v[i].times);
	free(visited.v);
	return status;
}

int ptm_edge_counts_settle(struct ptm_edge_counts *counts, struct ptm_error *err)
{
	int status = 0;

	if (counts->gen == NULL)
		return 0;
	counts->err = err;
	if (counts->sum != NULL)
		status = expand_all(counts);
	memset(counts->slot, 0, sizeof(*counts->slot) << counts->bits);
	counts->used = 0;
	ptm_gen_release(counts->gen);
	counts->gen = NULL;
	return status;
}

/* ---- the table ---- */

static size_t place_of(const struct ptm_edge_counts *counts, const struct ptm_went *edge)
{
	const uint64_t mixed = edge->key ^ (uint64_t)edge->guard << 20 ^ ((uint64_t)edge->to << 9);

	return (size_t)(mixed * UINT64_C(0x9e3779b97f4a7c15) >> (64 - counts->bits));
}

static bool same(const struct ptm_went *x, const struct ptm_went *y)
{
	return x->key == y->key && x->guard == y->guard && x->to == y->to;
}

/* The entry of @edge, or the empty one where it belongs. */
static struct ptm_edge_count *find(const struct ptm_edge_counts *counts,
				   const struct ptm_went *edge)
{
	const size_t mask = ((size_t)1 << counts->bits) - 1;
	size_t i = place_of(counts, edge);

	while (counts->slot[i].edge.key != 0 && !same(&counts->slot[i].edge, edge))
		i = (i + 1) & mask;
	return &counts->slot[i];
}

static int grow(struct ptm_edge_counts *counts)
{
	struct ptm_edge_count *old = counts->slot;
	const size_t n = (size_t)1 << counts->bits;
	struct ptm_edge_count *slot = (struct ptm_edge_count *)calloc(2 * n, sizeof(*slot));

	if (slot == NULL)
		return no_memory(counts->err);
	counts->slot = slot;
	counts->bits++;
	for (size_t i = 0; i < n; i++)
		if (old[i].edge.key != 0)
			*find(counts, &old[i].edge) = old[i];
	free(old);
	return 0;
}

/* What is counted from here on is of @w's generation and space. */
static void begin(struct ptm_edge_counts *counts, struct ptm_walk *w)
{
	ptm_gen_hold(w->gen);
	counts->gen = w->gen;
	counts->space = w->space;
}

/* The entry of @edge, for which there was none. */
static int insert(struct ptm_edge_counts *counts, struct ptm_walk *w, const struct ptm_went *edge,
		  struct ptm_edge_count **entry)
{
	if (counts->used >> (counts->bits - 1) != 0) {
		if (counts->bits < BITS_MAX) {
			PTM_TRY(grow(counts));
		} else {
			PTM_TRY(ptm_edge_counts_settle(counts, w->err));
			begin(counts, w);
		}
	}
	*entry = find(counts, edge);
	(*entry)->edge = *edge;
	(*entry)->tally = tally_of(w->nodes, edge);
	counts->used++;
	return 0;
}

int ptm_edge_counts_add(struct ptm_edge_counts *counts, struct ptm_walk *w, size_t n)
{
	uint64_t sum = 0;

	counts->err = w->err;
	if (counts->gen != w->gen || counts->space != w->space) {
		PTM_TRY(ptm_edge_counts_settle(counts, w->err));
		begin(counts, w);
	}
	/* The tally does not depend on where they led. */
	for (size_t i = 0; i < n && counts->sum == NULL; i++)
		counts->log[i].to = 0;
	for (size_t i = 0; i < n; i++) {
		struct ptm_edge_count *e = find(counts, &counts->log[i]);

		if (i + AHEAD < n)
			__builtin_prefetch(&counts->slot[place_of(counts, &counts->log[i + AHEAD])],
					   1);
		if (e->edge.key == 0)
			PTM_TRY(insert(counts, w, &counts->log[i], &e));
		e->times++;
		sum += e->tally;
		if ((i + 1) % ADDENDS == 0) {
			unpack(&w->emit->tally, sum);
			sum = 0;
		}
	}
	unpack(&w->emit->tally, sum);
	return 0;
}
