/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_turbo_test.c - the fast path: the table of edges, edges that end early, and what a stretch
 * of packets does to instructions, place and return stack.
 *
 * Expected values are worked out by hand.  And every case of a pitfall is decoded by the fast path
 * as far as it goes: sums and events must be those of the exact path.
 */
#include "flow_pitfalls_code.h"
#include "flow_pitfalls_context.h"
#include "flow_pitfalls_return.h"
#include "flow_pitfalls_sync.h"
#include "flow_stretch.h"

#include "flow/cache.h"
#include "flow/loops.h"
#include "os/rcu.h"

#include <pthread.h>

#define ANY_SYM PTM_SYM(1, 2, true)

/* ---- the table ---- */

/* An edge whose fields follow from its key, each with all its bits at some key. */
static struct ptm_edge edge_of(uint32_t state, uint64_t sym)
{
	const uint32_t x = (state >> 8 ^ (uint32_t)(sym ^ sym >> 31)) * 0x01000193u;
	const bool pop = (x >> 13 & 1) != 0;

	return (struct ptm_edge){.state = state,
				 .sym = sym,
				 .next = pop ? 0 : PTM_STATE(x >> 8),
				 .push = {PTM_STATE(x >> 3), PTM_STATE(~x >> 8)},
				 .rest = (sym & PTM_SYM_TIP) == 0 ? x % (PTM_SYM_MAX / 8 * 6 + 2)
								  : 0,
				 .n = x >> 5 & PTM_EDGE_INSNS,
				 .npush = x % (PTM_EDGE_PUSH + 1),
				 .deepest = x >> 9 & PTM_EDGE_DEEP,
				 .pop = pop,
				 .drop = (x >> 14 & 1) != 0,
				 .b = x * UINT64_C(0x9e3779b97f4a7c15)};
}

static struct ptm_slot slot_of(const struct ptm_edge *e)
{
	struct ptm_slot slot;

	ptm_edge_pack(&slot, e);
	return slot;
}

static bool is_edge(const struct ptm_slot *slot, uint32_t state, uint64_t sym)
{
	const struct ptm_edge right = edge_of(state, sym);
	struct ptm_edge e;

	ptm_edge_unpack(&e, slot);
	return e.state == right.state && e.sym == right.sym && e.guard == right.guard &&
	       e.b == right.b && e.next == right.next && e.push[0] == right.push[0] &&
	       e.push[1] == right.push[1] && e.rest == right.rest && e.n == right.n &&
	       e.npush == right.npush && e.deepest == right.deepest && e.pop == right.pop &&
	       e.drop == right.drop;
}

static const struct ptm_slot *find(const struct ptm_edges *edges, uint32_t state, uint64_t sym)
{
	unsigned others;

	return ptm_edges_find(edges, PTM_EDGE_KEY(state, sym), 0, &others);
}

/* Of 16 slots, those of the group that slot 13 is of: 13, 12, 15, 14, 9, ...: all. */
static void test_table(void **state)
{
	struct ptm_edges *edges = ptm_edges_create(4);
	uint32_t same[PTM_EDGE_GROUP + 1], n = 0;
	const uint64_t sym = PTM_SYM(5, 3, true);

	(void)state;
	assert_non_null(edges);
	assert_int_equal(ptm_edges_cap(edges), 16);
	assert_int_equal((uintptr_t)edges->slot % 64, 0);
	for (uint32_t s = 1; n < PTM_EDGE_GROUP + 1; s++)
		if (ptm_slot_index(edges->shift, PTM_STATE(s), PTM_SYM_WHAT(sym)) == 13)
			same[n++] = PTM_STATE(s);
	for (unsigned i = 0; i <= PTM_EDGE_GROUP; i++) {
		const struct ptm_edge e = edge_of(same[i], sym);
		const struct ptm_slot slot = slot_of(&e);

		assert_null(find(edges, same[i], sym));
		/* The last one finds no place, and nothing happens. */
		assert_int_equal(ptm_edges_add(edges, &slot),
				 i < PTM_EDGE_GROUP ? PTM_EDGE_NEW : PTM_EDGE_NO_ROOM);
		assert_int_equal(ptm_edges_add(edges, &slot),
				 i < PTM_EDGE_GROUP ? PTM_EDGE_THERE : PTM_EDGE_NO_ROOM);
	}
	assert_null(find(edges, same[PTM_EDGE_GROUP], sym));
	assert_null(find(edges, same[0], sym ^ PTM_SYM_TIP));
	for (unsigned i = 0; i < PTM_EDGE_GROUP; i++)
		assert_true(is_edge(find(edges, same[i], sym), same[i], sym));
	assert_ptr_equal(find(edges, same[0], sym), &edges->slot[13]);
	/* The loops look at some places themselves. */
	for (unsigned i = 0; i < PTM_EDGE_NEAR; i++)
		assert_ptr_equal(find(edges, same[i], sym), ptm_slot_next(&edges->slot[13], i));
	assert_int_equal(atomic_load(&edges->used), PTM_EDGE_GROUP);
	ptm_edges_destroy(edges);
}

/* A slot keeps all of an edge. */
static void test_pack(void **state)
{
	const uint64_t widest = PTM_SYM_OF(UINT32_MAX, PTM_SYM_MAX, true);

	(void)state;
	for (uint32_t i = 1; i < 5000; i++) {
		const uint32_t from = PTM_STATE(i * 4099);
		const uint64_t sym = PTM_SYM(i & 0xfff, 12, i & 1);
		const struct ptm_edge e = edge_of(from, sym), f = edge_of(from, widest);
		const struct ptm_slot s = slot_of(&e), t = slot_of(&f);

		assert_true(is_edge(&s, from, sym));
		assert_true(is_edge(&t, from, widest));
		assert_true(ptm_slot_has(&s, PTM_EDGE_KEY(from, sym)));
		assert_false(ptm_slot_has(&s, PTM_EDGE_KEY(from, sym ^ PTM_SYM_TIP)));
		assert_false(ptm_slot_has(&s, PTM_EDGE_KEY(from, sym ^ UINT64_C(1) << 32)));
		assert_false(ptm_slot_has(&t, PTM_EDGE_KEY(from, widest ^ UINT64_C(1) << 63)));
		assert_false(ptm_slot_has(&s, PTM_EDGE_KEY(from ^ 1u << 8, sym)));
	}
}

static uint32_t next_of(const struct ptm_slot *slot)
{
	assert_non_null(slot);
	return slot->next & ~PTM_STATE_FREE;
}

/* Bits of symbols, and what is no symbol. */
static void test_symbols(void **state)
{
	static const struct {
		uint64_t sym;
		uint32_t bits;
		int n; /* -1: it is none */
	} cases[] = {
		{PTM_SYM(5, 3, false), 5, 3},
		{PTM_SYM(0, 0, true), 0, 0},
		{PTM_SYM(0xffff, PTM_EDGE_BITS, true), 0xffff, 16},
		{PTM_SYM_OF(0, 0, true), 0, 0},
		{PTM_SYM_OF(0x04, 8, true), 0, 1},
		{PTM_SYM_OF(0x06, 8, true), 1, 1},
		{PTM_SYM_OF(0xfe, 8, true), 0x3f, 6},
		/* The oldest packet is the lowest: 0, then 01. */
		{PTM_SYM_OF(0x0a04, 16, true), 1, 3},
		{PTM_SYM_OF(0x80808080, 32, true), 0, 24},
		{PTM_SYM_OF(0xfefefefc, 32, true), 0xfbffff, 24},
		/* PAD, the escape, and what is odd. */
		{PTM_SYM_OF(0x0004, 16, true), 0, -1},
		{PTM_SYM_OF(0x0400, 16, true), 0, -1},
		{PTM_SYM_OF(0x0204, 16, true), 0, -1},
		{PTM_SYM_OF(0x05, 8, true), 0, -1},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		uint32_t bits;
		unsigned n;

		assert_int_equal(ptm_sym_bits(cases[i].sym, &bits, &n), cases[i].n >= 0);
		if (cases[i].n < 0)
			continue;
		assert_int_equal(n, cases[i].n);
		assert_int_equal(bits, cases[i].bits);
	}
}

/* Edges with the same key: each holds for what was on the stack when it was made. */
static void test_guards(void **state)
{
	struct ptm_edges *edges = ptm_edges_create(4);
	const uint64_t sym = PTM_SYM(1, 1, false);
	const uint32_t from = PTM_STATE(1);
	const uint64_t key = PTM_EDGE_KEY(from, sym);
	struct ptm_edge e = edge_of(from, sym);
	struct ptm_slot slot;
	unsigned others;

	(void)state;
	assert_non_null(edges);
	for (uint32_t top = 1; top <= 3; top++) {
		assert_null(ptm_edges_find(edges, key, PTM_STATE(top), &others));
		assert_int_equal(others, top - 1);
		e.guard = PTM_STATE(top);
		e.next = PTM_STATE(10 + top);
		slot = slot_of(&e);
		assert_int_equal(ptm_edges_add(edges, &slot), PTM_EDGE_NEW);
		assert_int_equal(ptm_edges_add(edges, &slot), PTM_EDGE_THERE);
	}
	for (uint32_t top = 1; top <= 3; top++)
		assert_int_equal(next_of(ptm_edges_find(edges, key, PTM_STATE(top), &others)),
				 PTM_STATE(10 + top));
	/* Nothing on the stack, or something else: none of them holds, one without a guard does. */
	assert_null(ptm_edges_find(edges, key, 0, &others));
	assert_null(ptm_edges_find(edges, key, PTM_STATE(4), &others));
	assert_int_equal(others, 3);
	e.guard = 0;
	e.next = PTM_STATE(9);
	slot = slot_of(&e);
	assert_int_equal(ptm_edges_add(edges, &slot), PTM_EDGE_NEW);
	assert_int_equal(next_of(ptm_edges_find(edges, key, 0, &others)), PTM_STATE(9));
	assert_int_equal(next_of(ptm_edges_find(edges, key, PTM_STATE(4), &others)), PTM_STATE(9));
	ptm_edges_destroy(edges);
}

/* States lose nothing: an id comes back. */
static void test_states(void **state)
{
	(void)state;
	for (uint32_t id = 1; id < 1u << PTM_STATE_BITS; id <<= 1) {
		assert_int_equal(PTM_STATE(id) & PTM_STATE_FREE, 0);
		assert_int_equal(PTM_STATE_ID(PTM_STATE(id)), id);
		assert_int_equal(PTM_STATE_ID(PTM_STATE(id - 1)), id - 1);
	}
}

static size_t grown(uint64_t limit, uint32_t n)
{
	struct ptm_cache *cache = ptm_cache_create(limit, NULL);
	struct ptm_gen *gen;
	size_t cap;

	assert_non_null(cache);
	ptm_rcu_register();
	gen = ptm_cache_gen(cache);
	for (uint32_t s = 1; s <= n; s++) {
		const struct ptm_edge e = edge_of(PTM_STATE(s), ANY_SYM);
		const struct ptm_slot slot = slot_of(&e);

		ptm_gen_add_edge(gen, &slot);
	}
	for (uint32_t s = 1; s <= n; s++) {
		const struct ptm_slot *e = find(ptm_gen_edges(gen), PTM_STATE(s), ANY_SYM);

		/* In a table that cannot grow some find no place. */
		if (e == NULL)
			assert_in_range(limit, 1, 1 << 20);
		else
			assert_true(is_edge(e, PTM_STATE(s), ANY_SYM));
	}
	cap = ptm_edges_cap(ptm_gen_edges(gen));
	ptm_rcu_unregister();
	ptm_cache_destroy(cache);
	return cap;
}

/* A table is at most half full, as long as the limit lets it grow. */
static void test_growth(void **state)
{
	(void)state;
	assert_int_equal(grown(64 << 20, 1366), 4096);
	assert_int_equal(grown(64 << 20, 1367), 8192);
	assert_int_equal(grown(64 << 20, 100000), 524288);
	assert_int_equal(grown(1, 100000), 4096);
}

enum { RACERS = 4, EDGES = 20000 };

struct racer {
	pthread_t thread;
	pthread_barrier_t *start;
	struct ptm_cache *cache;
	unsigned id, bad;
};

/* Three of four edges are those of all racers; the fourth is its own. */
static uint64_t raced_symbol(uint32_t s, unsigned racer)
{
	return s % 4 == 0 ? PTM_SYM(racer, 3, false) : PTM_SYM(9, 4, true);
}

static void *race(void *arg)
{
	struct racer *r = (struct racer *)arg;
	struct ptm_gen *gen;

	ptm_rcu_register();
	ptm_rcu_offline();
	(void)pthread_barrier_wait(r->start);
	ptm_rcu_online();
	gen = ptm_cache_gen(r->cache);
	for (uint32_t i = 1; i <= EDGES; i++) {
		const uint32_t s = r->id % 2 == 0 ? i : EDGES + 1 - i;
		const uint64_t sym = raced_symbol(s, r->id), other = raced_symbol(s, r->id ^ 1);
		const struct ptm_edge e = edge_of(PTM_STATE(s), sym);
		const struct ptm_slot slot = slot_of(&e);
		const struct ptm_slot *seen;

		ptm_gen_add_edge(gen, &slot);
		seen = find(ptm_gen_edges(gen), PTM_STATE(s), sym);
		r->bad += seen != NULL && !is_edge(seen, PTM_STATE(s), sym);
		seen = find(ptm_gen_edges(gen), PTM_STATE(s), other);
		r->bad += seen != NULL && !is_edge(seen, PTM_STATE(s), other);
	}
	ptm_rcu_unregister();
	return NULL;
}

static void test_race(void **state)
{
	struct racer racers[RACERS];
	struct ptm_cache *cache = ptm_cache_create(0, NULL);
	struct ptm_gen *gen;
	pthread_barrier_t start;
	uint64_t before, missing = 0;

	(void)state;
	assert_non_null(cache);
	assert_int_equal(pthread_barrier_init(&start, NULL, RACERS), 0);
	for (unsigned i = 0; i < RACERS; i++) {
		racers[i] = (struct racer){.start = &start, .cache = cache, .id = i};
		assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
	}
	for (unsigned i = 0; i < RACERS; i++) {
		assert_int_equal(pthread_join(racers[i].thread, NULL), 0);
		assert_int_equal(racers[i].bad, 0);
	}
	(void)pthread_barrier_destroy(&start);
	/* What a growing table missed can be added again; everything is there once. */
	ptm_rcu_register();
	gen = ptm_cache_gen(cache);
	before = ptm_cache_stats(cache).edges;
	for (uint32_t s = 1; s <= EDGES; s++)
		for (unsigned racer = 0; racer < RACERS; racer++) {
			const struct ptm_edge e = edge_of(PTM_STATE(s), raced_symbol(s, racer));
			const struct ptm_slot slot = slot_of(&e);

			missing += find(ptm_gen_edges(gen), PTM_STATE(s), raced_symbol(s, racer)) ==
				   NULL;
			ptm_gen_add_edge(gen, &slot);
		}
	assert_int_equal(ptm_cache_stats(cache).edges, before + missing);
	assert_int_equal(before + missing, EDGES / 4 * 3 + EDGES / 4 * RACERS);
	ptm_rcu_unregister();
	ptm_cache_destroy(cache);
}

/* ---- stretches ---- */

/* What a case is decoded with. */
struct bench {
	struct ptm_cache *cache;
	struct ptm_space *space;
	struct ptm_walk walk;
	struct ptm_turbo turbo;
	struct ptm_emit emit;
	struct ptm_error err;
};

static void bench_open(struct bench *b, const char *code, uint64_t limit)
{
	b->cache = ptm_cache_create(limit, NULL);
	b->space = space_with(code);
	ptm_rcu_register();
	ptm_walk_init(&b->walk, b->cache);
	ptm_turbo_init(&b->turbo);
	b->turbo.loops = loops;
}

static void bench_close(struct bench *b)
{
	ptm_rcu_unregister();
	ptm_cache_destroy(b->cache);
	ptm_space_destroy(b->space);
}

/* Packets are on, in code of @mode at offset @from. */
static void begin(struct bench *b, uint64_t from, enum ptm_mode mode)
{
	ptm_emit_init(&b->emit, drop_batch, NULL);
	b->emit.no_steps = true;
	ptm_walk_reset(&b->walk, &b->emit, &b->err);
	assert_int_equal(ptm_walk_space(&b->walk, b->space), 0);
	b->walk.mode = mode;
	assert_int_equal(ptm_walk_goto(&b->walk, FLOW_BASE + from), 0);
}

/* One stretch, and something that ends it.  Returns as ptm_turbo_run(), and how many bytes of the
 * packets are left. */
static int run(struct bench *b, const char *packets, size_t *left)
{
	static struct pt_bytes p;
	const struct flow_env env = {.base = FLOW_BASE};
	struct ptm_lexer lx;
	size_t n;
	int status;

	flow_packets(&env, &p, packets);
	n = p.n;
	pt_hex(&p, "02030000 0000000000000000 0000000000000000");
	ptm_lexer_init(&lx, p.b, p.n);
	lx.last_ip = FLOW_BASE;
	status = ptm_turbo_run(&b->turbo, &b->walk, &lx);
	assert_ptr_equal(lx.pos, status == 1 ? b->turbo.stretch.pos : p.b);
	*left = (size_t)(p.b + n - b->turbo.stretch.pos);
	return status;
}

/* Where the flow stands, as in the text of a case. */
static void put_place(const struct bench *b, int status, struct flow_text *t)
{
	const struct ptm_walk *w = &b->walk;
	const struct ptm_node *nodes = ptm_gen_nodes(w->gen);

	if (t->n > 0)
		flow_put(t, " | ");
	if (status == 0) {
		flow_put(t, "no");
		return;
	}
	flow_put(t, "@%" PRIx64, nodes[w->at].ip - FLOW_BASE);
	for (unsigned i = w->depth; i > 0; i--)
		flow_put(t, " %" PRIx64,
			 nodes[w->stack[(w->top - i + 1) % PTM_STACK]].ip - FLOW_BASE);
}

/* The digest of the instructions of a case. */
static struct ptm_digest digest_of(const char *insns)
{
	static struct flow_text all;
	struct ptm_digest d = PTM_DIGEST_EMPTY;
	char *save = NULL;

	all = (struct flow_text){.n = 0};
	flow_expand(&all, insns);
	for (char *s = strtok_r(all.s, " ", &save); s != NULL; s = strtok_r(NULL, " ", &save)) {
		char *end;
		uint64_t ip = strtoull(s, &end, 16);
		uint64_t last = *end == '-' ? strtoull(end + 1, NULL, 16) : ip;

		for (; ip <= last; ip++)
			ptm_digest_add(&d, FLOW_BASE + ip);
	}
	return d;
}

static void check_case(struct bench *b, const struct stretch_case *c)
{
	static struct flow_text places, expected;
	static char packets[4096];
	struct ptm_digest right = digest_of(c->insns);
	char *save = NULL;
	size_t left;

	begin(b, c->from, PTM_MODE_64);
	for (const char *bit = c->before; bit != NULL && *bit != '\0'; bit++) {
		b->walk.bits = *bit == 'T';
		b->walk.nbits = 1;
		assert_int_equal(ptm_walk_bits(&b->walk), 0);
	}
	b->emit.part = PTM_DIGEST_EMPTY;
	b->emit.tally.insns = 0;
	places = expected = (struct flow_text){.n = 0};
	assert_true(strlen(c->packets) < sizeof(packets));
	(void)strcpy(packets, c->packets);
	for (char *s = strtok_r(packets, "|", &save); s != NULL; s = strtok_r(NULL, "|", &save))
		put_place(b, run(b, s, &left), &places);
	flow_expand(&expected, c->places);
	assert_string_equal(places.s, expected.s);
	assert_int_equal(b->emit.part.n, right.n);
	assert_true(b->emit.part.b == right.b && b->emit.part.kn == right.kn);
	assert_int_equal(b->emit.tally.insns, right.n);
}

/* Leave hardly any room for edges. */
static void fill_edges(struct ptm_gen *gen)
{
	for (uint32_t s = 1000; s < 60000; s++) {
		const struct ptm_edge e = edge_of(PTM_STATE(s), ANY_SYM);
		const struct ptm_slot slot = slot_of(&e);

		ptm_gen_add_edge(gen, &slot);
	}
}

/* Twice: edges are built, then found.  And where there is no room for them. */
static void test_stretch(void **state)
{
	static struct bench b;
	const struct stretch_case *c = (const struct stretch_case *)*state;
	uint64_t built;

	bench_open(&b, c->code, 0);
	check_case(&b, c);
	built = b.turbo.edges_built;
	check_case(&b, c);
	if (strstr(c->places, "no") == NULL)
		assert_int_equal(b.turbo.edges_built, built);
	bench_close(&b);
	bench_open(&b, c->code, 1);
	fill_edges(ptm_cache_gen(b.cache));
	check_case(&b, c);
	bench_close(&b);
}

/* In a cache that is full sooner or later: a stretch is given up where the generation turns, and
 * nothing has moved then. */
static void test_turn(void **state)
{
	static struct bench b;
	static struct flow_text place;
	struct ptm_space *other = space_with("90");
	static const char packets[] = "NTN tip:7 tip:13 tip:10 N";
	unsigned turned = 0;
	size_t left;

	(void)state;
	for (unsigned room = 1; room < 16; room++) {
		struct ptm_digest right = digest_of(ROUND " 7 7 13 14 10 11");
		struct ptm_gen *gen;

		bench_open(&b, CALLS, 1);
		gen = ptm_cache_gen(b.cache);
		for (unsigned i = room; i < 1023; i++)
			assert_int_not_equal(
				ptm_gen_node(gen, ptm_gen_space(gen, other), other, i, PTM_MODE_64),
				0);
		begin(&b, 0, PTM_MODE_64);
		place = (struct flow_text){.n = 0};
		if (run(&b, packets, &left) == 0) {
			assert_ptr_not_equal(gen, b.walk.gen);
			assert_int_equal(b.emit.part.n, 0);
			put_place(&b, 1, &place);
			assert_string_equal(place.s, "@0");
			place = (struct flow_text){.n = 0};
			assert_int_equal(run(&b, packets, &left), 1);
			turned++;
		}
		put_place(&b, 1, &place);
		assert_string_equal(place.s, "@13");
		assert_int_equal(b.emit.part.n, right.n);
		assert_true(b.emit.part.b == right.b);
		bench_close(&b);
	}
	/* The code has six nodes; with room for more nothing turns. */
	assert_in_range(turned, 3, 8);
	ptm_space_destroy(other);
}

/* Time packets of all sizes, between bits. */
static void test_time(void **state)
{
	static struct bench b;
	const struct ptm_stretch *s = &b.turbo.stretch;
	struct ptm_digest right = digest_of("0 10 11 13 14");
	size_t left;

	(void)state;
	bench_open(&b, CALLS, 0);
	begin(&b, 0, PTM_MODE_64);
	assert_int_equal(run(&b,
			     "1911223344556600 02731122003300 5903 N 03 fb 0702 070302 "
			     "0701010101010102 pad 19aabbccddeeff00 5904 pad T pad",
			     &left),
			 1);
	assert_int_equal(left, 0);
	assert_int_equal(b.emit.part.n, right.n);
	assert_true(b.emit.part.b == right.b);
	assert_int_equal(s->pads, 3);
	assert_true(s->n > 0 && s->has_tsc);
	assert_int_equal(s->tsc, 0xffeeddccbbaa);
	/* Nothing else in it. */
	begin(&b, 0, PTM_MODE_64);
	assert_int_equal(run(&b, "03 pad 5903", &left), 1);
	assert_int_equal(left, 0);
	assert_true(s->n == 0 && !s->has_tsc);
	assert_int_equal(b.emit.part.n, 0);
	/* A longer CYC may not fit into 64 bits: it ends the stretch, as what is no time does. */
	begin(&b, 0, PTM_MODE_64);
	assert_int_equal(run(&b, "N 070101010101010102 T", &left), 1);
	assert_int_equal(left, 10);
	assert_int_equal(b.emit.part.n, 3);
	begin(&b, 0, PTM_MODE_64);
	assert_int_equal(run(&b, "N fup:13 tip:0", &left), 1);
	assert_int_equal(left, 14);
	/* Of a CPU with errata of them, CYCs of more than one byte and TMAs are looked at. */
	b.turbo.odd_time = true;
	begin(&b, 0, PTM_MODE_64);
	assert_int_equal(run(&b, "N 03 0702 T", &left), 1);
	assert_int_equal(left, 3);
	begin(&b, 0, PTM_MODE_64);
	assert_int_equal(run(&b, "N 02731122003300 T", &left), 1);
	assert_int_equal(left, 8);
	bench_close(&b);
}

/* The same address is other code in another mode, and in another space. */
static void test_keys(void **state)
{
	static struct bench b;
	/* 64 bits, 32 bits, the other space: each behind each. */
	static const unsigned keys[] = {0, 1, 0, 2, 1, 2, 0};
	struct ptm_space *space, *other = space_with("@0 9090 7400 ffe0");
	struct ptm_digest right;
	size_t left;

	(void)state;
	bench_open(&b, TWO_MODES, 0);
	space = b.space;
	for (unsigned i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const bool narrow = keys[i] == 1;

		b.space = keys[i] == 2 ? other : space;
		begin(&b, 4, narrow ? PTM_MODE_32 : PTM_MODE_64);
		assert_int_equal(run(&b, "tip:0 N", &left), 1);
		right = digest_of(keys[i] == 0 ? "4 0 2" : "4 0 1 2");
		assert_int_equal(b.emit.part.n, right.n);
		assert_true(b.emit.part.b == right.b);
	}
	b.space = space;
	ptm_space_destroy(other);
	bench_close(&b);
}

/* ---- whole traces ---- */

/* What is in brackets. */
static void events_of(const struct flow_text *text, struct flow_text *events)
{
	bool in = false;

	events->n = 0;
	for (size_t i = 0; i < text->n; i++) {
		in |= text->s[i] == '[';
		if (in)
			events->s[events->n++] = text->s[i];
		in &= text->s[i] != ']';
	}
	events->s[events->n] = '\0';
}

/* Decode with an engine that yields no steps, and so takes the fast path where it can. */
static void run_sums(struct flow_env *env, const struct flow_case *c, const struct pt_bytes *p,
		     struct flow_out *out)
{
	const struct ptm_engine_options options = {.resync = c->resync ? PTM_RESYNC_IP
								       : PTM_RESYNC_PSB};
	struct ptm_engine *full = env->engine;
	struct ptm_error err;

	env->engine = ptm_engine_fast.create(&options, &err);
	assert_non_null(env->engine);
	flow_run(env, p, out);
	env->engine->ops->destroy(env->engine);
	env->engine = full;
}

static void check_sums(const struct flow_case *c, struct flow_out *full)
{
	static struct flow_text expected, events;
	static struct flow_out sums;
	static struct pt_bytes p;
	struct flow_env env;

	flow_open(&env, &ptm_engine_fast, c);
	flow_packets(&env, &p, c->packets);
	/* The fast path leaves the last bytes alone. */
	memset(p.b + p.n, 0, 32);
	p.n += 32;
	flow_run(&env, &p, full);
	run_sums(&env, c, &p, &sums);
	flow_close(&env);
	events_of(&full->text, &expected);
	events_of(&sums.text, &events);
	assert_string_equal(events.s, expected.s);
	assert_int_equal(sums.digest.n, full->digest.n);
	assert_true(sums.digest.b == full->digest.b);
	assert_int_equal(sums.resynced.n, full->resynced.n);
	assert_true(sums.resynced.b == full->resynced.b);
	assert_memory_equal(sums.tally.bytes, full->tally.bytes, sizeof(full->tally.bytes));
	assert_memory_equal(sums.tally.gaps, full->tally.gaps, sizeof(full->tally.gaps));
	assert_int_equal(sums.tally.insns, full->tally.insns);
	assert_int_equal(sums.tally.resynced, full->tally.resynced);
}

static void test_pitfall(void **state)
{
	static struct flow_out full;

	check_sums((const struct flow_case *)*state, &full);
}

static void test_odd(void **state)
{
	static struct flow_text expected;
	static struct flow_out full;
	const struct flow_case *c = (const struct flow_case *)*state;

	check_sums(c, &full);
	expected = (struct flow_text){.n = 0};
	flow_expand(&expected, c->expected);
	assert_string_equal(full.text.s, expected.s);
}

/* 00 je 0   02 @nops times nop, je to the next one */
static struct ptm_space *space_of_run(size_t nops)
{
	struct ptm_space *space = ptm_space_create();
	char path[] = "/tmp/ptm-run-XXXXXX";
	uint8_t *code = (uint8_t *)malloc(nops + 4);
	int fd = mkstemp(path);

	assert_non_null(code);
	memset(code, 0x90, nops + 4);
	memcpy(code, "\x74\xfe", 2);
	memcpy(code + nops + 2, "\x74\x00", 2);
	assert_int_equal(write(fd, code, nops + 4), (ssize_t)nops + 4);
	(void)close(fd);
	assert_int_equal(ptm_space_add_raw(space, path, 0, nops + 4, FLOW_BASE, NULL), 0);
	assert_int_equal(ptm_space_seal(space, NULL), 0);
	(void)unlink(path);
	free(code);
	return space;
}

/* 2^18 instructions may pass without a packet; one more cannot be (docs/architecture.md).  Many
 * packets before them make no difference. */
static void test_longest_run(void **state)
{
	static struct pt_bytes p;
	static struct ptm_emit emit;
	const struct flow_env env = {.base = FLOW_BASE};
	const size_t most = 1u << 18;

	(void)state;
	flow_packets(&env, &p, "psb+0 400{TTTTTT} NT 32{pad}");
	for (unsigned i = 0; i < 9; i++) {
		const struct ptm_engine_ops *ops = i % 3 == 0 ? &ptm_engine_ipt : &ptm_engine_fast;
		const struct ptm_engine_options options = {.want = i % 3 == 2 ? 0 : PTM_WANT_STEPS};
		const size_t nops = most - 1 + i / 3;
		struct ptm_space *space = space_of_run(nops);
		const struct ptm_stream_context stream = {.images.first = space};
		const struct ptm_segment seg = {.stream = &stream, .data = p.b, .len = p.n};
		struct ptm_engine *engine = ops->create(&options, NULL);

		assert_non_null(engine);
		ptm_emit_init(&emit, drop_batch, NULL);
		assert_int_equal(ops->decode(engine, &seg, &emit, NULL), 0);
		assert_int_equal(emit.tally.insns, 2401 + nops + (nops <= most));
		assert_int_equal(emit.tally.gaps[PTM_GAP_RUNAWAY], nops > most);
		ops->destroy(engine);
		ptm_space_destroy(space);
	}
}

int main(void)
{
	add_test("table", test_table, NULL);
	add_test("pack", test_pack, NULL);
	add_test("symbols", test_symbols, NULL);
	add_test("guards", test_guards, NULL);
	add_test("states", test_states, NULL);
	add_test("growth", test_growth, NULL);
	add_test("race", test_race, NULL);
	add_stretches(test_stretch);
	add_test("turn", test_turn, NULL);
	add_test("time", test_time, NULL);
	add_test("keys", test_keys, NULL);
	add_test("longest run", test_longest_run, NULL);
	add_cases(odd_cases, COUNT(odd_cases), test_odd);
	add_cases(return_cases, COUNT(return_cases), test_pitfall);
	add_cases(sync_cases, COUNT(sync_cases), test_pitfall);
	add_cases(code_cases, COUNT(code_cases), test_pitfall);
	add_cases(context_cases, COUNT(context_cases), test_pitfall);
	return run_with_all_loops("flow_turbo, for any CPU", "flow_turbo, for this CPU");
}
