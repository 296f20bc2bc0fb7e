/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_packet.c - the lexer and the PSB scan on any bytes.
 *
 * The lexer starts again behind each byte at which it stops as bad.  For every packet it must be
 * true that the same bytes alone are the same packet (so the path for the end of the data agrees
 * with the fast one), that every shorter piece of them is truncated, and that a stop moves nothing.
 * The scan must find what its definition says.
 */
#include "fmt/pt_packet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			(void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);           \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static bool same_state(const struct ptm_lexer *a, const struct ptm_lexer *b)
{
	return a->pos == b->pos && a->last_ip == b->last_ip && a->block_item == b->block_item;
}

static bool same_packet(const struct ptm_pkt *a, const struct ptm_pkt *b)
{
	return a->kind == b->kind && a->size == b->size && a->ipbytes == b->ipbytes &&
	       a->has_ip == b->has_ip && a->fup_follows == b->fup_follows && a->n == b->n &&
	       a->type == b->type && a->aux == b->aux && a->ip == b->ip && a->payload == b->payload;
}

/* @before is the state in which @pkt was lexed, @after the state behind it. */
static void check_alone(const struct ptm_lexer *before, const struct ptm_lexer *after,
			const struct ptm_pkt *pkt)
{
	struct ptm_lexer lx;
	struct ptm_pkt again;

	for (unsigned cut = 1; cut <= pkt->size; cut++) {
		uint8_t *copy = malloc(cut);

		CHECK(copy != NULL);
		memcpy(copy, before->pos, cut);
		lx = *before;
		lx.begin = lx.pos = copy;
		lx.end = copy + cut;
		enum ptm_lex_status status = ptm_lex_next(&lx, &again);
		if (cut < pkt->size) {
			CHECK(status == PTM_LEX_TRUNCATED && lx.pos == copy);
			CHECK(lx.last_ip == before->last_ip && lx.block_item == before->block_item);
		} else {
			CHECK(status == PTM_LEX_OK && lx.pos == lx.end && same_packet(pkt, &again));
			CHECK(lx.last_ip == after->last_ip && lx.block_item == after->block_item);
		}
		free(copy);
	}
}

static void check_packet(const struct ptm_lexer *before, const struct ptm_lexer *after,
			 const struct ptm_pkt *pkt)
{
	char text[128];

	CHECK(pkt->kind < PTM_PKT_KINDS && pkt->size >= 1 && pkt->size <= PTM_PKT_MAX_SIZE);
	CHECK(after->pos == before->pos + pkt->size && after->pos <= after->end);
	CHECK(pkt->kind == PTM_PKT_PSB
		      ? after->last_ip == 0
		      : after->last_ip == (pkt->has_ip ? pkt->ip : before->last_ip));
	CHECK(pkt->kind != PTM_PKT_TNT8 || (pkt->n >= 1 && pkt->n <= 6));
	CHECK(pkt->kind != PTM_PKT_TNT64 || (pkt->n >= 1 && pkt->n <= 47));
	size_t len = ptm_pkt_format(pkt, text, sizeof(text));
	CHECK(len < sizeof(text) - 1 && strlen(text) == len &&
	      len >= strlen(ptm_pkt_name(pkt->kind)));
	check_alone(before, after, pkt);
}

static void check_lexer(const uint8_t *data, size_t size)
{
	struct ptm_lexer lx;

	ptm_lexer_init(&lx, data, size);
	for (;;) {
		struct ptm_lexer before = lx;
		struct ptm_pkt pkt;
		enum ptm_lex_status status = ptm_lex_next(&lx, &pkt);

		if (status == PTM_LEX_OK) {
			check_packet(&before, &lx, &pkt);
			continue;
		}
		CHECK(same_state(&before, &lx));
		CHECK((status == PTM_LEX_END) == (lx.pos == lx.end));
		if (status != PTM_LEX_BAD) {
			CHECK(lx.end - lx.pos < PTM_PKT_MAX_SIZE);
			return;
		}
		lx.pos++;
	}
}

/* The definition of the scan: the first run of pairs that is long enough, its last 16 bytes. */
static size_t naive_find(const uint8_t *d, size_t len, size_t from, bool more)
{
	size_t i = from;

	while (i + 1 < len) {
		size_t end = i;

		while (end + 1 < len && d[end] == 0x02 && d[end + 1] == 0x82)
			end += 2;
		if (end > i && more && (end == len || (end + 1 == len && d[end] == 0x02)))
			return len;
		if (end - i >= PTM_PSB_SIZE)
			return end - PTM_PSB_SIZE;
		i = end > i ? end : i + 1;
	}
	return len;
}

static void check_scan(const uint8_t *data, size_t size)
{
	for (int more = 0; more < 2; more++)
		for (size_t from = 0; from <= size;) {
			size_t at = ptm_psb_find(data, size, from, more != 0);

			CHECK(at == naive_find(data, size, from, more != 0));
			from = at < size ? at + 1 : size + 1;
		}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_lexer(data, size);
	check_scan(data, size);
	return 0;
}
