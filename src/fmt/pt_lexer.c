/* SPDX-License-Identifier: Apache-2.0
 *
 * pt_lexer.c - bytes to packets (SDM vol. 3, ch. Intel PT, "Packet Definitions").
 *
 * Two tables of 256 entries, for the first byte and for the byte behind the escape 02, give the
 * kind and the size of a packet; they are constant expressions made by the macros below.  lex()
 * works on 16 readable bytes and is expanded twice: on the buffer itself, where no size can exceed
 * what is there, and on a zero-padded copy of the last bytes.  Padding never decides anything: a
 * packet that reaches into it is truncated, and a packet is called bad only by bytes that are
 * present.
 */
#include "fmt/pt_packet.h"

#include "base/bytes.h"

#define LIKELY(x)     __builtin_expect(!!(x), 1)
#define UNLIKELY(x)   __builtin_expect(!!(x), 0)
#define ALWAYS_INLINE inline __attribute__((always_inline))

enum form {
	FORM_BAD,
	FORM_TNT8,
	FORM_IP,
	FORM_CYC,
	FORM_EXT,
	FORM_FIXED /* the size is in the table */
};

struct opcode {
	uint8_t form;
	uint8_t kind;
	uint8_t size;
};

#define ROWS4(X, b)  X((b)), X((b) + 1), X((b) + 2), X((b) + 3)
#define ROWS16(X, b) ROWS4(X, (b)), ROWS4(X, (b) + 4), ROWS4(X, (b) + 8), ROWS4(X, (b) + 12)
#define ROWS64(X, b) ROWS16(X, (b)), ROWS16(X, (b) + 16), ROWS16(X, (b) + 32), ROWS16(X, (b) + 48)
#define ROWS256(X)   ROWS64(X, 0), ROWS64(X, 64), ROWS64(X, 128), ROWS64(X, 192)

/* Size of TIP, TIP.PGE, TIP.PGD, FUP by IPBytes; 5 and 7 are reserved. */
#define IP_SIZE(n)                                                                                 \
	((n) == 0 ? 1 : (n) == 1 ? 3 : (n) == 2 ? 5 : (n) == 3 || (n) == 4 ? 7 : (n) == 6 ? 9 : 0)

#define IP_FORM(b) (IP_SIZE((b) >> 5) != 0 ? FORM_IP : FORM_BAD)

#define FIRST_FORM(b)                                                                              \
	((b) == 0x00        ? FORM_FIXED                                                           \
	 : (b) == 0x02      ? FORM_EXT                                                             \
	 : ((b)&1) == 0     ? FORM_TNT8                                                            \
	 : ((b)&3) == 3     ? FORM_CYC                                                             \
	 : ((b)&63) == 0x19 ? FORM_FIXED                                                           \
	 : ((b)&31) == 0x0d || ((b)&31) == 0x11 || ((b)&31) == 0x01 || ((b)&31) == 0x1d            \
		 ? IP_FORM(b)                                                                      \
		 : FORM_BAD)

#define FIRST_KIND(b)                                                                              \
	((b) == 0x00        ? PTM_PKT_PAD                                                          \
	 : ((b)&1) == 0     ? PTM_PKT_TNT8                                                         \
	 : ((b)&3) == 3     ? PTM_PKT_CYC                                                          \
	 : ((b)&31) == 0x0d ? PTM_PKT_TIP                                                          \
	 : ((b)&31) == 0x11 ? PTM_PKT_TIP_PGE                                                      \
	 : ((b)&31) == 0x01 ? PTM_PKT_TIP_PGD                                                      \
	 : ((b)&31) == 0x1d ? PTM_PKT_FUP                                                          \
	 : (b) == 0x19      ? PTM_PKT_TSC                                                          \
	 : (b) == 0x59      ? PTM_PKT_MTC                                                          \
	 : (b) == 0x99      ? PTM_PKT_MODE_EXEC                                                    \
			    : PTM_PKT_TRIG)

#define FIRST_SIZE(b)                                                                              \
	((b) == 0x19                  ? 8                                                          \
	 : (b) == 0x59 || (b) == 0x99 ? 2                                                          \
	 : (b) == 0xd9                ? 3                                                          \
	 : ((b)&1) == 0               ? 1                                                          \
				      : IP_SIZE((b) >> 5))

#define FIRST(b)                                                                                   \
	{                                                                                          \
		FIRST_FORM(b), FIRST_KIND(b), FIRST_SIZE(b)                                        \
	}

static const struct opcode first_byte[256] = {ROWS256(FIRST)};

/* Behind the escape 02; where a row is missing the size is 0 and the packet bad. */
static const struct opcode second_byte[256] = {
	[0x03] = {FORM_FIXED, PTM_PKT_CBR, 4},    [0x12] = {FORM_FIXED, PTM_PKT_PTW, 6},
	[0x13] = {FORM_FIXED, PTM_PKT_CFE, 4},    [0x22] = {FORM_FIXED, PTM_PKT_PWRE, 4},
	[0x23] = {FORM_FIXED, PTM_PKT_PSBEND, 2}, [0x32] = {FORM_FIXED, PTM_PKT_PTW, 10},
	[0x33] = {FORM_FIXED, PTM_PKT_BEP, 2},    [0x43] = {FORM_FIXED, PTM_PKT_PIP, 8},
	[0x53] = {FORM_FIXED, PTM_PKT_EVD, 11},   [0x62] = {FORM_FIXED, PTM_PKT_EXSTOP, 2},
	[0x63] = {FORM_FIXED, PTM_PKT_BBP, 3},    [0x73] = {FORM_FIXED, PTM_PKT_TMA, 7},
	[0x82] = {FORM_FIXED, PTM_PKT_PSB, 16},   [0x83] = {FORM_FIXED, PTM_PKT_STOP, 2},
	[0x92] = {FORM_FIXED, PTM_PKT_PTW, 6},    [0xa2] = {FORM_FIXED, PTM_PKT_PWRX, 7},
	[0xa3] = {FORM_FIXED, PTM_PKT_TNT64, 8},  [0xb2] = {FORM_FIXED, PTM_PKT_PTW, 10},
	[0xb3] = {FORM_FIXED, PTM_PKT_BEP, 2},    [0xc2] = {FORM_FIXED, PTM_PKT_MWAIT, 10},
	[0xc3] = {FORM_FIXED, PTM_PKT_MNT, 11},   [0xc8] = {FORM_FIXED, PTM_PKT_VMCS, 7},
	[0xe2] = {FORM_FIXED, PTM_PKT_EXSTOP, 2}, [0xf3] = {FORM_FIXED, PTM_PKT_OVF, 2},
};

/* Packets that may stand between BBP and BEP; every other one ends the block. */
#define BIT(kind) (UINT64_C(1) << (kind))
static const uint64_t stays_in_block = BIT(PTM_PKT_PAD) | BIT(PTM_PKT_TSC) | BIT(PTM_PKT_TMA) |
				       BIT(PTM_PKT_MTC) | BIT(PTM_PKT_FUP) | BIT(PTM_PKT_CYC) |
				       BIT(PTM_PKT_CBR) | BIT(PTM_PKT_MNT) | BIT(PTM_PKT_EXSTOP) |
				       BIT(PTM_PKT_PWRE) | BIT(PTM_PKT_PWRX) | BIT(PTM_PKT_BIP);

static const uint8_t psb_bytes[PTM_PSB_SIZE] = {0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82,
						0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82};

/* Bits of the payload that replace those of last-IP, by IPBytes (3 is sign-extended, hence all of
 * them). */
static const uint64_t ip_mask[8] = {0, 0xffff,     0xffffffff, UINT64_MAX, 0xffffffffffff,
				    0, UINT64_MAX, 0};

void ptm_lexer_init(struct ptm_lexer *lx, const uint8_t *data, size_t len)
{
	*lx = (struct ptm_lexer){.begin = data, .pos = data, .end = data + len};
}

static ALWAYS_INLINE void lex_ip(struct ptm_lexer *lx, const uint8_t *p, struct ptm_pkt *pkt)
{
	unsigned n = p[0] >> 5;
	uint64_t raw = ptm_load_le64(p + 1);
	uint64_t mask = ip_mask[n];

	if (n == 3)
		raw = (uint64_t)((int64_t)(raw << 16) >> 16);
	pkt->ipbytes = (uint8_t)n;
	if (n == 0)
		return;
	pkt->has_ip = true;
	pkt->ip = (raw & mask) | (lx->last_ip & ~mask);
	lx->last_ip = pkt->ip;
}

/* CYC: five bits in the first byte, seven in each further one; the count must fit into 64 bits. */
static ALWAYS_INLINE int lex_cyc(const uint8_t *p, size_t left, struct ptm_pkt *pkt)
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
static ALWAYS_INLINE int lex(struct ptm_lexer *lx, const uint8_t *p, size_t left,
			     struct ptm_pkt *pkt)
{
	unsigned b = p[0];
	const struct opcode *op = &first_byte[b];

	*pkt = (struct ptm_pkt){.kind = op->kind, .size = op->size};
	if (UNLIKELY(lx->block_item != 0) && (b & 7) == 4)
		return lex_bip(lx, p, left, pkt);
	switch (op->form) {
	case FORM_TNT8:
		/* Payload above bit 0, stop bit above the payload. */
		pkt->n = (uint8_t)(30 - __builtin_clz(b));
		pkt->payload = (b >> 1) ^ (1U << pkt->n);
		return PTM_LEX_OK;
	case FORM_IP:
		if (op->size > left)
			return PTM_LEX_TRUNCATED;
		lex_ip(lx, p, pkt);
		return PTM_LEX_OK;
	case FORM_CYC:
		return lex_cyc(p, left, pkt);
	case FORM_EXT:
		return lex_ext(p, left, pkt);
	case FORM_FIXED:
		return lex_fixed(p, left, pkt);
	default:
		return PTM_LEX_BAD;
	}
}

/* PSB resets last-IP; BBP opens a block, PSB and most other packets close it. */
static ALWAYS_INLINE void update_context(struct ptm_lexer *lx, const struct ptm_pkt *pkt)
{
	if (UNLIKELY(pkt->kind == PTM_PKT_PSB))
		lx->last_ip = 0;
	if (UNLIKELY(pkt->kind == PTM_PKT_BBP))
		lx->block_item = pkt->n;
	else if (UNLIKELY(lx->block_item != 0) && (stays_in_block >> pkt->kind & 1) == 0)
		lx->block_item = 0;
}

static __attribute__((noinline)) int lex_tail(struct ptm_lexer *lx, size_t left,
					      struct ptm_pkt *pkt)
{
	uint8_t copy[PTM_PKT_MAX_SIZE] = {0};

	if (left == 0)
		return PTM_LEX_END;
	memcpy(copy, lx->pos, left);
	return lex(lx, copy, left, pkt);
}

enum ptm_lex_status ptm_lex_next(struct ptm_lexer *lx, struct ptm_pkt *pkt)
{
	size_t left = (size_t)(lx->end - lx->pos);
	int status;

	if (LIKELY(left >= PTM_PKT_MAX_SIZE))
		status = lex(lx, lx->pos, PTM_PKT_MAX_SIZE, pkt);
	else
		status = lex_tail(lx, left, pkt);
	if (LIKELY(status == PTM_LEX_OK)) {
		update_context(lx, pkt);
		lx->pos += pkt->size;
	}
	return (enum ptm_lex_status)status;
}
