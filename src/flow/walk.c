/* SPDX-License-Identifier: Apache-2.0
 *
 * walk.c - walking over nodes.
 *
 * Every look-up of a node may find the generation full and turn to a new one, and so may every
 * emission, for meanwhile the thread is no reader.  Then all ids that the walk holds (`at`,
 * `probe`, the stack) are looked up anew, so nothing else may hold a node or an id across either.
 */
#include "flow/walk.h"

#include "os/rcu.h"

#include <string.h>

static struct ptm_node *node_at(const struct ptm_walk *w, uint32_t id)
{
	return &w->nodes[id];
}

static uint32_t load(_Atomic uint32_t *id)
{
	return atomic_load_explicit(id, memory_order_acquire);
}

static void store(_Atomic uint32_t *slot, uint32_t id)
{
	atomic_store_explicit(slot, id, memory_order_release);
}

#define TAG_NONE UINT32_MAX

void ptm_walk_tune(struct ptm_walk *w)
{
	const uint32_t tag = (uint32_t)w->index << 2 | (uint32_t)w->mode;

	if (tag == w->front_tag)
		return;
	w->front_tag = tag;
	/* 0 belongs into the first, and 1 does not. */
	memset(w->front, 0, sizeof(w->front));
	ptm_walk_front(w, 0)->ip = 1;
}

static int enter_generation(struct ptm_walk *w, struct ptm_gen *gen)
{
	w->gen = gen;
	w->nodes = ptm_gen_nodes(gen);
	w->turns++;
	if (w->serial != ptm_gen_serial(gen))
		w->front_tag = TAG_NONE;
	w->serial = ptm_gen_serial(gen);
	w->index = -1;
	if (w->space == NULL)
		return 0;
	w->index = ptm_gen_space(gen, w->space);
	return w->index >= 0 ? 0 : -PTM_E_NOMEM;
}

static uint32_t *held_id(struct ptm_walk *w, unsigned i)
{
	return i < PTM_STACK ? &w->stack[i] : i == PTM_STACK ? &w->at : &w->probe;
}

static void hold(struct ptm_walk *w)
{
	for (unsigned i = 0; i < PTM_STACK + 2; i++) {
		const uint32_t id = *held_id(w, i);

		if (id == 0)
			continue;
		w->held.ip[i] = node_at(w, id)->ip;
		w->held.mode[i] = node_at(w, id)->mode;
	}
}

/* Look up what is held in the current generation.  False if that is full, too. */
static bool find_held(struct ptm_walk *w)
{
	for (unsigned i = 0; i < PTM_STACK + 2; i++) {
		uint32_t *id = held_id(w, i);

		if (*id == 0)
			continue;
		*id = ptm_gen_node(w->gen, w->index, w->space, w->held.ip[i],
				   (enum ptm_mode)w->held.mode[i]);
		if (*id == 0) {
			*id = UINT32_MAX; /* held, if not known */
			return false;
		}
	}
	return true;
}

static int fail(struct ptm_walk *w, const char *why)
{
	w->failed = true;
	ptm_walk_stop(w);
	ptm_walk_empty_stack(w);
	return PTM_FAIL(w->err, PTM_E_NOMEM, "%s", why);
}

/* Go on with what is held in the current generation, or in the next if it is full: others fill
 * that, too, hence again and again. */
static int go_on(struct ptm_walk *w)
{
	for (;;) {
		if (enter_generation(w, ptm_cache_gen(w->cache)) < 0)
			return fail(w, "Too many address spaces for the code cache");
		if (find_held(w))
			return 0;
		if (ptm_cache_turn(w->cache, w->gen, w->err) < 0)
			return fail(w, "Out of memory for the code cache");
	}
}

/* The generation is full: go on in the next one.  The old one may be freed from here on, however
 * long the segment is. */
static int turn(struct ptm_walk *w)
{
	hold(w);
	if (ptm_cache_turn(w->cache, w->gen, w->err) < 0)
		return fail(w, "Out of memory for the code cache");
	ptm_rcu_quiescent();
	return go_on(w);
}

int ptm_walk_park(void *walk, bool away)
{
	struct ptm_walk *w = (struct ptm_walk *)walk;

	if (away) {
		hold(w);
		ptm_rcu_offline();
		return 0;
	}
	ptm_rcu_online();
	if (w->failed)
		return -PTM_E_NOMEM;
	/* It is alive, then, and all ids are what they were. */
	return ptm_gen_serial(ptm_cache_gen(w->cache)) == w->serial ? 0 : go_on(w);
}

/* The node at @ip. */
static int find(struct ptm_walk *w, uint64_t ip, enum ptm_mode mode, uint32_t *id)
{
	struct ptm_front *front = ptm_walk_front(w, ip);

	ptm_walk_tune(w);
	if (front->ip == ip && mode == w->mode) {
		*id = PTM_STATE_ID(front->state);
		return 0;
	}
	while ((*id = ptm_gen_node(w->gen, w->index, w->space, ip, mode)) == 0)
		PTM_TRY(turn(w));
	ptm_walk_tune(w);
	if (mode == w->mode)
		*front = (struct ptm_front){ip, PTM_STATE(*id)};
	return 0;
}

void ptm_walk_init(struct ptm_walk *w, struct ptm_cache *cache)
{
	memset(w, 0, sizeof(*w));
	w->cache = cache;
	w->front_tag = TAG_NONE;
	w->power[0] = 1;
	for (unsigned i = 1; i <= PTM_EDGE_INSNS; i++)
		w->power[i] = w->power[i - 1] * PTM_DIGEST_K;
}

void ptm_walk_reset(struct ptm_walk *w, struct ptm_emit *emit, struct ptm_error *err)
{
	struct ptm_gen *gen;

	ptm_rcu_quiescent(); /* nothing is held from one frame to the next */
	gen = ptm_cache_gen(w->cache);
	w->failed = false;
	w->emit = emit;
	w->err = err;
	w->mode = PTM_MODE_64;
	ptm_walk_stop(w);
	ptm_walk_empty_stack(w);
	w->space = NULL;
	if (w->gen == NULL || w->serial != ptm_gen_serial(gen))
		(void)enter_generation(w, gen); /* without a space it can not fail */
	w->gen = gen;
}

int ptm_walk_space(struct ptm_walk *w, const struct ptm_space *space)
{
	if (space == w->space)
		return 0;
	ptm_walk_stop(w);
	ptm_walk_empty_stack(w);
	w->space = space;
	PTM_TRY(ptm_emit_space(w->emit, space, w->err));
	w->index = ptm_gen_space(w->gen, space);
	return w->index < 0 ? turn(w) : 0;
}

int ptm_walk_goto(struct ptm_walk *w, uint64_t ip)
{
	uint32_t id;

	PTM_TRY(find(w, ip, w->mode, &id));
	w->mixed |= w->depth > 0 && w->mode != w->stack_mode;
	w->stack_mode = w->mode;
	w->at = id;
	w->on = true;
	w->free_run = 0;
	return 0;
}

void ptm_walk_stop(struct ptm_walk *w)
{
	w->on = false;
	w->at = 0;
	w->probe = 0;
	w->nbits = 0;
	w->free_run = 0;
}

void ptm_walk_empty_stack(struct ptm_walk *w)
{
	memset(w->stack, 0, sizeof(w->stack));
	w->depth = 0;
	w->mixed = false;
}

static void push(struct ptm_walk *w, uint32_t id)
{
	w->top = (w->top + 1) % PTM_STACK;
	w->stack[w->top] = id;
	w->depth += w->depth < PTM_STACK;
}

/* Returns 0 if there is nothing. */
static uint32_t pop(struct ptm_walk *w)
{
	uint32_t id;

	if (w->depth == 0)
		return 0;
	id = w->stack[w->top];
	w->stack[w->top] = 0;
	w->top = (w->top - 1) % PTM_STACK;
	w->depth--;
	return id;
}

int ptm_walk_pushes(struct ptm_walk *w, uint32_t id)
{
	const uint64_t turns = w->turns;
	struct ptm_node *node = node_at(w, id);
	const struct ptm_stop stop = {.how = PTM_STOP_COUNT, .n = node->n};
	struct ptm_prefix all;

	if (node->npush == 0 || load(&node->push[node->npush - 1]) != 0)
		return 0;
	(void)ptm_node_prefix(node, w->space, &stop, &all);
	for (unsigned i = 0; i < all.npush; i++) {
		uint32_t to;

		PTM_TRY(find(w, all.push[i], (enum ptm_mode)node->mode, &to));
		if (turns != w->turns)
			return 0;
		store(&node->push[i], to);
	}
	return 0;
}

void ptm_walk_tally(struct ptm_tally *tally, const struct ptm_node *node)
{
	tally->guessed += node->guessed;
	tally->call += node->calls;
	tally->cond += node->klass == PTM_INSN_COND;
	tally->ret += node->klass == PTM_INSN_RET;
	tally->call += node->klass == PTM_INSN_CALL_INDIRECT;
	tally->indirect +=
		node->klass == PTM_INSN_JUMP_INDIRECT || node->klass == PTM_INSN_CALL_INDIRECT;
	tally->far += node->klass >= PTM_INSN_FAR_CALL && node->klass <= PTM_INSN_FAR_JUMP;
}

/* For whoever counts what is executed how often. */
static int tell(struct ptm_walk *w, enum ptm_count_kind kind, uint64_t ip, uint64_t to)
{
	if (w->counts == NULL)
		return 0;
	return ptm_counts_add(w->counts, w->space, kind, w->mode, ip, to, 1, w->err);
}

/* Count the whole node `at`, and do its pushes.  `at` stays for the caller to move. */
static int leave(struct ptm_walk *w)
{
	struct ptm_node *node = node_at(w, w->at);
	struct ptm_digest digest = {node->n, w->power[node->n], node->b};

	ptm_walk_tally(&w->emit->tally, node);
	if (node->n > 0)
		PTM_TRY(tell(w, PTM_COUNT_RUN, node->ip, node->n));
	PTM_TRY(ptm_emit_run(w->emit, node->ip, node->n, (enum ptm_mode)node->mode, &digest,
			     node->klass < PTM_NODE_MORE, w->err));
	for (uint64_t turns = w->turns - 1; turns != w->turns;) {
		turns = w->turns;
		PTM_TRY(ptm_walk_pushes(w, w->at));
	}
	node = node_at(w, w->at);
	for (unsigned i = 0; i < node->npush; i++)
		push(w, load(&node->push[i]));
	return 0;
}

/* Count a prefix of the node `at`, and stand behind it. */
static int leave_prefix(struct ptm_walk *w, const struct ptm_prefix *prefix)
{
	uint32_t id;

	if (prefix->digest.n > 0)
		PTM_TRY(tell(w, PTM_COUNT_RUN, node_at(w, w->at)->ip, prefix->digest.n));
	PTM_TRY(ptm_emit_run(w->emit, node_at(w, w->at)->ip, (uint32_t)prefix->digest.n, w->mode,
			     &prefix->digest, false, w->err));
	w->emit->tally.call += prefix->calls;
	for (unsigned i = 0; i < prefix->npush; i++) {
		PTM_TRY(find(w, prefix->push[i], w->mode, &id));
		push(w, id);
	}
	PTM_TRY(find(w, prefix->next, w->mode, &id));
	w->at = id;
	return 0;
}

int ptm_walk_next(struct ptm_walk *w, uint32_t id, bool taken, uint32_t *next)
{
	const uint64_t turns = w->turns;
	struct ptm_node *node = node_at(w, id);
	_Atomic uint32_t *slot = taken ? &node->taken : &node->fall;

	*next = load(slot);
	if (*next != 0)
		return 0;
	PTM_TRY(find(w, taken ? node->target : node->next, (enum ptm_mode)node->mode, next));
	if (turns == w->turns)
		store(slot, *next);
	return 0;
}

int ptm_walk_find(struct ptm_walk *w, uint64_t ip, uint32_t *id)
{
	return find(w, ip, w->mode, id);
}

static int follow(struct ptm_walk *w, bool taken)
{
	uint32_t id;

	PTM_TRY(ptm_walk_next(w, w->at, taken, &id));
	w->at = id;
	return 0;
}

/* Too many instructions without a packet: count up to the limit. */
static int run_away(struct ptm_walk *w)
{
	struct ptm_stop stop = {.how = PTM_STOP_COUNT, .n = PTM_RUNAWAY + 1 - w->free_run};
	struct ptm_prefix prefix;

	(void)ptm_node_prefix(node_at(w, w->at), w->space, &stop, &prefix);
	PTM_TRY(leave_prefix(w, &prefix));
	w->gap = PTM_GAP_RUNAWAY;
	w->has_gap_ip = true;
	w->gap_ip = prefix.last;
	return PTM_LOST;
}

/* Over nodes that need no packet, to one that does.  PTM_LOST if the code ends before. */
static int to_branch(struct ptm_walk *w)
{
	const struct ptm_node *node = node_at(w, w->at);

	while (node->klass >= PTM_NODE_MORE) {
		if (w->free_run + node->n > PTM_RUNAWAY)
			return run_away(w);
		w->free_run += node->n;
		if (node->klass != PTM_NODE_MORE) {
			w->gap = node->klass == PTM_NODE_NO_IMAGE ? PTM_GAP_NO_IMAGE
								  : PTM_GAP_BAD_INSN;
			w->has_gap_ip = true;
			w->gap_ip = node->target;
			PTM_TRY(leave(w));
			return PTM_LOST;
		}
		PTM_TRY(leave(w));
		PTM_TRY(follow(w, true));
		node = node_at(w, w->at);
	}
	return w->free_run + node->n > PTM_RUNAWAY + 1 ? run_away(w) : 0;
}

int ptm_walk_lose(struct ptm_walk *w, enum ptm_gap gap)
{
	struct ptm_stop stop = {.how = PTM_STOP_COUNT};
	struct ptm_prefix prefix;
	const struct ptm_node *node;
	int status = to_branch(w);

	if (status != 0)
		return status;
	node = node_at(w, w->at);
	stop.n = node->n - 1u;
	w->gap = gap;
	w->has_gap_ip = true;
	w->gap_ip = ptm_node_last(node);
	(void)ptm_node_prefix(node, w->space, &stop, &prefix);
	PTM_TRY(leave_prefix(w, &prefix));
	return PTM_LOST;
}

/* A return to a node that was pushed; in 16 and 32-bit code the popped address is truncated (SDM
 * vol. 2, RET). */
static int go_back(struct ptm_walk *w, uint32_t id)
{
	const struct ptm_node *node = node_at(w, id);

	if (node->mode != w->mode) {
		uint64_t ip = w->mode == PTM_MODE_64   ? node->ip
			      : w->mode == PTM_MODE_32 ? node->ip & UINT32_MAX
						       : node->ip & UINT16_MAX;

		PTM_TRY(find(w, ip, w->mode, &id));
	}
	w->at = id;
	return 0;
}

/* A compressed return. */
static int go_return(struct ptm_walk *w, bool bit)
{
	const uint64_t ip = ptm_node_last(node_at(w, w->at));

	if (!bit || w->depth + node_at(w, w->at)->npush == 0)
		return ptm_walk_lose(w, PTM_GAP_RETCOMP);
	PTM_TRY(leave(w));
	PTM_TRY(go_back(w, pop(w)));
	return tell(w, PTM_COUNT_TARGET, ip, node_at(w, w->at)->ip);
}

int ptm_walk_bits(struct ptm_walk *w)
{
	while (w->nbits > 0) {
		int status = to_branch(w);
		bool bit = w->bits >> (w->nbits - 1) & 1;
		unsigned klass;

		if (status != 0)
			return status;
		klass = node_at(w, w->at)->klass;
		if (klass == PTM_INSN_COND) {
			PTM_TRY(tell(w, PTM_COUNT_COND, ptm_node_last(node_at(w, w->at)), bit));
			PTM_TRY(leave(w));
			PTM_TRY(follow(w, bit));
		} else if (klass == PTM_INSN_RET) {
			status = go_return(w, bit);
			if (status != 0)
				return status;
		} else {
			return 0;
		}
		w->nbits--;
		w->free_run = 0;
	}
	return 0;
}

int ptm_walk_end(struct ptm_walk *w, unsigned *klass, uint64_t *next)
{
	const struct ptm_node *node;
	int status = to_branch(w);

	if (status != 0)
		return status;
	node = node_at(w, w->at);
	*klass = node->klass;
	*next = node->next;
	PTM_TRY(leave(w));
	/* Each near RET pops, compressed or not. */
	if (*klass == PTM_INSN_RET)
		(void)pop(w);
	return 0;
}

int ptm_walk_tip(struct ptm_walk *w, uint64_t ip)
{
	unsigned klass;
	uint64_t next;
	int status = to_branch(w);

	if (status != 0)
		return status;
	if (node_at(w, w->at)->klass == PTM_INSN_COND)
		return ptm_walk_lose(w, PTM_GAP_MISMATCH);
	PTM_TRY(tell(w, PTM_COUNT_TARGET, ptm_node_last(node_at(w, w->at)), ip));
	PTM_TRY(ptm_walk_end(w, &klass, &next));
	return ptm_walk_goto(w, ip);
}

/* Look for the stop from `at` on without counting: how many nodes lie before the one that has it.
 */
static int look_ahead(struct ptm_walk *w, const struct ptm_stop *stop, unsigned *before,
		      bool *found)
{
	struct ptm_prefix prefix;
	uint32_t n = 0, mark = 0, left = 1, power = 1;
	uint64_t turns = w->turns;

	*before = 0;
	*found = false;
	w->probe = w->at;
	for (;;) {
		const struct ptm_node *node = node_at(w, w->probe);
		uint32_t id;

		if (ptm_node_prefix(node, w->space, stop, &prefix)) {
			*found = n + prefix.digest.n <= PTM_RUNAWAY;
			return 0;
		}
		n += node->n;
		if (node->klass != PTM_NODE_MORE || n > PTM_RUNAWAY)
			return 0;
		PTM_TRY(ptm_walk_next(w, w->probe, true, &id));
		w->probe = id;
		*before += 1;
		/* Round in circles (Brent): what was not there once will not be. */
		if (id == mark && turns == w->turns)
			return 0;
		if (--left > 0)
			continue;
		mark = id;
		turns = w->turns;
		power *= 2;
		left = power;
	}
}

int ptm_walk_until(struct ptm_walk *w, const struct ptm_stop *stop, bool *found)
{
	struct ptm_prefix prefix;
	unsigned before;

	PTM_TRY(look_ahead(w, stop, &before, found));
	if (!*found)
		return 0;
	w->probe = 0;
	for (; before > 0; before--) {
		PTM_TRY(leave(w));
		PTM_TRY(follow(w, true));
	}
	(void)ptm_node_prefix(node_at(w, w->at), w->space, stop, &prefix);
	w->passed = prefix.last;
	if (prefix.digest.n > 0)
		PTM_TRY(leave_prefix(w, &prefix));
	w->free_run = 0;
	return 0;
}

uint64_t ptm_walk_missed(const struct ptm_walk *w)
{
	const struct ptm_node *node = node_at(w, w->probe);

	return node->klass < PTM_NODE_MORE ? ptm_node_last(node) : node->target;
}
