/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_edge_counts_test.c - what the fast path counts: of every stretch and every case of a
 * pitfall, with caches of all sizes, what the exact path counts of the same packets (which
 * flow_counts_test.c checks by hand); and worked out by hand where there is too much of something.
 */
#include "flow_pitfalls_code.h"
#include "flow_pitfalls_context.h"
#include "flow_pitfalls_return.h"
#include "flow_pitfalls_sync.h"
#include "flow_stretch.h"

#include "flow/cache.h"
#include "flow/fast.h"
#include "flow/loops.h"
#include "os/rcu.h"

/* What is decoded with a cache that is given, again and again. */
struct bench {
	struct flow_env env;
	struct ptm_cache *cache; /* NULL: an engine has its own */
	struct ptm_counts *counts;
	struct flow_out out;
};

static struct ptm_fast *fast_of(const struct bench *b)
{
	return (struct ptm_fast *)b->env.engine;
}

static void bench_open(struct bench *b, const struct flow_case *c, struct ptm_cache *cache,
		       unsigned want)
{
	flow_open(&b->env, &ptm_engine_fast, c);
	b->env.engine->ops->destroy(b->env.engine);
	b->cache = cache;
	b->counts = (want & PTM_WANT_COUNTS) != 0 ? ptm_counts_create() : NULL;
	b->env.engine = ptm_engine_fast.create(
		&(struct ptm_engine_options){.want = want,
					     .cache = cache,
					     .counts = b->counts,
					     .resync = c->resync ? PTM_RESYNC_IP : PTM_RESYNC_PSB},
		NULL);
	assert_non_null(b->env.engine);
	fast_of(b)->turbo.loops = loops;
	b->out = (struct flow_out){
		.env = &b->env, .digest = PTM_DIGEST_EMPTY, .resynced = PTM_DIGEST_EMPTY};
}

static void bench_close(struct bench *b)
{
	ptm_counts_destroy(b->counts);
	flow_close(&b->env);
	ptm_cache_destroy(b->cache);
}

static void decode(struct bench *b, const struct pt_bytes *p, bool cut)
{
	b->out.text.n = 0;
	decode_all(p, cut, &b->out);
}

static const struct ptm_count *settled(struct bench *b, size_t *n)
{
	const struct ptm_count *v;

	assert_int_equal(ptm_engine_fast.settle(b->env.engine, NULL), 0);
	assert_int_equal(ptm_counts_get(b->counts, &v, n, NULL), 0);
	return v;
}

static void same_counts(struct bench *fast, struct bench *exact)
{
	size_t n, m;
	const struct ptm_count *v = settled(fast, &n), *w = settled(exact, &m);

	assert_int_equal(n, m);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(v[i].kind, w[i].kind);
		assert_int_equal(v[i].mode, w[i].mode);
		assert_int_equal(v[i].ip, w[i].ip);
		assert_int_equal(v[i].to, w[i].to);
		assert_int_equal(v[i].times, w[i].times);
	}
	assert_memory_equal(&fast->out.tally, &exact->out.tally, sizeof(fast->out.tally));
}

/* ---- caches ---- */

/* Edges that nobody looks up, of nodes that are not there. */
static void add_edges(struct ptm_cache *cache, uint32_t n)
{
	struct ptm_slot slot;

	ptm_rcu_register();
	for (uint32_t s = 1000; s < 1000 + n; s++) {
		const struct ptm_edge e = {.state = PTM_STATE(s), .sym = PTM_SYM(1, 2, true)};

		ptm_edge_pack(&slot, &e);
		ptm_gen_add_edge(ptm_cache_gen(cache), &slot);
	}
	ptm_rcu_unregister();
}

/* With room for @room nodes, then it turns. */
static struct ptm_cache *cache_of(unsigned room)
{
	struct ptm_cache *cache = ptm_cache_create(1, NULL);
	struct ptm_space *other = space_with("90");
	struct ptm_gen *gen;

	assert_non_null(cache);
	ptm_rcu_register();
	gen = ptm_cache_gen(cache);
	for (unsigned i = room; i < 1023; i++)
		assert_int_not_equal(
			ptm_gen_node(gen, ptm_gen_space(gen, other), other, i, PTM_MODE_64), 0);
	ptm_rcu_unregister();
	ptm_space_destroy(other);
	return cache;
}

enum { EMPTY, ABOUT_TO_GROW, NO_EDGES, ROOMS, CACHES = ROOMS + 10 };

static struct ptm_cache *make_cache(unsigned kind)
{
	struct ptm_cache *cache;

	if (kind >= ROOMS)
		return cache_of(kind - ROOMS + 1);
	cache = ptm_cache_create(kind == NO_EDGES ? 1 : 4 << 20, NULL);
	assert_non_null(cache);
	if (kind == NO_EDGES)
		add_edges(cache, 20000);
	if (kind == ABOUT_TO_GROW)
		add_edges(cache, 1365);
	return cache;
}

/* ---- the fast path and the exact one ---- */

static unsigned turned;

/* Thrice with one engine: edges are built, then found. */
static void compare(const struct flow_case *c, unsigned kinds, bool smooth)
{
	static struct bench fast, exact;
	static struct pt_bytes p;

	bench_open(&exact, c, make_cache(EMPTY), PTM_WANT_STEPS | PTM_WANT_TALLY | PTM_WANT_COUNTS);
	flow_packets(&exact.env, &p, c->packets);
	/* The fast path leaves the last bytes alone. */
	memset(p.b + p.n, 0, 32);
	p.n += 32;
	for (int i = 0; i < 3; i++)
		decode(&exact, &p, i == 1);
	for (unsigned kind = 0; kind < kinds; kind++) {
		bench_open(&fast, c, make_cache(kind), PTM_WANT_TALLY | PTM_WANT_COUNTS);
		for (int i = 0; i < 3; i++)
			decode(&fast, &p, i == 1);
		if (smooth && kind < ROOMS)
			assert_int_not_equal(fast_of(&fast)->turbo.counts->used, 0);
		turned += ptm_cache_stats(fast.cache).generations > 1;
		same_counts(&fast, &exact);
		bench_close(&fast);
	}
	bench_close(&exact);
	bench_open(&fast, c, make_cache(EMPTY), PTM_WANT_TALLY);
	for (int i = 0; i < 3; i++)
		decode(&fast, &p, i == 1);
	assert_memory_equal(&fast.out.tally, &exact.out.tally, sizeof(fast.out.tally));
	bench_close(&fast);
}

static void test_pitfall(void **state)
{
	compare((const struct flow_case *)*state, EMPTY + 1, false);
}

static void test_odd(void **state)
{
	compare((const struct flow_case *)*state, CACHES, false);
}

/* A case as a trace: another packet between two stretches. */
static void test_stretch(void **state)
{
	const struct stretch_case *s = (const struct stretch_case *)*state;
	static struct flow_text code, packets;
	const struct flow_case c = {.name = s->name, .code = code.s, .packets = packets.s};

	code = packets = (struct flow_text){.n = 0};
	flow_expand(&code, s->code);
	flow_put(&packets, "psb+%" PRIx64 " %s ", s->from, s->before != NULL ? s->before : "");
	for (const char *at = s->packets; *at != '\0'; at++)
		flow_put(&packets, *at == '|' ? "cbr" : "%c", *at);
	compare(&c, CACHES, strstr(s->places, "no") == NULL);
}

static void test_turned(void **state)
{
	(void)state;
	assert_in_range(turned, 100, 1000000);
	turned = 0;
}

/* ---- more than there is room for ---- */

/* 600 nops and a way back to the first: more edges than the log of a stretch has. */
static void test_long_runs(void **state)
{
	static const struct flow_case c = {.code = "@0 90", .packets = "psb+0 2000{TTTTTT} N"};
	static struct bench b;
	static struct flow_text code;
	static struct pt_bytes p;
	struct flow_case with_code = c;
	const struct ptm_count *v;
	uint64_t insns = 0, taken = 0, not_taken = 0;
	size_t n;

	(void)state;
	code = (struct flow_text){.n = 0};
	flow_expand(&code, "@0 600{90} 0f84a2fdffff ffe0");
	with_code.code = code.s;
	bench_open(&b, &with_code, NULL, PTM_WANT_TALLY | PTM_WANT_COUNTS);
	flow_packets(&b.env, &p, c.packets);
	memset(p.b + p.n, 0, 32);
	p.n += 32;
	decode(&b, &p, false);
	assert_non_null(fast_of(&b)->closely);
	v = settled(&b, &n);
	for (size_t i = 0; i < n; i++) {
		insns += v[i].kind == PTM_COUNT_RUN ? v[i].to * v[i].times : 0;
		taken += v[i].kind == PTM_COUNT_COND && v[i].to == 1 ? v[i].times : 0;
		not_taken += v[i].kind == PTM_COUNT_COND && v[i].to == 0 ? v[i].times : 0;
	}
	assert_int_equal(insns, 12001 * 601);
	assert_int_equal(taken, 12000);
	assert_int_equal(not_taken, 1);
	assert_int_equal(b.out.tally.insns, 12001 * 601);
	assert_int_equal(b.out.tally.cond, 12001);
	bench_close(&b);
}

enum { JUMPS = 270000 };

/* JUMPS times jmp *rax. */
static struct ptm_space *space_of_jumps(void)
{
	struct ptm_space *space = ptm_space_create();
	char path[] = "/tmp/ptm-jumps-XXXXXX";
	uint8_t *code = (uint8_t *)malloc(JUMPS * 2);
	int fd = mkstemp(path);

	assert_true(code != NULL && fd >= 0);
	for (size_t i = 0; i < JUMPS; i++)
		memcpy(code + 2 * i, "\xff\xe0", 2);
	assert_int_equal(write(fd, code, JUMPS * 2), JUMPS * 2);
	(void)close(fd);
	assert_int_equal(ptm_space_add_raw(space, path, 0, JUMPS * 2, FLOW_BASE, NULL), 0);
	assert_int_equal(ptm_space_seal(space, NULL), 0);
	(void)unlink(path);
	free(code);
	return space;
}

/* TIPs to the jumps of these numbers, from the first one on. */
static void jump(struct bench *b, const struct ptm_space *space, const uint32_t *to, size_t n)
{
	static struct ptm_emit emit;
	static struct pt_bytes head;
	const struct flow_env at = {.base = FLOW_BASE, .mode = 64};
	const struct ptm_stream_context stream = {.images.first = space};
	struct ptm_segment seg = {.stream = &stream};
	uint8_t *data;

	flow_packets(&at, &head, "psb+0");
	seg.len = head.n + n * 5 + 32;
	data = (uint8_t *)calloc(1, seg.len);
	assert_non_null(data);
	memcpy(data, head.b, head.n);
	for (size_t i = 0; i < n; i++) {
		const uint32_t ip = (uint32_t)FLOW_BASE + to[i] * 2;

		data[head.n + 5 * i] = PT_TIP | 2u << 5;
		memcpy(&data[head.n + 5 * i + 1], &ip, 4);
	}
	seg.data = data;
	ptm_emit_init(&emit, drop_batch, NULL);
	assert_int_equal(ptm_engine_fast.decode(b->env.engine, &seg, &emit, NULL), 0);
	assert_int_equal(emit.tally.insns, n);
	assert_int_equal(emit.tally.indirect, n);
	free(data);
}

static bool is_count(const struct ptm_count *v, enum ptm_count_kind kind, uint64_t jump,
		     uint64_t to, uint64_t times)
{
	return v->kind == kind && v->ip == FLOW_BASE + 2 * jump && v->to == to && v->times == times;
}

static uint32_t jumps[2 * JUMPS];

/* Round all jumps, twice: more different edges than the table has places. */
static void test_many(void **state)
{
	static struct bench b;
	const struct flow_case c = {.code = "@0 90"};
	struct ptm_space *space = space_of_jumps();
	const struct ptm_count *v;
	size_t n;

	(void)state;
	bench_open(&b, &c, ptm_cache_create(0, NULL), PTM_WANT_TALLY | PTM_WANT_COUNTS);
	for (uint32_t i = 0; i < 2 * JUMPS; i++)
		jumps[i] = (i + 1) % JUMPS;
	jump(&b, space, jumps, 2 * JUMPS);
	v = settled(&b, &n);
	assert_int_equal(n, 2 * JUMPS);
	for (size_t i = 0; i < JUMPS; i++) {
		assert_true(is_count(&v[i], PTM_COUNT_RUN, i, 1, 2));
		assert_true(is_count(&v[JUMPS + i], PTM_COUNT_TARGET, i,
				     FLOW_BASE + (i + 1) % JUMPS * 2, 2));
	}
	bench_close(&b);
	ptm_space_destroy(space);
}

/* From the first jump to each other one and back, twice: one edge with many targets. */
static void test_targets(void **state)
{
	static struct bench b;
	enum { N = JUMPS / 3 };
	const struct flow_case c = {.code = "@0 90"};
	struct ptm_space *space = space_of_jumps();
	const struct ptm_count *v;
	size_t n;

	(void)state;
	bench_open(&b, &c, ptm_cache_create(0, NULL), PTM_WANT_TALLY | PTM_WANT_COUNTS);
	for (uint32_t i = 0; i < 4 * N; i++)
		jumps[i] = i % 2 == 0 ? 1 + i / 2 % N : 0;
	jump(&b, space, jumps, 4 * N);
	v = settled(&b, &n);
	assert_int_equal(n, 1 + 3 * N);
	assert_true(is_count(&v[0], PTM_COUNT_RUN, 0, 1, 2 * N));
	for (size_t i = 1; i <= N; i++) {
		assert_true(is_count(&v[i], PTM_COUNT_RUN, i, 1, 2));
		assert_true(is_count(&v[N + i], PTM_COUNT_TARGET, 0, FLOW_BASE + 2 * i, 2));
		assert_true(is_count(&v[2 * N + i], PTM_COUNT_TARGET, i, FLOW_BASE, 2));
	}
	bench_close(&b);
	ptm_space_destroy(space);
}

/* ---- what states mean ---- */

static void decode_in(struct bench *b, const struct ptm_space *space, const struct pt_bytes *p)
{
	b->env.stream.images.first = space;
	decode(b, p, false);
}

/* What one engine has counted stays, when another one had the generation replaced and nobody reads
 * it any more. */
static void test_held(void **state)
{
	static struct bench b, exact;
	static struct pt_bytes p;
	const struct flow_case c = {.code = CALLS};
	struct ptm_cache *cache = ptm_cache_create(1, NULL);

	(void)state;
	bench_open(&exact, &c, NULL, PTM_WANT_STEPS | PTM_WANT_TALLY | PTM_WANT_COUNTS);
	bench_open(&b, &c, cache, PTM_WANT_TALLY | PTM_WANT_COUNTS);
	flow_packets(&b.env, &p, "psb+0 NTT NTT NTN tip:0 NTT 32{pad}");
	for (int i = 0; i < 2; i++) {
		decode(&exact, &p, false);
		decode(&b, &p, false);
		ptm_rcu_register();
		assert_int_equal(ptm_cache_turn(cache, ptm_cache_gen(cache), NULL), 0);
		ptm_rcu_unregister();
		ptm_rcu_barrier();
	}
	assert_ptr_not_equal(fast_of(&b)->turbo.counts->gen, ptm_cache_gen(cache));
	same_counts(&b, &exact);
	/* Also when nobody asks. */
	decode(&b, &p, false);
	bench_close(&b);
	bench_close(&exact);
}

/* Each space has its own counts, also where both have the same content and so the same nodes. */
static void test_spaces(void **state)
{
	static struct bench b;
	static struct pt_bytes p;
	const struct flow_case c = {.code = "@0 90"};
	struct ptm_space *one = space_with(CALLS), *two = space_with(CALLS);
	const struct ptm_count *v;
	uint64_t times[2] = {0};
	size_t n;

	(void)state;
	bench_open(&b, &c, ptm_cache_create(0, NULL), PTM_WANT_TALLY | PTM_WANT_COUNTS);
	flow_packets(&b.env, &p, "psb+7 tip:7 tip:7 32{pad}");
	for (int i = 0; i < 6; i++)
		decode_in(&b, i % 3 == 0 ? one : two, &p);
	v = settled(&b, &n);
	assert_int_equal(n, 4);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(v[i].ip, FLOW_BASE + 7);
		if (v[i].kind == PTM_COUNT_TARGET)
			times[ptm_counts_space(b.counts, v[i].space) == two] += v[i].times;
	}
	assert_int_equal(times[0], 4);
	assert_int_equal(times[1], 8);
	bench_close(&b);
	ptm_space_destroy(one);
	ptm_space_destroy(two);
}

int main(void)
{
	add_stretches(test_stretch);
	add_cases(odd_cases, COUNT(odd_cases), test_odd);
	add_cases(return_cases, COUNT(return_cases), test_pitfall);
	add_cases(sync_cases, COUNT(sync_cases), test_pitfall);
	add_cases(code_cases, COUNT(code_cases), test_pitfall);
	add_cases(context_cases, COUNT(context_cases), test_pitfall);
	add_test("turned", test_turned, NULL);
	add_test("long runs", test_long_runs, NULL);
	add_test("many", test_many, NULL);
	add_test("targets", test_targets, NULL);
	add_test("held", test_held, NULL);
	add_test("spaces", test_spaces, NULL);
	return run_with_all_loops("flow_edge_counts, for any CPU",
				  "flow_edge_counts, for this CPU");
}
