/* SPDX-License-Identifier: Apache-2.0
 *
 * fmt_packet_test.c - the lexer against tests/vectors/packets.txt, its prefixes, and random bytes.
 *
 * All input lies in blocks of exactly its size, so that AddressSanitizer sees a read beyond the
 * end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fmt_vectors.h"

static void *exact_copy(const uint8_t *bytes, size_t n)
{
	void *p = malloc(n != 0 ? n : 1);

	assert_non_null(p);
	memcpy(p, bytes, n);
	return p;
}

static void check_packet(const struct vector *v, size_t i, const struct ptm_pkt *got)
{
	const struct ptm_pkt *want = &v->pkt[i];

	if (got->kind != want->kind)
		fail_msg("%s: packet %zu is %s, not %s", v->name, i, ptm_pkt_name(got->kind),
			 ptm_pkt_name(want->kind));
	if (got->size != want->size || got->ipbytes != want->ipbytes ||
	    got->has_ip != want->has_ip || got->fup_follows != want->fup_follows ||
	    got->n != want->n || got->type != want->type || got->aux != want->aux ||
	    got->ip != want->ip || got->payload != want->payload)
		fail_msg("%s: packet %zu (%s): size %u ipbytes %u has_ip %d fup %d n %u type 0x%x "
			 "aux 0x%x ip 0x%llx "
			 "payload 0x%llx",
			 v->name, i, ptm_pkt_name(got->kind), got->size, got->ipbytes, got->has_ip,
			 got->fup_follows, got->n, got->type, got->aux, (unsigned long long)got->ip,
			 (unsigned long long)got->payload);
}

/* Lex the packets of a vector from @lx; returns how many came before something else than OK. */
static size_t lex_all(const struct vector *v, struct ptm_lexer *lx, enum ptm_lex_status *end)
{
	struct ptm_pkt pkt;
	size_t n = 0;

	while ((*end = ptm_lex_next(lx, &pkt)) == PTM_LEX_OK) {
		if (n < v->npkts)
			check_packet(v, n, &pkt);
		n++;
	}
	return n;
}

static void check_whole(const struct vector *v)
{
	uint8_t *bytes = exact_copy(v->bytes, v->nbytes);
	enum ptm_lex_status end;
	struct ptm_lexer lx;

	ptm_lexer_init(&lx, bytes, v->nbytes);
	size_t n = lex_all(v, &lx, &end);
	if (n != v->npkts || end != v->end)
		fail_msg("%s: %zu packets, then %d", v->name, n, end);
	free(bytes);
}

/* Everything in front of the cut is as in the whole; the cut packet is truncated and the lexer
 * stands at its begin. */
static void check_prefixes(const struct vector *v)
{
	if (v->end == PTM_LEX_BAD)
		return;
	for (size_t cut = 0; cut < v->nbytes; cut++) {
		uint8_t *bytes = exact_copy(v->bytes, cut);
		enum ptm_lex_status end;
		struct ptm_lexer lx;
		size_t whole = 0;
		size_t pos = 0;

		while (whole < v->npkts && pos + v->pkt[whole].size <= cut)
			pos += v->pkt[whole++].size;
		ptm_lexer_init(&lx, bytes, cut);
		size_t n = lex_all(v, &lx, &end);
		if (n != whole || (size_t)(lx.pos - lx.begin) != pos ||
		    end != (pos == cut ? PTM_LEX_END : PTM_LEX_TRUNCATED))
			fail_msg("%s cut to %zu bytes: %zu packets, %td bytes, then %d", v->name,
				 cut, n, lx.pos - lx.begin, end);
		free(bytes);
	}
}

/* B69: a size that is off by one shows in what follows; the same far from the end of the data. */
static void check_followed_by_tnt(const struct vector *v)
{
	static const size_t tails[] = {1, 40};

	if (v->end != PTM_LEX_END)
		return;
	for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
		uint8_t bytes[VECTOR_BYTES + 40];
		enum ptm_lex_status end;
		struct ptm_lexer lx;

		memcpy(bytes, v->bytes, v->nbytes);
		memset(bytes + v->nbytes, 0x06, tails[i]);
		uint8_t *copy = exact_copy(bytes, v->nbytes + tails[i]);
		ptm_lexer_init(&lx, copy, v->nbytes + tails[i]);
		size_t n = lex_all(v, &lx, &end);
		if (n != v->npkts + tails[i] || end != PTM_LEX_END)
			fail_msg("%s followed by %zu TNT: %zu packets, then %d", v->name, tails[i],
				 n, end);
		free(copy);
	}
}

static uint64_t seen_kinds;

static void note_kinds(const struct vector *v)
{
	for (size_t i = 0; i < v->npkts; i++)
		seen_kinds |= UINT64_C(1) << v->pkt[i].kind;
}

static void test_vectors(void **state)
{
	(void)state;
	assert_true(vectors_each(check_whole) > 100);
}

static void test_every_kind_has_a_vector(void **state)
{
	(void)state;
	seen_kinds = 0;
	assert_true(vectors_each(note_kinds) > 0);
	assert_true(seen_kinds == (UINT64_C(1) << PTM_PKT_KINDS) - 1);
}

static void test_prefixes(void **state)
{
	(void)state;
	assert_true(vectors_each(check_prefixes) > 0);
}

static void test_followed_by_tnt(void **state)
{
	(void)state;
	assert_true(vectors_each(check_followed_by_tnt) > 0);
}

/* A stop moves nothing: asking again gives the same answer. */
static void test_stop_is_stable(void **state)
{
	static const uint8_t bytes[] = {0x6d, 0x34, 0x12, 0x40, 0,    0,   0,
					0x02, 0x63, 0x01, 0x02, 0x82, 0x03};
	struct ptm_lexer lx;
	struct ptm_pkt pkt;

	(void)state;
	ptm_lexer_init(&lx, bytes, sizeof(bytes));
	assert_int_equal(ptm_lex_next(&lx, &pkt), PTM_LEX_OK);
	assert_int_equal(ptm_lex_next(&lx, &pkt), PTM_LEX_OK);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ptm_lex_next(&lx, &pkt), PTM_LEX_BAD);
		assert_ptr_equal(lx.pos, bytes + 10);
		assert_true(lx.last_ip == 0x401234);
		assert_int_equal(lx.block_item, 8);
	}
}

static uint64_t rng_state = UINT64_C(0x243f6a8885a308d3);

static uint8_t random_byte(void)
{
	rng_state = rng_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint8_t)(rng_state >> 56);
}

/* Bytes that are often opcodes, so that long packets and blocks come up. */
static uint8_t random_opcode_byte(void)
{
	static const uint8_t common[] = {0x02, 0x82, 0x63, 0x33, 0x04, 0xa3, 0xc3, 0x88,
					 0x07, 0xff, 0x99, 0x6d, 0xd9, 0x12, 0x00, 0x01};
	uint8_t r = random_byte();

	return r < 128 ? common[r & 15] : random_byte();
}

/* Random input: every step consumes bytes or stops, and what is left undecided is at most one
 * packet long. */
static void test_random(void **state)
{
	(void)state;
	for (int round = 0; round < 100000; round++) {
		size_t len = random_byte() % 65;
		uint8_t *bytes = malloc(len != 0 ? len : 1);
		struct ptm_lexer lx;
		struct ptm_pkt pkt;
		enum ptm_lex_status status;
		const uint8_t *before;

		assert_non_null(bytes);
		for (size_t i = 0; i < len; i++)
			bytes[i] = (round & 1) != 0 ? random_opcode_byte() : random_byte();
		ptm_lexer_init(&lx, bytes, len);
		for (before = lx.pos; (status = ptm_lex_next(&lx, &pkt)) == PTM_LEX_OK;
		     before = lx.pos) {
			assert_true(pkt.size >= 1 && pkt.size <= PTM_PKT_MAX_SIZE);
			assert_true(pkt.kind < PTM_PKT_KINDS);
			assert_ptr_equal(lx.pos, before + pkt.size);
		}
		assert_ptr_equal(lx.pos, before);
		assert_true(lx.pos <= lx.end);
		assert_true((status == PTM_LEX_END) == (lx.pos == lx.end));
		assert_true(status != PTM_LEX_TRUNCATED || lx.end - lx.pos < PTM_PKT_MAX_SIZE);
		free(bytes);
	}
}

/* Each short TNT there is: the branches stand between bit 0 and the stop bit, the highest that is
 * set. */
static void test_every_short_tnt(void **state)
{
	(void)state;
	for (unsigned b = 4; b < 256; b += 2) {
		uint8_t byte = (uint8_t)b;
		struct ptm_lexer lx;
		struct ptm_pkt pkt;
		unsigned stop = 7;

		while ((b >> stop & 1) == 0)
			stop--;
		ptm_lexer_init(&lx, &byte, 1);
		assert_int_equal(ptm_lex_next(&lx, &pkt), PTM_LEX_OK);
		assert_int_equal(pkt.kind, PTM_PKT_TNT8);
		assert_int_equal(pkt.n, stop - 1);
		for (unsigned i = 0; i < pkt.n; i++)
			assert_int_equal(pkt.payload >> i & 1, b >> (i + 1) & 1);
		assert_int_equal(pkt.payload >> pkt.n, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_every_short_tnt),
		cmocka_unit_test(test_every_kind_has_a_vector),
		cmocka_unit_test(test_prefixes),
		cmocka_unit_test(test_followed_by_tnt),
		cmocka_unit_test(test_stop_is_stable),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
