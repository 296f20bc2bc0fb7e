/* SPDX-License-Identifier: Apache-2.0
 *
 * sink_text_test.c - the text sink on hand-made steps; the expected text is written by hand.
 */
#include "sink_job.h"

#define NINSNS 9

static const uint64_t ips[NINSNS] = {0x401000, 0x401001, 0x401004, 0x401006, 0x40100a,
				     0x401010, 0x401012, 0x401014, 0x401015};

/* Events before instruction 0, 3 (two), 7 and behind the last. */
static const struct {
	unsigned before;
	struct ptm_event ev;
} events[] = {
	{0, {.kind = PTM_EV_ENABLED, .flags = PTM_EVF_HAS_IP, .ip = 0x401000}},
	{3, {.kind = PTM_EV_CBR, .arg = 24, .flags = PTM_EVF_HAS_TSC, .tsc = 99}},
	{3, {.kind = PTM_EV_EXEC_MODE, .flags = PTM_EVF_HAS_IP, .ip = 0x401006, .arg = 64}},
	{7,
	 {.kind = PTM_EV_ASYNC_BRANCH,
	  .flags = PTM_EVF_HAS_IP | PTM_EVF_HAS_TO,
	  .ip = 0x401014,
	  .to = 0x401014}},
	{9, {.kind = PTM_EV_GAP, .arg = PTM_GAP_NO_IMAGE, .offset = 0x20, .value = 7}},
};
#define NEVENTS (sizeof(events) / sizeof(events[0]))

static const char expected[] =
	"[enabled ip=0000000000401000]\n"
	"0000000000401000  push rbp\n"
	"0000000000401001  mov rbp, rsp\n"
	"0000000000401004  xor eax, eax\n"
	"[cbr ratio=24]\n"
	"[exec mode bits=64 ip=0000000000401006]\n"
	"0000000000401006  jmp 0x40100a\n"
	"000000000040100a  call 0x401010\n"
	"0000000000401010  test eax, eax\n"
	"0000000000401012  je 0x401015\n"
	"[async branch ip=0000000000401014 to=0000000000401014]\n"
	"0000000000401014  nop\n"
	"0000000000401015  .byte 0xd5, 0x00, 0xa1, 0x10, 0x10, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00\n"
	"[gap class=no-image offset=0x20 bytes=7]\n";

static const char expected_bare[] = "[enabled ip=0000000000401000]\n"
				    "0000000000401000\n"
				    "0000000000401001\n"
				    "0000000000401004\n"
				    "[cbr ratio=24]\n"
				    "[exec mode bits=64 ip=0000000000401006]\n"
				    "0000000000401006\n"
				    "000000000040100a\n"
				    "0000000000401010\n"
				    "0000000000401012\n"
				    "[async branch ip=0000000000401014 to=0000000000401014]\n"
				    "0000000000401014\n"
				    "0000000000401015\n"
				    "[gap class=no-image offset=0x20 bytes=7]\n";

struct fixture {
	struct ptm_space *space;
	struct ptm_sink *sink;
	void *worker;
};

static struct fixture open_text(struct ptm_text_config config)
{
	struct fixture f = {.space = make_space()};

	config.size = sizeof(config);
	f.sink = ptm_sink_text_create(&config, "/dev/null", NULL);
	assert_non_null(f.sink);
	f.worker = f.sink->ops->worker_create(f.sink, NULL);
	assert_non_null(f.worker);
	return f;
}

static void close_text(struct fixture *f)
{
	f->sink->ops->worker_destroy(f->sink, f->worker);
	ptm_sink_destroy(f->sink);
	ptm_space_destroy(f->space);
}

static void work(struct fixture *f, struct job *job, struct ptm_batch *batch)
{
	struct ptm_error err = {0};

	batch->space = f->space;
	assert_int_equal(f->sink->ops->work(f->sink, f->worker, batch, job->out, &err), 0);
}

/* The sequence above, a new step where a bit of @cuts is set (and where the flow forces one), a new
 * batch where a bit of @batches is set. */
static struct bytes run_cut(struct fixture *f, unsigned cuts, unsigned batches)
{
	struct ptm_step steps[NINSNS];
	struct ptm_event evs[NEVENTS];
	struct ptm_batch batch = {.steps = steps, .events = evs};
	struct job job = begin_job();
	size_t e = 0;

	for (unsigned i = 0; i <= NINSNS; i++) {
		bool cut = i == 0 || i == 7 || (cuts >> i & 1) != 0 || batch.nsteps == 0;

		if ((batches >> i & 1) != 0) {
			work(f, &job, &batch);
			batch.nsteps = batch.nevents = 0;
			cut = true;
		}
		for (; e < NEVENTS && events[e].before == i; e++) {
			evs[batch.nevents] = events[e].ev;
			evs[batch.nevents++].step = (uint32_t)batch.nsteps;
			cut = true;
		}
		if (i == NINSNS)
			break;
		if (cut)
			steps[batch.nsteps++] = (struct ptm_step){ips[i], 0, PTM_MODE_64};
		steps[batch.nsteps - 1].n++;
	}
	work(f, &job, &batch);
	return end_framed_job(&job);
}

static void check_cut(struct fixture *f, unsigned cuts, unsigned batches, const char *want)
{
	struct bytes got = run_cut(f, cuts, batches);

	assert_string_equal((const char *)got.data, want);
	free(got.data);
}

static void test_any_cut(void **state)
{
	struct fixture f = open_text((struct ptm_text_config){0});

	(void)state;
	for (unsigned cuts = 0; cuts < 1u << NINSNS; cuts++) {
		check_cut(&f, cuts, 0, expected);
		check_cut(&f, 0, cuts, expected);
		check_cut(&f, cuts, cuts * 7, expected);
	}
	close_text(&f);
}

static void test_no_disasm(void **state)
{
	struct fixture f = open_text((struct ptm_text_config){.no_disasm = true});

	(void)state;
	check_cut(&f, 0, 0, expected_bare);
	check_cut(&f, 0x155, 0x2a, expected_bare);
	close_text(&f);
}

/* A cache that is dropped before every step. */
static void test_tiny_cache(void **state)
{
	struct fixture f = open_text((struct ptm_text_config){.cache_limit = 1});

	(void)state;
	for (unsigned cuts = 0; cuts < 1u << NINSNS; cuts += 37)
		check_cut(&f, cuts, 0, expected);
	close_text(&f);
}

static void check_step(struct fixture *f, struct ptm_step step, const char *want)
{
	struct ptm_batch batch = {.steps = &step, .nsteps = 1};

	/* Twice: what was remembered must not differ. */
	for (unsigned i = 0; i < 2; i++) {
		struct job job = begin_job();
		struct bytes got;

		work(f, &job, &batch);
		got = end_framed_job(&job);
		assert_string_equal((const char *)got.data, want);
		free(got.data);
	}
}

static void test_unexpanded(void **state)
{
	struct fixture f = open_text((struct ptm_text_config){0});

	(void)state;
	check_step(&f, (struct ptm_step){0x500000, 3, PTM_MODE_64},
		   "[gap class=no-image instructions=3 ip=0000000000500000]\n");
	check_step(&f, (struct ptm_step){0x401022, 3, PTM_MODE_64},
		   "0000000000401022  nop\n"
		   "[gap class=bad-insn instructions=2 ip=0000000000401023]\n");
	check_step(&f, (struct ptm_step){0x401024, 3, PTM_MODE_64},
		   "0000000000401024  nop\n"
		   "[gap class=no-image instructions=2 ip=0000000000401025]\n");
	check_step(&f, (struct ptm_step){0x401010, 5, PTM_MODE_64},
		   "0000000000401010  test eax, eax\n"
		   "0000000000401012  je 0x401015\n"
		   "[gap class=mismatch instructions=3 ip=0000000000401014]\n");
	close_text(&f);
}

/* The same bytes in another mode are another instruction: 06 is push es. */
static void test_modes(void **state)
{
	struct fixture f = open_text((struct ptm_text_config){0});

	(void)state;
	check_step(&f, (struct ptm_step){0x401023, 1, PTM_MODE_32}, "0000000000401023  push es\n");
	check_step(&f, (struct ptm_step){0x401023, 1, PTM_MODE_16}, "0000000000401023  push es\n");
	check_step(&f, (struct ptm_step){0x401023, 1, PTM_MODE_64},
		   "[gap class=bad-insn instructions=1 ip=0000000000401023]\n");
	close_text(&f);
}

/* A step longer than the longest run, whose text is longer than a chunk. */
static void test_long_step(void **state)
{
	static const char line[] = "0000000000401020  jmp 0x401020\n";
	const uint32_t n = 3 * 65536 + 17;
	struct ptm_step step = {0x401020, n, PTM_MODE_64};
	struct ptm_batch batch = {.steps = &step, .nsteps = 1};
	struct fixture f = open_text((struct ptm_text_config){0});
	struct job job = begin_job();
	struct bytes got;

	(void)state;
	work(&f, &job, &batch);
	got = end_framed_job(&job);
	assert_int_equal(got.len, n * (sizeof(line) - 1));
	for (uint32_t i = 0; i < n; i++)
		assert_memory_equal(got.data + i * (sizeof(line) - 1), line, sizeof(line) - 1);
	free(got.data);
	close_text(&f);
}

/* Canceled: work() says so, whatever it was about to write. */
static void test_canceled(void **state)
{
	struct fixture f = open_text((struct ptm_text_config){0});
	struct ptm_step step = {0x401000, 7, PTM_MODE_64};
	struct ptm_event ev = {.kind = PTM_EV_STOP};
	struct ptm_batch batches[] = {{.space = f.space, .steps = &step, .nsteps = 1},
				      {.events = &ev, .nevents = 1}};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct job job = begin_job();
		struct ptm_error err = {0};

		ptm_ring_cancel(job.ring);
		assert_int_equal(f.sink->ops->work(f.sink, f.worker, &batches[i], job.out, &err),
				 -PTM_E_CANCELED);
		ptm_ring_done(job.out);
		ptm_ring_leave(job.ring, NULL);
		ptm_ring_destroy(job.ring);
	}
	close_text(&f);
}

/* Two batches at the begin of the code, the second behind a resync if @resynced, and an event. */
static struct bytes some_output(struct fixture *f, bool resynced)
{
	struct ptm_step steps[] = {{0x401000, 2, PTM_MODE_64}, {0x401014, 1, PTM_MODE_64}};
	struct ptm_event ev = {.kind = PTM_EV_STOP};
	struct ptm_batch first = {.steps = steps, .nsteps = 1};
	struct ptm_batch second = {
		.steps = steps + 1, .nsteps = 1, .events = &ev, .nevents = 1, .resynced = resynced};
	struct job job = begin_job();

	work(f, &job, &first);
	work(f, &job, &second);
	work(f, &job, &second);
	work(f, &job, &first);
	return end_job(&job);
}

static void check_resync(bool resynced, const char *want)
{
	struct fixture f = open_text((struct ptm_text_config){.no_disasm = true});
	char *path = make_path();
	struct ptm_sink *sink = ptm_sink_text_create(NULL, path, NULL);
	struct bytes out = some_output(&f, resynced);
	char *text;

	assert_non_null(sink);
	assert_int_equal(sink->ops->stream_begin(sink, "s", NULL), 0);
	assert_int_equal(sink->ops->deliver(sink, out.data, out.len, NULL), 0);
	free(out.data);
	assert_int_equal(sink->ops->stream_end(sink, "s", NULL), 0);
	assert_int_not_equal(access(path, F_OK), 0);
	assert_int_equal(ptm_sink_finish(sink, NULL), 0);
	text = read_text(path);
	assert_string_equal(text, want);
	free(text);
	assert_int_equal(ptm_sink_finish(sink, NULL), -PTM_E_USAGE);
	ptm_sink_destroy(sink);
	assert_int_equal(unlink(path), 0);
	free(path);
	close_text(&f);
}

/* Where resynced instructions begin and end is said once, whatever batches they come in; an event
 * is neither. */
static void test_resync(void **state)
{
	(void)state;
	check_resync(false, "0000000000401000\n0000000000401001\n"
			    "[stop]\n0000000000401014\n"
			    "[stop]\n0000000000401014\n"
			    "0000000000401000\n0000000000401001\n");
	check_resync(true, "0000000000401000\n0000000000401001\n"
			   "[stop]\n[resync begin]\n0000000000401014\n"
			   "[stop]\n0000000000401014\n"
			   "[resync end]\n0000000000401000\n0000000000401001\n");
}

/* What is not finished does not appear under the name. */
static void test_output(void **state)
{
	struct fixture f = open_text((struct ptm_text_config){0});
	struct bytes out = some_output(&f, false);
	char *path = make_path();
	struct ptm_sink *sink = ptm_sink_text_create(NULL, path, NULL);

	(void)state;
	assert_non_null(sink);
	assert_int_equal(sink->ops->deliver(sink, out.data, out.len, NULL), 0);
	ptm_sink_destroy(sink);
	assert_int_not_equal(access(path, F_OK), 0);
	free(out.data);
	free(path);
	ptm_sink_destroy(NULL);
	assert_null(ptm_sink_text_create(NULL, "/nonexistent/x", NULL));
	close_text(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_cut),    cmocka_unit_test(test_no_disasm),
		cmocka_unit_test(test_tiny_cache), cmocka_unit_test(test_unexpanded),
		cmocka_unit_test(test_modes),      cmocka_unit_test(test_long_step),
		cmocka_unit_test(test_canceled),   cmocka_unit_test(test_resync),
		cmocka_unit_test(test_output),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
