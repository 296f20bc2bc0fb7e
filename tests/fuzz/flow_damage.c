/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_damage.c - damages a trace.
 *
 * Each damage replaces some bytes of the trace by others, mostly at the borders of packets, so that
 * not all of it is lost to the lexer; up to four are made one after the other.
 */
#include "flow_damage.h"

#include "base/bytes.h"
#include "fmt/pt_packet.h"

#include <stdlib.h>
#include <string.h>

#define PIECE_MAX 64u

/* Bytes from `at` to `end` of the trace, to be replaced by `n` others. */
struct patch {
	size_t at, end, n;
	uint8_t bytes[PIECE_MAX];
};

static void apply(struct flow_truth *t, const struct patch *p)
{
	if (!ptm_vec_reserve(&t->trace, p->n))
		abort();
	memmove(t->trace.v + p->at + p->n, t->trace.v + p->end, t->trace.n - p->end);
	memcpy(t->trace.v + p->at, p->bytes, p->n);
	t->trace.n += p->n;
	t->trace.n -= p->end - p->at;
}

/* The packet that a random byte lies in: its offset and size; false if there is none. */
static bool any_packet(const struct flow_truth *t, struct flow_rand *r, size_t *at, size_t *size)
{
	size_t byte = (size_t)(flow_rand_u64(r) % (t->trace.n + 1));
	struct ptm_lexer lx;
	struct ptm_pkt pkt;

	ptm_lexer_init(&lx, t->trace.v, t->trace.n);
	while (ptm_lex_next(&lx, &pkt) == PTM_LEX_OK)
		if ((size_t)(lx.pos - t->trace.v) > byte) {
			*size = pkt.size;
			*at = (size_t)(lx.pos - t->trace.v) - pkt.size;
			return true;
		}
	return false;
}

static void ip_packet(struct patch *p, unsigned op, const struct flow_prog *prog,
		      struct flow_rand *r)
{
	static const uint8_t codes[] = {0, 1, 2, 3, 3, 4, 6}, sizes[] = {0, 2, 4, 6, 6, 0, 8};
	unsigned code = codes[flow_pick(r, sizeof(codes))];
	uint64_t ip = prog->insns[flow_pick(r, prog->ninsns)].ip;

	if (flow_one_in(r, 4))
		ip += flow_pick(r, 16);
	p->bytes[p->n++] = (uint8_t)(op | code << 5);
	ptm_store_le(p->bytes + p->n, ip, sizes[code]);
	p->n += sizes[code];
}

/* A packet that does not belong there. */
static void stray_packet(struct patch *p, const struct flow_prog *prog, struct flow_rand *r)
{
	/* Its length, then its bytes. */
	static const uint8_t fixed[][12] = {
		{2, 0x02, 0xf3},                                     /* OVF */
		{2, 0x02, 0x83},                                     /* TraceStop */
		{2, 0x02, 0x23},                                     /* PSBEND */
		{2, 0x99, 0x01},                                     /* MODE.Exec */
		{2, 0x99, 0x02},                                     /* ... 32 bits */
		{2, 0x99, 0x21},                                     /* MODE.TSX */
		{2, 0x99, 0x22},                                     /* ... aborted */
		{8, 0x02, 0x43, 0x00, 0x10, 0x20, 0x00, 0x00, 0x00}, /* PIP */
		{7, 0x02, 0xc8, 0x01, 0x02, 0x03, 0x04, 0x05},       /* VMCS */
		{4, 0x02, 0x03, 0x18, 0x00},                         /* CBR */
		{2, 0x59, 0x77},                                     /* MTC */
		{8, 0x19, 1, 2, 3, 4, 5, 6, 0},                      /* TSC */
		{1, 0x00},                                           /* PAD */
		{6, 0x02, 0x12, 1, 2, 3, 4},                         /* PTW */
		{6, 0x02, 0x92, 1, 2, 3, 4},                         /* PTW, FUP */
		{2, 0x02, 0x62},                                     /* EXSTOP */
		{10, 0x02, 0xc2, 1, 0, 0, 0, 2, 0, 0, 0},            /* MWAIT */
		{4, 0x02, 0x22, 0x00, 0x21},                         /* PWRE */
		{7, 0x02, 0xa2, 0x21, 0x01, 0, 0, 0},                /* PWRX */
		{4, 0x02, 0x13, 0x07, 0x00},                         /* CFE */
		{11, 0x02, 0x53, 0x00, 1, 2, 3, 4, 5, 6, 7, 8},      /* EVD */
	};
	static const uint8_t ips[] = {0x0d, 0x0d, 0x01, 0x11, 0x1d, 0x1d};
	unsigned kind = flow_pick(r, 4);

	if (kind == 0) {
		ip_packet(p, ips[flow_pick(r, sizeof(ips))], prog, r);
	} else if (kind == 1) {
		p->bytes[p->n++] = (uint8_t)((flow_pick(r, 126) + 2) << 1);
	} else if (kind == 2) {
		const uint8_t *f = fixed[flow_pick(r, sizeof(fixed) / sizeof(fixed[0]))];

		memcpy(p->bytes, f + 1, f[0]);
		p->n = f[0];
	} else { /* FUP and what often follows it, or an OVF and its IP */
		static const uint8_t seconds[] = {0x0d, 0x01, 0x11};

		if (flow_one_in(r, 2)) {
			memcpy(p->bytes, "\x02\xf3", 2);
			p->n = 2;
		}
		ip_packet(p, 0x1d, prog, r);
		if (flow_one_in(r, 2))
			ip_packet(p, seconds[flow_pick(r, 3)], prog, r);
	}
}

/* Damage at the packet of @size at @at. */
static void choose(struct flow_truth *t, const struct flow_prog *prog, struct flow_rand *r,
		   struct patch *p, size_t size)
{
	size_t more;

	switch (flow_pick(r, 8)) {
	case 0: /* some bits of one byte */
		p->at += flow_pick(r, (uint32_t)size);
		p->end = p->at + 1;
		p->bytes[p->n++] = t->trace.v[p->at] ^ (uint8_t)(1U << flow_pick(r, 8));
		break;
	case 1: /* dropped */
		p->end = p->at + size;
		break;
	case 2: /* doubled */
		memcpy(p->bytes, t->trace.v + p->at, size);
		p->n = size;
		break;
	case 3: /* another instead */
		p->end = p->at + size;
		stray_packet(p, prog, r);
		break;
	case 4:
		stray_packet(p, prog, r);
		break;
	case 5: /* any number of bytes gone, at any place */
		p->at += flow_pick(r, (uint32_t)size);
		more = 1 + flow_pick(r, 200);
		p->end = t->trace.n - p->at < more ? t->trace.n : p->at + more;
		break;
	case 6: /* cut off */
		p->at += flow_pick(r, (uint32_t)size);
		p->end = flow_one_in(r, 3) ? t->trace.n : p->at;
		break;
	default: /* exchanged with what follows */
		more = t->trace.n - p->at - size;
		more = more < 4 ? more : 4;
		memcpy(p->bytes, t->trace.v + p->at + size, more);
		memcpy(p->bytes + more, t->trace.v + p->at, size);
		p->n = size + more;
		p->end = p->at + p->n;
		break;
	}
}

void flow_damage(struct flow_truth *t, const struct flow_prog *prog, struct flow_rand *r)
{
	unsigned n = 1 + flow_pick(r, 4);

	while (n-- > 0) {
		struct patch p = {0};
		size_t size;

		if (!any_packet(t, r, &p.at, &size))
			continue;
		p.end = p.at;
		choose(t, prog, r, &p, size);
		apply(t, &p);
	}
}
