/* SPDX-License-Identifier: Apache-2.0
 *
 * node.c - nodes from code: decoded once when a node is built, again when a part of it is wanted.
 */
#include "flow/node.h"

#include "base/error.h"

#include "image/code_map.h"

/* Walks the instructions of a run. */
struct cursor {
	struct ptm_code_cursor code;
	uint64_t ip; /* of the next instruction */
	struct ptm_insn insn;
	struct ptm_prefix done;
};

static void cursor_init(struct cursor *c, const struct ptm_space *space, uint64_t ip,
			enum ptm_mode mode)
{
	ptm_code_cursor_init(&c->code, space, mode);
	c->ip = ip;
	c->done.digest = PTM_DIGEST_EMPTY;
	c->done.next = ip;
	c->done.last = 0;
	c->done.npush = 0;
	c->done.calls = 0;
}

/* A call pushes where it returns to; a direct one to the next instruction does not (SDM vol. 3, ch.
 * Intel PT, "RET Compression"). */
static bool pushes(const struct cursor *c)
{
	return c->insn.klass == PTM_INSN_CALL_INDIRECT ||
	       (c->insn.klass == PTM_INSN_CALL && c->insn.target != c->ip + c->insn.len);
}

/* Take the instruction that was looked at. */
static void take(struct cursor *c)
{
	const uint64_t next = c->ip + c->insn.len;

	ptm_digest_add(&c->done.digest, c->ip);
	c->done.last = c->ip;
	c->done.calls = (uint8_t)(c->done.calls + (c->insn.klass == PTM_INSN_CALL));
	if (pushes(c))
		c->done.push[c->done.npush++] = next;
	c->ip = c->insn.klass == PTM_INSN_JUMP || c->insn.klass == PTM_INSN_CALL ? c->insn.target
										 : next;
	c->done.next = c->ip;
}

/* Take what falls through: most of the code, hence without a look at classes. */
static void take_plain(struct cursor *c)
{
	struct ptm_digest digest = c->done.digest;
	uint64_t ip = c->ip, last = c->done.last;
	unsigned len;

	while (digest.n < PTM_NODE_INSNS && (len = ptm_code_plain(&c->code, ip)) > 0) {
		ptm_digest_add(&digest, ip);
		last = ip;
		ip += len;
	}
	c->done.digest = digest;
	c->done.last = last;
	c->done.next = c->ip = ip;
}

void ptm_node_build(struct ptm_node *node, const struct ptm_space *space, uint64_t ip,
		    enum ptm_mode mode)
{
	struct cursor c;

	cursor_init(&c, space, ip, mode);
	node->ip = ip;
	node->mode = (uint8_t)mode;
	node->klass = PTM_NODE_MORE;
	node->binds = 1u << PTM_BINDS_NONE; /* always */
	node->guessed = false;
	node->len = 0;
	for (;;) {
		int len;

		take_plain(&c);
		if (c.done.digest.n == PTM_NODE_INSNS)
			break;
		len = ptm_code_read(&c.code, c.ip, &c.insn);
		if (len <= 0) {
			node->klass = len == 0 ? PTM_NODE_BAD_INSN : PTM_NODE_NO_IMAGE;
			break;
		}
		if (c.insn.klass == PTM_INSN_CALL && c.done.npush == PTM_NODE_PUSH)
			break;
		take(&c);
		node->binds |= (uint8_t)(1u << c.insn.binds);
		node->guessed |= c.insn.guessed;
		if (ptm_insn_needs_packet(c.insn.klass)) {
			node->klass = c.insn.klass;
			node->len = c.insn.len;
			break;
		}
	}
	node->next = c.ip;
	node->target = node->klass == PTM_INSN_COND ? c.insn.target : c.ip;
	node->n = (uint8_t)c.done.digest.n;
	node->b = c.done.digest.b;
	node->npush = c.done.npush;
	node->calls = c.done.calls;
}

static bool stops(const struct cursor *c, const struct ptm_stop *stop)
{
	switch (stop->how) {
	case PTM_STOP_AT:
		return c->ip == stop->ip;
	case PTM_STOP_BEHIND:
		return c->done.digest.n > 0 && c->done.last == stop->ip &&
		       (stop->binds == 0 || (1u << c->insn.binds & stop->binds) != 0);
	case PTM_STOP_BINDS:
		return c->done.digest.n > 0 && (1u << c->insn.binds & stop->binds) != 0;
	case PTM_STOP_COUNT:
		return c->done.digest.n == stop->n;
	}
	return false;
}

bool ptm_node_prefix(const struct ptm_node *node, const struct ptm_space *space,
		     const struct ptm_stop *stop, struct ptm_prefix *prefix)
{
	struct cursor c;
	bool found = false;

	cursor_init(&c, space, node->ip, (enum ptm_mode)node->mode);
	for (unsigned i = 0; i <= node->n; i++) {
		/* Before the last instruction, not behind it, where the flow is not known. */
		if (i < node->n || stop->how != PTM_STOP_AT || node->klass >= PTM_NODE_MORE)
			found = stops(&c, stop);
		if (found || i == node->n || ptm_code_read(&c.code, c.ip, &c.insn) <= 0)
			break;
		take(&c);
	}
	*prefix = c.done;
	return found;
}
