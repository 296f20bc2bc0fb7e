/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_spaces_test.c - a trace of a CPU passes from one address space to another: the code at an
 * address is that of the process that runs at the time.
 *
 * Two processes have different code at the same address; the instructions are worked out by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "flow/engine.h"
#include "image/code.h"
#include "ptgen.h"

#define A UINT64_C(0x401000)

/* Addresses as offsets from A, in order; '|' where a batch ends. */
struct out {
	char text[512];
	struct ptm_code *code;
};

static struct ptm_space *space_of(const char *hex)
{
	char path[] = "/tmp/ptm-spaces-XXXXXX";
	struct ptm_space *space = ptm_space_create();
	struct pt_bytes code = {.n = 0};
	int fd = mkstemp(path);

	pt_hex(&code, hex);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, code.b, code.n), code.n);
	close(fd);
	assert_int_equal(ptm_space_add_raw(space, path, 0, code.n, A, NULL), 0);
	assert_int_equal(ptm_space_seal(space, NULL), 0);
	unlink(path);
	return space;
}

/* Expand as sinks do, with one cache for all spaces. */
static int collect(void *ctx, const struct ptm_batch *batch, struct ptm_error *err)
{
	struct out *out = (struct out *)ctx;

	(void)err;
	for (size_t i = 0; i < batch->nsteps; i++) {
		const struct ptm_step *step = &batch->steps[i];
		int why;
		const struct ptm_run *run = ptm_code_run(out->code, batch->space, step->ip,
							 (enum ptm_mode)step->mode, step->n, &why);

		assert_true(run->n >= step->n);
		for (uint32_t k = 0; k < step->n; k++)
			(void)sprintf(out->text + strlen(out->text), "%x ",
				      (unsigned)(run->ips[k] - A));
	}
	return 0;
}

static void pt_tsc(struct pt_bytes *p, uint8_t tsc)
{
	const uint8_t b[8] = {0x19, tsc};

	pt_raw(p, b, sizeof(b));
}

/* Runs to the system call and is off, then begins again at @later. */
static void check_engine(const struct ptm_engine_ops *ops, const struct ptm_timeline *images,
			 uint8_t later, const char *expected)
{
	struct ptm_stream_context stream = {.images = *images};
	struct ptm_engine *engine =
		ops->create(&(struct ptm_engine_options){.want = PTM_WANT_STEPS}, NULL);
	struct out out = {.code = ptm_code_create(1 << 20, NULL)};
	static struct ptm_emit emit;
	struct pt_bytes p = {.n = 0};
	struct ptm_segment seg = {.stream = &stream};

	pt_psb(&p);
	pt_tsc(&p, 100);
	pt_hex(&p, "99 01");
	pt_ip(&p, PT_FUP, A);
	pt_hex(&p, "02 23 01");
	pt_tsc(&p, later);
	pt_ip(&p, PT_PGE, A);
	pt_hex(&p, "01");
	pt_psb(&p); /* a frame of its own, with no time */
	pt_hex(&p, "02 23");
	pt_ip(&p, PT_PGE, A);
	pt_hex(&p, "01");
	seg.data = p.b;
	seg.len = p.n;
	ptm_emit_init(&emit, collect, &out);
	assert_int_equal(engine->ops->decode(engine, &seg, &emit, NULL), 0);
	assert_string_equal(out.text, expected);
	engine->ops->destroy(engine);
	ptm_code_destroy(out.code);
}

static void check(const struct ptm_timeline *images, uint8_t later, const char *expected)
{
	check_engine(&ptm_engine_ipt, images, later, expected);
	check_engine(&ptm_engine_fast, images, later, expected);
}

static void test_switch(void **state)
{
	struct ptm_space *one = space_of("90 90 0f 05"), *two = space_of("0f 1f 00 0f 05");
	struct ptm_timeline images = {.first = one};

	(void)state;
	assert_true(ptm_vec_push(&images.entries, ((struct ptm_timeline_entry){200, two})));
	assert_true(ptm_vec_push(&images.entries, ((struct ptm_timeline_entry){201, one})));
	check(&images, 199, "0 1 2 0 1 2 0 1 2 ");
	check(&images, 200, "0 1 2 0 3 0 1 2 ");
	check(&images, 201, "0 1 2 0 1 2 0 1 2 ");
	free(images.entries.v);
	ptm_space_destroy(one);
	ptm_space_destroy(two);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_switch)};

	return cmocka_run_group_tests_name("flow_spaces", tests, NULL, NULL);
}
