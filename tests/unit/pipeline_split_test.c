/* SPDX-License-Identifier: Apache-2.0
 *
 * pipeline_split_test.c - however a stream is cut, the frames are the same.
 *
 * The expected frames come from a naive scan of the whole stream in this file.  Streams are made of
 * random and of hostile bytes: runs of 02 82 of all lengths, PSBs at the cuts, overflows before a
 * PSB.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/vec.h"
#include "os/thread.h"
#include "pipeline/split.h"
#define PT_BYTES_MAX (640u << 10) /* several of the blocks that are scanned and read at a time */
#include "ptgen.h"

struct frame {
	uint64_t offset, len;
	bool ovf;
};

struct frames {
	PTM_VEC(struct frame) f;
	uint64_t head;
	bool no_sync;
};

static uint64_t rng;
static atomic_bool never;

static uint64_t next_random(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng;
}

static bool is_psb(const struct pt_bytes *p, size_t at)
{
	if (at + 16 > p->n)
		return false;
	for (size_t i = 0; i < 16; i++) {
		if (p->b[at + i] != (i % 2 != 0 ? 0x82 : 0x02))
			return false;
	}
	return !(at + 18 <= p->n && p->b[at + 16] == 0x02 && p->b[at + 17] == 0x82);
}

static void expect_frames(const struct pt_bytes *p, struct frames *out)
{
	size_t last = SIZE_MAX;

	out->head = p->n;
	out->no_sync = true;
	for (size_t i = 0; i <= p->n; i++) {
		if (i < p->n && !is_psb(p, i))
			continue;
		if (last != SIZE_MAX) {
			struct frame f = {last, i - last, false};

			f.ovf = out->f.n > 0 &&
				ptm_frame_ends_in_ovf(p->b + out->f.v[out->f.n - 1].offset,
						      out->f.v[out->f.n - 1].len);
			assert_true(ptm_vec_push(&out->f, f));
		} else if (i < p->n) {
			out->head = i;
			out->no_sync = false;
		}
		last = i;
	}
}

static int take_frame(void *ctx, const struct ptm_frame *frame, bool *ovf_last,
		      struct ptm_emit *emit, struct ptm_error *err)
{
	struct frames *out = (struct frames *)ctx;
	struct frame f = {frame->offset, frame->len, frame->ovf_pending};

	*ovf_last = ptm_frame_scan(frame, &(struct ptm_tally){0}).ovf_last;
	(void)emit;
	(void)err;
	assert_true(ptm_vec_push(&out->f, f));
	return 0;
}

static int ignore(void *ctx, const struct ptm_batch *batch, struct ptm_error *err)
{
	(void)ctx;
	(void)batch;
	(void)err;
	return 0;
}

static void cut_stream(const char *path, uint64_t segment_size, struct frames *out)
{
	static struct ptm_emit emit;
	struct ptm_error err = {0};
	struct ptm_sources *sources = ptm_sources_create();
	struct ptm_segbuf buf = {0};
	struct ptm_split *split;
	struct ptm_job job;
	int status;

	assert_int_equal(ptm_sources_add(sources, path, &err), 0);
	split = ptm_split_create(sources, segment_size, false, &never, &err);
	assert_non_null(split);
	while ((status = ptm_split_claim(split, &job, &buf, &err)) > 0) {
		assert_int_equal(ptm_split_load(split, &job, &buf, &err), 0);
		out->head += job.seg.head;
		out->no_sync |= job.seg.no_sync;
		ptm_emit_init(&emit, ignore, NULL);
		assert_int_equal(ptm_frames_walk(&job.seg, take_frame, out, &emit, &err), 0);
		assert_int_equal(job.seg.skipped, 0);
	}
	assert_int_equal(status, 0);
	ptm_split_destroy(split);
	ptm_segbuf_fini(&buf);
	ptm_sources_destroy(sources);
}

static void compare(const struct frames *got, const struct frames *expected)
{
	assert_int_equal(got->head, expected->head);
	assert_int_equal(got->no_sync, expected->no_sync);
	assert_int_equal(got->f.n, expected->f.n);
	for (size_t i = 0; i < got->f.n; i++) {
		assert_int_equal(got->f.v[i].offset, expected->f.v[i].offset);
		assert_int_equal(got->f.v[i].len, expected->f.v[i].len);
		assert_int_equal(got->f.v[i].ovf, expected->f.v[i].ovf);
	}
}

struct writer {
	int fd;
	const struct pt_bytes *p;
};

static void *write_all(void *arg)
{
	struct writer *w = (struct writer *)arg;
	size_t done = 0;

	while (done < w->p->n) {
		ssize_t n =
			write(w->fd, w->p->b + done, w->p->n - done < 1000 ? w->p->n - done : 1000);

		if (n <= 0)
			break;
		done += (size_t)n;
	}
	close(w->fd);
	return NULL;
}

static void check_pipe(const struct pt_bytes *p, uint64_t segment_size,
		       const struct frames *expected)
{
	struct frames got = {0};
	char path[64];
	int fds[2];
	struct writer w = {.p = p};
	pthread_t thread;
	struct ptm_error err;

	assert_int_equal(pipe(fds), 0);
	w.fd = fds[1];
	assert_int_equal(ptm_thread_start(&thread, "writer", write_all, &w, &err), 0);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[0]);
	cut_stream(path, segment_size, &got);
	pthread_join(thread, NULL);
	close(fds[0]);
	compare(&got, expected);
	free(got.f.v);
}

static void check_stream(const struct pt_bytes *p)
{
	static const uint64_t sizes[] = {64, 65, 97, 1000, 4096, 1 << 20};
	char path[] = "/tmp/ptm-split-XXXXXX";
	struct frames expected = {0};
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, p->b, p->n), p->n);
	close(fd);
	expect_frames(p, &expected);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct frames got = {0};

		if (p->n > 65536 && sizes[i] % 64 != 0)
			continue; /* enough with the others, and quicker */

		cut_stream(path, sizes[i], &got);
		compare(&got, &expected);
		free(got.f.v);
		check_pipe(p, sizes[i], &expected);
	}
	unlink(path);
	free(expected.f.v);
}

/* A piece of stream of some kind. */
static void add_piece(struct pt_bytes *p)
{
	static const char *const pieces[] = {"02 82",
					     "82",
					     "02",
					     "02 f3",
					     "02 f3 00",
					     "02 f3 59 07",
					     "00",
					     "06",
					     "19 01 02 03 04 05 06 07",
					     "02 23",
					     "7d 02 82 02 82 02 82"};
	uint64_t r = next_random();

	if (r % 5 == 0)
		pt_psb(p);
	else if (r % 5 == 1)
		for (uint64_t n = (r >> 8) % 40; n > 0; n--)
			pt_hex(p, "02 82");
	else if (r % 5 == 2)
		for (uint64_t n = (r >> 8) % 300; n > 0; n--)
			pt_hex(p, "06");
	else
		pt_hex(p, pieces[(r >> 8) % (sizeof(pieces) / sizeof(pieces[0]))]);
}

static void test_random(void **state)
{
	static struct pt_bytes p;

	(void)state;
	rng = 42;
	for (int round = 0; round < 60; round++) {
		size_t want = next_random() % 6000;

		p.n = 0;
		while (p.n < want)
			add_piece(&p);
		check_stream(&p);
	}
}

static void test_edges(void **state)
{
	static struct pt_bytes p;

	(void)state;
	p.n = 0;
	check_stream(&p); /* empty */
	pt_hex(&p, "02");
	check_stream(&p);
	p.n = 0;
	pt_psb(&p);
	check_stream(&p);
	/* No PSB in many ranges, then two. */
	p.n = 0;
	while (p.n < 20000)
		pt_hex(&p, "06");
	check_stream(&p);
	pt_psb(&p);
	pt_hex(&p, "02 23 02 f3");
	pt_psb(&p);
	check_stream(&p);
	/* PSB at each place around a cut. */
	for (unsigned shift = 0; shift < 40; shift++) {
		p.n = 0;
		pt_psb(&p);
		while (p.n < 4096 - 20 + shift)
			pt_hex(&p, "00");
		pt_hex(&p, "02 f3");
		pt_psb(&p);
		pt_hex(&p, "02 23");
		check_stream(&p);
	}
}

static void fill(struct pt_bytes *p, size_t n)
{
	assert_true(n <= PT_BYTES_MAX);
	memset(p->b + p->n, 0x06, n - p->n);
	p->n = n;
}

/* PSBs across the borders of the blocks in which files are scanned (128 KiB, from the end of the
 * range on) and pipes are read (256 KiB), as the first PSB and as a later one. */
static void test_block_edges(void **state)
{
	static const size_t borders[] = {128u << 10, (128u << 10) + 64, 256u << 10,
					 (256u << 10) + 64};
	static struct pt_bytes p;

	(void)state;
	for (size_t i = 0; i < sizeof(borders) / sizeof(borders[0]); i++) {
		for (size_t shift = 1; shift <= 17; shift += 8) {
			p.n = 0;
			fill(&p, borders[i] - shift);
			pt_psb(&p);
			pt_hex(&p, "02 23");
			check_stream(&p);
			p.n = 0;
			pt_psb(&p);
			fill(&p, borders[i] - shift);
			pt_psb(&p);
			pt_hex(&p, "02 23");
			check_stream(&p);
		}
	}
}

/* An OVF that is part of another packet is none. */
static void test_not_an_overflow(void **state)
{
	static struct pt_bytes p;
	struct frames expected = {0};

	(void)state;
	p.n = 0;
	pt_psb(&p);
	pt_hex(&p, "19 01 02 03 04 05 02 f3");
	pt_psb(&p);
	assert_true(ptm_split_maybe_ovf(p.b, 24));
	expect_frames(&p, &expected);
	assert_int_equal(expected.f.n, 2);
	assert_false(expected.f.v[1].ovf);
	free(expected.f.v);
	check_stream(&p);
	assert_false(ptm_split_maybe_ovf(p.b, 23));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_edges),
		cmocka_unit_test(test_block_edges),
		cmocka_unit_test(test_not_an_overflow),
	};

	return cmocka_run_group_tests_name("pipeline_split", tests, NULL, NULL);
}
