/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_ipt_test.c - the libipt engine: seams, overflows at a PSB, gaps, accounting.
 *
 * Each case is a trace composed by hand, a piece of code, and what must come out, worked out by
 * hand.  Every case is decoded as one segment and cut at every PSB; both must yield the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "flow/engine.h"
#include "flow/frame.h"
#include "ptgen.h"

/* Code at 401000:
 *   00 nop  01 nop  02 nop  03 nop  04 nop  05 nop  06 je 401000   (74 f8)
 *   08 call 401020 (e8 13 00 00 00)   0d nop   0e jmp 401000 (eb f0)
 *   10 jmp . (eb fe)
 *   12 syscall (0f 05)   14 jmp *rax (ff e0)
 *   20 nop  21 ret */
static const char code_hex[] =
	"90 90 90 90 90 90 74 f8 e8 13 00 00 00 90 eb f0 eb fe 0f 05 ff e0 90 90"
	"90 90 90 90 90 90 90 90 90 c3";
#define A UINT64_C(0x401000)

struct out {
	char text[8192]; /* instructions as hex offsets from A, events in brackets */
	struct ptm_tally tally;
	struct ptm_digest digest;
};

static struct ptm_space *space;
static struct ptm_engine *engine;
static struct ptm_stream_context stream;

static int setup(void **state)
{
	char path[] = "/tmp/ptm-flow-XXXXXX";
	static struct pt_bytes code;
	struct ptm_error err;
	int fd = mkstemp(path);

	(void)state;
	code.n = 0;
	pt_hex(&code, code_hex);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, code.b, code.n), code.n);
	close(fd);
	space = ptm_space_create();
	assert_int_equal(ptm_space_add_raw(space, path, 0, code.n, A, &err), 0);
	assert_int_equal(ptm_space_seal(space, &err), 0);
	unlink(path);
	stream.images.first = space;
	engine = ptm_engine_ipt.create(&err);
	return engine != NULL ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	engine->ops->destroy(engine);
	ptm_space_destroy(space);
	return 0;
}

static void append(struct out *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void append(struct out *out, const char *fmt, ...)
{
	size_t n = strlen(out->text);
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(out->text + n, sizeof(out->text) - n, fmt, ap);
	va_end(ap);
}

static void put_event(struct out *out, const struct ptm_event *ev)
{
	if (ev->kind == PTM_EV_GAP)
		append(out, "[gap-%u +%u", ev->arg, (unsigned)ev->value);
	else
		append(out, "[%u", ev->kind);
	if (ev->flags & PTM_EVF_HAS_IP)
		append(out, " %x", (unsigned)(ev->ip - A));
	if (ev->flags & PTM_EVF_HAS_TO)
		append(out, ">%x", (unsigned)(ev->to - A));
	append(out, "] ");
}

/* Expand a step with the decoder of the image room, as sinks do. */
static void put_step(struct out *out, const struct ptm_step *step)
{
	uint64_t ip = step->ip;

	if (step->n > 1000) {
		append(out, "%x... ", (unsigned)(ip - A));
		return;
	}
	for (uint32_t i = 0; i < step->n; i++) {
		struct ptm_insn insn;
		uint8_t bytes[15];
		size_t n = ptm_space_read(space, ip, bytes, sizeof(bytes));

		append(out, "%x ", (unsigned)(ip - A));
		assert_true(ptm_insn_decode(bytes, n, ip, (enum ptm_mode)step->mode, &insn) > 0);
		ip = insn.klass == PTM_INSN_JUMP || insn.klass == PTM_INSN_CALL ? insn.target
										: ip + insn.len;
	}
}

static int collect(void *ctx, const struct ptm_batch *batch, struct ptm_error *err)
{
	struct out *out = (struct out *)ctx;
	size_t e = 0;

	(void)err;
	for (size_t s = 0; s <= batch->nsteps; s++) {
		for (; e < batch->nevents && batch->events[e].step == s; e++)
			put_event(out, &batch->events[e]);
		if (s < batch->nsteps)
			put_step(out, &batch->steps[s]);
	}
	assert_int_equal(e, batch->nevents);
	return 0;
}

static void decode(const struct ptm_segment *seg, struct out *out)
{
	static struct ptm_emit emit;
	struct ptm_error err;

	ptm_emit_init(&emit, collect, out);
	assert_int_equal(engine->ops->decode(engine, seg, &emit, &err), 0);
	ptm_tally_add(&out->tally, &emit.tally);
	ptm_digest_append(&out->digest, &emit.digest);
}

/* The bytes in a block of exactly their size, so that a sanitizer sees a read past the end. */
static uint8_t *exact(const uint8_t *data, size_t n)
{
	uint8_t *p = (uint8_t *)malloc(n > 0 ? n : 1);

	assert_non_null(p);
	memcpy(p, data, n);
	return p;
}

static void decode_cut(const struct pt_bytes *p, struct out *out)
{
	size_t begin = ptm_psb_find(p->b, p->n, 0, false);
	bool ovf = false;

	while (begin < p->n) {
		size_t end = ptm_psb_find(p->b, p->n, begin + 16, false);
		struct ptm_segment seg = {.stream = &stream,
					  .len = end - begin,
					  .look = p->n - end,
					  .offset = begin,
					  .ovf_pending = ovf};
		uint8_t *data = exact(p->b + begin, p->n - begin);

		seg.data = data;
		decode(&seg, out);
		ovf = ptm_frame_ends_in_ovf(p->b + begin, end - begin);
		free(data);
		begin = end;
	}
}

static void check(const struct pt_bytes *p, const char *expected)
{
	struct out whole = {.digest = PTM_DIGEST_EMPTY}, cut = {.digest = PTM_DIGEST_EMPTY};
	size_t first = ptm_psb_find(p->b, p->n, 0, false);
	uint8_t *data = exact(p->b + first, p->n - first);
	struct ptm_segment seg = {
		.stream = &stream, .data = data, .len = p->n - first, .offset = first};
	uint64_t sum = 0;

	decode(&seg, &whole);
	decode_cut(p, &cut);
	assert_string_equal(whole.text, expected);
	assert_string_equal(cut.text, expected);
	assert_int_equal(whole.digest.n, cut.digest.n);
	assert_true(whole.digest.b == cut.digest.b);
	assert_memory_equal(&whole.tally, &cut.tally, sizeof(cut.tally));
	for (int i = 0; i < PTM_BYTES_CLASSES; i++)
		sum += whole.tally.bytes[i];
	assert_int_equal(sum, p->n - first);
	free(data);
}

/* The FUP IP of the next PSB+ lies in a straight run: what is before it belongs to the earlier
 * frame. */
static void test_seam_in_run(void **state)
{
	struct pt_bytes p = {.n = 0};

	(void)state;
	pt_psb_on(&p, A);
	pt_tnt(&p, "T");
	pt_psb_on(&p, A + 3);
	pt_tnt(&p, "T");
	pt_psb_on(&p, A + 5);
	pt_tnt(&p, "N");
	check(&p, "0 1 2 3 4 5 6 0 1 2 3 4 5 6 0 1 2 3 4 5 6 ");
}

/* B23: compared before the first step, so zero instructions at a seam are normal. */
static void test_seam_at_target(void **state)
{
	struct pt_bytes p = {.n = 0};

	(void)state;
	pt_psb_on(&p, A);
	pt_tnt(&p, "T");
	pt_psb_on(&p, A);
	pt_tnt(&p, "TT");
	pt_psb_on(&p, A);
	check(&p, "0 1 2 3 4 5 6 0 1 2 3 4 5 6 0 1 2 3 4 5 6 ");
}

/* B03d: the call before the PSB is no help for the return behind it. */
static void test_return_across_psb(void **state)
{
	struct pt_bytes p = {.n = 0};

	(void)state;
	pt_psb_on(&p, A + 6);
	pt_tnt(&p, "N");
	pt_psb_on(&p, A + 0x21);
	pt_ip(&p, PT_TIP, A + 0xd);
	pt_tnt(&p, "N");
	pt_psb_on(&p, A + 8);
	pt_tnt(&p, "T");
	check(&p, "6 8 20 21 d e 0 1 2 3 4 5 6 8 20 21 ");
	p.n = 0;
	pt_psb_on(&p, A + 6);
	pt_tnt(&p, "N");
	pt_psb_on(&p, A + 0x20);
	pt_tnt(&p, "T");
	check(&p, "6 8 20 [gap-6 +0 21] ");
}

/* A wrong turn: what was walked in vain does not count, and the gap names both addresses. */
static void test_seam_error(void **state)
{
	struct pt_bytes p = {.n = 0};

	(void)state;
	pt_psb_on(&p, A);
	pt_tnt(&p, "T");
	pt_psb_on(&p, A + 0x20);
	pt_ip(&p, PT_TIP, A + 4);
	check(&p, "0 1 2 3 4 5 6 [gap-7 +0 6>20] 20 21 ");
	/* `jmp .` never arrives. */
	p.n = 0;
	pt_psb_on(&p, A + 0x10);
	pt_psb_on(&p, A + 0x20);
	check(&p, "[gap-7 +0 10>20] ");
}

/* No walk when tracing is off, and a FUP in PSB+ does not prove that it is on (BDM70). */
static void test_no_seam(void **state)
{
	struct pt_bytes p = {.n = 0};

	(void)state;
	pt_psb_on(&p, A + 0x12);
	pt_hex(&p, "01"); /* PGD without IP, at the syscall */
	pt_psb_off(&p);
	pt_ip(&p, PT_PGE, A + 0x12);
	pt_hex(&p, "01");
	check(&p, "12 [2] [0 12] 12 [2] ");
	p.n = 0;
	pt_psb_on(&p, A + 0x12);
	pt_hex(&p, "01");
	pt_psb_on(&p, A + 0x12); /* the erratum: FUP and MODE.Exec, although off */
	pt_hex(&p, "03 02 03 10 00 99 01");
	pt_ip(&p, PT_PGE, A + 5);
	pt_tnt(&p, "T");
	check(&p, "12 [2] [18] [0 5] [8 5] 5 6 ");
}

static void test_overflow(void **state)
{
	struct pt_bytes p = {.n = 0};

	(void)state;
	/* OVF ends the frame; the resume IP is in PSB+. */
	pt_psb_on(&p, A);
	pt_tnt(&p, "T");
	pt_hex(&p, "02 f3");
	pt_psb_on(&p, A + 4);
	pt_tnt(&p, "T");
	check(&p, "0 1 2 3 4 5 6 [7] 4 5 6 ");
	/* The resume IP is a FUP behind PSBEND; PAD and time do not matter. */
	p.n = 0;
	pt_psb_on(&p, A);
	pt_tnt(&p, "T");
	pt_hex(&p, "02 f3 00 59 07 03");
	pt_psb_off(&p);
	pt_hex(&p, "59 08");
	pt_ip(&p, PT_FUP, A + 4);
	pt_tnt(&p, "T");
	check(&p, "0 1 2 3 4 5 6 [7 4] 4 5 6 ");
	/* B14: PSB+ cut short by OVF. */
	p.n = 0;
	pt_psb_on(&p, A);
	pt_tnt(&p, "T");
	pt_psb(&p);
	pt_hex(&p, "99 01");
	pt_ip(&p, PT_FUP, A);
	pt_hex(&p, "02 f3");
	pt_ip(&p, PT_FUP, A + 4);
	pt_tnt(&p, "T");
	check(&p, "0 1 2 3 4 5 6 [7 4] 4 5 6 ");
	/* Resolved while no MODE.Exec was seen: 64-bit code. */
	p.n = 0;
	pt_psb_off(&p);
	pt_hex(&p, "02 f3");
	pt_ip(&p, PT_FUP, A + 4);
	pt_tnt(&p, "T");
	check(&p, "[7 4] 4 5 6 ");
}

static void test_gaps(void **state)
{
	struct pt_bytes p = {.n = 0};

	(void)state;
	/* An unknown opcode: alignment is lost up to the next PSB. */
	pt_psb_on(&p, A);
	pt_tnt(&p, "T");
	pt_hex(&p, "02 ff 06 06");
	pt_psb_on(&p, A + 5);
	pt_tnt(&p, "T");
	check(&p, "0 1 2 3 4 5 6 [gap-0 +4] 5 6 ");
	/* A packet cut off by a PSB: TIP with 2 of 6 bytes, which look like the PSB's. */
	p.n = 0;
	pt_psb_on(&p, A);
	pt_tnt(&p, "T");
	pt_hex(&p, "6d 02 82");
	pt_psb_on(&p, A + 5);
	pt_tnt(&p, "T");
	check(&p, "0 1 2 3 4 5 6 [gap-1 +3] 5 6 ");
	/* The same as a whole TIP with 2 bytes: code at 8202 is not there. */
	p.n = 0;
	pt_psb_on(&p, A + 0x14);
	pt_hex(&p, "2d 02 82");
	pt_psb_on(&p, A + 5);
	pt_tnt(&p, "T");
	check(&p, "14 [gap-7 +0 7202>5] 5 6 ");
}

static void test_flow_errors(void **state)
{
	struct pt_bytes p = {.n = 0};

	(void)state;
	/* No image at the target. */
	pt_psb_on(&p, A + 0x14);
	pt_ip(&p, PT_TIP, A + 0x100000);
	pt_tnt(&p, "T");
	check(&p, "14 [gap-3 +1 100000] ");
	/* A TIP where a bit is due. */
	p.n = 0;
	pt_psb_on(&p, A + 5);
	pt_ip(&p, PT_TIP, A);
	pt_tnt(&p, "T");
	check(&p, "5 [gap-5 +8 6] ");
	/* A bit is left, but the code goes round for ever. */
	p.n = 0;
	pt_psb_on(&p, A + 0x10);
	pt_tnt(&p, "T");
	pt_psb_on(&p, A + 5);
	pt_tnt(&p, "T");
	check(&p, "10... [gap-8 +1 10] 5 6 ");
	/* A packet that libipt 2.0 does not know. */
	p.n = 0;
	pt_psb_on(&p, A + 5);
	pt_tnt(&p, "T");
	pt_hex(&p, "02 13 01 20 06");
	check(&p, "5 6 [gap-2 +5] ");
}

/* At the end of the data nothing counts behind the last packet. */
static void test_end_of_data(void **state)
{
	struct pt_bytes p = {.n = 0};

	(void)state;
	pt_psb_on(&p, A);
	check(&p, "");
	pt_tnt(&p, "T");
	check(&p, "0 1 2 3 4 5 6 ");
	pt_hex(&p, "00 00 02");
	check(&p, "0 1 2 3 4 5 6 [gap-1 +1] ");
}

/* B74: an unknown CPU goes on, with a warning; known ones do without. */
static void test_cpu(void **state)
{
	struct ptm_cpu unknown = {true, 6, 255, 0}, skylake = {true, 6, 0x5e, 3}, none = {0};
	struct ptm_stream_context other = {.images = {.first = space}, .cpu = unknown};
	struct pt_bytes p = {.n = 0};
	struct ptm_segment seg = {.stream = &other, .data = p.b};
	struct out out = {.digest = PTM_DIGEST_EMPTY};

	(void)state;
	assert_non_null(ptm_engine_cpu_warning(&unknown));
	assert_null(ptm_engine_cpu_warning(&skylake));
	assert_null(ptm_engine_cpu_warning(&none));
	pt_psb_on(&p, A + 5);
	pt_tnt(&p, "T");
	seg.len = p.n;
	decode(&seg, &out);
	assert_string_equal(out.text, "5 6 ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_seam_in_run),
		cmocka_unit_test(test_seam_at_target),
		cmocka_unit_test(test_return_across_psb),
		cmocka_unit_test(test_seam_error),
		cmocka_unit_test(test_no_seam),
		cmocka_unit_test(test_overflow),
		cmocka_unit_test(test_gaps),
		cmocka_unit_test(test_flow_errors),
		cmocka_unit_test(test_end_of_data),
		cmocka_unit_test(test_cpu),
	};

	return cmocka_run_group_tests_name("flow_ipt", tests, setup, teardown);
}
