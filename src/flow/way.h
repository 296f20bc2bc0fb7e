/* SPDX-License-Identifier: Apache-2.0
 *
 * way.h - the way of an edge over the nodes, one at a time: to make the edge, and to say later what
 * it went over.
 */
#ifndef PTM_FLOW_WAY_H
#define PTM_FLOW_WAY_H

#include "flow/walk.h"

struct ptm_way {
	struct ptm_walk *w; /* looks up nodes where nobody has been; NULL: somebody has */
	struct ptm_node *nodes;
	uint32_t id; /* of the node where it stands */
	uint32_t bits;
	unsigned nbits; /* that are left */
	bool tip;       /* so is the TIP behind them */
	uint32_t n;     /* instructions */
	uint32_t push[PTM_EDGE_PUSH + PTM_NODE_PUSH + 1];
	unsigned npush, deepest;
	uint32_t top;   /* what is on the stack, if a guard may be made of it; 0: no */
	uint32_t guard; /* what was */
	bool pop, drop;
	uint32_t over; /* id of the node that it went over last ... */
	bool taken;    /* ... and along which of its ends */
};

enum ptm_way_went {
	PTM_WAY_ON,       /* over a node, and it goes on */
	PTM_WAY_BEHIND,   /* over a node, at whose end it ends */
	PTM_WAY_BEFORE,   /* over none: it ends before the one where it stands */
	PTM_WAY_IRREGULAR /* over none: there is no edge */
};

/* The way of the edge with the key of @state and @sym that goes through a return to @top (0:
 * through none), in @nodes.  False: there is none, the symbol is no TNT packets. */
bool ptm_way_begin(struct ptm_way *way, struct ptm_node *nodes, uint32_t state, uint64_t sym,
		   uint32_t top);
/* Over the next node.  If way->w is given it may turn to a new generation, which is irregular. */
enum ptm_way_went ptm_way_go(struct ptm_way *way);

#endif
