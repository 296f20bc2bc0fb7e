/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_ipt_test.c - the libipt engine: seams, overflows at a PSB, gaps and the bytes they skip.
 *
 * Each case is a trace composed by hand, a piece of code, and what must come out, worked out by
 * hand (flow_case.h).  What any engine must yield is tested by flow_pitfalls_test.c; here are the
 * places that are this engine's own: where it cuts frames, what it changes in them, how many bytes
 * it skips.
 */
#include "flow_case.h"

static const struct flow_case code = {
	/* 00 six nops   06 je 0   08 call 20   0d nop   0e jmp 0   10 jmp .   12 syscall
	 * 14 jmp *rax   20 nop   21 ret
	 * 30 nop   31 aaa, which 64-bit code does not have   32 je 30 */
	.code = "@0 909090909090 74f8 e813000000 90 ebf0 ebfe 0f05 ffe0 @20 90 c3 @30 90 37 74fc"};
#define ONCE "0 1 2 3 4 5 6 "

static struct flow_env env;

static int setup(void **state)
{
	(void)state;
	flow_open(&env, &ptm_engine_ipt, &code);
	env.sizes = true;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	flow_close(&env);
	return 0;
}

static void check(const char *packets, const char *expected)
{
	static struct pt_bytes p;
	static struct flow_text text;
	static struct flow_out out;

	flow_packets(&env, &p, packets);
	flow_run(&env, &p, &out);
	text = (struct flow_text){.n = 0};
	flow_expand(&text, expected);
	assert_string_equal(out.text.s, text.s);
}

/* The FUP IP of the next PSB+ lies in a straight run: what is before it belongs to the earlier
 * frame.  Compared before the first step, so zero instructions at a seam are normal. */
static void test_seam(void **state)
{
	(void)state;
	check("psb+0 T psb+3 T psb+5 N", ONCE ONCE ONCE);
	check("psb+0 T psb+0 TT psb+0", ONCE ONCE ONCE);
	check("psb+6 N psb+21 tip:d N psb+8 T", "6 8 20 21 d e " ONCE "8 20 21");
}

/* A wrong turn: what was walked in vain does not count, and the gap names both addresses. */
static void test_seam_error(void **state)
{
	(void)state;
	check("psb+0 T psb+20 tip:4", ONCE "[gap seam +0 @6 >20] 20 21");
	/* `jmp .` never arrives. */
	check("psb+10 psb+20", "[gap seam +0 @10 >20]");
}

/* To libipt any byte is an instruction.  What our own decoder does not know ends the flow, for
 * sinks could not expand it; what is before it counts. */
static void test_no_code(void **state)
{
	(void)state;
	check("psb+30 T N psb+5 T", "30 [gap bad insn +1 @31] 5 6");
	check("psb+30 psb+32 N psb+5 T", "30 [gap bad insn +0 @31] 32 [gap seam +0 @34 >5] 5 6");
}

/* No walk when tracing is off, and a FUP in PSB+ does not prove that it is on (BDM70). */
static void test_no_seam(void **state)
{
	(void)state;
	check("psb+12 pgd psb+ pge:12 pgd", "12 [disabled] [enabled @12] 12 [disabled]");
	check("psb+12 pgd psb+12 03 cbr m64 pge:5 T",
	      "12 [disabled] [cbr 16] [enabled @5] [exec mode 64 @5] 5 6");
}

static void test_overflow(void **state)
{
	(void)state;
	/* OVF ends the frame; the resume IP is in PSB+. */
	check("psb+0 T ovf psb+4 T", ONCE "[overflow] 4 5 6");
	/* The resume IP is a FUP behind PSBEND; PAD and time do not matter. */
	check("psb+0 T ovf 00 5907 03 psb+ 5908 fup:4 T", ONCE "[overflow @4] 4 5 6");
	/* PSB+ cut short by OVF. */
	check("psb+0 T psb m64 fup:0 ovf fup:4 T", ONCE "[overflow @4] 4 5 6");
	/* Resolved while no MODE.Exec was seen: 64-bit code. */
	check("psb+ ovf fup:4 T", "[overflow @4] 4 5 6");
	/* Resolved as disabled by a TIP.PGD, which libipt does not get to see. */
	check("psb+ ovf 5907 pgd:4 pge:5 T psb+ ovf pgd pge:5 T",
	      "[overflow] [enabled @5] 5 6 [overflow] [enabled @5] 5 6");
}

/* PSBEND is missing: told by a gap of no bytes; the seam before it is walked all the same. */
static void test_no_psbend(void **state)
{
	(void)state;
	check("psb+0 T psb m64 fup:5 T", ONCE "0 1 2 3 4 [gap config +0] 5 6");
	check("psb+0 T psb fup:5 T", ONCE "0 1 2 3 4 [gap config +0] 5 6");
	check("psb m64 fup:5 cbr pge:4 T", "[gap config +0] [enabled @4] 4 5 6");
	/* The position of a later gap counts the frame's own bytes. */
	check("psb fup:5 T tip:0 T", "[gap config +0] 5 6 0 1 2 3 4 5 [gap mismatch +8 @6]");
}

static void test_gaps(void **state)
{
	(void)state;
	/* An unknown opcode: alignment is lost up to the next PSB. */
	check("psb+0 T 02ff 06 06 psb+5 T", ONCE "[gap bad packet +4] 5 6");
	/* A packet cut off by a PSB: TIP with 2 of 6 bytes, which look like the PSB's. */
	check("psb+0 T 6d0282 psb+5 T", ONCE "[gap truncated +3] 5 6");
	/* The same as a whole TIP with 2 bytes: code at 8202 is not there. */
	check("psb+14 2d0282 psb+5 T", "14 [gap seam +0 @7202 >5] 5 6");
}

static void test_flow_errors(void **state)
{
	(void)state;
	/* No image at the target. */
	check("psb+14 tip:100000 T", "14 [gap no image +1 @100000]");
	/* A TIP where a bit is due. */
	check("psb+5 tip:0 T", "5 [gap mismatch +8 @6]");
	/* A bit is left, but the code goes round for ever. */
	check("psb+10 T psb+5 T", "10... [gap runaway +1 @10] 5 6");
	/* A packet that libipt 2.0 does not know. */
	check("psb+5 T 02130120 06", "5 6 [gap unsupported +5]");
}

/* At the end of the data nothing counts behind the last packet. */
static void test_end_of_data(void **state)
{
	(void)state;
	check("psb+0", "");
	check("psb+0 T", ONCE);
	check("psb+0 T 00 00 02", ONCE "[gap truncated +1]");
}

/* B74: an unknown CPU goes on, with a warning; known ones do without. */
static void test_cpu(void **state)
{
	struct ptm_cpu unknown = {true, 6, 255, 0}, skylake = {true, 6, 0x5e, 3}, none = {0};
	struct ptm_stream_context other = {.images = {.first = env.space}, .cpu = unknown};
	static struct pt_bytes p;
	struct ptm_segment seg = {.stream = &other, .data = p.b};
	static struct flow_out out;

	(void)state;
	assert_non_null(ptm_engine_cpu_warning(&unknown));
	assert_null(ptm_engine_cpu_warning(&skylake));
	assert_null(ptm_engine_cpu_warning(&none));
	flow_packets(&env, &p, "psb+5 T");
	seg.len = p.n;
	out = (struct flow_out){.env = &env, .digest = PTM_DIGEST_EMPTY};
	flow_decode(&seg, &out);
	assert_string_equal(out.text.s, "5 6");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_seam),        cmocka_unit_test(test_seam_error),
		cmocka_unit_test(test_no_code),     cmocka_unit_test(test_no_seam),
		cmocka_unit_test(test_overflow),    cmocka_unit_test(test_no_psbend),
		cmocka_unit_test(test_gaps),        cmocka_unit_test(test_flow_errors),
		cmocka_unit_test(test_end_of_data), cmocka_unit_test(test_cpu),
	};

	return cmocka_run_group_tests_name("flow_ipt", tests, setup, teardown);
}
