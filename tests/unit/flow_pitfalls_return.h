/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_pitfalls_return.h - pitfalls of returns, of what TNT and TIP belong to, of TIP.PGD, and of
 * the last IP: cases for flow_pitfalls_test.c.  Expected texts were worked out by hand from SDM
 * vol. 3, ch. Intel PT.
 */
#ifndef PTM_TESTS_FLOW_PITFALLS_RETURN_H
#define PTM_TESTS_FLOW_PITFALLS_RETURN_H

#include "flow_case.h"

/* 00 call 10   05 nop   06 je 0   10 call 1c   15 pause   17 lfence   1a jmp 15
 * 1c mov [rsp],rax   20 ret   30 nop   31 ret */
#define RETPOLINE "@0 e80b000000 90 74f8 @10 e807000000 f390 0faee8 ebf9 48890424 c3 @30 90 c3"

/* 00 call 10   05 je 0   10 je 20   12 call 10   17 ret   20 ret */
#define RECURSION "@0 e80b000000 74f9 @10 740e e8f9ffffff c3 @20 c3"

/* 00 call *rbx   02 nop   03 jmp *rax   10 je 20   20 ret */
#define CALLBACK "@0 ffd3 90 ffe0 @10 740e @20 c3"

/* 00 je 4   02 nop   03 nop   04 jmp *rax */
#define DEFER "@0 7402 90 90 ffe0"

static const struct flow_case return_cases[] = {
	/* A call with displacement 0 is not pushed: nothing returns from it. */
	CASE("B01-thunk-32", "@0 e80b000000 74f9 @10 e800000000 5b c3", "psb+0 TT", "0 10 15 16 5",
	     .base = 0x8048000, .mode = 32),
	CASE("B01-thunk-64", "@0 e80b000000 74f9 @10 e800000000 5b c3", "psb+0 TT", "0 10 15 16 5"),
	CASE("B01-return", "@0 e80b000000 74f9 @10 e800000000 c3", "psb+0 TT", "0 10 15 5",
	     .base = 0x8048000, .mode = 32),
	/* An indirect call to the next instruction is. */
	CASE("B01+R02-indirect", "@0 e80b000000 74f9 @10 ffd0 c3", "psb+0 tip:12 TTT",
	     "0 10 12 12 5"),

	/* TIPs that wait until their TNT is full or forced out. */
	CASE("B03a-deferred-call", CALLBACK, "psb+0 TT tip:10 tip:10", "0 10 20 2 3"),
	CASE("B03a-deferred-many", DEFER, "psb+0 TNT tip:0 tip:0 tip:2 tip:0",
	     "0 4 0 2 3 4 0 4 2 3 4"),
	CASE("B03a-not-deferred", DEFER, "psb+0 T tip:0 N tip:0 T tip:2 tip:0",
	     "0 4 0 2 3 4 0 4 2 3 4"),
	/* At a RET: a set bit returns, a clear one cannot be; with none left the TIP is its own. */
	CASE("B03a-clear-bit", CALLBACK, "psb+10 TN", "10 [gap retcomp @20]"),
	CASE("B03a-uncompressed", CALLBACK, "psb+10 T tip:2 tip:10", "10 20 2 3"),
	CASE("B03a-compressed", CALLBACK, "psb+0 tip:10 TT tip:10", "0 10 20 2 3"),

	/* A wrong image: the class, the IP, and on from the next PSB. */
	CASE("B03b-bit-for-indirect", "@0 90 ffe0 90 74fa", "psb+0 TT psb+3 T",
	     "0 [gap mismatch @1] 3 4"),
	CASE("B03b-tip-for-jcc", "@0 90 7400 90 74fa", "psb+0 tip:3 T psb+3 T",
	     "0 [gap mismatch @1] 3 4"),
	CASE("B03b-bit-for-return", "@0 90 c3 90 90 74fa", "psb+0 T psb+3 T",
	     "0 [gap retcomp @1] 3 4"),

	/* Each near RET pops, compressed or not. */
	CASE("B03c+R01-retpoline", RETPOLINE, "psb+0 tip:30 TT", "0 10 1c 20 30 31 5 6"),
	CASE("B03c+R01-retpoline-both-models", RETPOLINE, "psb+0 tip:30 tip:5 T",
	     "0 10 1c 20 30 31 5 6"),
	/* 10: push rax, ret, as some jump; its RET uses up the entry of the call. */
	CASE("R01-push-return", "@0 e80b000000 74f9 @10 50 c3 @20 c3", "psb+0 tip:20 tip:5 T",
	     "0 10 11 20 5"),
	CASE("R01-push-return-empty", "@0 e80b000000 74f9 @10 50 c3 @20 c3", "psb+0 tip:20 T",
	     "0 10 11 [gap retcomp @20]"),
	/* longjmp: 0 call 10, 10 call 20, 20 jmp *rdx to 15, 15 ret: 15 is still on the stack. */
	CASE("R01-longjmp", "@0 e80b000000 74f9 @10 e80b000000 c3 @20 ffe2", "psb+0 tip:15 tip:5 T",
	     "0 10 20 15 5"),
	/* Far returns do not use the stack. */
	CASE("B03c-far-return", "@0 e80b000000 90 74f8 @10 48cb @20 90 c3", "psb+0 tip:20 TT",
	     "0 10 20 21 5 6"),
	CASE("B03c-iret", "@0 e80b000000 90 74f8 @10 48cf @20 90 c3", "psb+0 tip:20 TT",
	     "0 10 20 21 5 6"),
	/* 70 calls deep: 64 returns are compressed, 6 are not. */
	CASE("B03c-recursion", RECURSION, "psb+0 69{N} T 64{T} 5{tip:17} tip:5 T",
	     "0 69{10 12} 10 20 69{17} 5"),
	CASE("R02-64-entries", RECURSION, "psb+0 69{N} T 65{T}",
	     "0 69{10 12} 10 20 63{17} [gap retcomp @17]"),
	CASE("B03c+R02-overflow-empties", RECURSION, "psb+0 T ovf fup:20 T",
	     "0 10 [overflow @20] [gap retcomp @20]"),
	CASE("B03c+R02-disabled-keeps", "@0 e80b000000 74f9 @10 0f05 c3", "psb+0 pgd pge:12 TT",
	     "0 10 [disabled] [resumed @12] 12 5"),
	/* 0 call 10, 10 jmp far [rax] to 32-bit code, 20 ret: pops 100401005, returns to 401005. */
	CASE("R02-truncated", "@0 e80b000000 7400 @10 ff28 @20 c3",
	     "psb 9901 fup:=100401000 psbend "
	     "m32 tip:20 TT",
	     "=100401000 =100401010 [exec mode 32 @20] 20 5", .alias = 0x100401000),
	/* 100401000 in 32-bit code: je 401006. */
	CASE("R02-truncated-branch", "@0 7404 @6 7400", "psb 9902 fup:=100401000 psbend TT",
	     "=100401000 6", .alias = 0x100401000),

	/* No entry from before a PSB helps behind it. */
	CASE("B03d+R02-tip", "@0 90 e81a000000 90 7400 @20 90 c3", "psb+1 psb+21 tip:6 N",
	     "1 20 21 6 7"),
	CASE("B03d+R02-bit", "@0 90 e81a000000 90 7400 @20 90 c3", "psb+1 psb+20 T",
	     "1 20 [gap retcomp @21]"),

	/* IPBytes 6 is all of a 64-bit address; 5 and 7 are none. */
	CASE("B04-tip", "@0 ffe0 @3c 90 7400", "psb+0 cd3c805fc0ffffffff T", "0 3c 3d",
	     .base = 0xffffffffc05f8000),
	CASE("B04-psb", "@0 ffe0 @3c 90 7400", "psb 9901 dd3c805fc0ffffffff psbend T", "3c 3d",
	     .base = 0xffffffffc05f8000),
	CASE("B04-reserved-5", "@0 90 7400", "psb+0 T ad0010400000000000", "0 1 [gap bad packet]"),
	CASE("B04-reserved-7", "@0 90 7400", "psb+0 T ed0010400000000000", "0 1 [gap bad packet]"),
	/* Each width against the last IP. */
	CASE("B05+R03-widths", "@0 ffe0 @10 ffe0 @20 7400",
	     "psb+0 tip/1:10 tip/2:0 tip/3:10 tip/4:0 tip/6:20 T", "0 10 0 10 0 20",
	     .base = 0x7fff12345000),
	CASE("B05+R03-psb-resets-1", "@0 74fe", "psb+0 T psb 9901 fup/1:0 psbend T", "0 0",
	     .base = 0x1000),
	CASE("R03-psb-resets-2", "@0 7400", "psb 9901 fup/2:0 psbend T", "0"),
	CASE("R03-suppressed-keeps", "@0 0f05 @10 7400", "psb+0 pgd pge/1:10 T",
	     "0 [disabled] [enabled @10] 10"),

	/* TIP.PGD binds behind all bits: to the first instruction that needs a packet ... */
	CASE("B06-report", "@a4 7400 7400 c3", "psb+ 31a49c 08 01",
	     "[enabled @a4] a4 a6 a8 [disabled]", .base = 0x9c00),
	CASE("B06-jcc", "@0 90 7400 7400", "psb+0 pgd", "0 1 [disabled]"),
	CASE("B06-return", "@0 e80b000000 @10 c3", "psb+0 pgd", "0 10 [disabled]"),
	CASE("B06-indirect", "@0 90 ffe0", "psb+0 pgd", "0 1 [disabled]"),
	CASE("B06-far", "@0 90 0f05", "psb+0 pgd", "0 1 [disabled]"),
	CASE("B06-mov-cr3", "@0 90 0f22d8 7400", "psb+0 pgd", "0 1 [disabled]"),
	CASE("B06-past-jump", "@0 eb0e @10 7400", "psb+0 pgd", "0 10 [disabled]"),
	CASE("B06-behind-bits", "@0 7400 7400 7400", "psb+0 TN pgd", "0 2 4 [disabled]"),
	CASE("B06-behind-deferred", DEFER, "psb+0 TN tip:0 pgd", "0 4 0 2 3 4 [disabled]"),
	/* ... or, with an address, where the walk arrives there. */
	CASE("B06-to-jump", "@0 90 eb2d", "psb+0 pgd:30", "0 1 [disabled >30]"),
	CASE("B06-to-call", "@0 90 e82a000000", "psb+0 pgd:30", "0 1 [disabled >30]"),
	CASE("B06-to-second-jump", "@0 eb0e @10 90 eb1d", "psb+0 pgd:30", "0 10 11 [disabled >30]"),
	CASE("B06-to-taken", "@0 90 742d", "psb+0 pgd:30", "0 1 [disabled >30]"),
	CASE("B06-to-not-taken", "@0 90 742d", "psb+0 pgd:3", "0 1 [disabled >3]"),
	CASE("B06-to-indirect", "@0 90 ffe0", "psb+0 pgd:30", "0 1 [disabled >30]"),
	CASE("B06-to-return", "@0 e81b000000 @20 c3", "psb+0 pgd:5", "0 20 [disabled >5]"),
	CASE("B06-to-next", "@0 90 90 90 90 7400", "psb+0 pgd:2", "0 1 [disabled >2]"),

	/* Two address filters, one packet stream.  0 nop, 1 je 40, 3 je 60, 40 nop, 41 je 60,
	 * 43 je 0; 60 lies outside. */
	CASE("B08-ranges", "@0 90 743d 745b @40 90 741d 74bb", "psb+0 N pgd:60 pge:40 NT N pgd:60",
	     "0 1 3 [disabled >60] [enabled @40] 40 41 43 0 1 3 [disabled >60]"),
	CASE("B08-adjacent", "@0 90 743d 74fb eb39 @40 90 74bd", "psb+0 NTNN T",
	     "0 1 3 0 1 3 5 40 41"),
	CASE("B09-not-taken", "@0 90 7401 90 74fa", "psb+0 TTNTTN", "0 1 4 0 1 3 4 0 1 4"),
};

#endif
