/* SPDX-License-Identifier: Apache-2.0
 *
 * record_operand_test.c - the operand of PTWRITE in every form of address.
 *
 * The addresses were worked out by hand by SDM vol. 2, ch. 2, tables of ModR/M and SIB bytes.
 */
#include "record/operand.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

/* Register number N holds N + 1 times 0x100000000000, RIP 0x400000. */
#define R(n) (UINT64_C(0x100000000000) * ((n) + 1))

static const struct user_regs_struct regs = {
	.rax = R(0),
	.rcx = R(1),
	.rdx = R(2),
	.rbx = R(3),
	.rsp = R(4),
	.rbp = R(5),
	.rsi = R(6) + 0x87654321,
	.rdi = R(7),
	.r8 = R(8),
	.r9 = R(9) + 0x12345678,
	.r10 = R(10),
	.r11 = R(11),
	.r12 = R(12),
	.r13 = R(13),
	.r14 = R(14),
	.r15 = R(15),
	.rip = 0x400000,
	.fs_base = 0x7000,
	.gs_base = 0x9000,
};

static const struct {
	uint8_t len, code[15];
	uint8_t bytes;
	bool in_memory;
	uint64_t what; /* value, or address */
} cases[] = {
	/* Registers. */
	{4, {0xf3, 0x0f, 0xae, 0xe6}, 4, false, 0x87654321},
	{5, {0xf3, 0x48, 0x0f, 0xae, 0xe6}, 8, false, R(6) + 0x87654321},
	{5, {0xf3, 0x49, 0x0f, 0xae, 0xe7}, 8, false, R(15)},
	{5, {0xf3, 0x41, 0x0f, 0xae, 0xe1}, 4, false, 0x12345678},
	/* REX not directly before the opcode is none. */
	{5, {0x49, 0xf3, 0x0f, 0xae, 0xe1}, 4, false, 0},
	/* Memory: [rax], [r9], [rbx-1], [r13+0], [rdx+0x11223344], [rip-0x10]. */
	{4, {0xf3, 0x0f, 0xae, 0x20}, 4, true, R(0)},
	{5, {0xf3, 0x49, 0x0f, 0xae, 0x21}, 8, true, R(9) + 0x12345678},
	{5, {0xf3, 0x0f, 0xae, 0x63, 0xff}, 4, true, R(3) - 1},
	{6, {0xf3, 0x49, 0x0f, 0xae, 0x65, 0}, 8, true, R(13)},
	{8, {0xf3, 0x0f, 0xae, 0xa2, 0x44, 0x33, 0x22, 0x11}, 4, true, R(2) + 0x11223344},
	{8, {0xf3, 0x0f, 0xae, 0x25, 0xf0, 0xff, 0xff, 0xff}, 4, true, 0x400000 + 8 - 0x10},
	/* SIB: [rsp], [rbp+rcx*4+8], [r12*2+0x10] without base, [r8+r12*8], [disp32]. */
	{5, {0xf3, 0x0f, 0xae, 0x24, 0x24}, 4, true, R(4)},
	{6, {0xf3, 0x0f, 0xae, 0x64, 0x8d, 8}, 4, true, R(5) + 4 * R(1) + 8},
	{10, {0xf3, 0x4a, 0x0f, 0xae, 0x24, 0x65, 0x10, 0, 0, 0}, 8, true, 2 * R(12) + 0x10},
	{6, {0xf3, 0x4b, 0x0f, 0xae, 0x24, 0xe0}, 8, true, R(8) + 8 * R(12)},
	{9, {0xf3, 0x0f, 0xae, 0x24, 0x25, 0, 0, 0, 0x80}, 4, true, UINT64_C(0xffffffff80000000)},
	/* Segments, and addresses of 32 bits. */
	{5, {0x64, 0xf3, 0x0f, 0xae, 0x20}, 4, true, R(0) + 0x7000},
	{5, {0xf3, 0x65, 0x0f, 0xae, 0x20}, 4, true, R(0) + 0x9000},
	{5, {0x67, 0xf3, 0x0f, 0xae, 0x26}, 4, true, 0x87654321},
	{6, {0x64, 0x67, 0xf3, 0x0f, 0xae, 0x26}, 4, true, UINT64_C(0x87654321) + 0x7000},
};

static void every_form(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ptm_operand o;

		if (!ptm_ptwrite_operand(cases[i].code, cases[i].len, &regs, &o) ||
		    o.bytes != cases[i].bytes || o.in_memory != cases[i].in_memory ||
		    (o.in_memory ? o.address : o.value) != cases[i].what)
			fail_msg("case %zu", i);
	}
}

static void cut_and_others(void **state)
{
	static const uint8_t xsaveopt[] = {0xf3, 0x0f, 0xae, 0x30};
	struct ptm_operand o;

	(void)state;
	assert_false(ptm_ptwrite_operand(xsaveopt, sizeof(xsaveopt), &regs, &o));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (size_t len = 0; len < cases[i].len; len++) {
			/* Of its own size, so that a byte read too many is found. */
			uint8_t *code = test_malloc(len + 1);

			memcpy(code, cases[i].code, len);
			assert_false(ptm_ptwrite_operand(code, len, &regs, &o));
			test_free(code);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_form),
		cmocka_unit_test(cut_and_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
