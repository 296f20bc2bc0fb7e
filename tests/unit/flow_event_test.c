/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_event_test.c - names and text of events; the expected lines are written by hand from the
 * design (section 9).
 */
#include "ptmill/event.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define IP  PTM_EVF_HAS_IP
#define TO  PTM_EVF_HAS_TO
#define TSC PTM_EVF_HAS_TSC

struct vector {
	struct ptm_event ev;
	const char *text;
};

static const struct vector vectors[] = {
	{{.kind = PTM_EV_ENABLED, .flags = IP, .ip = 0x401000}, "[enabled ip=0000000000401000]"},
	{{.kind = PTM_EV_ENABLED}, "[enabled]"},
	{{.kind = PTM_EV_RESUMED, .flags = IP, .ip = 0x401000}, "[resumed ip=0000000000401000]"},
	{{.kind = PTM_EV_DISABLED, .ip = 1, .to = 2, .tsc = 3}, "[disabled]"},
	{{.kind = PTM_EV_DISABLED, .flags = TO, .to = 0xffffffff81000000},
	 "[disabled to=ffffffff81000000]"},
	{{.kind = PTM_EV_ASYNC_DISABLED, .flags = IP | TO, .ip = 0x10, .to = 0x20},
	 "[async disabled ip=0000000000000010 to=0000000000000020]"},
	{{.kind = PTM_EV_ASYNC_DISABLED, .flags = IP, .ip = 0x10},
	 "[async disabled ip=0000000000000010]"},
	{{.kind = PTM_EV_ASYNC_BRANCH, .flags = IP | TO, .ip = 0x7f0012345678, .to = 0x20},
	 "[async branch ip=00007f0012345678 to=0000000000000020]"},
	{{.kind = PTM_EV_PAGING, .value = 0x1234000}, "[paging cr3=0000000001234000 nr=0]"},
	{{.kind = PTM_EV_ASYNC_PAGING, .flags = IP, .ip = 0x10, .arg = 1, .value = 0x1234000},
	 "[async paging cr3=0000000001234000 nr=1 ip=0000000000000010]"},
	{{.kind = PTM_EV_OVERFLOW, .flags = IP, .ip = 0x401000}, "[overflow ip=0000000000401000]"},
	{{.kind = PTM_EV_OVERFLOW}, "[overflow]"},
	{{.kind = PTM_EV_EXEC_MODE, .flags = IP, .arg = 64, .ip = 0x401000},
	 "[exec mode bits=64 ip=0000000000401000]"},
	{{.kind = PTM_EV_EXEC_MODE, .arg = 16}, "[exec mode bits=16]"},
	{{.kind = PTM_EV_TSX, .flags = IP, .arg = 1, .ip = 0x10},
	 "[tsx intx=1 abort=0 ip=0000000000000010]"},
	{{.kind = PTM_EV_TSX, .flags = IP, .arg = 2, .ip = 0x10},
	 "[tsx intx=0 abort=1 ip=0000000000000010]"},
	{{.kind = PTM_EV_TSX}, "[tsx intx=0 abort=0]"},
	{{.kind = PTM_EV_STOP}, "[stop]"},
	{{.kind = PTM_EV_VMCS, .value = 0xabcd000}, "[vmcs base=000000000abcd000]"},
	{{.kind = PTM_EV_ASYNC_VMCS, .flags = IP, .ip = 0x10, .value = 0xabcd000},
	 "[async vmcs base=000000000abcd000 ip=0000000000000010]"},
	{{.kind = PTM_EV_EXSTOP, .flags = IP, .ip = 0x10}, "[exstop ip=0000000000000010]"},
	{{.kind = PTM_EV_MWAIT, .flags = IP, .ip = 0x10, .value = 0x200000051},
	 "[mwait hints=0x51 ext=0x2 ip=0000000000000010]"},
	{{.kind = PTM_EV_PWRE, .value = 0x10205}, "[pwre state=5 sub=2 hw=1]"},
	{{.kind = PTM_EV_PWRX, .value = 0x40602}, "[pwrx last=2 deepest=6 wake=0x4]"},
	{{.kind = PTM_EV_PTWRITE, .flags = IP, .ip = 0x401000, .arg = 8, .value = 0xdeadbeefcafe},
	 "[ptwrite value=0xdeadbeefcafe bytes=8 ip=0000000000401000]"},
	{{.kind = PTM_EV_CBR, .arg = 24, .flags = TSC, .tsc = 0x123}, "[cbr ratio=24 tsc=0x123]"},
	{{.kind = PTM_EV_MNT, .value = UINT64_MAX}, "[mnt value=0xffffffffffffffff]"},
	{{.kind = PTM_EV_GAP,
	  .arg = PTM_GAP_NO_IMAGE,
	  .offset = 0x1234,
	  .value = 56,
	  .flags = IP,
	  .ip = 0x401000},
	 "[gap class=no-image offset=0x1234 bytes=56 ip=0000000000401000]"},
	{{.kind = PTM_EV_GAP, .arg = PTM_GAP_NO_SYNC, .value = UINT64_MAX},
	 "[gap class=no-sync offset=0x0 bytes=18446744073709551615]"},
	{{.kind = PTM_EV_GAP, .arg = PTM_GAP_BAD_PACKET},
	 "[gap class=bad-packet offset=0x0 bytes=0]"},
	{{.kind = PTM_EV_GAP, .arg = PTM_GAP_KINDS}, "[gap class=unknown offset=0x0 bytes=0]"},
	{{.kind = PTM_EV_CFE, .flags = IP, .arg = 1, .value = 0xec, .ip = 0x401000},
	 "[cfe type=1 vector=236 ip=0000000000401000]"},
	{{.kind = PTM_EV_CFE, .arg = 2}, "[cfe type=2 vector=0]"},
	{{.kind = PTM_EV_EVD, .value = 0x7ffffffff000}, "[evd type=0 value=0x7ffffffff000]"},
	{{.kind = PTM_EV_BLOCK_BEGIN, .arg = 4, .value = 8}, "[block begin type=4 bytes=8]"},
	{{.kind = PTM_EV_BLOCK_ITEM, .arg = 31, .value = UINT64_MAX},
	 "[block item id=31 value=0xffffffffffffffff]"},
	{{.kind = PTM_EV_BLOCK_END, .flags = IP, .ip = 0x10}, "[block end ip=0000000000000010]"},
	{{.kind = PTM_EV_TRIGGER, .flags = IP, .arg = 0xc0, .value = 0x123405, .ip = 0x10},
	 "[trigger flags=0xc0 triggers=0x5 insns=4660 ip=0000000000000010]"},
	{{.kind = PTM_EV_IFLAG, .flags = IP, .arg = 1, .ip = 0x10},
	 "[iflag if=1 ip=0000000000000010]"},
	{{.kind = PTM_EV_TARGET, .flags = IP, .ip = 0x401000}, "[target ip=0000000000401000]"},
	{{.kind = 31}, "[unknown]"},
	{{.kind = 255,
	  .flags = IP | TO | TSC,
	  .ip = UINT64_MAX,
	  .to = UINT64_MAX,
	  .tsc = UINT64_MAX},
	 "[unknown ip=ffffffffffffffff to=ffffffffffffffff tsc=0xffffffffffffffff]"},
};

static void test_format(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		char buf[256];
		unsigned n;

		memset(buf, 'x', sizeof(buf));
		n = ptm_event_format(&vectors[i].ev, buf, sizeof(buf));
		assert_string_equal(buf, vectors[i].text);
		assert_int_equal(n, strlen(vectors[i].text));
	}
}

/* Every kind has a vector, so that a new one is not forgotten. */
static void test_every_kind(void **state)
{
	(void)state;
	for (unsigned kind = 0; kind <= PTM_EV_GAP; kind++) {
		bool seen = false;

		if (strcmp(ptm_event_name(kind), "unknown") == 0)
			continue;
		for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
			seen |= vectors[i].ev.kind == kind;
		assert_true(seen);
	}
}

static void test_short_buffer(void **state)
{
	const struct vector *v = &vectors[0];
	size_t len = strlen(v->text);

	(void)state;
	for (unsigned size = 0; size <= len + 1; size++) {
		char buf[64];
		size_t want = size == 0 ? 0 : size - 1;

		memset(buf, 'x', sizeof(buf));
		assert_int_equal(ptm_event_format(&v->ev, buf, size), want);
		assert_memory_equal(buf, v->text, want);
		if (size > 0)
			assert_int_equal(buf[want], '\0');
		assert_int_equal(buf[size], 'x');
	}
}

static void test_names(void **state)
{
	static const char *const gaps[] = {"bad packet", "truncated", "unsupported", "no image",
					   "bad insn",   "mismatch",  "retcomp",     "seam",
					   "runaway",    "too long",  "no sync",     "config"};
	static const char *const classes[] = {"decoded",  "head", "padding",
					      "overflow", "lost", "skipped"};

	(void)state;
	assert_string_equal(ptm_event_name(PTM_EV_ASYNC_BRANCH), "async branch");
	assert_string_equal(ptm_event_name(PTM_EV_GAP + 1), "unknown");
	assert_int_equal(sizeof(gaps) / sizeof(gaps[0]), PTM_GAP_KINDS);
	for (unsigned i = 0; i < PTM_GAP_KINDS; i++)
		assert_string_equal(ptm_gap_name(i), gaps[i]);
	assert_string_equal(ptm_gap_name(PTM_GAP_KINDS), "unknown");
	for (unsigned i = 0; i < PTM_BYTES_CLASSES; i++)
		assert_string_equal(ptm_byte_class_name(i), classes[i]);
	assert_string_equal(ptm_byte_class_name(PTM_BYTES_CLASSES), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_format),
		cmocka_unit_test(test_every_kind),
		cmocka_unit_test(test_short_buffer),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
