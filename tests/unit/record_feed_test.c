/* SPDX-License-Identifier: Apache-2.0
 *
 * record_feed_test.c - loops of direct jumps: what is made up does not fall into them, and what
 * ends them is told.
 *
 * Where packets may stand was worked out by hand: a decoder takes the first arrival at the IP of a
 * FUP, so it must not be the second one since the last packet.
 */
#include "record/feed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static struct ptm_feed feed;

static int swallow(void *ctx, const uint8_t *bytes, size_t len)
{
	(void)ctx;
	(void)bytes;
	(void)len;
	return 0;
}

static void begin(const struct ptm_record_config *config)
{
	const struct ptm_flow_event on = {.kind = PTM_FLOW_ON, .ip = 0x1000, .next = 0x1000};

	assert_int_equal(ptm_feed_init(&feed, config, swallow, NULL, 0), 0);
	assert_int_equal(ptm_feed_event(&feed, &on), 0);
}

static void retire(uint64_t ip, enum ptm_insn_class klass, uint8_t len, uint64_t next)
{
	const struct ptm_insn insn = {.len = len, .klass = (uint8_t)klass, .target = next};
	const struct ptm_flow_event ev = {
		.kind = PTM_FLOW_INSN, .ip = ip, .next = next, .insn = &insn};

	assert_int_equal(ptm_feed_event(&feed, &ev), 0);
}

static void interrupt(uint64_t ip)
{
	const struct ptm_flow_event ev = {.kind = PTM_FLOW_INTERRUPT, .ip = ip, .next = ip};

	assert_int_equal(ptm_feed_event(&feed, &ev), 0);
}

/* 1000 nop; 1001 jmp 1010; 1010 nop; 1011 jmp 1000. */
static void turn(void)
{
	retire(0x1000, PTM_INSN_OTHER, 1, 0x1001);
	retire(0x1001, PTM_INSN_JUMP, 2, 0x1010);
	retire(0x1010, PTM_INSN_OTHER, 1, 0x1011);
	retire(0x1011, PTM_INSN_JUMP, 2, 0x1000);
}

static void interrupts_wait_for_the_end_of_a_loop(void **state)
{
	struct ptm_record_config config;
	uint64_t before;

	(void)state;
	ptm_record_config_init(&config);
	config.irq_period = 100;
	begin(&config);
	before = ptm_enc_offset(feed.enc);
	for (int i = 0; i < 1000; i++)
		turn();
	assert_int_equal(ptm_enc_offset(feed.enc), before);
	/* Behind a packet it may come: a conditional branch, and a place where nobody was. */
	retire(0x1000, PTM_INSN_COND, 2, 0x2000);
	assert_true(ptm_enc_offset(feed.enc) > before);
	assert_int_equal(feed.ambiguous.times, 0);
	ptm_feed_fini(&feed);
}

static void psbs_wait_for_the_end_of_a_loop(void **state)
{
	struct ptm_record_config config;

	(void)state;
	ptm_record_config_init(&config);
	config.timing = PTM_TIMING_MTC;
	config.psb_period = 64;
	begin(&config);
	/* Two instructions a cycle, 800 cycles to an MTC: more than 64 of them. */
	for (int i = 0; i < 100000; i++)
		turn();
	assert_true(ptm_enc_offset(feed.enc) > 200);
	assert_int_equal(feed.psbs, 1);
	/* The PSB comes within 16 instructions of a run. */
	retire(0x1000, PTM_INSN_COND, 2, 0x2000);
	for (uint64_t ip = 0x2000; ip < 0x2020; ip++)
		retire(ip, PTM_INSN_OTHER, 1, ip + 1);
	assert_int_equal(feed.psbs, 2);
	ptm_feed_fini(&feed);
}

static void signals_in_a_loop_are_told(void **state)
{
	static const struct {
		int turns;
		uint64_t ip;
		uint64_t times;
	} cases[] = {
		{0, 0x1000, 0},                                 /* nothing was executed */
		{1, 0x1000, 1},                                 /* the second arrival */
		{1, 0x1011, 1}, {5, 0x1001, 1}, {5, 0x1003, 0}, /* nobody was there */
		{5, 0x1020, 0},
	};
	struct ptm_record_config config;

	(void)state;
	ptm_record_config_init(&config);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin(&config);
		retire(0x800, PTM_INSN_COND, 2, 0x1000);
		for (int k = 0; k < cases[i].turns; k++)
			turn();
		interrupt(cases[i].ip);
		assert_int_equal(feed.ambiguous.times, cases[i].times);
		if (cases[i].times > 0)
			assert_int_equal(feed.ambiguous.n, 1 + 4 * (uint64_t)cases[i].turns);
		ptm_feed_fini(&feed);
	}
}

static void a_packet_forgets_the_loop(void **state)
{
	struct ptm_record_config config;

	(void)state;
	ptm_record_config_init(&config);
	begin(&config);
	turn();
	retire(0x1000, PTM_INSN_COND, 2, 0x1000);
	interrupt(0x1000);
	assert_int_equal(feed.ambiguous.times, 0);
	ptm_feed_fini(&feed);
}

/* A loop of blocks, with and without the short way for those that make no packets. */
static void blocks_are_as_instructions(void **state)
{
	static const uint8_t lens[] = {1, 2};
	struct ptm_block block = {.begin = 0x1000,
				  .last = 0x1001,
				  .end = 0x1003,
				  .target = 0x1000,
				  .kn = PTM_DIGEST_K,
				  .n = 2,
				  .klass = PTM_INSN_JUMP};
	struct ptm_record_config config;

	(void)state;
	ptm_record_config_init(&config);
	for (int slow = 0; slow < 2; slow++) {
		config.timing = slow ? PTM_TIMING_CYC : PTM_TIMING_NONE;
		begin(&config);
		for (int i = 0; i < 100; i++)
			assert_int_equal(ptm_feed_block(&feed, &block, lens, 0x1000), 0);
		interrupt(0x1001);
		assert_int_equal(feed.ambiguous.times, 1);
		assert_int_equal(feed.ambiguous.n, 200);
		ptm_feed_fini(&feed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(interrupts_wait_for_the_end_of_a_loop),
		cmocka_unit_test(psbs_wait_for_the_end_of_a_loop),
		cmocka_unit_test(signals_in_a_loop_are_told),
		cmocka_unit_test(a_packet_forgets_the_loop),
		cmocka_unit_test(blocks_are_as_instructions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
