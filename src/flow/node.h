/* SPDX-License-Identifier: Apache-2.0
 *
 * node.h - a run of code from which the flow is determined until the next decision.
 *
 * A node begins at any address and goes on along fall-through, direct JMPs and direct CALLs up to
 * and with the first instruction whose successor a packet tells.  It is built whole, then
 * published, and never changed, but for the ids of its neighbours: they are found when somebody
 * first goes there, and whoever finds them finds the same.
 */
#ifndef PTM_FLOW_NODE_H
#define PTM_FLOW_NODE_H

#include "base/digest.h"
#include "image/insn.h"
#include "image/space.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* How a node ends, beyond enum ptm_insn_class. */
enum {
	PTM_NODE_MORE = 16, /* too long for one node: goes on at `target` without a packet */
	PTM_NODE_NO_IMAGE,  /* nothing is mapped at `target` */
	PTM_NODE_BAD_INSN,  /* no instruction at `target` */
};

#define PTM_NODE_INSNS 255u /* at most, in one node */
#define PTM_NODE_PUSH  1u   /* direct calls at most, in one node */

struct ptm_node {
	uint64_t ip;     /* linear address of the first instruction */
	uint64_t b;      /* digest of the n instructions alone */
	uint64_t next;   /* behind the last instruction in memory: fall-through, return address */
	uint64_t target; /* COND: where it goes when taken; MORE and errors: see there */
	/* Ids of nodes, 0 while nobody has been there: targets of COND and MORE, and the return
	 * addresses of the direct calls inside, oldest first; for CALL_INDIRECT push[npush - 1] is
	 * its own. */
	_Atomic uint32_t taken, fall, push[PTM_NODE_PUSH + 1];
	uint8_t n;      /* instructions */
	uint8_t klass;  /* of the last one (enum ptm_insn_class), or PTM_NODE_* */
	uint8_t mode;   /* enum ptm_mode */
	uint8_t npush;  /* entries of push[] */
	uint8_t calls;  /* direct calls inside; those to the next instruction are not pushed */
	uint8_t len;    /* bytes of the last instruction */
	uint8_t binds;  /* set of 1 << enum ptm_insn_binds */
	bool guessed;   /* an instruction's length was found by structure only */
	uint16_t space; /* index of its address space in the generation */
};

/* A part of a node: its first instructions. */
struct ptm_prefix {
	struct ptm_digest digest;
	uint64_t next; /* address of the first instruction that does not belong to it */
	uint64_t last; /* address of the last one that does */
	uint64_t push[PTM_NODE_PUSH + 1];
	uint8_t npush;
	uint8_t calls;
};

/* Build the node at @ip; `space` and the ids are the caller's. */
void ptm_node_build(struct ptm_node *node, const struct ptm_space *space, uint64_t ip,
		    enum ptm_mode mode);

/* Where a prefix stops. */
struct ptm_stop {
	enum { PTM_STOP_AT, PTM_STOP_BEHIND, PTM_STOP_BINDS, PTM_STOP_COUNT } how;
	uint64_t ip;    /* AT, BEHIND: before, or behind the instruction there */
	unsigned binds; /* BINDS: behind the first instruction of these binds: 1 << enum
			   ptm_insn_binds; BEHIND: only if it has one of these, unless 0 */
	uint32_t n;     /* COUNT: after so many instructions, at most the node's */
};

/* The prefix of @node up to the first place where @stop says so; false if there is none. */
bool ptm_node_prefix(const struct ptm_node *node, const struct ptm_space *space,
		     const struct ptm_stop *stop, struct ptm_prefix *prefix);

/* Address of the last instruction of a node that ends in one that needs a packet. */
static inline uint64_t ptm_node_last(const struct ptm_node *node)
{
	return node->next - node->len;
}

#endif
