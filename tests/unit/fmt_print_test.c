/* SPDX-License-Identifier: Apache-2.0
 *
 * fmt_print_test.c - packets as text: bytes to the expected line, written by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fmt_vectors.h"

static const struct {
	const char *bytes;
	size_t size;
	const char *text;
} cases[] = {
#define CASE(bytes, text)                                                                          \
	{                                                                                          \
		bytes, sizeof(bytes) - 1, text                                                     \
	}
	CASE("\x00", "pad"),
	CASE("\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82", "psb"),
	CASE("\x02\x23", "psbend"),
	CASE("\x0c", "tnt.8       !."),
	CASE("\xa6", "tnt.8       .!..!!"),
	CASE("\x02\xa3\x05\x01\x00\x00\x00\x00", "tnt.64      .....!.!"),
	CASE("\x0d", "tip         0: ????????????????"),
	CASE("\x6d\xbc\x9a\x78\x56\x34\xf2", "tip         3: fffff23456789abc"),
	CASE("\x51\x78\x56\x34\x12", "tip.pge     2: 0000000012345678"),
	CASE("\x21\x34\x12", "tip.pgd     1: 0000000000001234"),
	CASE("\xdd\x3c\x80\x5f\xc0\xff\xff\xff\xff", "fup         6: ffffffffc05f803c"),
	CASE("\x99\x00", "mode.exec   16-bit"),
	CASE("\x99\x05", "mode.exec   64-bit, if"),
	CASE("\x99\x02", "mode.exec   32-bit"),
	CASE("\x99\x20", "mode.tsx    commit"),
	CASE("\x99\x21", "mode.tsx    intx"),
	CASE("\x99\x22", "mode.tsx    abort"),
	CASE("\x02\x43\x01\x40\x06\x00\x00\x00", "pip         640000, nr"),
	CASE("\x02\xc8\x45\x23\x01\x00\xab", "vmcs        ab00012345000"),
	CASE("\x19\xef\xcd\xab\x89\x67\x45\x23", "tsc         23456789abcdef"),
	CASE("\x02\x73\x34\x12\x00\xab\x01", "tma         1234, 1ab"),
	CASE("\x59\xa5", "mtc         a5"),
	CASE("\x0f\x02", "cyc         21"),
	CASE("\x02\x03\x22\x00", "cbr         34"),
	CASE("\x02\xf3", "ovf"),
	CASE("\x02\x83", "stop"),
	CASE("\x02\xc3\x88\x08\x07\x06\x05\x04\x03\x02\x01", "mnt         102030405060708"),
	CASE("\x02\x12\x78\x56\x34\x12", "ptw         0: 12345678"),
	CASE("\x02\xb2\x01\x00\x00\x00\x00\x00\x00\x00", "ptw         1: 0000000000000001, ip"),
	CASE("\x02\x62", "exstop"),
	CASE("\x02\xe2", "exstop      ip"),
	CASE("\x02\xc2\x21\x00\x00\x00\x01\x00\x00\x00", "mwait       00000021, 01"),
	CASE("\x02\x22\x80\x62", "pwre        c6.2, hw"),
	CASE("\x02\xa2\x36\x04\x00\x00\x00", "pwrx        last c3, deepest c6, wake 4"),
	CASE("\x02\x63\x84", "bbp         type 4, 4-byte items"),
	CASE("\x02\x33", "bep"),
	CASE("\x02\xb3", "bep         ip"),
	CASE("\x02\x13\x81\xec", "cfe         1 intr, vector 236, ip"),
	CASE("\x02\x13\x1f\x00", "cfe         31 ?, vector 0"),
	CASE("\x02\x53\x00\x00\xf0\xff\xff\xff\x7f\x00\x00", "evd         0 cr2: 00007ffffffff000"),
	CASE("\x02\x53\x3f\x00\x00\x00\x00\x00\x00\x00\x00", "evd         63 ?: 0000000000000000"),
	CASE("\xd9\xc0\x05\x34\x12", "trig        c0, trbv 05, icnt 4660, ip"),
};

static void test_text(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ptm_lexer lx;
		struct ptm_pkt pkt;
		char text[128];

		ptm_lexer_init(&lx, (const uint8_t *)cases[i].bytes, cases[i].size);
		assert_int_equal(ptm_lex_next(&lx, &pkt), PTM_LEX_OK);
		assert_int_equal(ptm_pkt_format(&pkt, text, sizeof(text)), strlen(cases[i].text));
		assert_string_equal(text, cases[i].text);
	}
}

static void test_bip(void **state)
{
	struct ptm_pkt pkt = {.kind = PTM_PKT_BIP, .size = 5, .n = 4, .type = 31, .payload = 0xabc};
	char text[128];

	(void)state;
	(void)ptm_pkt_format(&pkt, text, sizeof(text));
	assert_string_equal(text, "bip         id 31: 00000abc");
}

/* Whatever the room, the text is terminated inside it and is a prefix of the whole but for trailing
 * blanks. */
static void test_small_buffers(void **state)
{
	struct ptm_pkt pkt = {.kind = PTM_PKT_TNT64, .size = 8, .n = 47, .payload = 0x2b0987654321};
	char whole[128];
	size_t len = ptm_pkt_format(&pkt, whole, sizeof(whole));

	(void)state;
	assert_int_equal(len, 12 + 47);
	for (size_t size = 0; size <= len + 1; size++) {
		char *text = malloc(size != 0 ? size : 1);

		assert_non_null(text);
		size_t n = ptm_pkt_format(&pkt, text, size);
		assert_true(size == 0 ? n == 0 : n < size);
		if (size != 0) {
			assert_int_equal(strlen(text), n);
			assert_memory_equal(text, whole, n);
		}
		free(text);
	}
}

/* Garbage in the fields neither crashes nor outgrows the 128 bytes of the contract. */
static void test_extremes(void **state)
{
	(void)state;
	for (unsigned kind = 0; kind <= PTM_PKT_KINDS; kind++) {
		struct ptm_pkt pkt;
		char text[256];

		memset(&pkt, 0xff, sizeof(pkt));
		pkt.has_ip = true;
		pkt.fup_follows = true;
		pkt.kind = (uint8_t)kind;
		pkt.n = kind == PTM_PKT_PTW || kind == PTM_PKT_BIP || kind == PTM_PKT_BBP ? 8 : 47;
		assert_true(ptm_pkt_format(&pkt, text, sizeof(text)) < 128);
	}
	assert_string_equal(ptm_pkt_name(PTM_PKT_KINDS), "unknown");
	assert_string_equal(ptm_pkt_name(UINT32_MAX), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_bip),
		cmocka_unit_test(test_small_buffers),
		cmocka_unit_test(test_extremes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
