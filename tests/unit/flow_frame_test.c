/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_frame_test.c - what a PSB+ says about the flow (SDM vol. 3, ch. Intel PT, "PSB"; erratum
 * BDM70).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "flow/frame.h"
#include "ptgen.h"

#define IP "7d 00 10 40 00 00 00" /* FUP 401000 */

static const struct {
	const char *packets; /* behind PSB */
	struct ptm_psbplus expected;
} cases[] = {
	/* Enabled; in any order, with all that a PSB+ may have. */
	{"99 01" IP "02 23 06", {.end = 27, .on = true, .has_mode = true, .ip = 0x401000}},
	{IP "19 10 00 00 00 00 00 00 02 73 00 00 00 00 00 02 03 18 00 99 01 99 20 02 43 00 00 00 "
	    "00 00 00 00 02 23",
	 {.end = 57, .on = true, .has_mode = true, .ip = 0x401000, .has_tsc = true, .tsc = 16}},
	/* A low address is compressed against 0: last-IP is reset by PSB. */
	{"3d 34 12 02 23", {.end = 21, .on = true, .ip = 0x1234}},
	/* Disabled: no FUP, or one with a suppressed address. */
	{"02 03 18 00 02 23 71 00 10 40 00 00 00", {.end = 22}},
	{"1d 02 23", {.end = 19}},
	/* BDM70: a FUP does not prove that packets are enabled, if TIP.PGE follows over status and
	   time packets. */
	{"99 01" IP "02 23 00 03 59 07 02 03 18 00 99 01 71 05 10 40 00 00 00",
	 {.end = 27, .has_mode = true, .ip = 0x401000}},
	{"99 01" IP "02 23 06 71 05 10 40 00 00 00",
	 {.end = 27, .on = true, .has_mode = true, .ip = 0x401000}},
	/* The resume IP of an overflow before the PSB. */
	{"02 23 59 07" IP, {.end = 18, .fup_first = true}},
	/* PSBEND is missing; OVF, another PSB or the end of the data break a PSB+. */
	{"99 01" IP "06",
	 {.end = 25, .on = true, .has_mode = true, .no_psbend = true, .ip = 0x401000}},
	{"99 01" IP "71 05 10 40 00 00 00",
	 {.end = 25, .has_mode = true, .no_psbend = true, .ip = 0x401000}},
	{"99 01" IP "02 f3 02 23", {.has_mode = true, .ip = 0x401000}},
	{"99 01" IP, {.has_mode = true, .ip = 0x401000}},
	{"99 01" IP "02", {.has_mode = true, .ip = 0x401000}},
};

static void test_judge(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct ptm_psbplus *want = &cases[i].expected;
		struct pt_bytes p = {.n = 0};
		struct ptm_psbplus got;
		uint8_t *exact;

		pt_psb(&p);
		pt_hex(&p, cases[i].packets);
		exact = (uint8_t *)malloc(p.n);
		memcpy(exact, p.b, p.n);
		got = ptm_psbplus_judge(exact, p.n, NULL);
		free(exact);
		if (got.end != want->end || got.on != want->on ||
		    got.fup_first != want->fup_first || got.has_mode != want->has_mode ||
		    got.no_psbend != want->no_psbend || got.ip != want->ip ||
		    got.has_tsc != want->has_tsc || got.tsc != want->tsc)
			fail_msg("case %zu: end %zu on %d fup_first %d mode %d no_psbend %d ip "
				 "%llx tsc %d %llu",
				 i, got.end, got.on, got.fup_first, got.has_mode, got.no_psbend,
				 (unsigned long long)got.ip, got.has_tsc,
				 (unsigned long long)got.tsc);
	}
}

/* The judgement does not depend on how much more of the stream can be seen. */
static void test_look(void **state)
{
	static struct pt_bytes p;
	struct ptm_psbplus far_off, near;

	(void)state;
	pt_psb(&p);
	pt_hex(&p, IP "02 23");
	while (p.n < PTM_PSBPLUS_LOOK)
		pt_hex(&p, "00");
	pt_hex(&p, "71 05 10 40 00 00 00");
	far_off = ptm_psbplus_judge(p.b, p.n, NULL);
	near = ptm_psbplus_judge(p.b, PTM_PSBPLUS_LOOK, NULL);
	assert_true(far_off.on);
	assert_true(near.on);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_judge),
					   cmocka_unit_test(test_look)};

	return cmocka_run_group_tests_name("flow_frame", tests, NULL, NULL);
}
