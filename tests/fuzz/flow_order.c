/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_order.c - packets of a damaged frame in an order that no CPU writes (SDM vol. 3, ch. Intel
 * PT, "Packet Generation", and the descriptions of the packets).
 */
#include "flow_order.h"

#include "fmt/pt_packet.h"

struct order {
	bool promised; /* the packet before must be followed by a FUP */
	bool psbplus;
	bool on;
	bool overflow; /* what is enabled is told by what follows */
};

/* Inside PSB+.  True if it is in order. */
static bool in_psbplus(struct order *o, const struct ptm_pkt *pkt)
{
	switch (pkt->kind) {
	case PTM_PKT_FUP:
		o->on = pkt->has_ip;
		return true;
	case PTM_PKT_MODE_EXEC:
		return (pkt->type & 3) != 3;
	case PTM_PKT_PSBEND:
		o->psbplus = false;
		return true;
	case PTM_PKT_OVF:
		o->psbplus = false;
		o->overflow = true;
		return true;
	default:
		return false;
	}
}

static bool belongs_fup(const struct order *o, const struct ptm_pkt *behind)
{
	if (o->promised || o->overflow)
		return true;
	return behind != NULL && (behind->kind == PTM_PKT_TIP || behind->kind == PTM_PKT_TIP_PGD);
}

/* Outside PSB+.  True if it is in order. */
static bool in_flow(struct order *o, const struct ptm_pkt *pkt, const struct ptm_pkt *behind)
{
	switch (pkt->kind) {
	case PTM_PKT_TNT8:
	case PTM_PKT_TNT64:
		return o->on && !o->overflow;
	case PTM_PKT_TIP:
		return o->on && !o->overflow && pkt->has_ip;
	case PTM_PKT_TIP_PGD:
		if (!o->on || o->overflow)
			return false;
		o->on = false;
		return true;
	case PTM_PKT_TIP_PGE:
		if (o->on && !o->overflow)
			return false;
		o->on = true;
		return pkt->has_ip;
	case PTM_PKT_FUP:
		if ((!o->on && !o->overflow) || !pkt->has_ip || !belongs_fup(o, behind))
			return false;
		o->on = true;
		return true;
	case PTM_PKT_MODE_EXEC:
		return !o->on && (pkt->type & 3) != 3 && behind != NULL &&
		       behind->kind == PTM_PKT_TIP_PGE;
	case PTM_PKT_MODE_TSX:
		/* An abort has a TIP, too; the recorder has none. */
		return o->on && (pkt->type & 2) == 0 && behind != NULL &&
		       behind->kind == PTM_PKT_FUP;
	case PTM_PKT_PTW:
		return o->on && !o->overflow;
	case PTM_PKT_EXSTOP:
		return o->on && pkt->fup_follows;
	case PTM_PKT_PIP:
		return o->on && !o->overflow;
	case PTM_PKT_OVF:
		o->overflow = true;
		return true;
	default:
		return false;
	}
}

/* The next packet that is neither time nor PAD. */
static bool next_packet(struct ptm_lexer *lx, struct ptm_pkt *pkt)
{
	while (ptm_lex_next(lx, pkt) == PTM_LEX_OK)
		if (pkt->kind != PTM_PKT_PAD && !ptm_pkt_is_time(pkt->kind))
			return true;
	return false;
}

static bool follow(struct order *o, const struct ptm_pkt *pkt, const struct ptm_pkt *behind)
{
	const bool resolves = pkt->kind == PTM_PKT_FUP || pkt->kind == PTM_PKT_TIP_PGE;
	bool good;

	if (o->promised && pkt->kind != PTM_PKT_FUP)
		return false;
	good = o->psbplus ? in_psbplus(o, pkt) : in_flow(o, pkt, behind);
	o->promised = pkt->fup_follows || (pkt->kind == PTM_PKT_MODE_TSX && !o->psbplus);
	if (resolves)
		o->overflow = false;
	return good;
}

/* A CBR within a compound event: told before or behind it. */
static bool has_cbr_behind_fup(const uint8_t *data, size_t len)
{
	unsigned before = PTM_PKT_KINDS;
	struct ptm_lexer lx;
	struct ptm_pkt pkt;

	ptm_lexer_init(&lx, data, len);
	while (ptm_lex_next(&lx, &pkt) == PTM_LEX_OK) {
		if (pkt.kind == PTM_PKT_CBR && before == PTM_PKT_FUP)
			return true;
		before = pkt.kind;
	}
	return false;
}

bool flow_is_out_of_order(const uint8_t *data, size_t len)
{
	struct order o = {.psbplus = true};
	struct ptm_pkt pkt, behind;
	struct ptm_lexer lx;
	bool there;

	ptm_lexer_init(&lx, data, len);
	if (!next_packet(&lx, &pkt) || pkt.kind != PTM_PKT_PSB)
		return true;
	there = next_packet(&lx, &pkt);
	while (there) {
		there = next_packet(&lx, &behind);
		if (!follow(&o, &pkt, there ? &behind : NULL))
			return true;
		pkt = behind;
	}
	/* Cut off within PSB+, or before the FUP that was promised. */
	return o.psbplus || o.promised || has_cbr_behind_fup(data, len);
}
