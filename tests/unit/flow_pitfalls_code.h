/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_pitfalls_code.h - pitfalls of interrupts, far transfers, transactions, modes and encodings:
 * cases for flow_pitfalls_test.c.  Expected texts were worked out by hand from SDM vol. 3, ch.
 * Intel PT, and vol. 2 for the encodings.
 */
#ifndef PTM_TESTS_FLOW_PITFALLS_CODE_H
#define PTM_TESTS_FLOW_PITFALLS_CODE_H

#include "flow_case.h"

/* 00 nop   01 je 0   20 nop   21 je 23 */
#define TIGHT "@0 90 74fd @20 90 7400"
/* 00 six nops   06 je 0   20 nop   21 je 23 */
#define RUN "@0 909090909090 74f8 @20 90 7400"
/* 00 xbegin 20   06 nop   07 nop   08 xend   0b je d   20 nop   21 je 23 */
#define XBEGIN "@0 c7f81a000000 90 90 0f01d5 7400 @20 90 7400"
/* A far transfer at 1. */
#define FAR(code) "@0 90 " code " 7400 @20 90 7400"

static const struct flow_case code_cases[] = {
	/* FUP binds by its IP, behind all bits. */
	CASE("R05-at-ip", TIGHT, "psb+0 TT fup:0 pgd pge:0 T",
	     "0 1 0 1 [async disabled @0] [resumed @0] 0 1"),
	CASE("R05-mid-run", RUN, "psb+0 fup:3 pgd pge:3 T",
	     "0 1 2 [async disabled @3] [resumed @3] 3 4 5 6"),
	CASE("R05-with-ip", RUN, "psb+0 fup:3 pgd:20 pge:3 T",
	     "0 1 2 [async disabled @3 >20] [resumed @3] 3 4 5 6"),
	CASE("R05-interrupt", RUN, "psb+0 T fup:3 tip:20 T",
	     "0 1 2 3 4 5 6 0 1 2 "
	     "[async branch @3 >20] 20 21"),
	CASE("R05-at-branch", RUN, "psb+0 T fup:6 tip:20 T",
	     "0 1 2 3 4 5 6 0 1 2 3 4 5 "
	     "[async branch @6 >20] 20 21"),
	CASE("R05-rep", "@0 90 f3a4 7400", "psb+0 fup:1 pgd pge:1 T",
	     "0 [async disabled @1] [resumed @1] 1 3"),
	CASE("R06-rep", "@0 90 f3a4 7400 @20 48cf", "psb+0 3{fup:1 tip:20 tip:1} T",
	     "0 3{[async branch @1 >20] 20} 1 3"),
	/* 1 mov eax, [rax] */
	CASE("R06-fault", "@0 90 8b00 7400 @20 48cf", "psb+0 fup:1 tip:20 tip:1 T",
	     "0 [async branch @1 >20] 20 1 3"),
	CASE("R06-int", "@0 90 cd80 7400 @20 48cf", "psb+0 fup:1 tip:20 tip:3 T",
	     "0 [async branch @1 >20] 20 3"),
	CASE("R06-int3", "@0 90 cc 7400 @20 48cf", "psb+0 fup:1 tip:20 tip:2 T",
	     "0 [async branch @1 >20] 20 2"),
	CASE("R06-int1", "@0 90 f1 7400 @20 48cf", "psb+0 fup:1 tip:20 tip:2 T",
	     "0 [async branch @1 >20] 20 2"),
	CASE("R06-into", "@0 90 ce 7400 @20 cf", "psb+0 fup:1 tip:20 tip:2 T",
	     "0 [async branch @1 >20] 20 2", .mode = 32),
	CASE("R06+B51-syscall", "@0 90 0f05 7400 @20 480f07", "psb+0 tip:20 tip:3 T", "0 1 20 3"),
	CASE("R06+B51-sysenter", "@0 90 0f34 7400 @20 480f35", "psb+0 tip:20 tip:3 T", "0 1 20 3"),
	CASE("R06+B48-abort", XBEGIN, "psb+0 intx fup:0 abort fup:7 tip:20 T",
	     "[tsx 1 @0] 0 6 [tsx 2 @7] [async branch @7 >20] 20 21"),
	CASE("B48-commit", XBEGIN, "psb+0 intx fup:0 commit fup:8 T",
	     "[tsx 1 @0] 0 6 7 [tsx 0 @8] 8 b"),
	/* Where it goes on need not be where it stopped. */
	CASE("R07-handler", FAR("0f05"), "psb+0 pgd pge:20 T",
	     "0 1 [disabled] [enabled @20] 20 21"),
	CASE("R07-next", FAR("0f05"), "psb+0 pgd pge:3 T", "0 1 [disabled] [resumed @3] 3"),
	CASE("R07-mid-run", "@0 909090909090 0f05", "psb+0 pgd pge:3 pgd",
	     "0 1 2 3 4 5 6 [disabled] [enabled @3] 3 4 5 6 [disabled]"),

	/* What may stand between two TNTs. */
	CASE("R08-between", TIGHT, "psb+0 T 5901 T 03 T cbr T pad T 02c3881122334455667788 T",
	     "0 1 0 1 0 1 [cbr 16] 0 1 0 1 [mnt 8877665544332211] 0 1"),
	CASE("R08-pending", "@0 7402 90 90 ffe0",
	     "psb+0 T 5901 pad 03 tip:0 5902 N 00 5903 tip:0 T", "0 4 0 2 3 4 0"),
	CASE("R08-long", "@0 90 74fd 74fb", "psb+0 long:TNT T", "0 1 0 1 3 0 1"),
	CASE("R08-long-1", TIGHT, "psb+0 long:T T", "0 1 0 1"),
	CASE("R08-long-47", TIGHT, "psb+0 long:TTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTN",
	     "46{0 1} 0 1"),

	/* Encodings. */
	CASE("R10-data16-rexw-call", "@0 6648e809000000 7400 @10 c3", "psb+0 TT", "0 10 7"),
	CASE("R10-tls-call", "@0 666648e808000000 7400 @10 c3", "psb+0 TT", "0 10 8"),
	CASE("R10-notrack-jump", "@0 3effe0 @10 7400", "psb+0 tip:10 T", "0 10"),
	CASE("R10-notrack-call", "@0 3effd0 7400 @10 c3", "psb+0 tip:10 TT", "0 10 3"),
	CASE("R10-bnd-call", "@0 f2e80a000000 7400 @10 f2c3", "psb+0 TT", "0 10 6"),
	CASE("R10-bnd-jump", "@0 f2eb0d @10 f27400", "psb+0 T", "0 10"),
	CASE("R10-rep-ret", "@0 e80b000000 7400 @10 f3c3", "psb+0 TT", "0 10 5"),
	CASE("R10-ret-imm", "@0 e80b000000 7400 @10 c20800", "psb+0 TT", "0 10 5"),
	CASE("R10-hints", "@0 2e740d @10 3e75ed", "psb+0 TN", "0 10"),
	CASE("R10-jecxz-loop", "@0 67e30d e30b e209 @10 e1ee", "psb+0 NNTT", "0 3 5 10"),
	CASE("R10-displacement-0", "@0 7400 eb00 7400", "psb+0 TN", "0 2 4"),
	CASE("R10-displacement-0-not", "@0 7400 eb00 7400", "psb+0 NT", "0 2 4"),
	CASE("R10-rip-call", "@0 ff1500000000 7400 @10 c3", "psb+0 tip:10 TT", "0 10 6"),
	CASE("R10-call-r15", "@0 41ffd7 7400 @10 c3", "psb+0 tip:10 TT", "0 10 3"),
	CASE("R10-page-end", "@0 90 90 e808000000 7400 @f c3", "psb+0 TT", "0 1 2 f 7",
	     .base = 0x401ffd),
	CASE("R10-two-mappings", "@0 90 90 e808000000 7400 @f c3", "psb+0 TT", "0 1 2 f 7",
	     .base = 0x401ffd, .split = 3),
	CASE("R10-mapping-end", "@0 90 90 e808", "psb+0 T", "0 1 [gap no image @2]"),
	CASE("R10-mapping-end-fits", "@0 90 90 74fe", "psb+0 T", "0 1 2"),
	CASE("R10-data-behind", "@0 eb0e ffffffffffff @10 7400", "psb+0 T", "0 10"),

	/* A 32-bit process: 32-bit code, IPs as in 64-bit code. */
	CASE("R12-call", "@0 e80b000000 7400 @10 c3", "psb+0 TT", "0 10 5", .base = 0xf7e01000,
	     .mode = 32),
	CASE("R12-tip", "@0 ffe0 @10 7400", "psb+0 tip/6:10 T", "0 10", .base = 0xf7e01000,
	     .mode = 32),
	/* 1 inc eax, which is a REX prefix in 64-bit code */
	CASE("R12-inc", "@0 90 40 74fc", "psb+0 TT", "0 1 2 0 1 2", .base = 0x8048000, .mode = 32),
	CASE("R12-int80", "@0 90 cd80 7400", "psb+0 fup:1 pgd pge:3 T",
	     "0 [async disabled @1] [enabled @3] 3", .base = 0x8048000, .mode = 32),

	/* MODE.Exec binds to the IP packet behind it. */
	CASE("B50-far-jump", "@0 ff28 @10 40 7400 ff28 @20 4890 7400",
	     "psb+0 m32 tip:10 T m64 tip:20 T",
	     "0 [exec mode 32 @10] 10 11 13 [exec mode 64 @20] 20 22"),
	CASE("B50-pge", "@10 40 7400", "psb+ m32 pge:10 T",
	     "[enabled @10] [exec mode 32 @10] 10 11"),
	CASE("B50-16-bit", "@0 e80d00 7400 @10 c3", "psb+0 TT", "0 10 3", .base = 0x1000,
	     .mode = 16),
	/* Far transfers, followed by what the CPL filter lets through. */
	CASE("B51-iret-tip", FAR("48cf"), "psb+0 tip:20 T", "0 1 20 21"),
	CASE("B51-iret-pgd", FAR("48cf"), "psb+0 pgd pge:20 T",
	     "0 1 [disabled] [enabled @20] 20 21"),
	CASE("B51-iret-pgd-ip", FAR("48cf"), "psb+0 pgd:20 pge:21 T",
	     "0 1 [disabled >20] [enabled @21] 21"),
	CASE("B51-sysexit-tip", FAR("480f35"), "psb+0 tip:20 T", "0 1 20 21"),
	CASE("B51-sysexit-pgd", FAR("480f35"), "psb+0 pgd pge:20 T",
	     "0 1 [disabled] [enabled @20] 20 21"),
	CASE("B51-sysret-pgd", FAR("480f07"), "psb+0 pgd pge:20 T",
	     "0 1 [disabled] [enabled @20] 20 21"),
	CASE("B51-far-call-tip", FAR("ff18"), "psb+0 tip:20 T", "0 1 20 21"),
	CASE("B51-vmlaunch-pgd", FAR("0f01c2"), "psb+0 pgd pge:20 T",
	     "0 1 [disabled] [enabled @20] 20 21"),
};

#endif
