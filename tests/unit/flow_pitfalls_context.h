/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_pitfalls_context.h - pitfalls of what happens beside the flow: paging and virtual machines,
 * software and hardware events, PEBS blocks, traces without TNT packets, and errata of CPUs: cases
 * for flow_pitfalls_test.c.  Expected texts were worked out by hand from SDM vol. 3, ch. Intel PT,
 * and from the specification updates of the CPUs that a case names.
 */
#ifndef PTM_TESTS_FLOW_PITFALLS_CONTEXT_H
#define PTM_TESTS_FLOW_PITFALLS_CONTEXT_H

#include "flow_pitfalls_code.h"
#include "flow_pitfalls_sync.h"

#define BROADWELL                                                                                  \
	{                                                                                          \
		true, 6, 0x3d, 4                                                                   \
	}
#define SKYLAKE                                                                                    \
	{                                                                                          \
		true, 6, 0x5e, 3                                                                   \
	}
#define SKYLAKE_X                                                                                  \
	{                                                                                          \
		true, 6, 0x55, 4                                                                   \
	}
#define GOLDMONT                                                                                   \
	{                                                                                          \
		true, 6, 0x5c, 9                                                                   \
	}

/* 00 nop   01 ptwrite rax   06 nop   07 je 9 */
#define PTWRITE "@0 90 f3480faee0 90 7400"
/* PTW with a payload of 1122334455667788, 11223344; with the IP bit */
#define PTW8    "02328877665544332211"
#define PTW4    "021244332211"
#define PTW8_IP "02b28877665544332211"
#define PTW4_IP "029244332211"
/* 00 xbegin 20   06 jmp *rax   10 je 12   18 nop   19 je 1b   20 nop   21 je 23 */
#define ABORT "@0 c7f81a000000 ffe0 @10 7400 @18 90 7400 @20 90 7400"

static const struct flow_case context_cases[] = {
	/* After an error go on inside the frame: with the packet that was not expected itself ...
	 */
	CASE("B22-fup", LOOP, "psb+14 fup:5 tip:0 T",
	     "[gap mismatch @14] [async branch @5 >0] ~ 0 1 2 3 4 5 6", .resync = true),
	CASE("B22-pge", LOOP, "psb+0 T pge:4 T", ONCE "[gap mismatch] [enabled @4] ~ 4 5 6",
	     .resync = true),
	CASE("B22-pgd", LOOP, "psb+14 T pgd:5 pge:4 T",
	     "[gap mismatch @14] [disabled >5] [enabled @4] ~ 4 5 6", .resync = true),
	/* ... or with the next one that tells surely where the flow is. */
	CASE("B24-tip", LOOP, "psb+14 tip:100000 T tip:5 T psb+5 T",
	     "14 [gap no image @100000] ~ 5 6 0 1 2 3 4 /~ 5 6", .resync = true),
	CASE("B24-overflow", LOOP, "psb+14 tip:100000 T ovf fup:4 T",
	     "14 [gap no image @100000] [overflow @4] ~ 4 5 6", .resync = true),
	/* Behind a full TNT a TIP may have been deferred. */
	CASE("B24-deferred", LOOP, "psb+14 tip:100000 TTTTTT tip:5 T psb+5 T",
	     "14 [gap no image @100000] 5 6", .resync = true),
	/* Calls before the error are no targets. */
	CASE("B24-empties", LOOP, "psb+0 N tip:100000 T tip:20 T psb+5 T",
	     "0 1 2 3 4 5 6 8 20 21 [gap no image @100000] ~ 20 [gap retcomp @21] /~ 5 6",
	     .resync = true),

	/* Between a FUP and its TIP; another CR3 or VMCS holds from the target on. */
	/* More than libipt's queue holds, without the MOV CR3 that they belong to. */
	CASE("B44-many", RUN, "psb+0 9{pip} T", "9{[paging 1234000]} 0 1 2 3 4 5 6"),
	CASE("B44-cbr", RUN, "psb+0 fup:3 cbr tip:20 T",
	     "0 1 2 [cbr 16] [async branch @3 >20] 20 21"),
	CASE("B44-time", RUN, "psb+0 fup:3 5901 03 pad 1900112233445566 tip:20 T",
	     "0 1 2 [async branch @3 >20] 20 21"),
	CASE("B44-mode", RUN, "psb+0 fup:3 m32 tip:20 T",
	     "0 1 2 [async branch @3 >20] [exec mode 32 @20] 20 21"),
	CASE("B44+B46-vm-exit", RUN, "psb+0 fup:3 vmcs pip tip:20 T",
	     "0 1 2 [async branch @3 >20] [async vmcs abcd000 @20] [async paging 1234000 @20] "
	     "20 21"),
	CASE("B44-pip-pgd", RUN, "psb+0 fup:3 pip pgd pge:3 T",
	     "0 1 2 [async disabled @3] [async paging 1234000] [resumed @3] 3 4 5 6"),

	/* Behind the VM entry, VMPTRLD or MOV CR3 that they belong to. */
	CASE("B46-vmlaunch", FAR("0f01c2"), "psb+0 vmcs pip.nr tip:20 T",
	     "0 1 [vmcs abcd000] [paging 1234000 nr] 20 21"),
	CASE("B46-vmresume", FAR("0f01c3"), "psb+0 pip.nr tip:20 T",
	     "0 1 [paging 1234000 nr] 20 21"),
	CASE("B46-vmptrld", "@0 90 0fc730 90 7400", "psb+0 vmcs T", "0 1 [vmcs abcd000] 4 5"),
	CASE("R13-mov-cr3", "@0 90 0f22d8 90 7400", "psb+0 pip T", "0 1 [paging 1234000] 4 5"),
	CASE("R13-second", "@0 90 0f22d8 7400 0f22d8 90 7400", "psb+0 pip T pip N",
	     "0 1 [paging 1234000] 4 6 [paging 1234000] 9 a"),

	/* A FUP behind the branch at which the flow stands: Goldmont only. */
	CASE("B47-next", "@0 90 ffe0 90 7400 @10 90 7400 @20 48cf", "psb+0 fup:3 tip:20 tip:10 T",
	     "0 [async branch @3 >20] 20 10 11", .cpu = GOLDMONT),
	CASE("B47-ordinary", RUN, "psb+0 fup:3 tip:20 T", "0 1 2 [async branch @3 >20] 20 21",
	     .cpu = GOLDMONT),
	CASE("B47-other-cpu", "@0 90 ffe0 90 7400 @20 48cf", "psb+0 fup:3 tip:20",
	     "0 [gap mismatch @1]", .cpu = SKYLAKE),

	CASE("B48-standalone", XBEGIN, "psb+0 intx T", "[tsx 1] 0 6 7 8 b"),
	CASE("B48-commit-outside", RUN, "psb+0 commit fup:3 T", "0 1 2 [tsx 0 @3] 3 4 5 6"),
	CASE("B48-abort-disabled", XBEGIN, "psb+0 intx fup:0 abort fup:7 pgd pge:20 T",
	     "[tsx 1 @0] 0 6 [tsx 2 @7] [async disabled @7] [enabled @20] 20 21"),

	/* Far transfers, to where packets stay on, go off, and go off with an address. */
	CASE("B51-far-call-pgd", FAR("ff18"), "psb+0 pgd pge:20 T",
	     "0 1 [disabled] [enabled @20] 20 21"),
	CASE("B51-far-call-pgd-ip", FAR("ff18"), "psb+0 pgd:20 pge:21 T",
	     "0 1 [disabled >20] [enabled @21] 21"),
	CASE("B51-far-jump-tip", FAR("ff28"), "psb+0 tip:20 T", "0 1 20 21"),
	CASE("B51-far-jump-pgd", FAR("ff28"), "psb+0 pgd pge:20 T",
	     "0 1 [disabled] [enabled @20] 20 21"),
	CASE("B51-far-jump-pgd-ip", FAR("ff28"), "psb+0 pgd:20 pge:21 T",
	     "0 1 [disabled >20] [enabled @21] 21"),
	CASE("B51-far-return-tip", FAR("48cb"), "psb+0 tip:20 T", "0 1 20 21"),
	CASE("B51-far-return-pgd", FAR("48cb"), "psb+0 pgd pge:20 T",
	     "0 1 [disabled] [enabled @20] 20 21"),
	CASE("B51-far-return-pgd-ip", FAR("48cb"), "psb+0 pgd:20 pge:21 T",
	     "0 1 [disabled >20] [enabled @21] 21"),
	CASE("B51-syscall-pgd-ip", FAR("0f05"), "psb+0 pgd:20 pge:3 T",
	     "0 1 [disabled >20] [resumed @3] 3"),
	CASE("B51-sysenter-pgd", FAR("0f34"), "psb+0 pgd pge:20 T",
	     "0 1 [disabled] [enabled @20] 20 21"),
	CASE("B51-sysret-tip", FAR("480f07"), "psb+0 tip:20 T", "0 1 20 21"),
	CASE("B51-sysret-pgd-ip", FAR("480f07"), "psb+0 pgd:20 pge:21 T",
	     "0 1 [disabled >20] [enabled @21] 21"),
	CASE("B51-sysexit-pgd-ip", FAR("480f35"), "psb+0 pgd:20 pge:21 T",
	     "0 1 [disabled >20] [enabled @21] 21"),
	CASE("B52-elsewhere", RUN, "psb+0 fup:3 pgd pge:20 T",
	     "0 1 2 [async disabled @3] [enabled @20] 20 21"),

	/* Without TNT packets: what packets tell, and no instruction. */
	CASE("B55-targets", RUN, "psb+0 tip:20 fup:21 tip:5 pgd pge:0 fup:3 pgd:20",
	     "[target @20] [async branch @21 >5] [disabled] [enabled @0] [async disabled @3 >20]",
	     .notnt = true),
	CASE("B55-overflow", RUN, "psb+ pge:0 tip:20 ovf fup:3 tip:5 psb+3 tip:20",
	     "[enabled @0] [target @20] [overflow @3] [target @5] [target @20]", .notnt = true),
	CASE("B55-ptwrite", PTWRITE, "psb+0 " PTW8_IP " fup:1 " PTW4 " tip:20",
	     "[ptwrite 1122334455667788 @1] [ptwrite 11223344] [target @20]", .notnt = true),
	CASE("B55-mode", RUN, "psb+0 m32 tip:20", "[target @20] [exec mode 32 @20]", .notnt = true),

	/* Event Trace.  MODE.Exec with a FUP and no TIP: RFLAGS.IF has changed. */
	CASE("B56-iflag-set", RUN, "psb+0 9905 fup:3 T", "0 1 2 [iflag 1 @3] 3 4 5 6"),
	CASE("B56-iflag-clear", RUN, "psb+0 m64 fup:3 T", "0 1 2 [iflag 0 @3] 3 4 5 6"),
	/* A page fault: CR2, the event with a FUP of its own, the branch to the handler. */
	CASE("B56-fault", RUN, "psb+0 02530000f0ffffff7f0000 0213810e fup:3 fup:3 tip:20 T",
	     "0 1 2 [evd 0 7ffffffff000 @3] [cfe 1 e @3] [async branch @3 >20] 20 21"),
	CASE("B56-shared-fup", RUN, "psb+0 021301ec fup:3 tip:20 T",
	     "0 1 2 [cfe 1 ec @3] [async branch @3 >20] 20 21"),
	CASE("B56-vm-exit", RUN,
	     "psb+0 0253010100000000000000 0253020200000000000000 02138800 fup:3 fup:3 tip:20 T",
	     "0 1 2 [evd 1 1 @3] [evd 2 2 @3] [cfe 8 0 @3] [async branch @3 >20] 20 21"),
	CASE("B56-iret", FAR("48cf"), "psb+0 02130200 tip:20 T", "0 1 [cfe 2 0] 20 21"),
	CASE("B12+B56-init", LOOP, "psb+ 02130600 pge:0 T", "[cfe 6 0] [enabled @0] 0 1 2 3 4 5 6"),
	CASE("B56-trigger", RUN, "psb+0 d98001 fup:3 T", "0 1 2 [trigger 128 1 @3] 3 4 5 6"),
	CASE("B56-trigger-count", RUN, "psb+0 T d940033412 T",
	     "0 1 2 3 4 5 6 [trigger 64 123403] 0 1 2 3 4 5 6"),

	/* PEBS blocks, in which a short TNT means an item; and what ends them. */
	CASE("B58-block-8", RUN, "psb+0 026301 040807060504030201 fcff00000000000000 bep N",
	     "[block begin 1 8] [block item 0 102030405060708] [block item 31 ff] [block end] "
	     "0 1 2 3 4 5 6"),
	CASE("B58-block-4", RUN, "psb+0 026390 0c04030201 bep.ip fup:3 T",
	     "[block begin 16 4] [block item 1 1020304] 0 1 2 [block end @3] 3 4 5 6"),
	CASE("B58-overflow", RUN, "psb+0 026301 ovf fup:4 N",
	     "[block begin 1 8] [overflow @4] 4 5 6"),
	CASE("B58-psb", RUN, "psb+0 026301 psb+4 N", "[block begin 1 8] 0 1 2 3 4 5 6"),

	/* PTW stands behind its PTWRITE. */
	CASE("B59-8", PTWRITE, "psb+0 " PTW8 " T", "0 1 [ptwrite 1122334455667788 @1] 6 7"),
	CASE("B59-4", PTWRITE, "psb+0 " PTW4 " T", "0 1 [ptwrite 11223344 @1] 6 7"),
	CASE("B59-8-ip", PTWRITE, "psb+0 " PTW8_IP " fup:1 T",
	     "0 1 [ptwrite 1122334455667788 @1] 6 7"),
	CASE("B59-4-ip", PTWRITE, "psb+0 " PTW4_IP " fup:1 T", "0 1 [ptwrite 11223344 @1] 6 7"),
	CASE("B59-two", "@0 90 f3480faee0 f3480faee0 7400", "psb+0 " PTW4 " " PTW8 " T",
	     "0 1 [ptwrite 11223344 @1] 6 [ptwrite 1122334455667788 @6] b"),
	CASE("B59-loop", "@0 f3480faee0 74f9", "psb+0 " PTW4 " T " PTW8 " T",
	     "0 [ptwrite 11223344 @0] 5 0 [ptwrite 1122334455667788 @0] 5"),
	/* One instruction, one packet. */
	CASE("B59-one-too-many", PTWRITE, "psb+0 " PTW4 " " PTW8 " T",
	     "0 1 [ptwrite 11223344 @1] 6 [gap mismatch @7]"),
	/* The FUP of a PTW names its PTWRITE, and no other instruction. */
	CASE("B59-stray-fup", PTWRITE, "psb+0 " PTW8_IP " fup:6 T", "0 1 6 [gap mismatch @7]"),
	CASE("B59-stray-fup-branch", PTWRITE, "psb+6 " PTW8_IP " fup:7 T", "6 [gap mismatch @7]"),
	CASE("B59-reserved-size", TIGHT, "psb+0 T 02521122334455667788", "0 1 [gap bad packet]"),
	CASE("B59-no-fup", PTWRITE, "psb+ " PTW8_IP " pge:0 T",
	     "[ptwrite 1122334455667788] [enabled @0] 0 1 6 7"),
	CASE("B59-exstop", RUN, "psb+0 02e2 fup:3 T", "0 1 2 [exstop @3] 3 4 5 6"),
	CASE("B59-mwait", RUN, "psb+0 02c25100000002000000 02220021 02e2 fup:3 T",
	     "[pwre 102] 0 1 2 [mwait 200000051 @3] [exstop @3] 3 4 5 6"),

	/* The last page of the address space: behind it nothing is mapped. */
	CASE("B64-top", "@ffb 90 90 90 74fb", "psb+ffb TN T",
	     "ffb ffc ffd ffe ffb ffc ffd ffe [gap no image @1000]", .base = 0xfffffffffffff000),

	/* Errata, on a CPU that has them and on one that has not. */
	CASE("R11-skd007", LOOP, "psb+0 T 0702f3 fup:4 T", ONCE "[overflow @4] 4 5 6",
	     .cpu = SKYLAKE),
	CASE("R11-skd007-not", LOOP, "psb+0 T 0702f3 fup:4 T", ONCE ONCE, .cpu = BROADWELL),
	CASE("R11-skz84", TIGHT, "psb+0 T 0273341255000005 T", "0 1 0 1", .cpu = SKYLAKE_X),
	CASE("R11-skz84-sound", TIGHT, "psb+0 T 02733412000001 T", "0 1 0 1", .cpu = SKYLAKE_X),
	CASE("R11-skz84-not", TIGHT, "psb+0 T 0273341255000005 T", "0 1 [gap bad packet]",
	     .cpu = SKYLAKE),
	CASE("R11-skd022", FAR("0f01c2"), "psb+0 fup:1 pgd pge:20 T",
	     "0 1 [disabled] [enabled @20] 20 21", .cpu = SKYLAKE),
	CASE("R11-skd022-not", FAR("0f01c2"), "psb+0 fup:1 pgd pge:20 T",
	     "0 [async disabled @1] [enabled @20] 20 21", .cpu = BROADWELL),
	CASE("R11-bdm64", ABORT, "psb+0 intx fup:0 tip:10 abort fup:18 tip:20 T",
	     "[tsx 1 @0] 0 6 [tsx 2 @18] [async branch @18 >20] 20 21", .cpu = BROADWELL),
	CASE("R11-bdm64-not", ABORT, "psb+0 intx fup:0 tip:10 abort fup:18 tip:20 T",
	     "[tsx 1 @0] 0 6 [gap mismatch @10]", .cpu = SKYLAKE),
	CASE("R11-apl12", LOOP, "psb+ ovf fup:4 pge:5 T", "[overflow] [enabled @5] 5 6",
	     .cpu = GOLDMONT),
	CASE("R11-apl12-not", LOOP, "psb+ ovf fup:4 pge:5 T", "[overflow @4] [gap mismatch]",
	     .cpu = SKYLAKE),
	CASE("R11-apl11", LOOP, "psb+0 T ovf pgd pge:4 T", ONCE "[overflow] [enabled @4] 4 5 6",
	     .cpu = GOLDMONT),
};

#endif
