/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_counts_test.c - how often what is executed: by both engines, of traces composed by hand, cut
 * in every way; and tables of counts by themselves.  Expected values are worked out by hand.
 *
 * Counts as text: `offset:times` of each instruction; `offset?taken/not` of conditional branches;
 * `offset>to:times` of others that took a packet.
 */
#include "flow_case.h"

#include "flow/counts.h"

#define INSNS 0x60u

struct counts_case {
	const char *name, *code, *packets;
	const char *expected; /* of the fast engine */
	const char *libipt;   /* NULL: the same; "": not asked */
	bool resync;
};

/* 00 xor eax, eax   02 inc eax   04 cmp eax, 3   07 jne 02   09 call 20   0e nop   0f ret
 * 20 jmp rax   30 ret   40 nop   41 jmp 40 */
#define LOOP "@0 31c0 ffc0 83f803 75f9 e812000000 90 c3 @20 ffe0 @30 c3 @40 90 ebfd @60"

static const struct counts_case cases[] = {
	{"whole", LOOP, "psb+0 TTN tip:30 T tip:0 TTN tip:30 T tip:2",
	 "0:2 2:6 4:6 7:6 9:2 e:2 f:2 20:2 30:2 7?4/2 f>0:1 f>2:1 20>30:2 30>e:2", NULL, false},
	{"cut by PSBs, in the middle of runs", LOOP,
	 "psb+0 T psb+4 TN psb+9 tip:30 T psb+f tip:0 psb+2 TTN tip:30 tip:e",
	 "0:2 2:6 4:6 7:6 9:2 e:1 f:1 20:2 30:2 7?4/2 f>0:1 20>30:2 30>e:2", NULL, false},
	/* The interrupt hits before 4 is executed; the handler is not traced. */
	{"cut by events", LOOP, "psb+0 T fup:4 pgd pge:4 N tip:30 T fup:e tip:40 fup:40 pgd",
	 "0:1 2:2 4:2 7:2 9:1 20:1 30:1 7?1/1 20>30:1 30>e:1", NULL, false},
	/* The bit came out before the overflow: it is known where the branch led. */
	{"overflow behind a bit", LOOP, "psb+0 T ovf fup:2 N tip:30 pgd",
	 "0:1 2:2 4:2 7:2 9:1 20:1 30:1 7?1/1 20>30:1", "", false},
	/* TIP.PGD in the place of a TNT bit: the branch is executed, and leads out of here. */
	{"disabled by a branch", LOOP, "psb+0 T pgd:1000", "0:1 2:2 4:2 7:2 7?1/0", "", false},
	{"nothing behind the last packet", LOOP, "psb+0 TT", "0:1 2:2 4:2 7:2 7?2/0", NULL, false},
	{"as far as it is known", LOOP, "psb+0 TTTN tip:1000",
	 "0:1 2:4 4:4 7:4 9:1 20:1 7?3/1 20>1000:1", NULL, false},
	/* A return that nothing was called for: behind the error the flow is found again at 40. */
	{"resynced", LOOP, "psb+30 T fup:40 pgd pge:0 T pgd", "0:1 2:2 4:2 7:2 7?1/0", "", true},
	/* A far transfer: 00 nop, 01 syscall, 03 nop, 04 je 00. */
	{"far", "@0 90 0f05 90 74fa", "psb+0 tip:3 T tip:3 N", "0:2 1:2 3:2 4:2 4?1/1 1>3:2", NULL,
	 false},
	/* lock cmpxchg, and a jump behind its prefix: 00 je 03   02 lock 03 cmpxchg   07 je 00 */
	{"into an instruction", "@0 7401 f0480fb10f 74f7", "psb+0 TTNNN",
	 "0:2 2:1 3:1 7:2 0?1/1 7?1/1", NULL, false},
};

static void put_runs(struct flow_text *text, struct ptm_space *space, const struct ptm_count *v,
		     size_t n)
{
	uint64_t times[INSNS] = {0};

	for (size_t i = 0; i < n; i++) {
		uint64_t ip = v[i].ip;

		for (uint64_t k = 0; v[i].kind == PTM_COUNT_RUN && k < v[i].to; k++) {
			struct ptm_insn insn;
			uint8_t bytes[15];
			size_t have = ptm_space_read(space, ip, bytes, sizeof(bytes));

			assert_in_range(ip, FLOW_BASE, FLOW_BASE + INSNS - 1);
			times[ip - FLOW_BASE] += v[i].times;
			assert_true(ptm_insn_decode(bytes, have, ip, (enum ptm_mode)v[i].mode,
						    &insn) > 0);
			ip = insn.klass == PTM_INSN_JUMP || insn.klass == PTM_INSN_CALL
				     ? insn.target
				     : ip + insn.len;
		}
	}
	for (unsigned i = 0; i < INSNS; i++)
		if (times[i] > 0)
			flow_put(text, "%s%x:%" PRIu64, text->n > 0 ? " " : "", i, times[i]);
}

static void put_branches(struct flow_text *text, const struct ptm_count *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const bool both = v[i].to == 0 && i + 1 < n && v[i + 1].kind == PTM_COUNT_COND &&
				  v[i + 1].ip == v[i].ip;

		if (v[i].kind == PTM_COUNT_TARGET)
			flow_put(text, " %" PRIx64 ">%" PRIx64 ":%" PRIu64, v[i].ip - FLOW_BASE,
				 v[i].to - FLOW_BASE, v[i].times);
		if (v[i].kind != PTM_COUNT_COND)
			continue;
		flow_put(text, " %" PRIx64 "?%" PRIu64 "/%" PRIu64, v[i].ip - FLOW_BASE,
			 both           ? v[i + 1].times
			 : v[i].to != 0 ? v[i].times
					: 0,
			 v[i].to == 0 ? v[i].times : 0);
		i += both;
	}
}

/* What an engine counts. */
static void count(const struct counts_case *c, const struct ptm_engine_ops *ops, bool cut,
		  bool padded, struct flow_text *text)
{
	const struct flow_case flow = {.name = c->name, .code = c->code};
	static struct flow_out out;
	static struct pt_bytes p;
	struct flow_env env;
	struct ptm_counts *counts = ptm_counts_create();
	const struct ptm_count *v;
	size_t n;

	assert_non_null(counts);
	flow_open(&env, ops, &flow);
	env.engine->ops->destroy(env.engine);
	env.engine = ops->create(
		&(struct ptm_engine_options){.want = PTM_WANT_COUNTS,
					     .counts = counts,
					     .resync = c->resync ? PTM_RESYNC_IP : PTM_RESYNC_PSB},
		NULL);
	assert_non_null(env.engine);
	out = (struct flow_out){
		.env = &env, .digest = PTM_DIGEST_EMPTY, .resynced = PTM_DIGEST_EMPTY};
	flow_packets(&env, &p, c->packets);
	/* The fast path leaves the last bytes alone. */
	memset(p.b + p.n, 0, 32);
	p.n += padded ? 32 : 0;
	decode_all(&p, cut, &out);
	if (ops->settle != NULL)
		assert_int_equal(ops->settle(env.engine, NULL), 0);
	assert_int_equal(ptm_counts_get(counts, &v, &n, NULL), 0);
	text->n = 0;
	text->s[0] = '\0';
	put_runs(text, env.space, v, n);
	put_branches(text, v, n);
	ptm_counts_destroy(counts);
	flow_close(&env);
}

static void test_engines(void **state)
{
	static struct flow_text text;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct counts_case *c = &cases[i];
		const char *libipt = c->libipt != NULL ? c->libipt : c->expected;

		for (int how = 0; how < 4; how++) {
			const bool cut = how % 2 != 0, padded = how / 2 != 0;

			count(c, &ptm_engine_fast, cut, padded, &text);
			if (strcmp(text.s, c->expected) != 0)
				fail_msg("fast: %s: %s", c->name, text.s);
			if (*libipt == '\0')
				continue;
			count(c, &ptm_engine_ipt, cut, padded, &text);
			if (strcmp(text.s, libipt) != 0)
				fail_msg("libipt: %s: %s", c->name, text.s);
		}
	}
}

static void add(struct ptm_counts *counts, const struct ptm_space *space, uint64_t ip, uint64_t to,
		uint64_t times)
{
	assert_int_equal(
		ptm_counts_add(counts, space, PTM_COUNT_TARGET, PTM_MODE_64, ip, to, times, NULL),
		0);
}

/* Far more than the front holds, in an order that drives each entry out again and again. */
static void test_many(void **state)
{
	struct ptm_space *space = ptm_space_create();
	struct ptm_counts *counts = ptm_counts_create();
	const struct ptm_count *v;
	size_t n;

	(void)state;
	for (uint64_t turn = 1; turn <= 3; turn++)
		for (uint64_t i = 0; i < 400000; i++)
			add(counts, space, i * 7919 % 400000, i * 7919 % 400000 + 5, turn);
	assert_int_equal(ptm_counts_get(counts, &v, &n, NULL), 0);
	assert_int_equal(n, 400000);
	for (uint64_t i = 0; i < n; i++)
		assert_true(v[i].ip == i && v[i].to == i + 5 && v[i].times == 6);
	ptm_counts_destroy(counts);
	ptm_space_destroy(space);
}

/* Workers have met the spaces in different order. */
static void test_sum(void **state)
{
	struct ptm_space *one = ptm_space_create(), *two = ptm_space_create();
	struct ptm_counts *a = ptm_counts_create(), *b = ptm_counts_create();
	const struct ptm_count *v;
	size_t n;

	(void)state;
	add(a, one, 1, 2, 10);
	add(a, two, 1, 2, 20);
	add(b, two, 1, 2, 300);
	add(b, one, 1, 2, 400);
	add(b, one, 1, 3, 5000);
	assert_int_equal(ptm_counts_sum(a, b, NULL), 0);
	assert_int_equal(ptm_counts_get(a, &v, &n, NULL), 0);
	assert_int_equal(n, 3);
	assert_int_equal(ptm_counts_spaces(a), 2);
	assert_ptr_equal(ptm_counts_space(a, v[0].space), one);
	assert_ptr_equal(ptm_counts_space(a, v[2].space), two);
	assert_int_equal(v[0].times, 410);
	assert_int_equal(v[1].times, 5000);
	assert_int_equal(v[2].times, 320);
	ptm_counts_destroy(a);
	ptm_counts_destroy(b);
	ptm_space_destroy(one);
	ptm_space_destroy(two);
}

/* Too many different ones are an error, not memory without end. */
static void test_limit(void **state)
{
	struct ptm_space *space = ptm_space_create();
	struct ptm_counts *counts = ptm_counts_create();
	struct ptm_error err = {0};
	const struct ptm_count *v;
	int status = 0;
	uint64_t i;
	size_t n;

	(void)state;
	for (i = 0; i < PTM_COUNTS_MAX; i++)
		add(counts, space, i, 0, 1);
	assert_int_equal(ptm_counts_get(counts, &v, &n, &err), 0);
	assert_int_equal(n, PTM_COUNTS_MAX);
	for (; i < 3 * (uint64_t)PTM_COUNTS_MAX && status == 0; i++)
		status = ptm_counts_add(counts, space, PTM_COUNT_RUN, PTM_MODE_64, i, 1, 1, &err);
	assert_int_equal(status, -PTM_E_NOMEM);
	assert_non_null(strstr(err.cause[0].text, "4194304"));
	ptm_counts_destroy(counts);
	ptm_space_destroy(space);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_engines),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_sum),
		cmocka_unit_test(test_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
