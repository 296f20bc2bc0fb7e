/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_fast_test.c - what only the fast engine does: time put together from all clocks, a look at
 * cancellation inside a frame, and counting code of which only the structure is known.  Expected
 * values are worked out by hand.
 */
#define PT_BYTES_MAX (160u << 10) /* more packets than between two looks at cancellation */

#include "flow_case.h"

/* 00 nop   01 syscall   03 nop   04 je 0 */
#define CODE "@0 90 0f05 90 74fa"

/* The first event of a kind. */
struct seen {
	unsigned kind;
	bool found;
	struct ptm_event ev;
	const struct ptm_space *space; /* of the last batch with steps */
};

static int look(void *ctx, const struct ptm_batch *batch, struct ptm_error *err)
{
	struct seen *seen = (struct seen *)ctx;

	(void)err;
	for (size_t i = 0; i < batch->nevents && !seen->found; i++) {
		seen->found = batch->events[i].kind == seen->kind;
		seen->ev = batch->events[i];
	}
	if (batch->nsteps > 0)
		seen->space = batch->space;
	return 0;
}

static int decode(const struct ptm_stream_context *stream, unsigned want, const char *packets,
		  size_t pads, const atomic_bool *cancel, struct seen *seen,
		  struct ptm_tally *tally)
{
	static struct pt_bytes p;
	static struct ptm_emit emit;
	const struct flow_env env = {.base = FLOW_BASE};
	struct ptm_error err;
	struct ptm_engine *engine =
		ptm_engine_fast.create(&(struct ptm_engine_options){.want = want}, &err);
	struct ptm_segment seg = {.stream = stream, .data = p.b, .cancel = cancel};
	int status;

	assert_non_null(engine);
	flow_packets(&env, &p, packets);
	assert_true(p.n + pads <= sizeof(p.b));
	memset(p.b + p.n, 0, pads);
	p.n += pads;
	seg.len = p.n;
	ptm_emit_init(&emit, look, seen);
	status = engine->ops->decode(engine, &seg, &emit, &err);
	engine->ops->destroy(engine);
	*tally = emit.tally;
	return status;
}

static struct ptm_space *space_of(const char *code)
{
	static struct pt_bytes bytes;
	struct ptm_space *space = ptm_space_create();

	flow_code(&bytes, code);
	map_code(space, &bytes, FLOW_BASE, 0);
	assert_int_equal(ptm_space_seal(space, NULL), 0);
	return space;
}

/* A TSC of 100, the crystal clock at 0 then, each of its clocks ten ticks, and its fifth. */
#define TIMED                                                                                      \
	"psb 1964000000000000 02730000000000 9901 fup:0 psbend pgd 5901 5902 5903 5904 5905 "      \
	"pge:3 T"

static const struct ptm_timing clocks = {.cpuid_0x15_eax = 1, .cpuid_0x15_ebx = 10};

static void test_event_time(void **state)
{
	struct ptm_space *space = space_of(CODE);
	struct ptm_stream_context stream = {.images.first = space, .timing = clocks};
	struct ptm_tally tally;
	struct seen seen = {.kind = PTM_EV_RESUMED};

	(void)state;
	assert_int_equal(
		decode(&stream, PTM_WANT_STEPS | PTM_WANT_TIME, TIMED, 0, NULL, &seen, &tally), 0);
	assert_true(seen.found && (seen.ev.flags & PTM_EVF_HAS_TSC) != 0);
	assert_int_equal(seen.ev.tsc, 150);
	/* Nobody wants more than the last TSC. */
	seen = (struct seen){.kind = PTM_EV_RESUMED};
	assert_int_equal(decode(&stream, PTM_WANT_STEPS, TIMED, 0, NULL, &seen, &tally), 0);
	assert_int_equal(seen.ev.tsc, 100);
	/* The clocks are not known. */
	stream.timing = (struct ptm_timing){0};
	seen = (struct seen){.kind = PTM_EV_RESUMED};
	assert_int_equal(decode(&stream, PTM_WANT_TIME, TIMED, 0, NULL, &seen, &tally), 0);
	assert_int_equal(seen.ev.tsc, 100);
	ptm_space_destroy(space);
}

/* Another process runs from tick 145 or 151 on; the flow begins again at 150. */
static void test_space_time(void **state)
{
	struct ptm_space *one = space_of(CODE), *two = space_of(CODE);
	struct ptm_stream_context stream = {.images.first = one, .timing = clocks};
	struct ptm_tally tally;
	struct seen seen = {0};

	(void)state;
	assert_true(ptm_vec_push(&stream.images.entries, ((struct ptm_timeline_entry){145, two})));
	assert_int_equal(decode(&stream, PTM_WANT_STEPS, TIMED, 0, NULL, &seen, &tally), 0);
	assert_ptr_equal(seen.space, two);
	stream.images.entries.v[0].tsc = 151;
	assert_int_equal(decode(&stream, PTM_WANT_STEPS, TIMED, 0, NULL, &seen, &tally), 0);
	assert_ptr_equal(seen.space, one);
	free(stream.images.entries.v);
	ptm_space_destroy(one);
	ptm_space_destroy(two);
}

static void test_cancel(void **state)
{
	struct ptm_space *space = space_of(CODE);
	struct ptm_stream_context stream = {.images.first = space};
	struct seen seen = {.kind = PTM_EV_GAP};
	struct ptm_tally tally;
	atomic_bool cancel = false;

	(void)state;
	assert_int_equal(decode(&stream, PTM_WANT_STEPS, "psb+", 150000, &cancel, &seen, &tally),
			 0);
	assert_int_equal(tally.bytes[PTM_BYTES_PADDING], 150000);
	/* A short frame is decoded to its end, a long one is not. */
	cancel = true;
	assert_int_equal(decode(&stream, PTM_WANT_STEPS, "psb+", 60000, &cancel, &seen, &tally),
			 -PTM_E_CANCELED);
	assert_int_equal(tally.bytes[PTM_BYTES_PADDING], 60000);
	assert_int_equal(decode(&stream, PTM_WANT_STEPS, "psb+", 150000, &cancel, &seen, &tally),
			 -PTM_E_CANCELED);
	assert_int_equal(tally.bytes[PTM_BYTES_PADDING], 0);
	ptm_space_destroy(space);
}

/* 0 nop, 1 cmpbexadd, which Zydis 4.0 rejects, a je 0; twice. */
static void test_guessed(void **state)
{
	struct ptm_space *guess = space_of("@0 90 c4e279e608 74f8"), *sure = space_of("@0 90 74fd");
	struct ptm_stream_context stream = {.images.first = guess};
	struct seen seen = {.kind = PTM_EV_GAP};
	struct ptm_tally tally;

	(void)state;
	assert_int_equal(decode(&stream, PTM_WANT_STEPS, "psb+0 TT", 0, NULL, &seen, &tally), 0);
	assert_int_equal(tally.insns, 6);
	assert_int_equal(tally.guessed, 2);
	stream.images.first = sure;
	assert_int_equal(decode(&stream, PTM_WANT_STEPS, "psb+0 TT", 0, NULL, &seen, &tally), 0);
	assert_int_equal(tally.insns, 4);
	assert_int_equal(tally.guessed, 0);
	assert_false(seen.found);
	ptm_space_destroy(guess);
	ptm_space_destroy(sure);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_event_time),
		cmocka_unit_test(test_space_time),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_guessed),
	};

	return cmocka_run_group_tests_name("flow_fast", tests, NULL, NULL);
}
