/* SPDX-License-Identifier: Apache-2.0
 *
 * sink_digest_test.c - the digest sink; expected digests are computed here, one instruction at a
 * time, by the formula of the design (section 4).
 */
#include "sink_job.h"

#include <inttypes.h>

static uint64_t digest_of(const uint64_t *ips, size_t n)
{
	uint64_t h = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t x = ips[i] * UINT64_C(0xc2b2ae3d27d4eb4f);

		h = h * UINT64_C(0x9e3779b97f4a7c15) + (x ^ (x >> 32));
	}
	return h;
}

static struct ptm_digest part_of(const uint64_t *ips, size_t n)
{
	struct ptm_digest d = {n, 1, digest_of(ips, n)};

	for (size_t i = 0; i < n; i++)
		d.kn *= UINT64_C(0x9e3779b97f4a7c15);
	return d;
}

/* Two segments of one stream: batches with steps, and one without. */
static const uint64_t ips[] = {
	0x401000, 0x401001, 0x401004, 0x401006, 0x40100a, 0x401010, 0x401012, 0x401014, 0x401015,
	/* second batch */
	0x401010, 0x401012,
	/* second segment */
	0x401020, 0x401020, 0x401020, 0x401020, 0x401020, 0x401001, 0x401004};
#define NIPS (sizeof(ips) / sizeof(ips[0]))

static const struct ptm_step steps[] = {
	{0x401000, 7, PTM_MODE_64}, {0x401014, 2, PTM_MODE_64}, {0x401010, 2, PTM_MODE_64},
	{0x401020, 5, PTM_MODE_64}, {0x401001, 2, PTM_MODE_64},
};

static const struct {
	size_t step, nsteps, ip, nips;
} batches[] = {{0, 2, 0, 9}, {2, 1, 9, 2}, {3, 0, 11, 0}, {3, 2, 11, 7}};

/* What the workers write for the two segments. */
struct recorded {
	struct bytes segment[2];
};

static struct recorded record(struct ptm_sink *sink, const struct ptm_space *space)
{
	struct recorded rec;

	for (unsigned s = 0; s < 2; s++) {
		struct job job = begin_job();

		for (unsigned b = s == 0 ? 0 : 3; b < (s == 0 ? 3 : 4); b++) {
			struct ptm_batch batch = {
				.space = space,
				.steps = steps + batches[b].step,
				.nsteps = batches[b].nsteps,
				.digest = part_of(ips + batches[b].ip, batches[b].nips)};

			assert_int_equal(sink->ops->work(sink, NULL, &batch, job.out, NULL), 0);
		}
		rec.segment[s] = end_job(&job);
	}
	return rec;
}

/* In pieces of @first bytes, then @size bytes each. */
static void deliver(struct ptm_sink *sink, struct bytes data, size_t first, size_t size)
{
	for (size_t at = 0, n = first; at < data.len; at += n, n = size) {
		uint8_t *copy;

		n = n < data.len - at ? n : data.len - at;
		/* Of its own, so that a sanitizer sees a read past the piece. */
		copy = malloc(n > 0 ? n : 1);
		assert_non_null(copy);
		memcpy(copy, data.data + at, n);
		assert_int_equal(sink->ops->deliver(sink, copy, n, NULL), 0);
		free(copy);
	}
}

static void end_segment(struct ptm_sink *sink, unsigned s)
{
	struct ptm_segment_end end = {.digest = s == 0 ? part_of(ips, 11) : part_of(ips + 11, 7)};

	assert_int_equal(sink->ops->segment_end(sink, &end, NULL), 0);
}

static char *expected_text(uint64_t every)
{
	char *text = calloc(1, 1 << 16);
	char *p = text;

	assert_non_null(text);
	for (uint64_t i = every; every > 0 && i <= NIPS; i += every)
		p += sprintf(p, "stream a.pt at %" PRIu64 " digest 0x%016" PRIx64 "\n", i,
			     digest_of(ips, i));
	(void)sprintf(p, "stream a.pt instructions %zu digest 0x%016" PRIx64 "\n", NIPS,
		      digest_of(ips, NIPS));
	return text;
}

static void check_every(uint64_t every, const struct ptm_space *space, size_t first, size_t size)
{
	char *path = make_path();
	char *want = expected_text(every);
	struct ptm_sink *sink = ptm_sink_digest_create(every, path, NULL);
	struct recorded rec;
	char *got;

	assert_non_null(sink);
	rec = record(sink, space);
	assert_int_equal(sink->ops->stream_begin(sink, "a.pt", NULL), 0);
	for (unsigned s = 0; s < 2; s++) {
		deliver(sink, rec.segment[s], first, size);
		end_segment(sink, s);
		free(rec.segment[s].data);
	}
	assert_int_equal(sink->ops->stream_end(sink, "a.pt", NULL), 0);
	assert_int_equal(ptm_sink_finish(sink, NULL), 0);
	ptm_sink_destroy(sink);
	got = read_text(path);
	assert_string_equal(got, want);
	assert_int_equal(unlink(path), 0);
	free(got);
	free(want);
	free(path);
}

static void test_cut_anywhere(void **state)
{
	static const uint64_t every[] = {1, 2, 3, 5, 9, 11, 18, 19, 1000, UINT64_MAX};
	struct ptm_space *space = make_space();

	(void)state;
	for (size_t e = 0; e < sizeof(every) / sizeof(every[0]); e++) {
		/* The first segment has 32 + 2 * 16 + 32 + 16 bytes. */
		for (size_t first = 1; first <= 112; first++)
			check_every(every[e], space, first, SIZE_MAX);
		for (size_t size = 1; size < 50; size++)
			check_every(every[e], space, size, size);
	}
	ptm_space_destroy(space);
}

/* Without @every no steps are asked for. */
static void test_composed(void **state)
{
	char *path = make_path();
	char *want = expected_text(0);
	struct ptm_sink *sink = ptm_sink_digest_create(0, path, NULL);
	char *got;

	(void)state;
	assert_non_null(sink);
	assert_null(sink->ops->work);
	for (unsigned stream = 0; stream < 2; stream++) {
		assert_int_equal(sink->ops->stream_begin(sink, "a.pt", NULL), 0);
		for (unsigned s = 0; s < 2; s++)
			end_segment(sink, s);
		assert_int_equal(sink->ops->stream_end(sink, "a.pt", NULL), 0);
	}
	assert_int_equal(ptm_sink_finish(sink, NULL), 0);
	ptm_sink_destroy(sink);
	got = read_text(path);
	assert_memory_equal(got, want, strlen(want));
	assert_string_equal(got + strlen(want), want);
	assert_int_equal(unlink(path), 0);
	free(got);
	free(want);
	free(path);
}

/* A step that the image does not have: its digests are unknown, those of later batches are known.
 */
static void test_unexpanded(void **state)
{
	static const uint64_t seen[] = {0x401000, 0x500000, 0x500001, 0x500004, 0x401001, 0x401004};
	static const struct ptm_step odd[] = {
		{0x401000, 1, PTM_MODE_64}, {0x500000, 3, PTM_MODE_64}, {0x401001, 2, PTM_MODE_64}};
	struct ptm_space *space = make_space();
	struct ptm_batch batch[2] = {
		{.space = space, .steps = odd, .nsteps = 2, .digest = part_of(seen, 4)},
		{.space = space, .steps = odd + 2, .nsteps = 1, .digest = part_of(seen + 4, 2)}};
	struct ptm_segment_end end = {.digest = part_of(seen, 6)};
	char *path = make_path();
	struct ptm_sink *sink = ptm_sink_digest_create(2, path, NULL);
	struct job job = begin_job();
	struct bytes data;
	char want[512];
	char *got;

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(sink->ops->work(sink, NULL, &batch[i], job.out, NULL), 0);
	data = end_job(&job);
	assert_int_equal(sink->ops->stream_begin(sink, "x", NULL), 0);
	deliver(sink, data, 1, 7);
	assert_int_equal(sink->ops->segment_end(sink, &end, NULL), 0);
	assert_int_equal(sink->ops->stream_end(sink, "x", NULL), 0);
	assert_int_equal(ptm_sink_finish(sink, NULL), 0);
	ptm_sink_destroy(sink);
	(void)sprintf(want,
		      "stream x at 2 digest unknown\nstream x at 4 digest unknown\n"
		      "stream x at 6 digest 0x%016" PRIx64
		      "\nstream x instructions 6 digest 0x%016" PRIx64 "\n",
		      digest_of(seen, 6), digest_of(seen, 6));
	got = read_text(path);
	assert_string_equal(got, want);
	assert_int_equal(unlink(path), 0);
	free(data.data);
	free(got);
	free(path);
	ptm_space_destroy(space);
}

/* What was decoded behind a resync inside a frame is left out of the count, and told at the end. */
static void test_resynced(void **state)
{
	struct ptm_space *space = make_space();
	struct ptm_batch batch[3] = {
		{.space = space, .steps = steps, .nsteps = 2, .digest = part_of(ips, 9)},
		{.space = space,
		 .steps = steps + 2,
		 .nsteps = 1,
		 .digest = part_of(ips + 9, 2),
		 .resynced = true},
		{.space = space, .steps = steps + 3, .nsteps = 2, .digest = part_of(ips + 11, 7)}};
	const struct ptm_digest after = part_of(ips + 11, 7);
	struct ptm_segment_end end = {.digest = part_of(ips, 9), .resynced = part_of(ips + 9, 2)};
	char *path = make_path();
	struct ptm_sink *sink = ptm_sink_digest_create(8, path, NULL);
	struct job job = begin_job();
	uint64_t sure[16];
	struct bytes data;
	char want[512];
	char *got;

	(void)state;
	memcpy(sure, ips, 9 * sizeof(*ips));
	memcpy(sure + 9, ips + 11, 7 * sizeof(*ips));
	ptm_digest_append(&end.digest, &after);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(sink->ops->work(sink, NULL, &batch[i], job.out, NULL), 0);
	data = end_job(&job);
	assert_int_equal(sink->ops->stream_begin(sink, "x", NULL), 0);
	deliver(sink, data, 5, 9);
	assert_int_equal(sink->ops->segment_end(sink, &end, NULL), 0);
	assert_int_equal(sink->ops->stream_end(sink, "x", NULL), 0);
	assert_int_equal(ptm_sink_finish(sink, NULL), 0);
	ptm_sink_destroy(sink);
	(void)sprintf(want,
		      "stream x at 8 digest 0x%016" PRIx64 "\nstream x at 16 digest 0x%016" PRIx64
		      "\nstream x instructions 16 digest 0x%016" PRIx64
		      "\nstream x resynced 2 digest 0x%016" PRIx64 "\n",
		      digest_of(ips, 8), digest_of(sure, 16), digest_of(sure, 16),
		      digest_of(ips + 9, 2));
	got = read_text(path);
	assert_string_equal(got, want);
	assert_int_equal(unlink(path), 0);
	free(data.data);
	free(got);
	free(path);
	ptm_space_destroy(space);
}

/* A batch without steps counts; what lies in it is not known, what follows it is. */
static void test_no_steps(void **state)
{
	struct ptm_space *space = make_space();
	struct ptm_batch batch[2] = {
		{.space = space, .digest = part_of(ips, 9)},
		{.space = space, .steps = steps + 2, .nsteps = 1, .digest = part_of(ips + 9, 2)}};
	struct ptm_segment_end end = {.digest = part_of(ips, 11)};
	char *path = make_path();
	struct ptm_sink *sink = ptm_sink_digest_create(5, path, NULL);
	struct job job = begin_job();
	struct bytes data;
	char want[512];
	char *got;

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(sink->ops->work(sink, NULL, &batch[i], job.out, NULL), 0);
	data = end_job(&job);
	assert_int_equal(sink->ops->stream_begin(sink, "x", NULL), 0);
	deliver(sink, data, 5, 9);
	assert_int_equal(sink->ops->segment_end(sink, &end, NULL), 0);
	assert_int_equal(sink->ops->stream_end(sink, "x", NULL), 0);
	assert_int_equal(ptm_sink_finish(sink, NULL), 0);
	ptm_sink_destroy(sink);
	(void)sprintf(want,
		      "stream x at 5 digest unknown\nstream x at 10 digest 0x%016" PRIx64
		      "\nstream x instructions 11 digest 0x%016" PRIx64 "\n",
		      digest_of(ips, 10), digest_of(ips, 11));
	got = read_text(path);
	assert_string_equal(got, want);
	assert_int_equal(unlink(path), 0);
	free(data.data);
	free(got);
	free(path);
	ptm_space_destroy(space);
}

/* Records that do not add up to their segment are a bug of ours, and said. */
static void test_mismatch(void **state)
{
	struct ptm_sink *sink = ptm_sink_digest_create(2, "/dev/null", NULL);
	struct ptm_segment_end end = {.digest = part_of(ips, 11)};

	(void)state;
	assert_int_equal(sink->ops->stream_begin(sink, "x", NULL), 0);
	assert_int_equal(sink->ops->segment_end(sink, &end, NULL), -PTM_E_BUG);
	ptm_sink_destroy(sink);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut_anywhere), cmocka_unit_test(test_composed),
		cmocka_unit_test(test_unexpanded),   cmocka_unit_test(test_resynced),
		cmocka_unit_test(test_no_steps),     cmocka_unit_test(test_mismatch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
