/* SPDX-License-Identifier: Apache-2.0
 *
 * record_retrace_test.c - the flow of a thread from the blocks that it was about to execute: what
 * of a block is taken back, and why.
 *
 * What must have retired is written down by hand, as a list of instructions; the truth's digest is
 * compared with that of the list.
 */
#include "base/digest.h"
#include "record/retrace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

/* Blocks by number, at hundreds: number 3 lies at 0x300. */
enum {
	LOOP = 1,    /* 100 load; 103 nop; 104 jne 100; 106 */
	FALL = 2,    /* 200 nop; 201 store; 204 nop; 205: QEMU stopped there */
	REP = 3,     /* 300 nop; 301 rep movsb; 303 */
	AGAIN = 4,   /* 301 rep movsb; 303: at an address of its own */
	CALLS = 5,   /* 500 nop; 501 syscall; 503 */
	ALONE = 6,   /* 201 store, alone */
	TRAP = 7,    /* 700 nop; 701 int3; 702 */
	HANDLER = 8, /* 800 nop; 801 jmp *rax; 803 */
	END = 9,     /* 106 nop; nop; nop */
	REST = 10    /* 204 nop; nop */
};

static struct ptm_blocks blocks;
static struct ptm_feed feed;
static struct ptm_retrace rt;
static struct ptm_error err;

static int swallow(void *ctx, const uint8_t *bytes, size_t len)
{
	(void)ctx;
	(void)bytes;
	(void)len;
	return 0;
}

static void add(uint64_t address, const char *code, const uint8_t *lens, unsigned n)
{
	assert_int_equal(ptm_blocks_add(&blocks, address, lens, n, (const uint8_t *)code), 0);
}

static int set_up(void **state)
{
	struct ptm_record_config config;

	(void)state;
	ptm_record_config_init(&config);
	ptm_blocks_init(&blocks, &err);
	if (ptm_feed_init(&feed, &config, swallow, NULL, 0) != 0)
		return -1;
	ptm_retrace_init(&rt, &feed, &blocks, &err);
	add(0x100, "\x48\x8b\x0f\x90\x75\xfa", (const uint8_t[]){3, 1, 2}, 3);
	add(0x200, "\x90\x48\x89\x0f\x90", (const uint8_t[]){1, 3, 1}, 3);
	add(0x300, "\x90\xf3\xa4", (const uint8_t[]){1, 2}, 2);
	add(0x301, "\xf3\xa4", (const uint8_t[]){2}, 1);
	add(0x500, "\x90\x0f\x05", (const uint8_t[]){1, 2}, 2);
	add(0x201, "\x48\x89\x0f", (const uint8_t[]){3}, 1);
	add(0x700, "\x90\xcc", (const uint8_t[]){1, 1}, 2);
	add(0x800, "\x90\xff\xe0", (const uint8_t[]){1, 2}, 2);
	add(0x106, "\x90\x90\x90", (const uint8_t[]){1, 1, 1}, 3);
	/* The last one was cut off at the end of a page: it does not count. */
	add(0x204, "\x90\x90\x48", (const uint8_t[]){1, 1, 1}, 3);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	ptm_feed_fini(&feed);
	ptm_blocks_fini(&blocks);
	return 0;
}

static void block(uint32_t id)
{
	assert_int_equal(ptm_retrace_block(&rt, id), 0);
}

static void signal_at(uint64_t frame, uint64_t ip, bool fault)
{
	struct ptm_retrace_signal signal = {frame, ip, fault};

	ptm_retrace_signal(&rt, &signal);
}

/* These, up to a 0, are the instructions that retired. */
static void expect(uint64_t ip, ...)
{
	struct ptm_digest digest = PTM_DIGEST_EMPTY;
	va_list ap;

	va_start(ap, ip);
	for (; ip != 0; ip = va_arg(ap, uint64_t))
		ptm_digest_add(&digest, ip);
	va_end(ap);
	assert_int_equal(ptm_retrace_end(&rt), 0);
	assert_int_equal(feed.digest.n, digest.n);
	assert_true(feed.digest.b == digest.b);
}

#define EXPECT(...) expect(__VA_ARGS__, UINT64_C(0))
#define U(x)        UINT64_C(x)

static void killed_leaves_the_last_block_out(void **state)
{
	(void)state;
	block(LOOP);
	block(END);
	EXPECT(U(0x100), U(0x103), U(0x104));
}

static void loop_is_told_once_a_turn(void **state)
{
	(void)state;
	block(LOOP);
	block(LOOP);
	block(END);
	EXPECT(U(0x100), U(0x103), U(0x104), U(0x100), U(0x103), U(0x104));
}

static void fault_at_the_first_instruction_of_a_loop(void **state)
{
	(void)state;
	block(LOOP);
	block(LOOP);
	signal_at(0x7000, 0x100, true);
	block(HANDLER);
	block(END);
	EXPECT(U(0x100), U(0x103), U(0x104), U(0x800), U(0x801));
}

static void alarm_behind_a_turn_of_a_loop(void **state)
{
	(void)state;
	block(LOOP);
	signal_at(0x7000, 0x100, false);
	block(HANDLER);
	block(END);
	EXPECT(U(0x100), U(0x103), U(0x104), U(0x800), U(0x801));
}

static void fault_in_the_middle(void **state)
{
	(void)state;
	block(FALL);
	signal_at(0x7000, 0x201, true);
	block(HANDLER);
	block(END);
	EXPECT(U(0x200), U(0x800), U(0x801));
}

static void store_into_the_running_block(void **state)
{
	(void)state;
	block(FALL);
	block(ALONE);
	block(REST);
	EXPECT(U(0x200), U(0x201));
}

static void rep_counts_once(void **state)
{
	(void)state;
	block(REP);
	for (int i = 0; i < 5; i++)
		block(AGAIN);
	signal_at(0x7000, 0x301, false);
	block(HANDLER);
	block(AGAIN);
	block(AGAIN);
	rt.pending = 0;
	EXPECT(U(0x300), U(0x800), U(0x801));
}

static void system_call_retires_where_the_kernel_takes_over(void **state)
{
	(void)state;
	block(CALLS);
	ptm_retrace_syscall(&rt, 39);
	block(HANDLER);
	block(CALLS);
	/* It does not come back. */
	ptm_retrace_syscall(&rt, 60);
	EXPECT(U(0x500), U(0x501), U(0x800), U(0x801), U(0x500), U(0x501));
}

static void trap_does_not_retire(void **state)
{
	(void)state;
	block(TRAP);
	signal_at(0x7000, 0x702, true);
	block(HANDLER);
	block(END);
	EXPECT(U(0x700), U(0x800), U(0x801));
}

static void handler_interrupted_before_its_first_instruction(void **state)
{
	(void)state;
	block(FALL);
	/* The inner signal found the program at another handler's beginning. */
	signal_at(0x6000, 0x900, false);
	signal_at(0x7000, 0x205, false);
	block(HANDLER);
	block(END);
	EXPECT(U(0x200), U(0x201), U(0x204), U(0x800), U(0x801));
}

static void handler_that_jumps_to_a_handler(void **state)
{
	(void)state;
	block(FALL);
	signal_at(0x7000, 0x205, false);
	block(HANDLER);
	signal_at(0x7000, 0x205, false);
	block(HANDLER);
	block(END);
	EXPECT(U(0x200), U(0x201), U(0x204), U(0x800), U(0x801), U(0x800), U(0x801));
}

static void impossible_flow_is_an_error(void **state)
{
	(void)state;
	block(FALL);
	assert_int_equal(ptm_retrace_block(&rt, LOOP), -PTM_E_SYSTEM);
	assert_non_null(strstr(err.cause[0].text, "from 0x204 to 0x100"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(killed_leaves_the_last_block_out),
		TEST(loop_is_told_once_a_turn),
		TEST(fault_at_the_first_instruction_of_a_loop),
		TEST(alarm_behind_a_turn_of_a_loop),
		TEST(fault_in_the_middle),
		TEST(store_into_the_running_block),
		TEST(rep_counts_once),
		TEST(system_call_retires_where_the_kernel_takes_over),
		TEST(trap_does_not_retire),
		TEST(handler_interrupted_before_its_first_instruction),
		TEST(handler_that_jumps_to_a_handler),
		TEST(impossible_flow_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
