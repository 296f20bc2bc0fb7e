/* SPDX-License-Identifier: Apache-2.0
 *
 * pt_lexer.c - bytes to packets (SDM vol. 3, ch. Intel PT, "Packet Definitions").
 *
 * Two tables of 256 entries, by the first byte: how to go on, and the packet as far as that byte
 * determines it; they are constant expressions made by the macros below.  A third gives kind and
 * size behind the escape 02.
 *
 * The code works on 16 readable bytes; of the last bytes of the buffer it makes a zero-padded copy.
 * Padding never decides anything: a packet that reaches into it is truncated, and a packet is
 * called bad only by bytes that are present.
 */
#include "fmt/pt_packet.h"

#include "base/bytes.h"

#define UNLIKELY(x)   __builtin_expect(!!(x), 0)
#define ALWAYS_INLINE inline __attribute__((always_inline))

enum form {
	FORM_PLAIN, /* the first byte says everything, but for an address */
	FORM_MTC,   /* plain, with a number of one byte, ... */
	FORM_TSC,   /* ... of seven bytes, ... */
	FORM_CYC,   /* ... of seven bits or, if the bit below them is set, more */
	FORM_EXT,
	FORM_FIXED, /* the size is in the table, the rest takes a closer look */
	FORM_BAD
};

#define ROWS4(X, b)  X((b)), X((b) + 1), X((b) + 2), X((b) + 3)
#define ROWS16(X, b) ROWS4(X, (b)), ROWS4(X, (b) + 4), ROWS4(X, (b) + 8), ROWS4(X, (b) + 12)
#define ROWS64(X, b) ROWS16(X, (b)), ROWS16(X, (b) + 16), ROWS16(X, (b) + 32), ROWS16(X, (b) + 48)
#define ROWS256(X)   ROWS64(X, 0), ROWS64(X, 64), ROWS64(X, 128), ROWS64(X, 192)

#define IS_TNT8(b) (((b)&1) == 0 && (b) > 2)
#define IS_CYC(b)  (((b)&3) == 3)
/* TIP, TIP.PGE, TIP.PGD, FUP: IPBytes in bits 7:5, of which 5 and 7 are reserved. */
#define IS_IP(b) (((b)&31) == 0x0d || ((b)&31) == 0x11 || ((b)&31) == 0x01 || ((b)&31) == 0x1d)
#define IP_SIZE(n)                                                                                 \
	((n) == 0 ? 1 : (n) == 1 ? 3 : (n) == 2 ? 5 : (n) == 3 || (n) == 4 ? 7 : (n) == 6 ? 9 : 0)

#define FORM(b)                                                                                    \
	((b) == 0x00 || IS_TNT8(b)           ? FORM_PLAIN                                          \
	 : (b) == 0x02                       ? FORM_EXT                                            \
	 : IS_CYC(b)                         ? (((b)&4) == 0 ? FORM_PLAIN : FORM_CYC)              \
	 : (b) == 0x19                       ? FORM_TSC                                            \
	 : (b) == 0x59                       ? FORM_MTC                                            \
	 : (b) == 0x99 || (b) == 0xd9        ? FORM_FIXED                                          \
	 : IS_IP(b) && IP_SIZE((b) >> 5) > 0 ? FORM_PLAIN                                          \
					     : FORM_BAD)

#define KIND(b)                                                                                    \
	((b) == 0x00        ? PTM_PKT_PAD                                                          \
	 : ((b)&1) == 0     ? PTM_PKT_TNT8                                                         \
	 : IS_CYC(b)        ? PTM_PKT_CYC                                                          \
	 : ((b)&31) == 0x0d ? PTM_PKT_TIP                                                          \
	 : ((b)&31) == 0x11 ? PTM_PKT_TIP_PGE                                                      \
	 : ((b)&31) == 0x01 ? PTM_PKT_TIP_PGD                                                      \
	 : ((b)&31) == 0x1d ? PTM_PKT_FUP                                                          \
	 : (b) == 0x19      ? PTM_PKT_TSC                                                          \
	 : (b) == 0x59      ? PTM_PKT_MTC                                                          \
	 : (b) == 0x99      ? PTM_PKT_MODE_EXEC                                                    \
			    : PTM_PKT_TRIG)

#define SIZE(b)                                                                                    \
	((b) == 0x19                                         ? 8                                   \
	 : (b) == 0x59 || (b) == 0x99 || FORM(b) == FORM_CYC ? 2                                   \
	 : (b) == 0xd9                                       ? 3                                   \
	 : IS_IP(b)                                          ? IP_SIZE((b) >> 5)                   \
							     : 1)

/* Short TNT: bit 0 is clear, the branches stand above it and below the stop bit, the highest that
 * is set. */
#define TNT8_BITS(b)                                                                               \
	((b) >= 128 ? 6 : (b) >= 64 ? 5 : (b) >= 32 ? 4 : (b) >= 16 ? 3 : (b) >= 8 ? 2 : 1)

#define PACKET(b)                                                                                  \
	{                                                                                          \
		.kind = KIND(b), .size = SIZE(b), .ipbytes = IS_IP(b) ? (b) >> 5 : 0,              \
		.has_ip = IS_IP(b) && (b) >> 5 != 0, .n = IS_TNT8(b) ? TNT8_BITS(b) : 0,           \
		.payload = IS_TNT8(b)  ? ((b) >> 1) - (1U << TNT8_BITS(b))                         \
			   : IS_CYC(b) ? (b) >> 3                                                  \
				       : 0                                                         \
	}

/* By the first byte: how to go on, and the packet as far as that byte determines it. */
static const uint8_t form_of[256] = {ROWS256(FORM)};
static const struct ptm_pkt packet_of[256] = {ROWS256(PACKET)};

struct opcode {
	uint8_t kind;
	uint8_t size;
};

/* Behind the escape 02; where a row is missing the size is 0 and the packet bad. */
static const struct opcode second_byte[256] = {
	[0x03] = {PTM_PKT_CBR, 4},    [0x12] = {PTM_PKT_PTW, 6},    [0x13] = {PTM_PKT_CFE, 4},
	[0x22] = {PTM_PKT_PWRE, 4},   [0x23] = {PTM_PKT_PSBEND, 2}, [0x32] = {PTM_PKT_PTW, 10},
	[0x33] = {PTM_PKT_BEP, 2},    [0x43] = {PTM_PKT_PIP, 8},    [0x53] = {PTM_PKT_EVD, 11},
	[0x62] = {PTM_PKT_EXSTOP, 2}, [0x63] = {PTM_PKT_BBP, 3},    [0x73] = {PTM_PKT_TMA, 7},
	[0x82] = {PTM_PKT_PSB, 16},   [0x83] = {PTM_PKT_STOP, 2},   [0x92] = {PTM_PKT_PTW, 6},
	[0xa2] = {PTM_PKT_PWRX, 7},   [0xa3] = {PTM_PKT_TNT64, 8},  [0xb2] = {PTM_PKT_PTW, 10},
	[0xb3] = {PTM_PKT_BEP, 2},    [0xc2] = {PTM_PKT_MWAIT, 10}, [0xc3] = {PTM_PKT_MNT, 11},
	[0xc8] = {PTM_PKT_VMCS, 7},   [0xe2] = {PTM_PKT_EXSTOP, 2}, [0xf3] = {PTM_PKT_OVF, 2},
};

/* Packets that may stand between BBP and BEP; every other one ends the block. */
#define BIT(kind) (UINT64_C(1) << (kind))
static const uint64_t stays_in_block = BIT(PTM_PKT_PAD) | BIT(PTM_PKT_TSC) | BIT(PTM_PKT_TMA) |
				       BIT(PTM_PKT_MTC) | BIT(PTM_PKT_FUP) | BIT(PTM_PKT_CYC) |
				       BIT(PTM_PKT_CBR) | BIT(PTM_PKT_MNT) | BIT(PTM_PKT_EXSTOP) |
				       BIT(PTM_PKT_PWRE) | BIT(PTM_PKT_PWRX) | BIT(PTM_PKT_BIP);

static const uint8_t psb_bytes[PTM_PSB_SIZE] = {0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82,
						0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82};

/* Bits of last-IP that a packet replaces, by IPBytes (3 is sign-extended, hence all of them). */
static const uint64_t ip_mask[8] = {0, 0xffff,     0xffffffff, UINT64_MAX, 0xffffffffffff,
				    0, UINT64_MAX, 0};

/* The number behind the first byte: which bits, where to, and a bit which says that there is more
 * of it. */
static const struct {
	uint64_t mask;
	uint8_t shift;
	uint8_t more;
} number_of[] = {
	[FORM_PLAIN] = {0, 0, 0},
	[FORM_MTC] = {0xff, 0, 0},
	[FORM_TSC] = {0xffffffffffffff, 0, 0},
	[FORM_CYC] = {0xfe, 4, 1},
};

void ptm_lexer_init(struct ptm_lexer *lx, const uint8_t *data, size_t len)
{
	*lx = (struct ptm_lexer){.begin = data, .pos = data, .end = data + len};
}

/* PAD, short TNT, CYC, MTC, TSC, and the packets with an address: nearly all of a trace, in an
 * order that no branch predictor learns.  Hence no branch on the kind: what a kind does not have is
 * masked away. */
static ALWAYS_INLINE unsigned lex_plain(struct ptm_lexer *lx, const uint8_t *p, unsigned form,
					struct ptm_pkt *pkt)
{
	const struct ptm_pkt *packet = &packet_of[p[0]];
	uint64_t raw = ptm_load_le64(p + 1);
	uint64_t sext = (uint64_t)((int64_t)(raw << 16) >> 16);
	uint64_t mask = ip_mask[packet->ipbytes];
	uint64_t ip = ((packet->ipbytes == 3 ? sext : raw) & mask) | (lx->last_ip & ~mask);
	uint64_t payload = packet->payload | (raw & number_of[form].mask) << number_of[form].shift;
	unsigned size = packet->size;

	*pkt = *packet;
	pkt->payload = payload;
	pkt->ip = packet->has_ip ? ip : 0;
	lx->last_ip = ip;
	return size;
}

/* CYC: five bits in the first byte, seven in each further one; the count must fit into 64 bits. */
static int lex_cyc(const uint8_t *p, size_t left, struct ptm_pkt *pkt)
{
	uint64_t value = p[0] >> 3;
	unsigned shift = 5;
	unsigned size = 1;
	bool more = (p[0] & 4) != 0;

	while (more) {
		if (size == left)
			return PTM_LEX_TRUNCATED;
		uint64_t bits = p[size] >> 1;
		if (shift > 63 || (bits << shift) >> shift != bits)
			return PTM_LEX_BAD;
		value |= bits << shift;
		more = (p[size] & 1) != 0;
		shift += 7;
		size++;
	}
	pkt->payload = value;
	pkt->size = (uint8_t)size;
	return PTM_LEX_OK;
}

/* Long TNT: up to 47 bits below a stop bit. */
static int lex_tnt64(const uint8_t *p, struct ptm_pkt *pkt)
{
	uint64_t raw = ptm_load_le(p + 2, 6);

	if (raw <= 1)
		return PTM_LEX_BAD;
	pkt->n = (uint8_t)(63 - __builtin_clzll(raw));
	pkt->payload = raw ^ BIT(pkt->n);
	return PTM_LEX_OK;
}

static int lex_mode(const uint8_t *p, struct ptm_pkt *pkt)
{
	unsigned leaf = p[1] >> 5;

	if (leaf > 1)
		return PTM_LEX_BAD;
	if (leaf == 1)
		pkt->kind = PTM_PKT_MODE_TSX;
	pkt->type = p[1] & (leaf == 1 ? 3 : 7);
	return PTM_LEX_OK;
}

/* The instruction count of TRIG is there if ICNTV, bit 6 of byte 1, is set. */
static int lex_trig(const uint8_t *p, size_t left, struct ptm_pkt *pkt)
{
	pkt->type = p[1];
	pkt->payload = p[2];
	pkt->fup_follows = (p[1] & 0x80) != 0;
	if ((p[1] & 0x40) != 0) {
		pkt->size = 5;
		if (left < 5)
			return PTM_LEX_TRUNCATED;
		pkt->aux = ptm_load_le16(p + 3);
	}
	return PTM_LEX_OK;
}

static int lex_power(const uint8_t *p, struct ptm_pkt *pkt)
{
	if (pkt->kind == PTM_PKT_PWRE) {
		pkt->type = p[3];
		pkt->aux = p[2] >> 7;
	} else if (pkt->kind == PTM_PKT_PWRX) {
		pkt->type = (uint8_t)(p[2] >> 4 | (p[2] & 15) << 4);
		pkt->aux = p[3] & 15;
	} else {
		pkt->payload = ptm_load_le32(p + 2);
		pkt->type = p[6];
	}
	return PTM_LEX_OK;
}

/* Paging, time and frequency packets: a number and little else. */
static int lex_number(const uint8_t *p, struct ptm_pkt *pkt)
{
	switch (pkt->kind) {
	case PTM_PKT_TSC:
		pkt->payload = ptm_load_le(p + 1, 7);
		break;
	case PTM_PKT_MTC:
		pkt->payload = p[1];
		break;
	case PTM_PKT_TMA:
		pkt->payload = ptm_load_le16(p + 2);
		pkt->aux = ptm_load_le16(p + 5) & 0x1ff;
		break;
	case PTM_PKT_CBR:
		pkt->payload = p[2];
		break;
	case PTM_PKT_PIP:
		pkt->payload = ptm_load_le(p + 2, 6) >> 1 << 5;
		pkt->type = p[2] & 1;
		break;
	case PTM_PKT_VMCS:
		pkt->payload = ptm_load_le(p + 2, 5) << 12;
		break;
	default:
		break;
	}
	return PTM_LEX_OK;
}

/* PTWRITE, Event Trace and block packets. */
static int lex_event(const uint8_t *p, struct ptm_pkt *pkt)
{
	switch (pkt->kind) {
	case PTM_PKT_PTW:
		pkt->fup_follows = (p[1] & 0x80) != 0;
		pkt->n = (uint8_t)(pkt->size - 2);
		pkt->payload = ptm_load_le(p + 2, pkt->n);
		break;
	case PTM_PKT_BEP:
	case PTM_PKT_EXSTOP:
		pkt->fup_follows = (p[1] & 0x80) != 0;
		break;
	case PTM_PKT_BBP:
		pkt->type = p[2] & 31;
		pkt->n = (p[2] & 0x80) != 0 ? 4 : 8;
		break;
	case PTM_PKT_CFE:
		pkt->type = p[2] & 31;
		pkt->fup_follows = (p[2] & 0x80) != 0;
		pkt->aux = p[3];
		break;
	case PTM_PKT_EVD:
		pkt->type = p[2] & 63;
		pkt->payload = ptm_load_le64(p + 3);
		break;
	default:
		break;
	}
	return PTM_LEX_OK;
}

/* A packet whose opcode is present and whose table size is in pkt->size. */
static int lex_fixed(const uint8_t *p, size_t left, struct ptm_pkt *pkt)
{
	/* The signature bytes beyond the opcode decide before the size does. */
	if (pkt->kind == PTM_PKT_PSB &&
	    memcmp(p, psb_bytes, left < PTM_PSB_SIZE ? left : PTM_PSB_SIZE) != 0)
		return PTM_LEX_BAD;
	if (pkt->kind == PTM_PKT_MNT && left > 2 && p[2] != 0x88)
		return PTM_LEX_BAD;
	if (pkt->size > left)
		return PTM_LEX_TRUNCATED;
	switch (pkt->kind) {
	case PTM_PKT_TNT64:
		return lex_tnt64(p, pkt);
	case PTM_PKT_MODE_EXEC:
		return lex_mode(p, pkt);
	case PTM_PKT_TRIG:
		return lex_trig(p, left, pkt);
	case PTM_PKT_MNT:
		pkt->payload = ptm_load_le64(p + 3);
		return PTM_LEX_OK;
	case PTM_PKT_MWAIT:
	case PTM_PKT_PWRE:
	case PTM_PKT_PWRX:
		return lex_power(p, pkt);
	case PTM_PKT_TSC:
	case PTM_PKT_MTC:
	case PTM_PKT_TMA:
	case PTM_PKT_CBR:
	case PTM_PKT_PIP:
	case PTM_PKT_VMCS:
		return lex_number(p, pkt);
	default:
		return lex_event(p, pkt);
	}
}

static int lex_ext(const uint8_t *p, size_t left, struct ptm_pkt *pkt)
{
	const struct opcode *op = &second_byte[p[1]];

	if (left < 2)
		return PTM_LEX_TRUNCATED;
	if (op->size == 0)
		return PTM_LEX_BAD;
	pkt->kind = op->kind;
	pkt->size = op->size;
	return lex_fixed(p, left, pkt);
}

static int lex_bip(const struct ptm_lexer *lx, const uint8_t *p, size_t left, struct ptm_pkt *pkt)
{
	pkt->kind = PTM_PKT_BIP;
	pkt->size = (uint8_t)(1 + lx->block_item);
	if (pkt->size > left)
		return PTM_LEX_TRUNCATED;
	pkt->type = p[0] >> 3;
	pkt->n = lx->block_item;
	pkt->payload = ptm_load_le(p + 1, lx->block_item);
	return PTM_LEX_OK;
}

/* One packet at @p, where 16 bytes can be read and @left of them are data. */
static int lex_any(struct ptm_lexer *lx, const uint8_t *p, size_t left, struct ptm_pkt *pkt)
{
	*pkt = packet_of[p[0]];
	if (lx->block_item != 0 && (p[0] & 7) == 4)
		return lex_bip(lx, p, left, pkt);
	switch (form_of[p[0]]) {
	case FORM_CYC:
		return lex_cyc(p, left, pkt);
	case FORM_EXT:
		return lex_ext(p, left, pkt);
	case FORM_FIXED:
		return lex_fixed(p, left, pkt);
	case FORM_BAD:
		return PTM_LEX_BAD;
	default:
		if (pkt->size > left)
			return PTM_LEX_TRUNCATED;
		(void)lex_plain(lx, p, form_of[p[0]], pkt);
		return PTM_LEX_OK;
	}
}

/* PSB resets last-IP; BBP opens a block, PSB and most other packets close it. */
static void update_context(struct ptm_lexer *lx, const struct ptm_pkt *pkt)
{
	if (pkt->kind == PTM_PKT_PSB)
		lx->last_ip = 0;
	if (pkt->kind == PTM_PKT_BBP)
		lx->block_item = pkt->n;
	else if ((stays_in_block >> pkt->kind & 1) == 0)
		lx->block_item = 0;
}

static __attribute__((noinline)) int lex_slow(struct ptm_lexer *lx, size_t left,
					      struct ptm_pkt *pkt)
{
	uint8_t copy[PTM_PKT_MAX_SIZE] = {0};
	const uint8_t *p = lx->pos;

	if (left == 0)
		return PTM_LEX_END;
	if (left < PTM_PKT_MAX_SIZE)
		p = memcpy(copy, lx->pos, left);
	int status = lex_any(lx, p, left, pkt);
	if (status == PTM_LEX_OK) {
		update_context(lx, pkt);
		lx->pos += pkt->size;
	}
	return status;
}

enum ptm_lex_status ptm_lex_next(struct ptm_lexer *lx, struct ptm_pkt *pkt)
{
	const uint8_t *p = lx->pos;
	size_t left = (size_t)(lx->end - p);

	if (UNLIKELY(left < PTM_PKT_MAX_SIZE) || UNLIKELY(lx->block_item != 0))
		return (enum ptm_lex_status)lex_slow(lx, left, pkt);

	unsigned form = form_of[p[0]];

	if (UNLIKELY(form > FORM_CYC) || UNLIKELY((p[1] & number_of[form].more) != 0))
		return (enum ptm_lex_status)lex_slow(lx, left, pkt);
	lx->pos = p + lex_plain(lx, p, form, pkt);
	return PTM_LEX_OK;
}
