/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_pitfalls_sync.h - pitfalls of PSB+, overflows, and traces that are damaged: cases for
 * flow_pitfalls_test.c.  Expected texts were worked out by hand from SDM vol. 3, ch. Intel PT.
 */
#ifndef PTM_TESTS_FLOW_PITFALLS_SYNC_H
#define PTM_TESTS_FLOW_PITFALLS_SYNC_H

#include "flow_case.h"

/* 00 six nops   06 je 0   08 call 20   0d nop   0e jmp 0   10 jmp .   12 syscall   14 jmp *rax
 * 20 nop   21 ret */
#define LOOP "@0 909090909090 74f8 e813000000 90 ebf0 ebfe 0f05 ffe0 @20 90 c3"
#define ONCE "0 1 2 3 4 5 6 "

static const struct flow_case sync_cases[] = {
	/* Synchronised, although PSB+ has no FUP.  A MODE.TSX waits for a FUP, of which there is
	 * none while packets are disabled: it stands alone. */
	CASE("B11-disabled", LOOP, "psb+ commit cbr pge:0 T",
	     "[tsx 0] [cbr 16] [enabled @0] 0 1 2 3 4 5 6"),
	CASE("B12-ptwrite", LOOP, "psb+ 02328877665544332211 pge:0 T",
	     "[ptwrite 1122334455667788] [enabled @0] 0 1 2 3 4 5 6"),
	CASE("B12-exstop", LOOP, "psb+ 0262 pge:0 T", "[exstop] [enabled @0] 0 1 2 3 4 5 6"),

	CASE("B13+R09-fup", LOOP, "psb+0 T ovf fup:4 T", ONCE "[overflow @4] 4 5 6"),
	CASE("B13+R09-pge", LOOP, "psb+0 T ovf pge:4 T", ONCE "[overflow] [enabled @4] 4 5 6"),
	CASE("R09-end", LOOP, "psb+0 T ovf", ONCE "[overflow]"),
	CASE("R09-end-disabled", LOOP, "psb+12 pgd ovf", "12 [disabled] [overflow]"),
	CASE("R09-twice", LOOP, "psb+0 T ovf fup:4 T ovf pge:5 T",
	     ONCE "[overflow @4] 4 5 6 [overflow] [enabled @5] 5 6"),
	CASE("R09-fup-pgd", LOOP, "psb+0 T ovf fup:4 fup:4 pgd pge:4 T",
	     ONCE "[overflow @4] [async disabled @4] [resumed @4] 4 5 6"),
	/* The last IP outlives the overflow. */
	CASE("B13-last-ip", LOOP, "psb+0 T ovf fup/1:4 T", ONCE "[overflow @4] 4 5 6"),
	CASE("B13-last-ip-pge", LOOP, "psb+0 T ovf pge/1:4 T",
	     ONCE "[overflow] [enabled @4] 4 5 6"),
	/* The TIP that these bits are deferred behind was lost, and the bits with it. */
	CASE("B13-bits", LOOP, "psb+14 TT ovf fup:4 T", "[overflow @4] 4 5 6"),

	CASE("B14-fup", LOOP, "psb+0 T psb m64 fup:0 ovf fup:4 T", ONCE "[overflow @4] 4 5 6"),
	CASE("B14-pge", LOOP, "psb+0 T psb m64 ovf pge:4 T", ONCE "[overflow] [enabled @4] 4 5 6"),
	/* Before a PSB, its resume IP inside or behind PSB+. */
	CASE("B14-before-psb", LOOP, "psb+0 T ovf psb+4 T", ONCE "[overflow] 4 5 6"),
	CASE("B14-around-psb", LOOP, "psb+0 T ovf psb+ fup:4 T", ONCE "[overflow @4] 4 5 6"),
	/* While disabled: nothing vanishes. */
	CASE("B15-power", LOOP, "psb+ 02c20100000002000000 02220021 ovf 02a22101000000 pge:0 T",
	     "[mwait 200000001] [pwre 102] [overflow] [pwrx 10102] [enabled @0] 0 1 2 3 4 5 6"),
	CASE("B15-disabled", LOOP, "psb+ ovf pge:0 T", "[overflow] [enabled @0] 0 1 2 3 4 5 6"),
	CASE("B16-off-until-pge", LOOP, "psb+0 T ovf cbr 5907 pge:4 T",
	     ONCE "[overflow] [cbr 16] [enabled @4] 4 5 6"),
	CASE("B16+R11-skd010", LOOP, "psb+0 T ovf tip:4 T", ONCE "[overflow @4] 4 5 6",
	     .cpu = {true, 6, 0x5e, 3}),
	CASE("B18-pgd", LOOP, "psb+0 T ovf pgd:4 pge:4 T", ONCE "[overflow] [enabled @4] 4 5 6"),
	CASE("B18-pgd-no-ip", LOOP, "psb+0 T ovf pgd pge:4 T",
	     ONCE "[overflow] [enabled @4] 4 5 6"),
	/* The enable state does not fit: said, and on from the next PSB. */
	CASE("B20-no-pge", LOOP, "psb+ T psb+5 T", "[gap mismatch] 5 6"),
	CASE("B20-no-pgd", LOOP, "psb+0 T pge:4 T psb+5 T", ONCE "[gap mismatch] 5 6"),
	CASE("B22-no-tip", LOOP, "psb+14 1900112233445566 T psb+5 T", "[gap mismatch @14] 5 6"),
	/* Bits first, then the seam and the events. */
	CASE("B23-seam", LOOP, "psb+0 T psb+0 TT psb+0", ONCE ONCE ONCE),
	CASE("B23-event", "@0 90 74fd @20 90 7400", "psb+0 TTT fup:0 tip:20 T",
	     "0 1 0 1 0 1 [async branch @0 >20] 20 21"),
	CASE("B24-next-psb", LOOP, "psb+14 tip:100000 T tip:5 T psb+5 T",
	     "14 [gap no image @100000] 5 6"),
	CASE("B26-cut-psb", LOOP, "psb+0 T 0282028202", ONCE "[gap truncated]"),
	CASE("B26-cut-psb-alone", LOOP, "psb", ""),
	/* PSBEND is missing: said, by a gap of no bytes, and on. */
	CASE("B27-pge", LOOP, "psb+0 T psb cbr pge:4 T psb+5 T",
	     ONCE "[gap config] [enabled @4] 4 5 6 0 1 2 3 4 5 6"),
	CASE("B27-tip", LOOP, "psb m64 fup:14 tip:4 T", "[gap config] 14 4 5 6"),
	CASE("B28-no-psb", LOOP, "pge:0 TT pgd", "[gap no sync]"),

	/* PSB+ in mid-trace: its FUP is no event, wherever it points. */
	CASE("R04-mid-run", LOOP, "psb+0 T psb+3 T psb+5 N", ONCE ONCE ONCE),
	CASE("R04-disabled", LOOP, "psb+12 pgd psb+ pge:5 T", "12 [disabled] [enabled @5] 5 6"),
	CASE("R04+R11-bdm70", LOOP, "psb+12 pgd psb+12 cbr m64 pge:5 T",
	     "12 [disabled] [cbr 16] [enabled @5] [exec mode 64 @5] 5 6"),
	CASE("R04-pge-before", LOOP, "psb+ pge:0 psb+0 T", "[enabled @0] 0 1 2 3 4 5 6"),
	CASE("R04-pge-far-before", LOOP, "psb+ pge:0 psb+3 T", "[enabled @0] 0 1 2 3 4 5 6"),
	CASE("R04-head", LOOP, "06 06 psb+5 T", "5 6"),
};

#endif
