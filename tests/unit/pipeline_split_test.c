/* SPDX-License-Identifier: Apache-2.0
 *
 * pipeline_split_test.c - however a stream is cut, the frames are the same.
 *
 * The expected frames come from a naive scan of the whole stream in this file.  Streams are made of
 * random and of hostile bytes: runs of 02 82 of all lengths, PSBs at the cuts, overflows before a
 * PSB.  With digests of the blocks of a stream the frames are the same, and nothing is handed out
 * of a block that is another than they say; these digests are the library's, of each block in one
 * piece.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <xxhash.h>

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

static struct ptm_block_sums sums_of(const struct pt_bytes *p, uint64_t size)
{
	struct ptm_block_sums sums = {.size = size};

	for (size_t at = 0; at < p->n; at += size) {
		const size_t len = p->n - at < size ? p->n - at : size;

		assert_true(ptm_vec_push(&sums.digests, XXH3_64bits(p->b + at, len)));
	}
	return sums;
}

/* @sums: NULL, or of the blocks. */
static void cut_stream(const char *path, uint64_t segment_size, const struct ptm_block_sums *sums,
		       struct frames *out)
{
	static struct ptm_emit emit;
	struct ptm_error err = {0};
	struct ptm_sources *sources = ptm_sources_create();
	struct ptm_segbuf buf = {0};
	struct ptm_split *split;
	struct ptm_job job;
	int status;

	assert_int_equal(ptm_sources_add(sources, path, &err), 0);
	if (sums != NULL) {
		struct ptm_source *source = ptm_sources_get(sources, 0);

		ptm_source_set_blocks(source, sums, ptm_source_size(source));
		assert_ptr_equal(ptm_source_blocks(source), sums);
	}
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
	cut_stream(path, segment_size, NULL, &got);
	pthread_join(thread, NULL);
	close(fds[0]);
	compare(&got, expected);
	free(got.f.v);
}

static void check_stream(const struct pt_bytes *p)
{
	static const uint64_t sizes[] = {64, 65, 97, 1000, 4096, 1 << 20};
	char path[] = "/tmp/ptm-split-XXXXXX";
	struct ptm_block_sums sums = sums_of(p, 4096);
	struct frames expected = {0};
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, p->b, p->n), p->n);
	close(fd);
	expect_frames(p, &expected);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct frames got = {0}, again = {0};

		if (p->n > 65536 && sizes[i] % 64 != 0)
			continue; /* enough with the others, and quicker */

		cut_stream(path, sizes[i], NULL, &got);
		compare(&got, &expected);
		free(got.f.v);
		cut_stream(path, sizes[i], &sums, &again);
		compare(&again, &expected);
		free(again.f.v);
		check_pipe(p, sizes[i], &expected);
	}
	unlink(path);
	free(sums.digests.v);
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

/* Load all segments of @p in order, with @sums.  Nothing may be handed out that holds the byte @bad
 * (SIZE_MAX: none is).  Returns 0 or what the first job that failed said. */
static int load_all(const struct pt_bytes *p, const struct ptm_block_sums *sums,
		    uint64_t segment_size, size_t bad, char path[64], struct ptm_error *err)
{
	struct ptm_sources *sources = ptm_sources_create();
	struct ptm_segbuf buf = {0};
	struct ptm_split *split;
	struct ptm_job job;
	int fd, status = 0;

	(void)strcpy(path, "/tmp/ptm-split-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, p->b, p->n), p->n);
	close(fd);
	assert_int_equal(ptm_sources_add(sources, path, err), 0);
	ptm_source_set_blocks(ptm_sources_get(sources, 0), sums, p->n);
	split = ptm_split_create(sources, segment_size, false, &never, err);
	assert_non_null(split);
	while (status == 0 && ptm_split_claim(split, &job, &buf, err) > 0) {
		status = ptm_split_load(split, &job, &buf, err);
		if (status != 0)
			break;
		/* Its range was looked at, and what it hands out. */
		assert_false(bad >= job.begin && bad < job.end);
		assert_false(bad >= job.seg.offset &&
			     bad - job.seg.offset < job.seg.len + job.seg.look);
		assert_false(bad < job.seg.head);
	}
	unlink(path);
	ptm_split_destroy(split);
	ptm_segbuf_fini(&buf);
	ptm_sources_destroy(sources);
	return status;
}

/* With one bit of byte @at turned: the block that holds it is named, whoever comes across it. */
static void check_tampered(struct pt_bytes *p, const struct ptm_block_sums *sums, size_t at)
{
	static const uint64_t sizes[] = {64, 1000, 4096, 5000, 20000, 1 << 20};
	const size_t begin = at / sums->size * sums->size;
	const size_t len = p->n - begin < sums->size ? p->n - begin : sums->size;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct ptm_error err = {0};
		char path[64], expected[256];

		p->b[at] ^= 0x10;
		assert_int_equal(load_all(p, sums, sizes[i], at, path, &err), -PTM_E_FORMAT);
		(void)snprintf(expected, sizeof(expected),
			       "%s: the file is not what capture.json says (block at offset=%zu, "
			       "bytes=%zu, digest 0x%016llx, not 0x%016llx)",
			       path, begin, len, (unsigned long long)XXH3_64bits(p->b + begin, len),
			       (unsigned long long)sums->digests.v[begin / sums->size]);
		assert_string_equal(err.cause[0].text, expected);
		p->b[at] ^= 0x10;
		assert_int_equal(load_all(p, sums, sizes[i], SIZE_MAX, path, &err), 0);
	}
}

/* A head, then frames of all lengths: within a block, and over several. */
static void make_frames(struct pt_bytes *p)
{
	p->n = 0;
	fill(p, 700);
	for (size_t i = 0; p->n < 60000; i++) {
		pt_psb(p);
		pt_hex(p, "02 23");
		fill(p, p->n + (i % 5 == 4 ? 9000 + 16 * i : 100 + 211 * i % 3000));
	}
}

/* Every part of the stream: the head, the first block, blocks in the middle, one that only the tail
 * of an earlier range reaches, and the last one, which has 1 byte. */
static void test_tampered(void **state)
{
	static struct pt_bytes p;

	(void)state;
	make_frames(&p);
	fill(&p, (p.n / 8192 + 1) * 8192 + 1);
	for (uint64_t size = 4096; size <= 65536; size *= 4) {
		struct ptm_block_sums sums = sums_of(&p, size);

		for (size_t at = 0; at < p.n; at += 1499)
			check_tampered(&p, &sums, at);
		check_tampered(&p, &sums, p.n - 1);
		free(sums.digests.v);
	}
}

/* The first of two bad blocks in the order of the stream is told, at any size of segments. */
static void test_tampered_twice(void **state)
{
	static struct pt_bytes p;
	struct ptm_block_sums sums;

	(void)state;
	make_frames(&p);
	sums = sums_of(&p, 4096);
	p.b[5 * 4096 + 7] ^= 1;
	p.b[4 * 4096] ^= 1;
	for (uint64_t size = 64; size <= 1 << 17; size *= 2) {
		struct ptm_error err = {0};
		char path[64];

		assert_int_equal(load_all(&p, &sums, size, 4 * 4096, path, &err), -PTM_E_FORMAT);
		assert_non_null(strstr(err.cause[0].text, "(block at offset=16384, bytes=4096, "));
	}
	free(sums.digests.v);
}

/* Blocks before the first PSB and behind the last one; without any PSB, too. */
static void test_tampered_no_psb(void **state)
{
	static struct pt_bytes p;

	(void)state;
	for (int psb = 0; psb < 2; psb++) {
		struct ptm_block_sums sums;

		p.n = 0;
		fill(&p, 30000);
		if (psb) {
			pt_psb(&p);
			pt_hex(&p, "02 23");
		}
		fill(&p, 300001);
		sums = sums_of(&p, 8192);
		for (size_t at = 1; at < p.n; at += 29999)
			check_tampered(&p, &sums, at);
		free(sums.digests.v);
	}
}

/* A source of another size, or that cannot be read anywhere, has no blocks to compare. */
static void test_other_size(void **state)
{
	const struct ptm_block_sums sums = {.size = 4096}, none = {0};
	struct ptm_sources *sources = ptm_sources_create();
	struct ptm_error err;

	(void)state;
	assert_int_equal(ptm_sources_add_as(sources, "/dev/null", "a", &err), 0);
	ptm_source_set_blocks(ptm_sources_get(sources, 0), &sums, 0);
	assert_null(ptm_source_blocks(ptm_sources_get(sources, 0)));
	assert_int_equal(ptm_sources_add_as(sources, "/proc/self/exe", "b", &err), 0);
	ptm_source_set_blocks(ptm_sources_get(sources, 1), &sums, 1);
	assert_null(ptm_source_blocks(ptm_sources_get(sources, 1)));
	ptm_source_set_blocks(ptm_sources_get(sources, 1), &none,
			      ptm_source_size(ptm_sources_get(sources, 1)));
	assert_null(ptm_source_blocks(ptm_sources_get(sources, 1)));
	ptm_sources_destroy(sources);
}

/* The file ends earlier than when it was opened: where, whatever the size of segments. */
static void test_shrinks(void **state)
{
	static const uint64_t sizes[] = {64, 1000, 4096, 1 << 20};
	static struct pt_bytes p;
	struct ptm_block_sums sums;

	(void)state;
	make_frames(&p);
	sums = sums_of(&p, 4096);
	for (size_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct ptm_sources *sources = ptm_sources_create();
		char path[] = "/tmp/ptm-split-XXXXXX", expected[128];
		struct ptm_segbuf buf = {0};
		struct ptm_split *split;
		struct ptm_error err;
		struct ptm_job job;
		int fd = mkstemp(path), status = 0;

		assert_true(fd >= 0);
		assert_int_equal(write(fd, p.b, p.n), p.n);
		assert_int_equal(ptm_sources_add(sources, path, &err), 0);
		if (i % 2 != 0)
			ptm_source_set_blocks(ptm_sources_get(sources, 0), &sums, p.n);
		assert_int_equal(ftruncate(fd, 33333), 0);
		close(fd);
		split = ptm_split_create(sources, sizes[i / 2], false, &never, &err);
		while (status == 0 && ptm_split_claim(split, &job, &buf, &err) > 0)
			status = ptm_split_load(split, &job, &buf, &err);
		assert_int_equal(status, -PTM_E_IO);
		(void)snprintf(expected, sizeof(expected),
			       "%s: the file shrank while it was read: offset=33333", path);
		assert_string_equal(err.cause[0].text, expected);
		unlink(path);
		ptm_split_destroy(split);
		ptm_segbuf_fini(&buf);
		ptm_sources_destroy(sources);
	}
	free(sums.digests.v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),          cmocka_unit_test(test_edges),
		cmocka_unit_test(test_block_edges),     cmocka_unit_test(test_not_an_overflow),
		cmocka_unit_test(test_tampered),        cmocka_unit_test(test_tampered_twice),
		cmocka_unit_test(test_tampered_no_psb), cmocka_unit_test(test_other_size),
		cmocka_unit_test(test_shrinks),
	};

	return cmocka_run_group_tests_name("pipeline_split", tests, NULL, NULL);
}
