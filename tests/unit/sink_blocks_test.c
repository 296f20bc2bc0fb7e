/* SPDX-License-Identifier: Apache-2.0
 *
 * sink_blocks_test.c - blocks as text and JSON on hand-made steps: the expected lines are written
 * by hand from the code in sink_job.h and the definition of a block in ptmill/iter.h.
 */
#include "sink_job.h"

#include "sink/visit.h"

#define NINSNS 9

static const uint64_t ips[NINSNS] = {0x401000, 0x401001, 0x401004, 0x401006, 0x40100a,
				     0x401010, 0x401012, 0x401014, 0x401015};
static const uint8_t lens[NINSNS] = {1, 3, 2, 2, 5, 2, 2, 1, 11};

/* Events before an instruction; the resynced instructions are those from 7 on. */
static const struct {
	unsigned before;
	struct ptm_event ev;
} events[] = {
	{0, {.kind = PTM_EV_ENABLED, .flags = PTM_EVF_HAS_IP, .ip = 0x401000}},
	{2, {.kind = PTM_EV_CBR, .arg = 24, .flags = PTM_EVF_HAS_TSC, .tsc = 99}},
	{9, {.kind = PTM_EV_GAP, .arg = PTM_GAP_NO_IMAGE, .offset = 0x20, .value = 7}},
};
#define NEVENTS (sizeof(events) / sizeof(events[0]))

static const char text[] = "[enabled ip=0000000000401000]\n"
			   "0000000000401000 2 4 none\n"
			   "[cbr ratio=24]\n"
			   "0000000000401004 2 4 jump\n"
			   "000000000040100a 1 5 call\n"
			   "0000000000401010 2 4 cond\n"
			   "[resync begin]\n"
			   "0000000000401014 2 12 jump-indirect\n"
			   "[gap class=no-image offset=0x20 bytes=7]\n"
			   "[resync end]\n";

static const char json[] =
	"{\"kind\":\"stream\",\"name\":\"s\"}\n"
	"{\"kind\":\"event\",\"event\":\"enabled\",\"ip\":\"0x0000000000401000\"}\n"
	"{\"kind\":\"block\",\"ip\":\"0x0000000000401000\",\"instructions\":2,\"bytes\":4,"
	"\"bits\":64,\"ends\":\"none\"}\n"
	"{\"kind\":\"event\",\"event\":\"cbr\",\"ratio\":24}\n"
	"{\"kind\":\"block\",\"ip\":\"0x0000000000401004\",\"instructions\":2,\"bytes\":4,"
	"\"bits\":64,\"ends\":\"jump\"}\n"
	"{\"kind\":\"block\",\"ip\":\"0x000000000040100a\",\"instructions\":1,\"bytes\":5,"
	"\"bits\":64,\"ends\":\"call\"}\n"
	"{\"kind\":\"block\",\"ip\":\"0x0000000000401010\",\"instructions\":2,\"bytes\":4,"
	"\"bits\":64,\"ends\":\"cond\"}\n"
	"{\"kind\":\"block\",\"ip\":\"0x0000000000401014\",\"instructions\":2,\"bytes\":12,"
	"\"bits\":64,\"ends\":\"jump-indirect\",\"resynced\":true}\n"
	"{\"kind\":\"gap\",\"class\":\"no-image\",\"offset\":\"0x0000000000000020\",\"bytes\":7}\n";

/* Calls work() with the sequence above: a new step where a bit of @cuts is set (and where the flow
 * forces one), a new batch where a bit of @batches is set.  Returns what it wrote. */
static struct bytes run_cut(struct ptm_sink *sink, const struct ptm_space *space, unsigned cuts,
			    unsigned batches)
{
	void *worker = sink->ops->worker_create(sink, NULL);
	struct ptm_step steps[NINSNS];
	struct ptm_event evs[NEVENTS];
	struct ptm_batch batch = {.steps = steps, .events = evs, .space = space};
	struct job job = begin_job();
	size_t e = 0;

	assert_non_null(worker);
	for (unsigned i = 0; i <= NINSNS; i++) {
		bool cut = (cuts >> i & 1) != 0;

		if ((batches >> i & 1) != 0 || i == 7 || i == NINSNS) {
			if (i < NINSNS || batch.nsteps + batch.nevents > 0)
				assert_int_equal(
					sink->ops->work(sink, worker, &batch, job.out, NULL), 0);
			batch.nsteps = batch.nevents = 0;
			batch.resynced = i >= 7;
		}
		for (; e < NEVENTS && events[e].before == i; e++) {
			evs[batch.nevents] = events[e].ev;
			evs[batch.nevents++].step = (uint32_t)batch.nsteps;
			cut = true;
		}
		if (i == NINSNS)
			break;
		if (cut || batch.nsteps == 0)
			steps[batch.nsteps++] = (struct ptm_step){ips[i], 0, PTM_MODE_64};
		steps[batch.nsteps - 1].n++;
	}
	assert_int_equal(sink->ops->work(sink, worker, &batch, job.out, NULL), 0);
	sink->ops->worker_destroy(sink, worker);
	return end_job(&job);
}

static void check_cut(const struct ptm_space *space, bool as_json, unsigned cuts, unsigned batches)
{
	char *path = make_path();
	struct ptm_sink *sink = ptm_sink_blocks_create(as_json, path, NULL);
	struct bytes out;
	char *got;

	assert_non_null(sink);
	out = run_cut(sink, space, cuts, batches);
	assert_int_equal(sink->ops->stream_begin(sink, "s", NULL), 0);
	assert_int_equal(sink->ops->deliver(sink, out.data, out.len, NULL), 0);
	assert_int_equal(sink->ops->stream_end(sink, "s", NULL), 0);
	assert_int_equal(ptm_sink_finish(sink, NULL), 0);
	ptm_sink_destroy(sink);
	got = read_text(path);
	assert_string_equal(got, as_json ? json : text);
	assert_int_equal(unlink(path), 0);
	free(got);
	free(path);
	free(out.data);
}

static void test_any_cut(void **state)
{
	struct ptm_space *space = make_space();

	(void)state;
	for (unsigned cuts = 0; cuts < 1u << NINSNS; cuts += 3) {
		check_cut(space, false, cuts, 0);
		check_cut(space, false, 0, cuts);
		check_cut(space, false, cuts, cuts * 7);
		check_cut(space, true, cuts * 5, cuts);
	}
	ptm_space_destroy(space);
}

struct seen {
	unsigned insns, nblocks, nevents, nstreams;
	struct ptm_expander *expander;
};

/* Every block, instruction by instruction. */
static int see_batch(void *ctx, const struct ptm_block_batch *batch)
{
	struct seen *seen = ctx;
	struct ptm_instruction insns[NINSNS];

	assert_int_equal(batch->stream, 0);
	assert_true(batch->nblocks + batch->nevents > 0);
	for (size_t i = 0; i < batch->nblocks; i++) {
		const struct ptm_block *block = &batch->blocks[i];

		assert_int_equal(ptm_expand(seen->expander, block, 0, insns, NINSNS, NULL),
				 block->n);
		for (unsigned k = 0; k < block->n; k++, seen->insns++) {
			assert_int_equal(insns[k].ip, ips[seen->insns]);
			assert_int_equal(insns[k].len, lens[seen->insns]);
			assert_memory_equal(insns[k].bytes,
					    &code_bytes[ips[seen->insns] - CODE_BASE],
					    lens[seen->insns]);
			assert_int_equal(insns[k].branch,
					 k + 1 < block->n ? PTM_BRANCH_NONE : block->ends);
			assert_int_equal(insns[k].flags, seen->insns >= 7 ? PTM_BLOCK_RESYNCED : 0);
		}
		assert_int_equal(block->last, insns[block->n - 1].ip);
		/* From the middle on, and behind the end. */
		assert_int_equal(
			ptm_expand(seen->expander, block, block->n - 1, insns, NINSNS, NULL), 1);
		assert_int_equal(insns[0].ip, block->last);
		assert_int_equal(ptm_expand(seen->expander, block, block->n, insns, NINSNS, NULL),
				 0);
		seen->nblocks++;
	}
	for (size_t i = 0; i < batch->nevents; i++) {
		assert_in_range(batch->events[i].step, 0, batch->nblocks);
		assert_int_equal(batch->events[i].kind, events[seen->nevents++].ev.kind);
	}
	return 0;
}

static int see_end(void *ctx, size_t stream, const char *name)
{
	((struct seen *)ctx)->nstreams++;
	assert_int_equal(stream, 0);
	assert_string_equal(name, "s");
	return 0;
}

static void test_visit(void **state)
{
	struct ptm_space *space = make_space();

	(void)state;
	for (unsigned cuts = 0; cuts < 1u << NINSNS; cuts += 3) {
		struct seen seen = {.expander = ptm_expander_create(0, NULL)};
		const struct ptm_visitor visitor = {.size = sizeof(visitor),
						    .ctx = &seen,
						    .batch = see_batch,
						    .stream_end = see_end};
		struct ptm_sink *sink = ptm_sink_visit_create(&visitor, NULL);
		struct bytes out;

		assert_non_null(sink);
		out = run_cut(sink, space, cuts, cuts * 11);
		assert_int_equal(sink->ops->stream_begin(sink, "s", NULL), 0);
		assert_int_equal(sink->ops->deliver(sink, out.data, out.len, NULL), 0);
		assert_int_equal(sink->ops->stream_end(sink, "s", NULL), 0);
		ptm_sink_destroy(sink);
		ptm_expander_destroy(seen.expander);
		assert_int_equal(seen.insns, NINSNS);
		assert_int_equal(seen.nblocks, 5);
		assert_int_equal(seen.nevents, NEVENTS);
		assert_int_equal(seen.nstreams, 1);
		free(out.data);
	}
	ptm_space_destroy(space);
}

static void check_step(const struct ptm_space *space, bool as_json, struct ptm_step step,
		       const char *want)
{
	char *path = make_path();
	struct ptm_sink *sink = ptm_sink_blocks_create(as_json, path, NULL);
	void *worker = sink->ops->worker_create(sink, NULL);
	struct ptm_batch batch = {.steps = &step, .nsteps = 1, .space = space};
	struct job job = begin_job();
	struct bytes out;
	char *got;

	assert_int_equal(sink->ops->work(sink, worker, &batch, job.out, NULL), 0);
	out = end_job(&job);
	assert_int_equal(sink->ops->deliver(sink, out.data, out.len, NULL), 0);
	assert_int_equal(sink->ops->stream_end(sink, "s", NULL), 0);
	assert_int_equal(ptm_sink_finish(sink, NULL), 0);
	sink->ops->worker_destroy(sink, worker);
	ptm_sink_destroy(sink);
	got = read_text(path);
	assert_string_equal(got, want);
	assert_int_equal(unlink(path), 0);
	free(got);
	free(path);
	free(out.data);
}

/* What the images do not hold is said. */
static void test_unknown(void **state)
{
	struct ptm_space *space = make_space();
	struct ptm_step step = {0x401022, 3, PTM_MODE_64};

	(void)state;
	check_step(space, false, step,
		   "0000000000401022 1 1 none\n"
		   "[gap class=bad-insn instructions=2 ip=0000000000401023]\n");
	check_step(space, true, step,
		   "{\"kind\":\"block\",\"ip\":\"0x0000000000401022\",\"instructions\":1,"
		   "\"bytes\":1,\"bits\":64,\"ends\":\"none\"}\n"
		   "{\"kind\":\"gap\",\"class\":\"bad-insn\",\"instructions\":2,"
		   "\"ip\":\"0x0000000000401023\"}\n");
	step.ip = 0x500000;
	check_step(space, false, step, "[gap class=no-image instructions=3 ip=0000000000500000]\n");
	step.ip = 0x401010;
	check_step(space, false, step,
		   "0000000000401010 2 4 cond\n"
		   "[gap class=mismatch instructions=1 ip=0000000000401014]\n");
	step = (struct ptm_step){0x401022, 3, PTM_MODE_32};
	check_step(space, true, step,
		   "{\"kind\":\"block\",\"ip\":\"0x0000000000401022\",\"instructions\":3,"
		   "\"bytes\":3,\"bits\":32,\"ends\":\"none\"}\n");
	ptm_space_destroy(space);
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(ptm_branch_name(PTM_BRANCH_NONE), "none");
	assert_string_equal(ptm_branch_name(PTM_BRANCH_FAR_JUMP), "far-jump");
	assert_string_equal(ptm_branch_name(PTM_BRANCH_KINDS), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_cut),
		cmocka_unit_test(test_visit),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
