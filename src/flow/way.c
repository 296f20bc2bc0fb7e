/* SPDX-License-Identifier: Apache-2.0
 *
 * way.c - the way of an edge.  It depends on the nodes, the symbol and the guard only, so whoever
 * goes it again goes over the same.
 */
#include "flow/way.h"

bool ptm_way_begin(struct ptm_way *way, struct ptm_node *nodes, uint32_t state, uint64_t sym,
		   uint32_t top)
{
	*way = (struct ptm_way){.nodes = nodes,
				.id = PTM_STATE_ID(state),
				.tip = (sym & PTM_SYM_TIP) != 0,
				.top = top};
	return ptm_sym_bits(sym, &way->bits, &way->nbits);
}

/* What the last instruction of @node does here, its bit or TIP being taken. */
static enum ptm_way_went decide(struct ptm_way *way, const struct ptm_node *node)
{
	const bool bit = way->nbits > 0 && (way->bits >> (way->nbits - 1) & 1);

	way->taken = bit || node->klass == PTM_NODE_MORE;
	if (way->nbits == 0 && !way->tip)
		return PTM_WAY_BEFORE;
	if (node->klass == PTM_NODE_MORE)
		return PTM_WAY_ON;
	if (node->klass == PTM_INSN_COND) {
		if (way->nbits == 0)
			return PTM_WAY_IRREGULAR;
		way->nbits--;
		return PTM_WAY_ON;
	}
	if (node->klass > PTM_NODE_MORE || (way->nbits > 0 && !bit))
		return PTM_WAY_IRREGULAR;
	if (way->nbits > 0) {
		if (node->klass != PTM_INSN_RET)
			return PTM_WAY_IRREGULAR;
		way->nbits--;
		way->pop = true;
	} else {
		way->tip = false;
		if (node->klass == PTM_INSN_RET)
			way->drop = true;
	}
	return PTM_WAY_BEHIND;
}

/* A return within the edge, to @id. */
static enum ptm_way_went come_back(struct ptm_way *way, uint32_t id)
{
	const bool by_bit = way->pop;

	way->pop = way->drop = false;
	way->id = id;
	return by_bit ? PTM_WAY_ON : PTM_WAY_BEHIND;
}

static uint32_t load(const _Atomic uint32_t *id)
{
	return atomic_load_explicit(id, memory_order_acquire);
}

/* Have the return addresses that the node here pushes in its push[].  False: they are not. */
static bool find_pushes(struct ptm_way *way)
{
	const uint64_t turns = way->w != NULL ? way->w->turns : 0;

	return way->w == NULL || (ptm_walk_pushes(way->w, way->id) == 0 && turns == way->w->turns);
}

/* Along the end of @node, the node here, that is taken. */
static bool follow(struct ptm_way *way, const struct ptm_node *node)
{
	const uint64_t turns = way->w != NULL ? way->w->turns : 0;

	if (way->w != NULL)
		return ptm_walk_next(way->w, way->id, way->taken, &way->id) == 0 &&
		       turns == way->w->turns;
	way->id = load(way->taken ? &node->taken : &node->fall);
	return way->id != 0;
}

enum ptm_way_went ptm_way_go(struct ptm_way *way)
{
	const struct ptm_node *node = &way->nodes[way->id];
	const struct ptm_way before = *way;
	enum ptm_way_went went = decide(way, node);

	if (went == PTM_WAY_BEFORE || went == PTM_WAY_IRREGULAR)
		return went;
	if (!find_pushes(way))
		return PTM_WAY_IRREGULAR;
	way->over = way->id;
	way->n += node->n;
	for (unsigned i = 0; i < node->npush; i++)
		way->push[way->npush++] = load(&node->push[i]);
	if (way->npush > way->deepest + (way->guard != 0))
		way->deepest = way->npush - (way->guard != 0);
	if (went == PTM_WAY_ON && !follow(way, node))
		return PTM_WAY_IRREGULAR;
	if ((way->pop || way->drop) && way->npush > 0) {
		went = come_back(way, way->push[--way->npush]);
	} else if (way->pop && way->top != 0 && way->guard == 0) {
		way->guard = way->top;
		went = come_back(way, PTM_STATE_ID(way->top));
	}
	if (went == PTM_WAY_ON && way->nodes[way->id].mode != node->mode)
		return PTM_WAY_IRREGULAR;
	if (way->n > PTM_EDGE_INSNS || way->npush > PTM_EDGE_PUSH || way->deepest > PTM_EDGE_DEEP) {
		*way = before;
		return way->n == 0 ? PTM_WAY_IRREGULAR : PTM_WAY_BEFORE;
	}
	return went;
}
