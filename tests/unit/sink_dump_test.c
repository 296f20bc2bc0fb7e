/* SPDX-License-Identifier: Apache-2.0
 *
 * sink_dump_test.c - packets of a hand-made stream, cut into segments at each of its PSBs; the
 * packets are encoded and the lines written by hand (SDM vol. 3, ch. Intel PT).
 */
#include "sink_job.h"

#define PSB "\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82"

static const char stream[] = "\x11\x22\x33"                 /* 00 head */
	PSB "\x99\x01"                                      /* 03 psb, 13 mode.exec 64-bit */
			     "\x7d\x00\x10\x40\x00\x00\x00" /* 15 fup 401000, sign-extended */
			     "\x02\x23"                     /* 1c psbend */
			     "\x06\x00\x02\xf3"             /* 1e tnt.8, 1f pad, 20 ovf */
			     "\x2d\x34"         /* 22 tip with 2 bytes, cut off by the next psb */
	PSB "\x02\x23"                          /* 24 psb, 34 psbend */
			     "\x02\x83"         /* 36 stop */
			     "\x05\x01\x02\x03" /* 38 no packet */
	PSB "\x02\x23"                          /* 3c psb, 4c psbend */
			     "\x2d\x02\x82" /* 4e tip whose address looks like the begin of a psb */
	PSB "\x02\x23"                      /* 51 psb, 61 psbend */
			     "\x02\x82\x02\x82" /* 63 a run of ten pairs: two, cut off by the psb */
	PSB;                                    /* 67 psb */
#define STREAM_LEN (sizeof(stream) - 1)

static const char expected[] = "0000000000000000  head        3 bytes before the first psb\n"
			       "0000000000000003  psb\n"
			       "0000000000000013  mode.exec   64-bit\n"
			       "0000000000000015  fup         3: 0000000000401000\n"
			       "000000000000001c  psbend\n"
			       "000000000000001e  tnt.8       !\n"
			       "000000000000001f  pad\n"
			       "0000000000000020  ovf\n"
			       "0000000000000022  truncated   2 bytes skipped\n"
			       "0000000000000024  psb\n"
			       "0000000000000034  psbend\n"
			       "0000000000000036  stop\n"
			       "0000000000000038  bad         4 bytes skipped\n"
			       "000000000000003c  psb\n"
			       "000000000000004c  psbend\n"
			       "000000000000004e  tip         1: 0000000000008202\n"
			       "0000000000000051  psb\n"
			       "0000000000000061  psbend\n"
			       "0000000000000063  truncated   4 bytes skipped\n"
			       "0000000000000067  psb\n";

static const size_t psbs[] = {0x03, 0x24, 0x3c, 0x51, 0x67};
#define NPSBS (sizeof(psbs) / sizeof(psbs[0]))

/* Dump one segment behind what the job has; add up its tally. */
static void dump(struct ptm_sink *sink, struct job *job, const struct ptm_segment *seg,
		 struct ptm_tally *sum)
{
	static struct ptm_emit emit;
	uint64_t bytes = 0;

	assert_int_equal(sink->ops->raw(sink, NULL, seg, &emit, job->out, NULL), 0);
	for (unsigned i = 0; i < PTM_BYTES_CLASSES; i++)
		bytes += emit.tally.bytes[i];
	assert_int_equal(bytes, seg->head + seg->len + seg->skipped);
	ptm_tally_add(sum, &emit.tally);
}

static void check_tally(const struct ptm_tally *sum)
{
	assert_int_equal(sum->packets[PTM_PKT_PSB], 5);
	assert_int_equal(sum->packet_bytes[PTM_PKT_PSB], 80);
	assert_int_equal(sum->packets[PTM_PKT_TIP], 1);
	assert_int_equal(sum->packets[PTM_PKT_PSBEND], 4);
	assert_int_equal(sum->tnt_bits, 1);
	assert_int_equal(sum->bytes[PTM_BYTES_HEAD], 3);
	assert_int_equal(sum->bytes[PTM_BYTES_PADDING], 1);
	assert_int_equal(sum->bytes[PTM_BYTES_OVERFLOW], 2);
	assert_int_equal(sum->bytes[PTM_BYTES_SKIPPED], 2 + 4 + 4);
	assert_int_equal(sum->bytes[PTM_BYTES_DECODED], 0x77 - 3 - 1 - 2 - 10);
	assert_int_equal(sum->gaps[PTM_GAP_TRUNCATED], 2);
	assert_int_equal(sum->gaps[PTM_GAP_BAD_PACKET], 1);
	assert_int_equal(sum->frames, 5);
	assert_int_equal(sum->frame_min, 0x51 - 0x3c);
	assert_int_equal(sum->frame_max, 0x24 - 0x03);
}

/* A segment begins at psbs[i] if bit i of @cuts is set; the next segment's first @look bytes can be
 * seen. */
static void check_cuts(unsigned cuts, size_t look)
{
	struct ptm_sink *sink = ptm_sink_dump_create("/dev/null", NULL);
	struct job job = begin_job();
	struct ptm_tally sum = {0};
	struct bytes got;

	assert_non_null(sink);
	for (size_t i = 0, next; i < NPSBS; i = next) {
		struct ptm_segment seg = {.offset = psbs[i], .head = i == 0 ? psbs[0] : 0};
		size_t end, avail;
		uint8_t *copy;

		for (next = i + 1; next < NPSBS && (cuts >> next & 1) == 0;)
			next++;
		end = next < NPSBS ? psbs[next] : STREAM_LEN;
		avail = STREAM_LEN - end < look ? STREAM_LEN : end + look;
		seg.len = end - psbs[i];
		seg.look = avail - end;
		/* Of its own, so that a sanitizer sees a read past the end. */
		copy = malloc(seg.len + seg.look);
		assert_non_null(copy);
		memcpy(copy, stream + psbs[i], seg.len + seg.look);
		seg.data = copy;
		dump(sink, &job, &seg, &sum);
		free(copy);
	}
	got = end_job(&job);
	assert_string_equal((const char *)got.data, expected);
	check_tally(&sum);
	free(got.data);
	ptm_sink_destroy(sink);
}

static void test_cuts(void **state)
{
	(void)state;
	assert_int_equal(STREAM_LEN, 0x77);
	for (unsigned cuts = 0; cuts < 1u << NPSBS; cuts++) {
		for (size_t look = PTM_PSB_SIZE; look < 40; look++)
			check_cuts(cuts, look);
	}
}

static void check_segment(const struct ptm_segment *seg, enum ptm_gap gap, const char *want)
{
	struct ptm_sink *sink = ptm_sink_dump_create("/dev/null", NULL);
	struct job job = begin_job();
	struct ptm_tally sum = {0};
	struct bytes got;

	dump(sink, &job, seg, &sum);
	got = end_job(&job);
	assert_string_equal((const char *)got.data, want);
	assert_int_equal(sum.gaps[gap], 1);
	free(got.data);
	ptm_sink_destroy(sink);
}

static void test_odd_segments(void **state)
{
	struct ptm_segment no_sync = {.offset = 7, .head = 7, .no_sync = true};
	struct ptm_segment skipped = {.data = (const uint8_t *)PSB,
				      .len = PTM_PSB_SIZE,
				      .offset = 0x1000,
				      .skipped = 1ull << 40};
	struct ptm_segment cut = {
		.data = (const uint8_t *)PSB "\x02\x23\x19\x01\x02", .len = 21, .offset = 0x20};

	(void)state;
	check_segment(&no_sync, PTM_GAP_NO_SYNC,
		      "0000000000000000  head        7 bytes without a psb\n");
	check_segment(&skipped, PTM_GAP_TOO_LONG,
		      "0000000000001000  psb\n"
		      "0000000000001010  skipped     1099511627776 bytes too many without a psb\n");
	check_segment(&cut, PTM_GAP_TRUNCATED,
		      "0000000000000020  psb\n"
		      "0000000000000030  psbend\n"
		      "0000000000000032  truncated   3 bytes skipped\n");
}

/* More lines than a chunk holds. */
static void test_many_lines(void **state)
{
	const size_t n = 100000;
	uint8_t *data = calloc(1, PTM_PSB_SIZE + n);
	struct ptm_segment seg = {.data = data, .len = PTM_PSB_SIZE + n};
	struct ptm_sink *sink = ptm_sink_dump_create("/dev/null", NULL);
	struct job job = begin_job();
	struct ptm_tally sum = {0};
	struct bytes got;
	char *line;

	(void)state;
	assert_non_null(data);
	memcpy(data, PSB, PTM_PSB_SIZE);
	dump(sink, &job, &seg, &sum);
	got = end_job(&job);
	line = (char *)got.data;
	for (size_t i = 0; i <= n; i++) {
		char want[64];
		int len = sprintf(want, "%016zx  %s\n", i == 0 ? 0 : PTM_PSB_SIZE + i - 1,
				  i == 0 ? "psb" : "pad");

		assert_memory_equal(line, want, (size_t)len);
		line += len;
	}
	assert_int_equal(*line, '\0');
	assert_int_equal(sum.bytes[PTM_BYTES_PADDING], n);
	free(got.data);
	free(data);
	ptm_sink_destroy(sink);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cuts),
		cmocka_unit_test(test_odd_segments),
		cmocka_unit_test(test_many_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
