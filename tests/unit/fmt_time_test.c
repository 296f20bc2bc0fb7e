/* SPDX-License-Identifier: Apache-2.0
 *
 * fmt_time_test.c - the tracker of time against numbers computed by hand from the formulae of SDM
 * vol. 3, ch. Intel PT, "Tracking Time".  Tests named bNN are faults that decoders had.
 *
 * Unless a test says otherwise: crystal ratio 308 / 2 = 154 ticks a clock, an MTC each 2^3 clocks
 * (1,232 ticks), nominal ratio 37; TSC 1,000,000 with a TMA of CTC 0x7f5 (period 0xfe, 5 clocks
 * into it) and fast counter 20, so the CTC became 0x7f5 at 999,980, and MTC 0xff (CTC 0x7f8) is due
 * 3 clocks later: at 999,980 + 3 * 154 = 1,000,442.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fmt/pt_time.h"

#include <string.h>

#define START  1000000
#define PERIOD 1232
#define MTC_FF 1000442

static void feed(struct ptm_time *t, unsigned kind, uint64_t payload)
{
	struct ptm_pkt pkt = {.kind = (uint8_t)kind, .payload = payload};

	ptm_time_packet(t, &pkt);
}

static void feed_tma(struct ptm_time *t, uint16_t ctc, uint16_t fast)
{
	struct ptm_pkt pkt = {.kind = PTM_PKT_TMA, .payload = ctc, .aux = fast};

	ptm_time_packet(t, &pkt);
}

static uint64_t now(const struct ptm_time *t)
{
	uint64_t tsc = 0;

	assert_true(ptm_time_now(t, &tsc));
	return tsc;
}

static void start(struct ptm_time *t, uint8_t cbr)
{
	ptm_time_init(t, 3, 37, 2, 308);
	feed(t, PTM_PKT_TSC, START);
	feed_tma(t, 0x7f5, 20);
	feed(t, PTM_PKT_CBR, cbr);
	assert_int_equal(now(t), START);
}

static void b33_without_clocks_tsc_only(void **state)
{
	/* mtc_freq, eax, ebx: one of them is missing. */
	static const uint32_t configs[][3] = {
		{3, 0, 308}, {3, 2, 0}, {PTM_TIME_NO_MTC, 2, 308}, {16, 2, 308}};

	(void)state;
	for (size_t i = 0; i < sizeof(configs) / sizeof(configs[0]); i++) {
		struct ptm_time t;

		ptm_time_init(&t, (uint8_t)configs[i][0], 0, configs[i][1], configs[i][2]);
		assert_false(t.use_mtc);
		feed(&t, PTM_PKT_TSC, START);
		feed_tma(&t, 0x7f5, 20);
		feed(&t, PTM_PKT_CBR, 12);
		feed(&t, PTM_PKT_CYC, 50);
		feed(&t, PTM_PKT_MTC, 0xff);
		feed(&t, PTM_PKT_MTC, 0x00);
		assert_int_equal(now(&t), START);
		assert_int_equal(t.lost_mtc, 2);
		assert_int_equal(t.lost_cyc, 1);
		feed(&t, PTM_PKT_TSC, START + 500);
		assert_int_equal(now(&t), START + 500);
	}
}

static void b35_mtc_wraps(void **state)
{
	struct ptm_time t;

	(void)state;
	start(&t, 37);
	assert_true(t.use_mtc);
	feed(&t, PTM_PKT_MTC, 0xff);
	assert_int_equal(now(&t), MTC_FF);
	feed(&t, PTM_PKT_MTC, 0x00);
	assert_int_equal(now(&t), MTC_FF + PERIOD);
	feed(&t, PTM_PKT_MTC, 0x01);
	assert_int_equal(now(&t), MTC_FF + 2 * PERIOD);
	assert_int_equal(t.lost_mtc, 0);
}

static void b35_mtc_are_missing(void **state)
{
	struct ptm_time t;

	(void)state;
	for (unsigned missing = 1; missing <= 3; missing++) {
		start(&t, 37);
		feed(&t, PTM_PKT_MTC, 0xff);
		feed(&t, PTM_PKT_MTC, missing);
		assert_int_equal(now(&t), MTC_FF + PERIOD * (1 + missing));
		assert_int_equal(t.lost_mtc, missing);
		feed(&t, PTM_PKT_MTC, missing + 1);
		assert_int_equal(now(&t), MTC_FF + PERIOD * (2 + missing));
		assert_int_equal(t.lost_mtc, missing);
	}
	/* From the TMA on: 0xff and 0x00. 0x808 - 0x7f5 = 19 clocks. */
	start(&t, 37);
	feed(&t, PTM_PKT_MTC, 0x01);
	assert_int_equal(now(&t), 999980 + 19 * 154);
	assert_int_equal(t.lost_mtc, 2);
	/* The same MTC again: all the way round. */
	feed(&t, PTM_PKT_MTC, 0x01);
	assert_int_equal(now(&t), 999980 + 19 * 154 + 256 * PERIOD);
	assert_int_equal(t.lost_mtc, 2 + 255);
}

/* MTC bits 10 to 17 of the CTC, TMA bits 0 to 15: they share six.  The MTC after CTC 0xfc05 is at
 * the next multiple of 1,024, 1,019 clocks on, whatever its upper two bits are. */
static void b35_tma_has_some_bits(void **state)
{
	struct ptm_time t;

	(void)state;
	for (unsigned high = 0; high < 4; high++) {
		ptm_time_init(&t, 10, 37, 2, 308);
		feed(&t, PTM_PKT_TSC, START);
		feed_tma(&t, 0xfc05, 20);
		feed(&t, PTM_PKT_MTC, high << 6);
		assert_int_equal(now(&t), 999980 + 1019 * 154);
		feed(&t, PTM_PKT_MTC, (high << 6) + 2);
		assert_int_equal(now(&t), 999980 + 1019 * 154 + 2 * 1024 * 154);
		assert_int_equal(t.lost_mtc, 1);
	}
	/* One bit in common: from CTC 0x8001 to the next multiple of 2^15 are 32,767 clocks. */
	ptm_time_init(&t, 15, 37, 2, 308);
	feed(&t, PTM_PKT_TSC, START);
	feed_tma(&t, 0x8001, 0);
	feed(&t, PTM_PKT_MTC, 0x02);
	assert_int_equal(now(&t), START + 32767 * 154);
}

/* An MTC of the period that TMA is in tells nothing new, before the TMA and behind it. */
static void b35_mtc_around_tma(void **state)
{
	struct ptm_time t;

	(void)state;
	ptm_time_init(&t, 3, 37, 2, 308);
	feed(&t, PTM_PKT_TSC, START);
	feed(&t, PTM_PKT_MTC, 0xfe);
	feed_tma(&t, 0x7f5, 20);
	assert_int_equal(now(&t), START);
	feed(&t, PTM_PKT_MTC, 0xfe);
	assert_int_equal(now(&t), START);
	feed(&t, PTM_PKT_MTC, 0xff);
	assert_int_equal(now(&t), MTC_FF);
	assert_int_equal(t.lost_mtc, 0);
}

/* A TSC without TMA: where the CTC stood is not known until the next TMA. */
static void tsc_without_tma(void **state)
{
	struct ptm_time t;

	(void)state;
	start(&t, 37);
	feed(&t, PTM_PKT_MTC, 0xff);
	feed(&t, PTM_PKT_TSC, MTC_FF + 10);
	feed(&t, PTM_PKT_MTC, 0x80);
	assert_int_equal(now(&t), MTC_FF + 10);
	feed(&t, PTM_PKT_TSC, 6000000);
	feed_tma(&t, 0x0007, 0);
	feed(&t, PTM_PKT_MTC, 0x01);
	assert_int_equal(now(&t), 6000000 + 154);
}

static void b36_overflow_keeps_clocks(void **state)
{
	struct ptm_time t;

	(void)state;
	start(&t, 37);
	feed(&t, PTM_PKT_MTC, 0xff);
	assert_false(t.doubtful);
	feed(&t, PTM_PKT_OVF, 0);
	assert_true(t.doubtful);
	assert_int_equal(now(&t), MTC_FF);
	feed(&t, PTM_PKT_CYC, 100);
	assert_int_equal(now(&t), MTC_FF + 100);
	feed(&t, PTM_PKT_MTC, 0x02);
	assert_int_equal(now(&t), MTC_FF + 3 * PERIOD);
	assert_int_equal(t.lost_mtc, 2);
	feed(&t, PTM_PKT_CYC, 30);
	assert_int_equal(now(&t), MTC_FF + 3 * PERIOD + 30);
	feed(&t, PTM_PKT_TSC, 2000000);
	assert_int_equal(now(&t), 2000000);
	assert_false(t.doubtful);

	/* Between TSC and the first MTC; and the CYC behind MTC counts from there: the CYCs before
	 * it were lost. */
	start(&t, 37);
	feed(&t, PTM_PKT_OVF, 0);
	feed(&t, PTM_PKT_MTC, 0xff);
	assert_int_equal(now(&t), MTC_FF);
	feed(&t, PTM_PKT_CYC, 10);
	assert_int_equal(now(&t), MTC_FF + 10);
}

/* 1,000 cycles at 18: 1000 * 37 / 18 = 2,055.556 ticks; 100 at 37: 100; 7 at 10: 25.9. */
static void b37_cbr_changes(void **state)
{
	struct ptm_time t;

	(void)state;
	start(&t, 18);
	feed(&t, PTM_PKT_CYC, 1000);
	assert_int_equal(now(&t), START + 2055);
	feed(&t, PTM_PKT_CBR, 37);
	assert_int_equal(now(&t), START + 2055);
	feed(&t, PTM_PKT_CYC, 60);
	feed(&t, PTM_PKT_CBR, 37);
	feed(&t, PTM_PKT_CYC, 40);
	assert_int_equal(now(&t), START + 2155);
	feed(&t, PTM_PKT_CBR, 10);
	feed(&t, PTM_PKT_CYC, 7);
	assert_int_equal(now(&t), START + 2181);
	assert_int_equal(t.lost_cyc, 0);
}

static void cyc_needs_a_ratio(void **state)
{
	struct ptm_time t;

	(void)state;
	ptm_time_init(&t, 3, 37, 2, 308);
	feed(&t, PTM_PKT_TSC, START);
	feed(&t, PTM_PKT_CYC, 100);
	feed(&t, PTM_PKT_CBR, 0);
	feed(&t, PTM_PKT_CYC, 100);
	assert_int_equal(now(&t), START);
	assert_int_equal(t.lost_cyc, 2);
	feed(&t, PTM_PKT_CBR, 37);
	feed(&t, PTM_PKT_CYC, 100);
	assert_int_equal(now(&t), START + 100);
}

/* A CYC of 2^33 + 5 cycles in six bytes: 5 bits, then 7 a byte.  And one beyond reason. */
static void b38_long_cyc(void **state)
{
	static const uint8_t bytes[] = {0x2f, 0x01, 0x01, 0x01, 0x01, 0x02};
	struct ptm_lexer lx;
	struct ptm_pkt pkt;
	struct ptm_time t;

	(void)state;
	ptm_lexer_init(&lx, bytes, sizeof(bytes));
	assert_int_equal(ptm_lex_next(&lx, &pkt), PTM_LEX_OK);
	start(&t, 37);
	ptm_time_packet(&t, &pkt);
	assert_int_equal(now(&t), START + UINT64_C(8589934597));
	feed(&t, PTM_PKT_CYC, UINT64_MAX);
	assert_int_equal(now(&t), START + UINT64_C(8589934597));
	assert_int_equal(t.lost_cyc, 1);
}

static void b39_tsc_behind_mtc(void **state)
{
	struct ptm_time t;

	(void)state;
	start(&t, 37);
	feed(&t, PTM_PKT_MTC, 0xff);
	feed(&t, PTM_PKT_TSC, MTC_FF - 40);
	assert_int_equal(now(&t), MTC_FF);
	feed(&t, PTM_PKT_CYC, 30);
	assert_int_equal(now(&t), MTC_FF);
	feed(&t, PTM_PKT_CYC, 30);
	assert_int_equal(now(&t), MTC_FF + 20);
}

static void b39_tsc_wraps(void **state)
{
	const uint64_t round = UINT64_C(1) << 56;
	struct ptm_time t;

	(void)state;
	ptm_time_init(&t, 3, 37, 2, 308);
	feed(&t, PTM_PKT_TSC, round - 0x100);
	assert_int_equal(now(&t), round - 0x100);
	feed(&t, PTM_PKT_TSC, 0x100);
	assert_int_equal(now(&t), round + 0x100);
	/* A little behind, before the wrap: no wrap forwards. */
	feed(&t, PTM_PKT_TSC, round - 0x10);
	assert_int_equal(now(&t), round + 0x100);
	feed(&t, PTM_PKT_TSC, 0x200);
	assert_int_equal(now(&t), round + 0x200);
}

static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

/* Any packets, with payloads large and small, and the widest clocks. */
static void b40_never_goes_back(void **state)
{
	static const uint8_t kinds[] = {PTM_PKT_TSC, PTM_PKT_TMA, PTM_PKT_MTC,
					PTM_PKT_CYC, PTM_PKT_CBR, PTM_PKT_OVF,
					PTM_PKT_PAD, PTM_PKT_PSB, PTM_PKT_TIP};
	uint64_t x = 88172645463325252;

	(void)state;
	for (unsigned round = 0; round < 400; round++) {
		uint64_t last = 0, tsc;
		struct ptm_time t;

		ptm_time_init(&t, round % 16, (uint8_t)(round % 4 * 85), 1 + round % 3,
			      round % 2 ? UINT32_MAX : 308);
		for (unsigned i = 0; i < 2000; i++) {
			struct ptm_pkt pkt = {.kind = kinds[next_random(&x) % sizeof(kinds)]};

			pkt.payload = next_random(&x) >> next_random(&x) % 64;
			pkt.aux = next_random(&x) & 0x1ff;
			ptm_time_packet(&t, &pkt);
			if (!ptm_time_now(&t, &tsc))
				continue;
			assert_true(tsc >= last);
			assert_true(tsc < UINT64_MAX - (UINT64_MAX >> 2));
			last = tsc;
		}
	}
}

/* 256 periods of 2^15 clocks of 2^32 - 1 ticks, again and again: time comes to its end and stops.
 */
static void b40_end_of_time(void **state)
{
	uint64_t last = START;
	struct ptm_time t;

	(void)state;
	ptm_time_init(&t, 15, 255, 1, UINT32_MAX);
	feed(&t, PTM_PKT_TSC, START);
	feed_tma(&t, 0x8000, 0);
	feed(&t, PTM_PKT_CBR, 1);
	for (unsigned i = 0; i < 2000; i++) {
		feed(&t, PTM_PKT_MTC, 0);
		feed(&t, PTM_PKT_CYC, UINT64_C(1) << 47);
		assert_true(now(&t) >= last);
		last = now(&t);
	}
	assert_true(last >= UINT64_C(1) << 63);
	assert_true(last < UINT64_MAX - (UINT64_MAX >> 2));
}

static void b41_no_time_yet(void **state)
{
	static const struct ptm_time zero;
	uint64_t tsc = 12345;
	struct ptm_time t;

	(void)state;
	assert_false(ptm_time_now(&zero, &tsc));
	ptm_time_init(&t, 3, 37, 2, 308);
	feed(&t, PTM_PKT_PSB, 0);
	feed(&t, PTM_PKT_CYC, 160);
	feed_tma(&t, 0x7f5, 20);
	feed(&t, PTM_PKT_CBR, 37);
	feed(&t, PTM_PKT_MTC, 0xff);
	feed(&t, PTM_PKT_CYC, 160);
	feed(&t, PTM_PKT_OVF, 0);
	assert_false(ptm_time_now(&t, &tsc));
	assert_int_equal(tsc, 12345);
	/* A TSC of 0 is a time. */
	feed(&t, PTM_PKT_TSC, 0);
	assert_int_equal(now(&t), 0);
	assert_int_equal(t.lost_mtc, 0);
	assert_int_equal(t.lost_cyc, 0);

	/* The zero tracker knows the TSC. */
	memset(&t, 0, sizeof(t));
	feed(&t, PTM_PKT_MTC, 0xff);
	feed(&t, PTM_PKT_TSC, START);
	feed(&t, PTM_PKT_CBR, 37);
	feed(&t, PTM_PKT_CYC, 5);
	assert_int_equal(now(&t), START);
}

/* Equal times stay equal: nothing is added to make an order of them. */
static void b43_equal_times(void **state)
{
	struct ptm_time t;

	(void)state;
	start(&t, 37);
	for (unsigned i = 0; i < 3; i++) {
		feed(&t, PTM_PKT_TSC, START);
		assert_int_equal(now(&t), START);
		feed(&t, PTM_PKT_CYC, 0);
		assert_int_equal(now(&t), START);
	}
}

/* Thirds of a tick: 3,000,000 clocks of 250 / 3 ticks; and eighteenths: 1,800,000 cycles of 37 /
 * 18, one at a time, ratio changing in between. */
static void nothing_drifts(void **state)
{
	struct ptm_time t;

	(void)state;
	ptm_time_init(&t, 0, 37, 3, 250);
	feed(&t, PTM_PKT_TSC, START);
	feed_tma(&t, 0, 0);
	for (unsigned i = 1; i <= 3000000; i++)
		feed(&t, PTM_PKT_MTC, i & 0xff);
	assert_int_equal(now(&t), START + UINT64_C(250000000));
	assert_int_equal(t.lost_mtc, 0);

	start(&t, 18);
	for (unsigned i = 0; i < 1800000; i++)
		feed(&t, PTM_PKT_CYC, 1);
	assert_int_equal(now(&t), START + 3700000);

	/* Crystal clocks that are a third of an MTC off count as well: 7 clocks, then 3 periods. */
	ptm_time_init(&t, 3, 37, 3, 250);
	feed(&t, PTM_PKT_TSC, START);
	feed_tma(&t, 1, 0);
	feed(&t, PTM_PKT_MTC, 1);
	assert_int_equal(now(&t), START + 583); /* 583.33 */
	feed(&t, PTM_PKT_MTC, 2);
	assert_int_equal(now(&t), START + 1250); /* 15 * 250 / 3 */
	feed(&t, PTM_PKT_MTC, 4);
	assert_int_equal(now(&t), START + 2583); /* 31 * 250 / 3 = 2583.33 */
}

/* CYC, MTC, CYC: the second CYC counts from the MTC if the first stands directly before that, and
 * from the first CYC if not. */
static void cyc_goes_on_over_mtc(void **state)
{
	struct ptm_time t;

	(void)state;
	start(&t, 37);
	feed(&t, PTM_PKT_CYC, 400);
	feed(&t, PTM_PKT_PAD, 0);
	feed(&t, PTM_PKT_MTC, 0xff);
	assert_int_equal(now(&t), MTC_FF);
	feed(&t, PTM_PKT_CYC, 100);
	assert_int_equal(now(&t), MTC_FF + 100);

	start(&t, 37);
	feed(&t, PTM_PKT_CYC, 400);
	feed(&t, PTM_PKT_TNT8, 0);
	feed(&t, PTM_PKT_MTC, 0xff);
	assert_int_equal(now(&t), MTC_FF);
	feed(&t, PTM_PKT_CYC, 100);
	assert_int_equal(now(&t), START + 500);
	feed(&t, PTM_PKT_CYC, 50);
	assert_int_equal(now(&t), START + 550);

	/* The same, where an overflow lies before the TSC: nothing is lost since. */
	ptm_time_init(&t, 3, 37, 2, 308);
	feed(&t, PTM_PKT_CBR, 37);
	feed(&t, PTM_PKT_OVF, 0);
	feed(&t, PTM_PKT_TSC, START);
	feed_tma(&t, 0x7f5, 20);
	feed(&t, PTM_PKT_CYC, 400);
	feed(&t, PTM_PKT_TNT8, 0);
	feed(&t, PTM_PKT_MTC, 0xff);
	feed(&t, PTM_PKT_CYC, 100);
	assert_int_equal(now(&t), START + 500);

	/* Fewer cycles than the MTC says have passed: from the MTC on. */
	start(&t, 37);
	feed(&t, PTM_PKT_CYC, 400);
	feed(&t, PTM_PKT_TNT8, 0);
	feed(&t, PTM_PKT_MTC, 0xff);
	feed(&t, PTM_PKT_CYC, 10);
	assert_int_equal(now(&t), MTC_FF);
	feed(&t, PTM_PKT_CYC, 10);
	assert_int_equal(now(&t), MTC_FF + 10);

	/* More cycles than fit before the MTC: the estimate waits for the clocks. */
	start(&t, 37);
	feed(&t, PTM_PKT_CYC, 500);
	feed(&t, PTM_PKT_MTC, 0xff);
	assert_int_equal(now(&t), START + 500);
	feed(&t, PTM_PKT_CYC, 50);
	assert_int_equal(now(&t), START + 500);
	feed(&t, PTM_PKT_CYC, 50);
	assert_int_equal(now(&t), MTC_FF + 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(b33_without_clocks_tsc_only),
		cmocka_unit_test(b35_mtc_wraps),
		cmocka_unit_test(b35_mtc_are_missing),
		cmocka_unit_test(b35_tma_has_some_bits),
		cmocka_unit_test(b35_mtc_around_tma),
		cmocka_unit_test(tsc_without_tma),
		cmocka_unit_test(b36_overflow_keeps_clocks),
		cmocka_unit_test(b37_cbr_changes),
		cmocka_unit_test(cyc_needs_a_ratio),
		cmocka_unit_test(b38_long_cyc),
		cmocka_unit_test(b39_tsc_behind_mtc),
		cmocka_unit_test(b39_tsc_wraps),
		cmocka_unit_test(b40_never_goes_back),
		cmocka_unit_test(b40_end_of_time),
		cmocka_unit_test(b41_no_time_yet),
		cmocka_unit_test(b43_equal_times),
		cmocka_unit_test(nothing_drifts),
		cmocka_unit_test(cyc_goes_on_over_mtc),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
