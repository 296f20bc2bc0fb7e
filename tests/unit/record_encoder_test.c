/* SPDX-License-Identifier: Apache-2.0
 *
 * record_encoder_test.c - the packets for small flows, byte by byte.
 *
 * All expected bytes were worked out by hand from the packet definitions of SDM vol. 3, ch. Intel
 * PT.
 */
#include "record/encoder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define B(...)    (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})
#define PSB_BYTES 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82
#define CBR_BYTES 2, 3, 24, 0
#define PSBEND    2, 0x23

/* MODE.Exec, TIP.PGE at 0x401000: what every flow below begins with, behind the first PSB+. */
#define HEAD     0x99, 1, 0x51, 0, 0x10, 0x40, 0
#define HEAD_AT  22
#define FLOW_AT  (HEAD_AT + 7)
#define MARK_MAX 64

struct out {
	uint8_t bytes[1 << 16];
	size_t n;
	int error; /* what write returns */
	struct {
		enum ptm_enc_mark mark;
		uint64_t offset;
	} marks[MARK_MAX];
	unsigned nmarks;
};

static struct out out;

static int write_out(void *ctx, const uint8_t *bytes, size_t len)
{
	struct out *o = ctx;

	assert_true(len <= sizeof(o->bytes) - o->n);
	memcpy(o->bytes + o->n, bytes, len);
	o->n += len;
	return o->error;
}

static void mark(void *ctx, enum ptm_enc_mark m, uint64_t offset)
{
	struct out *o = ctx;

	assert_true(o->nmarks < MARK_MAX);
	o->marks[o->nmarks].mark = m;
	o->marks[o->nmarks++].offset = offset;
}

static struct ptm_record_config plain(void)
{
	struct ptm_record_config config;

	ptm_record_config_init(&config);
	return config;
}

static struct ptm_enc *begin(const struct ptm_record_config *config)
{
	struct ptm_enc *enc;

	memset(&out, 0, sizeof(out));
	enc = ptm_enc_create(config, write_out, &out, mark, &out);
	assert_non_null(enc);
	ptm_enc_start(enc, 0);
	return enc;
}

static struct ptm_enc *begin_on(const struct ptm_record_config *config)
{
	struct ptm_enc *enc = begin(config);

	ptm_enc_on(enc, 0x401000, 64);
	ptm_enc_point(enc, 0x401000, 0);
	return enc;
}

static void end(struct ptm_enc *enc)
{
	assert_int_equal(ptm_enc_finish(enc), 0);
	assert_int_equal(ptm_enc_offset(enc), out.n);
	ptm_enc_destroy(enc);
}

static void expect_at(size_t at, const uint8_t *bytes, size_t len)
{
	assert_true(at + len <= out.n);
	assert_memory_equal(out.bytes + at, bytes, len);
}

/* What was written behind @at, no more and no less. */
static void expect_tail(size_t at, const uint8_t *bytes, size_t len)
{
	assert_int_equal(out.n, at + len);
	expect_at(at, bytes, len);
}

static void start_is_psb_without_fup(void **state)
{
	struct ptm_record_config config = plain();

	(void)state;
	end(begin(&config));
	expect_tail(0, B(PSB_BYTES, CBR_BYTES, PSBEND));
	end(begin_on(&config));
	expect_tail(HEAD_AT, B(HEAD));
}

static void mode_exec_only_when_unknown(void **state)
{
	struct ptm_record_config config = plain();
	struct ptm_enc *enc = begin_on(&config);

	(void)state;
	ptm_enc_off(enc);
	ptm_enc_on(enc, 0x401002, 64);
	ptm_enc_off(enc);
	ptm_enc_on(enc, 0x401004, 32);
	ptm_enc_off(enc);
	ptm_enc_on(enc, 0x401006, 16);
	end(enc);
	expect_tail(FLOW_AT,
		    B(1, 0x31, 2, 0x10, 1, 0x99, 2, 0x31, 4, 0x10, 1, 0x99, 0, 0x31, 6, 0x10));
}

/* SDM vol. 3, ch. Intel PT, PTW: 02, then IP (bit 7), PayloadBytes (6:5), 10010. */
static void ptwrite_is_told_as_asked(void **state)
{
	struct ptm_record_config config = plain();
	struct ptm_enc *enc = begin_on(&config);

	(void)state;
	ptm_enc_ptwrite(enc, 0x401000, 0x1122334455667788, 8);
	end(enc);
	expect_tail(FLOW_AT, NULL, 0);
	config.ptwrite = PTM_PTWRITE_ON;
	enc = begin_on(&config);
	/* The branches before it are told before it. */
	ptm_enc_cond(enc, true);
	ptm_enc_ptwrite(enc, 0x401000, 0x1122334455667788, 8);
	ptm_enc_ptwrite(enc, 0x401005, 0xcafef00d, 4);
	end(enc);
	expect_tail(FLOW_AT, B(6, 2, 0x32, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 2, 0x12,
			       0x0d, 0xf0, 0xfe, 0xca));
	config.ptwrite = PTM_PTWRITE_FUP;
	enc = begin_on(&config);
	ptm_enc_ptwrite(enc, 0x401000, 0xcafef00d, 4);
	ptm_enc_ptwrite(enc, 0x401008, 1, 8);
	end(enc);
	expect_tail(FLOW_AT, B(2, 0x92, 0x0d, 0xf0, 0xfe, 0xca, 0x3d, 0, 0x10, 2, 0xb2, 1, 0, 0, 0,
			       0, 0, 0, 0, 0x3d, 8, 0x10));
}

static void tnt_is_packed_oldest_first(void **state)
{
	static const bool taken[] = {1, 1, 0, 1, 1, 0, 1, 0};
	struct ptm_record_config config = plain();
	struct ptm_enc *enc = begin_on(&config);

	(void)state;
	for (unsigned i = 0; i < 8; i++)
		ptm_enc_cond(enc, taken[i]);
	end(enc);
	expect_tail(FLOW_AT, B(0xec, 0x0c));
}

static void long_tnt(void **state)
{
	struct ptm_record_config config = plain();
	struct ptm_enc *enc;

	(void)state;
	config.tnt64 = true;
	enc = begin_on(&config);
	for (unsigned i = 0; i < 47; i++)
		ptm_enc_cond(enc, true);
	for (unsigned i = 0; i < 7; i++)
		ptm_enc_cond(enc, false);
	ptm_enc_off(enc);
	ptm_enc_on(enc, 0x401000, 64);
	for (unsigned i = 0; i < 6; i++)
		ptm_enc_cond(enc, i == 0);
	end(enc);
	expect_tail(FLOW_AT, B(2, 0xa3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0xa3, 0x80, 0, 0, 0,
			       0, 0, 1, 0x31, 0, 0x10, 0xc0));
}

static void tips_flush_or_wait(void **state)
{
	struct ptm_record_config config = plain();

	(void)state;
	for (unsigned defer = 0; defer < 2; defer++) {
		struct ptm_enc *enc;

		config.tips = defer != 0 ? PTM_TIPS_DEFER : PTM_TIPS_FLUSH;
		enc = begin_on(&config);
		ptm_enc_indirect(enc, 0x401100); /* behind no bit: at once */
		ptm_enc_cond(enc, true);
		ptm_enc_indirect(enc, 0x401234);
		ptm_enc_cond(enc, false);
		ptm_enc_indirect(enc, 0x401238);
		ptm_enc_off(enc);
		end(enc);
		if (defer != 0)
			expect_tail(FLOW_AT,
				    B(0x2d, 0, 0x11, 0x0c, 0x2d, 0x34, 0x12, 0x2d, 0x38, 0x12, 1));
		else
			expect_tail(FLOW_AT,
				    B(0x2d, 0, 0x11, 6, 0x2d, 0x34, 0x12, 4, 0x2d, 0x38, 0x12, 1));
	}
}

/* A deferred TIP behind which bits follow would turn an uncompressed return into a compressed one.
 */
static void uncompressed_return_never_waits(void **state)
{
	struct ptm_record_config config = plain();
	struct ptm_enc *enc;

	(void)state;
	config.tips = PTM_TIPS_DEFER;
	enc = begin_on(&config);
	ptm_enc_cond(enc, true);
	ptm_enc_indirect(enc, 0x401234);
	ptm_enc_ret(enc, 0x401238);
	ptm_enc_cond(enc, false);
	end(enc);
	expect_tail(FLOW_AT, B(6, 0x2d, 0x34, 0x12, 0x2d, 0x38, 0x12, 4));
}

static void ip_takes_the_shortest_form(void **state)
{
	struct ptm_record_config config = plain();
	struct ptm_enc *enc = begin_on(&config);

	(void)state;
	ptm_enc_indirect(enc, 0x402000);
	ptm_enc_indirect(enc, 0x7fff12345678);
	ptm_enc_indirect(enc, 0x7fff00000010);
	ptm_enc_indirect(enc, UINT64_C(0xffffffff81000000));
	ptm_enc_indirect(enc, UINT64_C(0xffff7fff00000001));
	ptm_enc_indirect(enc, UINT64_C(0x1234000000000000));
	ptm_enc_off_to(enc, UINT64_C(0x1234000000000008));
	end(enc);
	expect_tail(FLOW_AT, B(0x2d, 0, 0x20,                            /* 2 bytes */
			       0x6d, 0x78, 0x56, 0x34, 0x12, 0xff, 0x7f, /* 6, sign-extended */
			       0x4d, 0x10, 0, 0, 0,                      /* 4 */
			       0x6d, 0, 0, 0, 0x81, 0xff, 0xff,          /* 6, sign-extended */
			       0x8d, 1, 0, 0, 0, 0xff, 0x7f,             /* 6, upper 16 kept */
			       0xcd, 0, 0, 0, 0, 0, 0, 0x34, 0x12,       /* 8 */
			       0x21, 8, 0));
}

static void returns_are_compressed(void **state)
{
	struct ptm_record_config config = plain();

	(void)state;
	for (unsigned mode = PTM_RET_COMP_ON; mode <= PTM_RET_COMP_OFF; mode++) {
		struct ptm_enc *enc;

		config.ret_comp = (enum ptm_record_ret_comp)mode;
		enc = begin_on(&config);
		ptm_enc_call(enc, 0x401005, 0x402000);
		ptm_enc_ret(enc, 0x401005);
		ptm_enc_call_indirect(enc, 0x401007, 0x402000);
		ptm_enc_ret(enc, 0x401007);
		ptm_enc_off(enc);
		end(enc);
		if (mode == PTM_RET_COMP_OFF)
			expect_tail(FLOW_AT, B(0x2d, 5, 0x10, 0x2d, 0, 0x20, 0x2d, 7, 0x10, 1));
		else
			expect_tail(FLOW_AT, B(6, 0x2d, 0, 0x20, 6, 1));
	}
}

static void call_to_the_next_is_not_pushed(void **state)
{
	struct ptm_record_config config = plain();
	struct ptm_enc *enc = begin_on(&config);

	(void)state;
	ptm_enc_call(enc, 0x401005, 0x401005);
	ptm_enc_ret(enc, 0x401005);
	/* An indirect one is. */
	ptm_enc_call_indirect(enc, 0x401007, 0x401007);
	ptm_enc_ret(enc, 0x401007);
	end(enc);
	expect_tail(FLOW_AT, B(0x2d, 5, 0x10, 0x2d, 7, 0x10, 6));
}

/* All calls from one place, so the address alone does not tell what was forgotten: of 70 returns
 * the first 64 are compressed (11 short TNTs, the last with four bits), the others are TIPs. */
static void stack_is_64_deep(void **state)
{
	struct ptm_record_config config = plain();
	struct ptm_enc *enc = begin_on(&config);
	uint8_t tail[64];
	size_t n = 0;

	(void)state;
	for (unsigned i = 0; i < 70; i++)
		ptm_enc_call(enc, 0x401005, 0x402000);
	for (unsigned i = 0; i < 70; i++)
		ptm_enc_ret(enc, 0x401005);
	end(enc);
	for (unsigned i = 0; i < 10; i++)
		tail[n++] = 0xfe; /* six times taken */
	tail[n++] = 0x3e;         /* four times */
	memcpy(tail + n, (const uint8_t[]){0x2d, 5, 0x10}, 3);
	n += 3;
	for (unsigned i = 0; i < 5; i++, n += 3)
		memcpy(tail + n, (const uint8_t[]){0x2d, 5, 0x10}, 3);
	expect_tail(FLOW_AT, tail, n);
}

static void stack_forgets_the_oldest(void **state)
{
	struct ptm_record_config config = plain();
	struct ptm_enc *enc;

	(void)state;
	config.tnt64 = true;
	enc = begin_on(&config);
	for (unsigned i = 0; i < 65; i++)
		ptm_enc_call(enc, 0x401000 + i, 0x402000);
	for (unsigned i = 65; i-- > 0;)
		ptm_enc_ret(enc, 0x401000 + i);
	end(enc);
	/* 47 and 17 compressed ones, then a TIP (0x401000 is last-IP still, but a TIP takes two
	 * bytes at least). */
	expect_tail(FLOW_AT, B(2, 0xa3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0xa3, 0xff, 0xff, 3,
			       0, 0, 0, 0x2d, 0, 0x10));
}

static void packets_off_empty_the_stack(void **state)
{
	struct ptm_record_config config = plain();
	struct ptm_enc *enc = begin_on(&config);

	(void)state;
	ptm_enc_call(enc, 0x401005, 0x402000);
	ptm_enc_off(enc);
	ptm_enc_on(enc, 0x402002, 64);
	ptm_enc_ret(enc, 0x401005);
	end(enc);
	expect_tail(FLOW_AT, B(1, 0x31, 2, 0x20, 0x2d, 5, 0x10));
}

/* After an uncompressed return the SDM's stack is one shorter than libipt's. */
static void models_of_the_stack_must_agree(void **state)
{
	struct ptm_record_config config = plain();

	(void)state;
	for (unsigned mode = PTM_RET_COMP_ON; mode <= PTM_RET_COMP_SDM; mode++) {
		struct ptm_enc *enc;

		config.ret_comp = (enum ptm_record_ret_comp)mode;
		enc = begin_on(&config);
		ptm_enc_call(enc, 0x401005, 0x402000);
		ptm_enc_call(enc, 0x402005, 0x403000);
		ptm_enc_ret(enc, 0x401100);
		ptm_enc_ret(enc, 0x401005);
		ptm_enc_off(enc);
		end(enc);
		if (mode == PTM_RET_COMP_SDM)
			expect_tail(FLOW_AT, B(0x2d, 0, 0x11, 6, 1));
		else
			expect_tail(FLOW_AT, B(0x2d, 0, 0x11, 0x2d, 5, 0x10, 1));
	}
}

static void asynchronous_events(void **state)
{
	struct ptm_record_config config = plain();
	struct ptm_enc *enc = begin_on(&config);

	(void)state;
	ptm_enc_cond(enc, true);
	ptm_enc_async(enc, 0x401008, 0x402000);
	ptm_enc_cond(enc, false);
	ptm_enc_async_off(enc, 0x402004);
	ptm_enc_on(enc, 0x402004, 64);
	end(enc);
	expect_tail(FLOW_AT,
		    B(6, 0x3d, 8, 0x10, 0x2d, 0, 0x20, 4, 0x3d, 4, 0x20, 1, 0x31, 4, 0x20));
}

static void interrupts_resume_where_they_came(void **state)
{
	struct ptm_record_config config = plain();
	struct ptm_enc *enc;

	(void)state;
	config.irq_period = 1; /* after one or two instructions */
	enc = begin_on(&config);
	for (unsigned i = 1; i < 3; i++) {
		ptm_enc_point(enc, 0x401000 + i, 1);
		if (ptm_enc_offset(enc) != FLOW_AT)
			break;
	}
	end(enc);
	expect_at(FLOW_AT, B(0x3d));
	expect_at(FLOW_AT + 3, B(1, 0x31));
	assert_int_equal(out.bytes[FLOW_AT + 1], out.bytes[FLOW_AT + 5]);
	assert_int_equal(out.n, FLOW_AT + 7);
}

static void psb_states_where_the_flow_is(void **state)
{
	struct ptm_record_config config = plain();
	struct ptm_enc *enc;
	uint64_t ip = 0x401000;
	size_t at;

	(void)state;
	config.psb_period = 64;
	config.tips = PTM_TIPS_DEFER;
	enc = begin_on(&config);
	ptm_enc_call(enc, 0x401ff0, 0x402000);
	for (unsigned i = 0; i < 12; i++)
		ptm_enc_indirect(enc, 0x401000);
	/* Due now, with a bit and a TIP waiting; it may take 16 more instructions. */
	ptm_enc_cond(enc, true);
	ptm_enc_indirect(enc, 0x401000);
	while (out.nmarks < 2)
		ptm_enc_point(enc, ++ip, 1);
	assert_true(ip < 0x401000 + 20);
	ptm_enc_ret(enc, 0x401ff0);
	end(enc);
	assert_int_equal(out.marks[0].offset, 0);
	assert_int_equal(out.marks[1].mark, PTM_ENC_PSB);
	at = (size_t)out.marks[1].offset;
	assert_int_equal(at, FLOW_AT + 36 + 4);
	expect_at(at - 4, B(6, 0x2d, 0, 0x10));
	/* last-IP is 0 again, the return stack empty. */
	expect_tail(at, B(PSB_BYTES, CBR_BYTES, 0x99, 1, 0x5d, (uint8_t)ip, 0x10, 0x40, 0, PSBEND,
			  0x2d, 0xf0, 0x1f));
}

static void psb_while_off_has_no_fup(void **state)
{
	struct ptm_record_config config = plain();
	struct ptm_enc *enc;

	(void)state;
	config.psb_period = 64;
	enc = begin_on(&config);
	for (unsigned i = 0; i < 12; i++)
		ptm_enc_indirect(enc, 0x401000);
	ptm_enc_off(enc);
	ptm_enc_on(enc, 0x401004, 64);
	end(enc);
	expect_tail(FLOW_AT + 36,
		    B(1, PSB_BYTES, CBR_BYTES, PSBEND, 0x99, 1, 0x51, 4, 0x10, 0x40, 0));
}

static void time_packets(void **state)
{
	struct ptm_record_config config = plain();
	struct ptm_enc *enc;

	(void)state;
	/* TSC 24e9 = 0x59682f000, crystal 24e7 = 0xe4e1c00, at its edge. */
	config.timing = PTM_TIMING_MTC;
	enc = begin(&config);
	ptm_enc_pass(enc, 799);
	assert_int_equal(ptm_enc_offset(enc), 16 + 8 + 7 + 4 + 2);
	/* 8 crystal ticks: 30,000,001 = 0x1c9c381. */
	ptm_enc_pass(enc, 1);
	end(enc);
	expect_tail(16, B(0x19, 0, 0xf0, 0x82, 0x96, 5, 0, 0, 2, 0x73, 0, 0x1c, 0, 0, 0, CBR_BYTES,
			  PSBEND, 0x59, 0x81));
}

static void cycle_packets(void **state)
{
	struct ptm_record_config config = plain();
	struct ptm_enc *enc;

	(void)state;
	config.timing = PTM_TIMING_CYC;
	enc = begin(&config);
	ptm_enc_pass(enc, 100);
	ptm_enc_on(enc, 0x401000, 64);
	ptm_enc_point(enc, 0x401000, 20); /* 10 cycles */
	ptm_enc_cond(enc, true);
	ptm_enc_off(enc);
	end(enc);
	expect_tail(37, B(0x99, 1, 0x27, 6, 0x51, 0, 0x10, 0x40, 0, 0x53, 6, 1));
}

static void overflow_leaves_a_gap(void **state)
{
	struct ptm_record_config config = plain();
	unsigned resolved[2] = {0, 0};

	(void)state;
	config.ovf_period = 32;
	for (config.seed = 1; config.seed < 33; config.seed++) {
		struct ptm_enc *enc = begin_on(&config);
		unsigned enabled, n = 0;
		size_t at;

		while (!ptm_enc_is_lost(enc)) {
			ptm_enc_indirect(enc, 0x401000);
			ptm_enc_point(enc, 0x401000, 1);
			assert_true(++n < 20);
		}
		for (n = 0; ptm_enc_is_lost(enc) && n < 5000; n++) {
			ptm_enc_indirect(enc, 0x402000);
			ptm_enc_point(enc, 0x402000, 1);
		}
		assert_true(n < 5000);
		end(enc);
		assert_int_equal(out.marks[1].mark, PTM_ENC_GAP);
		assert_int_equal(out.marks[2].mark, PTM_ENC_OVF);
		assert_int_equal(out.marks[1].offset, out.marks[2].offset);
		at = (size_t)out.marks[2].offset;
		enabled = out.bytes[at + 2] == 0x5d;
		resolved[enabled]++;
		/* Two bytes would do for the SDM, four are right for a decoder that resets last-IP,
		 * too. */
		expect_tail(at, B(2, 0xf3, enabled ? 0x5d : 0x51, 0, 0x20, 0x40, 0));
	}
	assert_true(resolved[0] > 0 && resolved[1] > 0);
}

static void overflow_at_the_end(void **state)
{
	struct ptm_record_config config = plain();
	struct ptm_enc *enc;

	(void)state;
	config.ovf_period = 1;
	enc = begin_on(&config);
	ptm_enc_indirect(enc, 0x401000);
	ptm_enc_point(enc, 0x401000, 1);
	assert_true(ptm_enc_is_lost(enc));
	ptm_enc_cond(enc, true);
	ptm_enc_off(enc);
	end(enc);
	expect_tail(out.n - 2, B(2, 0xf3));
	assert_int_equal(out.marks[2].offset, out.n - 2);
}

static void write_errors_stick(void **state)
{
	struct ptm_record_config config = plain();
	struct ptm_enc *enc = begin_on(&config);

	(void)state;
	out.error = -PTM_E_NOSPACE;
	for (unsigned i = 0; i < 20000; i++)
		ptm_enc_indirect(enc, 0x401000);
	out.error = 0;
	assert_int_equal(ptm_enc_finish(enc), -PTM_E_NOSPACE);
	assert_true(out.n < 1 << 15);
	ptm_enc_destroy(enc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(start_is_psb_without_fup),
		cmocka_unit_test(mode_exec_only_when_unknown),
		cmocka_unit_test(ptwrite_is_told_as_asked),
		cmocka_unit_test(tnt_is_packed_oldest_first),
		cmocka_unit_test(long_tnt),
		cmocka_unit_test(tips_flush_or_wait),
		cmocka_unit_test(uncompressed_return_never_waits),
		cmocka_unit_test(ip_takes_the_shortest_form),
		cmocka_unit_test(returns_are_compressed),
		cmocka_unit_test(call_to_the_next_is_not_pushed),
		cmocka_unit_test(stack_is_64_deep),
		cmocka_unit_test(stack_forgets_the_oldest),
		cmocka_unit_test(packets_off_empty_the_stack),
		cmocka_unit_test(models_of_the_stack_must_agree),
		cmocka_unit_test(asynchronous_events),
		cmocka_unit_test(interrupts_resume_where_they_came),
		cmocka_unit_test(psb_states_where_the_flow_is),
		cmocka_unit_test(psb_while_off_has_no_fup),
		cmocka_unit_test(time_packets),
		cmocka_unit_test(cycle_packets),
		cmocka_unit_test(overflow_leaves_a_gap),
		cmocka_unit_test(overflow_at_the_end),
		cmocka_unit_test(write_errors_stick),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
