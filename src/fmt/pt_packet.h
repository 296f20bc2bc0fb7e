/* SPDX-License-Identifier: Apache-2.0
 *
 * pt_packet.h - the packets of Intel Processor Trace (SDM vol. 3, ch. Intel PT, "Trace Packets and
 * Data Types").
 *
 * A lexer walks a buffer that starts on a packet boundary (normally at a PSB) and yields one packet
 * at a time. It allocates nothing, never reads past the end, and keeps the two pieces of state that
 * the meaning of a packet depends on: last-IP (for the compressed addresses of TIP, TIP.PGE,
 * TIP.PGD, FUP) and whether we are inside a BBP..BEP block (where a BIP has the encoding of a short
 * TNT).  Offsets are bytes from the start of the buffer.
 */
#ifndef PTM_FMT_PT_PACKET_H
#define PTM_FMT_PT_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ptm_pkt_kind {
	PTM_PKT_PAD,
	PTM_PKT_PSB,
	PTM_PKT_PSBEND,
	PTM_PKT_TNT8,
	PTM_PKT_TNT64,
	PTM_PKT_TIP,
	PTM_PKT_TIP_PGE,
	PTM_PKT_TIP_PGD,
	PTM_PKT_FUP,
	PTM_PKT_MODE_EXEC,
	PTM_PKT_MODE_TSX,
	PTM_PKT_PIP,
	PTM_PKT_VMCS,
	PTM_PKT_TSC,
	PTM_PKT_TMA,
	PTM_PKT_MTC,
	PTM_PKT_CYC,
	PTM_PKT_CBR,
	PTM_PKT_OVF,
	PTM_PKT_STOP, /* TraceStop */
	PTM_PKT_MNT,
	PTM_PKT_PTW,
	PTM_PKT_EXSTOP,
	PTM_PKT_MWAIT,
	PTM_PKT_PWRE,
	PTM_PKT_PWRX,
	PTM_PKT_BBP,
	PTM_PKT_BIP,
	PTM_PKT_BEP,
	PTM_PKT_CFE,
	PTM_PKT_EVD,
	PTM_PKT_TRIG,
	PTM_PKT_KINDS
};

#define PTM_PSB_SIZE     16
#define PTM_PKT_MAX_SIZE 16

/* One packet.  Fields that its kind does not have are zero. */
struct ptm_pkt {
	uint8_t kind; /* enum ptm_pkt_kind */
	uint8_t size; /* bytes */

	/* TIP, TIP.PGE, TIP.PGD, FUP: the IPBytes field, and whether `ip` holds an address (IPBytes
	 * not 0). */
	uint8_t ipbytes;
	bool has_ip;

	/* PTW, EXSTOP, BEP, CFE, TRIG: a FUP with the causing IP follows. */
	bool fup_follows;

	/* TNT: the number of bits (1 to 6, 1 to 47).  PTW: payload bytes (4, 8).  BBP: item bytes
	 * (4, 8). BIP: payload bytes (4, 8). */
	uint8_t n;

	/* MODE.Exec: raw low bits (0 CS.L, 1 CS.D, 2 IF).  MODE.TSX: raw (0 InTX, 1 TXAbort).  BBP,
	 * CFE, EVD: type. BIP: id.  PWRX: last core C-state | deepest << 4.  PWRE: resolved state
	 * << 4 | sub-state. MWAIT: the EXT byte(s).  PIP: NR.  TRIG: the raw second byte. */
	uint8_t type;

	/* CFE: vector.  PWRX: wake reason.  PWRE: hardware-initiated.  TMA: fast counter (9 bits).
	 * TRIG: the instruction count, where it has one. */
	uint16_t aux;

	/* Linear address of TIP, TIP.PGE, TIP.PGD, FUP after last-IP expansion. */
	uint64_t ip;

	/* TNT: the bits, oldest at bit n-1, newest at bit 0.  TSC: 56 bits.  TMA: CTC (16 bits).
	 * MTC: 8 bits. CYC: cycles.  CBR: core:bus ratio.  PIP: CR3.  VMCS: base address.  PTW,
	 * MNT, EVD, BIP: payload. MWAIT: hints.  TRIG: trigger bit vector. */
	uint64_t payload;
};

struct ptm_lexer {
	const uint8_t *begin;
	const uint8_t *pos;
	const uint8_t *end;
	uint64_t last_ip;
	uint8_t block_item; /* inside a BBP block: item bytes (4, 8); 0 outside */
};

/* Reasons for which the lexer stops. */
enum ptm_lex_status {
	PTM_LEX_BAD = -2,       /* the bytes at pos are no packet */
	PTM_LEX_TRUNCATED = -1, /* the data ends inside the packet at pos */
	PTM_LEX_END = 0,        /* pos == end */
	PTM_LEX_OK = 1
};

/* Start at @data; last-IP is 0, as after a PSB.  The buffer is borrowed for as long as the lexer is
 * used. */
void ptm_lexer_init(struct ptm_lexer *lx, const uint8_t *data, size_t len);

/* The next packet.  On anything but PTM_LEX_OK neither pos nor the state moves. */
enum ptm_lex_status ptm_lex_next(struct ptm_lexer *lx, struct ptm_pkt *pkt);

/* Name of a packet kind in the field's terms ("tnt.8", "tip.pge"), static storage. */
const char *ptm_pkt_name(unsigned kind);

/* One line for `ptmill dump`, without offset and newline: name, padding, payload.  Returns the
 * length written, at most size - 1; 128 bytes are always enough. */
size_t ptm_pkt_format(const struct ptm_pkt *pkt, char *buf, size_t size);

/* PAD and the packets that carry only time or frequency: TSC, TMA, MTC, CYC, CBR. */
static inline bool ptm_pkt_is_time(unsigned kind)
{
	return kind == PTM_PKT_TSC || kind == PTM_PKT_TMA || kind == PTM_PKT_MTC ||
	       kind == PTM_PKT_CYC || kind == PTM_PKT_CBR;
}

/* Find the first PSB in data[from..len): the last 16 bytes of a run of 02 82 (a PSB may follow a
 * packet that ends in these bytes).  A run that touches the end of the buffer counts unless @more
 * says that data follows (then its true end is not known yet).  Returns the offset of the PSB, or
 * @len when there is none. */
size_t ptm_psb_find(const uint8_t *data, size_t len, size_t from, bool more);

#endif
