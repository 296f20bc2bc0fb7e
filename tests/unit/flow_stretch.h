/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_stretch.h - what the fast path is tried with: code, and stretches of packets, some with
 * something odd in their middle.  Expected values are worked out by hand.
 */
#ifndef PTM_TESTS_FLOW_STRETCH_H
#define PTM_TESTS_FLOW_STRETCH_H

#include "flow_case.h"

#include "flow/loops.h"

/* 00 call 10   05 jne 0   07 jmp *rax   10 nop   11 je 15   13 nop   14 ret   15 ret */
#define CALLS "@0 e80b000000 75f9 ffe0 @10 90 7402 90 c3 c3"
/* Once round in CALLS: not taken, compressed, taken. */
#define ROUND "0 10 11 13 14 5"
/* 00 call 10   05 je 7   07 jmp *rax   10 call 20   15 ret   20 call 30   25 ret   30 je 32   32
 * ret
 */
#define NESTED "@0 e80b000000 7400 ffe0 @10 e80b000000 c3 @20 e80b000000 c3 @30 7400 c3"
/* 00 nop   01 je 8   03 call 0   08 ret */
#define RECURSE "@0 90 7405 e8f8ffffff c3"
/* 00 je 8   02 call 0   07 ret   08 je f   0a call 0   0f ret */
#define RECURSE_TWICE "@0 7406 e8f9ffffff c3 7405 e8f1ffffff c3"
/* 00 call 5   05 pop rax   06 call 10   0b je d   0d jmp *rax   10 je 12   12 ret */
#define GET_PC "@0 e800000000 58 e805000000 7400 ffe0 @10 7400 c3"
/* 00 to c7 nop   c8 je 0   ce jmp *rax */
#define LONG_LOOP "@0 200{90} 0f8432ffffff ffe0"
/* 64 bits: 00 nop (rex)   02 je 4   04 jmp *rax; 32 bits: 00 inc eax   01 nop   02, 04 */
#define TWO_MODES "@0 4090 7400 ffe0"

/* 00 call 20   05 call 20   0a call 20   0f jmp 0   20 je 22   22 ret */
#define THREE_CALLERS "@0 e81b000000 e816000000 e811000000 ebef @20 7400 c3"

struct stretch_case {
	const char *name, *code;
	uint64_t from;       /* offset */
	const char *before;  /* bits that the exact path takes first; NULL: none */
	const char *packets; /* of stretches, `|` between two */
	const char *insns;   /* offsets of instructions; 3-6 stands for 3 4 5 6 */
	const char *places;  /* behind each stretch: `@` offset, offsets on the stack, the latest
				last; or `no` if it is given up */
};

static const struct stretch_case stretch_cases[] = {
	{"call and return", CALLS, 0, NULL, "NTT", ROUND, "@0"},
	{"bits of two packets", CALLS, 0, NULL, "N TT", ROUND, "@0"},
	{"more bits than a symbol has", CALLS, 0, NULL, "3{NTTNTT}", "6{" ROUND "}", "@0"},
	{"a symbol that ends in a call", CALLS, 0, NULL, "2{NTTNTT} NTTN", "5{" ROUND "} 0 10 11",
	 "@13 5"},
	{"a long TNT", CALLS, 0, NULL, "long:NTTNTTNTTNTTNTTNTTNTTNTTNTTNTTNTTNTTNTTNTTNTTNT",
	 "15{" ROUND "} 0 10 11 13 14", "@5"},
	{"a long TNT of one bit", CALLS, 0, NULL, "long:N T", "0 10 11 13 14", "@5"},
	{"16 bits and a TIP", CALLS, 0, NULL, "2{NTTNTT} NTTN tip:15", "5{" ROUND "} 0 10 11 13 14",
	 "@15"},
	{"15 bits and a TIP", CALLS, 0, NULL, "2{NTTNTT} NTN tip:10", "4{" ROUND "} " ROUND " 7",
	 "@10"},
	{"18 bits and a TIP", CALLS, 0, NULL, "2{NTTNTT} NTTNTN tip:10", "5{" ROUND "} " ROUND " 7",
	 "@10"},
	{"four packets and a TIP", CALLS, 0, NULL, "4{NTT} NTN tip:10", "5{" ROUND "} 7", "@10"},
	{"full packets and a TIP", CALLS, 0, NULL, "3{NTTNTT} NTN tip:10", "7{" ROUND "} 7", "@10"},
	{"what a TIP leaves of four packets", CALLS, 0, "N", "TTNTTN 2{TTNTTN} TTN tip:10",
	 "13 14 5 6{" ROUND "} 0 10 11 13 14", "@10"},
	{"PAD before packets", CALLS, 0, NULL, "2{pad} NTT", ROUND, "@0"},
	{"PAD between packets and a TIP", CALLS, 0, NULL, "NTN pad tip:10", ROUND " 7", "@10"},
	{"PAD among packets before a TIP", CALLS, 0, NULL, "NTT 3{pad} NTN tip:10",
	 "2{" ROUND "} 7", "@10"},
	{"TIPs in a row", CALLS, 7, NULL, "tip:7 tip:7 tip:15 tip:0 N", "7 7 7 15 0 10 11",
	 "@13 5"},
	{"a return that is not compressed, to its call", CALLS, 0, NULL, "N tip:5", "0 10 11 13 14",
	 "@5"},
	{"... to another place", CALLS, 0, NULL, "N tip:10", "0 10 11 13 14", "@10"},
	{"... without a call", CALLS, 0x10, NULL, "N tip:5 N", "10 11 13 14 5", "@7"},
	{"... of a call in another stretch", CALLS, 0, NULL, "N | tip:15 tip:7", "0 10 11 13 14 15",
	 "@13 5 | @7"},
	{"a return below the edge's calls", CALLS, 0, "N", "TT NTT", "13 14 5 " ROUND, "@0"},
	{"... and a TIP behind it", CALLS, 0, "N", "TN tip:10", "13 14 5 7", "@10"},
	{"... and nothing behind it", CALLS, 0, "N", "T", "13 14", "@5"},
	{"a return without a call", CALLS, 0x13, NULL, "T", "", "no"},
	{"a bit for not taken at a return", CALLS, 0, NULL, "NN", "", "no"},
	{"a bit at an indirect jump", CALLS, 0, NULL, "NTNNTT tip:0", "", "no"},
	{"a TIP at a conditional branch", CALLS, 0, NULL, "NT tip:0", "", "no"},
	{"a TIP to nowhere", CALLS, 7, NULL, "tip:100000 N", "", "no"},
	{"what came before the error stays", CALLS, 0, NULL, "NTT | NN", ROUND, "@0 | no"},
	{"a call to the next instruction", GET_PC, 0, NULL, "NT", "0 5 6 10 12", "@b"},
	{"... does not hide its caller", GET_PC, 0, NULL, "N tip:b N", "0 5 6 10 12 b", "@d"},
	{"three calls", NESTED, 0, NULL, "N", "0 10 20 30", "@32 5 15 25"},
	{"three calls and their returns", NESTED, 0, NULL, "NTTTT", "0 10 20 30 32 25 15 5", "@7"},
	{"... in two stretches", NESTED, 0, NULL, "NT | TT | N tip:0", "0 10 20 30 32 25 15 5 7",
	 "@25 5 15 | @5 | @0"},
	{"what a second return leaves of its symbol",
	 "@0 e80b000000 740190ffe0 @10 e80b000000 c3 @20 e80b000000 c3 @30 7400 c3", 0, NULL,
	 "N | TTTN tip:0", "0 10 20 30 32 25 15 5 7 8", "@32 5 15 25 | @0"},
	{"a return to one of three callers", THREE_CALLERS, 0, NULL, "N | TN | TN | TN | TN",
	 "0 20 22 5 20 22 a 20 22 f 0 20 22 5 20", "@22 5 | @22 a | @22 f | @22 5 | @22 a"},
	{"... the last of which is not compressed", NESTED, 0, NULL, "N tip:25 T",
	 "0 10 20 30 32 25", "@15 5"},
	{"1040 calls, more than the walk has room for", RECURSE_TWICE, 0, NULL,
	 "260{NTNNTN} TT 10{TTTTTT} TTTT", "520{0 2 0 8 a} 0 8 f f 31{7 f}", "@7"},
	{"64 calls, and as many that are forgotten", RECURSE, 0, NULL,
	 "21{NNNNNN} NNT | 10{TTTTTT} TTTT | T", "0 1 128{3 0 1} 64{8}", "@8 64{8} | @8 | no"},
	{"64 calls and returns in one stretch", RECURSE, 0, NULL,
	 "21{NNNNNN} NNTTTT 10{TTTTTT} T tip:0", "0 1 128{3 0 1} 64{8} 8", "@0"},
	{"one return too many in one stretch", RECURSE, 0, NULL, "21{NNNNNN} NNTTTT 10{TTTTTT} TT",
	 "", "no"},
	{"a long run", "@0 300{90} 7400 ffe0", 0, NULL, "N tip:0", "0-12c 12e", "@0"},
	{"more instructions than an edge has", "@0 1100{90} 7400", 0, NULL, "N", "0-44c", "@44e"},
	{"... before a TIP", "@0 1100{90} ffe0", 0, NULL, "tip:5 tip:0", "0-44c 5-44c", "@0"},
	{"... within six branches", LONG_LOOP, 0, NULL, "TTTTTT", "6{0-c8}", "@0"},
	{"... and a TIP behind them", LONG_LOOP, 0, NULL, "TTTTTN tip:c7", "6{0-c8} ce", "@c7"},
	{"a run that never ends", "@0 ebfe", 0, NULL, "N", "", "no"},
	{"a TIP with 2 bytes", CALLS, 7, NULL, "tip/3:7 tip/1:0 N", "7 7 0 10 11", "@13 5"},
	{"a TIP with 4 bytes", CALLS, 7, NULL, "tip/3:=ffff8000deadbeef tip/2:0 N", "", "no"},
	{"... of a low address", CALLS, 7, NULL, "tip/3:7 tip/2:0 N", "7 7 0 10 11", "@13 5"},
	{"a TIP with 6 bytes of 8", CALLS, 7, NULL, "tip/6:7 tip/4:0 N", "7 7 0 10 11", "@13 5"},
	{"a TIP without an address", CALLS, 0, NULL, "N | tip", "0 10 11", "@13 5 | @13 5"},
};

/* A stretch with something odd in its middle: before it everything counts, and once. */
static const struct flow_case odd_cases[] = {
	CASE("deferred-tip", CALLS, "psb+0 NTT NTNNTT tip:0 NTT",
	     ROUND " " ROUND " 7 2{" ROUND "}"),
	CASE("no-image", CALLS, "psb+0 NTT NTN tip:100000 NTT",
	     ROUND " " ROUND " 7 [gap no image @100000]"),
	CASE("no-image-found-again", CALLS, "psb+0 NTT NTN tip:100000 TT tip:0 NTT",
	     ROUND " " ROUND " 7 [gap no image @100000] ~ " ROUND, .resync = true),
	CASE("retcomp", CALLS, "psb+10 NT NTT", "10 11 13 [gap retcomp @14]"),
	CASE("not-taken-at-ret", CALLS, "psb+0 NTT NN", ROUND " 0 10 11 13 [gap retcomp @14]"),
	CASE("tip-at-jcc", CALLS, "psb+0 NTT NT tip:0", ROUND " 0 10 11 13 14 [gap mismatch @5]"),
	CASE("tip-to-0", CALLS, "psb+7 tip:=0 tip:0 NTT", "7 [gap no image @=0]"),
	CASE("tip-to-0-last", CALLS, "psb+7 tip:=0", "7"),
	CASE("tip-without-ip", CALLS, "psb+0 NTT N tip NTT",
	     ROUND " 0 10 11 13 [gap mismatch @14]"),
	CASE("runaway", "@0 7400 @2 ebfe", "psb+0 T N", "0 2... [gap runaway @2]"),
	CASE("fup", CALLS, "psb+0 NTT fup:10 tip:7 tip:0 NTT",
	     ROUND " 0 [async branch @10 >7] 7 " ROUND),
	CASE("overflow", CALLS, "psb+0 NTT N ovf fup:10 N tip:0 NTT",
	     ROUND " 0 10 11 [overflow @10] 10 11 13 14 " ROUND),
	CASE("psb", CALLS, "psb+0 NTT N psb+14 tip:0 NTT", ROUND " 0 10 11 13 14 " ROUND),
	CASE("bad-packet", CALLS, "psb+0 NTT N 02ff 12{pad}", ROUND " 0 10 11 [gap bad packet]"),
	CASE("mode", TWO_MODES, "psb+4 tip:0 N m32 tip:0 N", "4 0 2 4 [exec mode 32 @0] 0 1 2"),
	/* 00 call 10   10 jmp far to 32-bit code   20 call 30   25 ret   30 je 32   32 ret */
	CASE("return-to-another-mode", "@0 e80b000000 7400 @10 ff28 @20 e80b000000 c3 @30 7400 c3",
	     "psb 9901 fup:=100401000 psbend m32 tip:20 N cbr TTT",
	     "=100401000 =100401010 [exec mode 32 @20] 20 30 [cbr 16] 32 25 5",
	     .alias = 0x100401000),
	CASE("recursion", RECURSE, "psb+0 21{NNNNNN} NNT 10{TTTTTT} TTTTT",
	     "0 1 128{3 0 1} 64{8} [gap retcomp @8]"),
};

static inline int drop_batch(void *ctx, const struct ptm_batch *batch, struct ptm_error *err)
{
	(void)ctx;
	(void)batch;
	(void)err;
	return 0;
}

static inline struct ptm_space *space_with(const char *code)
{
	static struct flow_text all;
	static struct pt_bytes bytes;
	struct ptm_space *space = ptm_space_create();

	all = (struct flow_text){.n = 0};
	flow_expand(&all, code);
	flow_code(&bytes, all.s);
	map_code(space, &bytes, FLOW_BASE, 0);
	assert_int_equal(ptm_space_seal(space, NULL), 0);
	return space;
}

/* All tests of a program. */
static struct CMUnitTest tests[1024];
static size_t ntests;

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static inline void add_test(const char *name, CMUnitTestFunction fn, const void *state)
{
	assert_true(ntests < COUNT(tests));
	tests[ntests++] =
		(struct CMUnitTest){.name = name, .test_func = fn, .initial_state = (void *)state};
}

static inline void add_cases(const struct flow_case *cases, size_t n, CMUnitTestFunction fn)
{
	for (size_t i = 0; i < n; i++)
		add_test(cases[i].name, fn, &cases[i]);
}

static inline void add_stretches(CMUnitTestFunction fn)
{
	for (size_t i = 0; i < COUNT(stretch_cases); i++)
		add_test(stretch_cases[i].name, fn, &stretch_cases[i]);
}

/* Those that a test uses. */
static const struct ptm_loops *loops;

/* Run them all, with the loops for any CPU, then with those for this one. */
static inline int run_with_all_loops(const char *any_cpu, const char *this_cpu)
{
	int failed;

	loops = &ptm_loops_plain;
	failed = _cmocka_run_group_tests(any_cpu, tests, ntests, NULL, NULL);
	loops = ptm_loops_best();
	if (loops != &ptm_loops_plain)
		return failed + _cmocka_run_group_tests(this_cpu, tests, ntests, NULL, NULL);
	(void)fprintf(stderr, "skipped: this CPU has no faster loops\n");
	return failed;
}

#endif
