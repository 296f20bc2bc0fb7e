/* SPDX-License-Identifier: Apache-2.0
 *
 * encoder.h - writes the Intel PT packets for an executed flow.
 *
 * The caller tells what the program does, in program order; the encoder decides which packets a CPU
 * would have written (SDM vol. 3, ch. Intel PT) and hands the bytes on.  After every instruction or
 * straight run the caller calls ptm_enc_point(): only there may a PSB, an overflow or an interrupt
 * be placed.  It knows nothing of decoding: what it writes has to be judged by others.
 */
#ifndef PTM_RECORD_ENCODER_H
#define PTM_RECORD_ENCODER_H

#include "ptmill/record.h"

/* Bytes of trace, in order.  Returns 0 or -PTM_E_*: the encoder then drops everything that follows.
 */
typedef int (*ptm_enc_write_fn)(void *ctx, const uint8_t *bytes, size_t len);

enum ptm_enc_mark {
	PTM_ENC_PSB, /* a PSB begins at this offset */
	PTM_ENC_GAP, /* what is executed from here on leaves no packets ... */
	PTM_ENC_OVF  /* ... until this overflow packet */
};

/* Something worth noting in the truth happens at @offset of the trace, all earlier packets are
 * written. */
typedef void (*ptm_enc_mark_fn)(void *ctx, enum ptm_enc_mark mark, uint64_t offset);

struct ptm_enc;

/* What a caller may do by itself, without a call of the encoder for each branch. */
struct ptm_enc_quick {
	/* Nothing but a branch can make a packet: as long as this is true no point is needed.
	 * Whatever may change that makes it false; the next point finds out. */
	bool quiet;
	/* A conditional branch while quiet: append its bit (1: taken) if not the max-th. */
	unsigned ntnt, max;
	uint64_t tnt;
	/* The IP of the next point was passed since the last packet, in a loop without any: what is
	 * placed there would bind to the first arrival.  By the caller. */
	bool again;
	/* A packet that names the IP was placed at a point; for the caller to take back. */
	bool placed;
};

/* @config is copied; @mark may be NULL.  NULL when out of memory. */
struct ptm_enc *ptm_enc_create(const struct ptm_record_config *config, ptm_enc_write_fn write,
			       void *write_ctx, ptm_enc_mark_fn mark, void *mark_ctx);
void ptm_enc_destroy(struct ptm_enc *enc);

/* Borrowed from @enc. */
struct ptm_enc_quick *ptm_enc_quick(struct ptm_enc *enc);

/* The first PSB+, packets off, @cycles core cycles after time began. */
void ptm_enc_start(struct ptm_enc *enc, uint64_t cycles);

/* Core cycles since time began. */
uint64_t ptm_enc_cycles(const struct ptm_enc *enc);

/* Packets go on at @ip, in code of @bits 64, 32 or 16: MODE.Exec if the decoder cannot know,
 * TIP.PGE. */
void ptm_enc_on(struct ptm_enc *enc, uint64_t ip, unsigned bits);

/* Branches; each has retired. */
void ptm_enc_cond(struct ptm_enc *enc, bool taken);
void ptm_enc_call(struct ptm_enc *enc, uint64_t return_ip, uint64_t target); /* direct near call */
void ptm_enc_call_indirect(struct ptm_enc *enc, uint64_t return_ip, uint64_t target); /* near */
void ptm_enc_ret(struct ptm_enc *enc, uint64_t target);                               /* near */
void ptm_enc_indirect(struct ptm_enc *enc,
		      uint64_t target); /* indirect jump, far transfer that stays traced */

/* The PTWRITE at @ip has retired; its operand of @bytes, 4 or 8, is @value. */
void ptm_enc_ptwrite(struct ptm_enc *enc, uint64_t ip, uint64_t value, unsigned bytes);

/* A branch leaves the traced context: TIP.PGD without an IP (a far transfer), or with one. */
void ptm_enc_off(struct ptm_enc *enc);
void ptm_enc_off_to(struct ptm_enc *enc, uint64_t ip);

/* An interrupt or fault before the instruction at @from: FUP, then TIP.PGD or TIP. */
void ptm_enc_async_off(struct ptm_enc *enc, uint64_t from);
void ptm_enc_async(struct ptm_enc *enc, uint64_t from, uint64_t to);

/* @n instructions have retired since the last point, all their branches are told; the next one is
 * at @ip. */
void ptm_enc_point(struct ptm_enc *enc, uint64_t ip, uint64_t n);

/* So many instructions may retire without a branch before something may have to be placed among
 * them: with fewer, one point behind them is as good as one behind each. */
uint64_t ptm_enc_slack(const struct ptm_enc *enc);

/* Time passes outside the traced code, in core cycles. */
void ptm_enc_pass(struct ptm_enc *enc, uint64_t cycles);

/* True inside an overflow: what is executed now leaves no packets. */
bool ptm_enc_is_lost(const struct ptm_enc *enc);

/* Write out what waits.  Returns 0 or the first error of the write function. */
int ptm_enc_finish(struct ptm_enc *enc);

/* Bytes so far, including those not yet handed on. */
uint64_t ptm_enc_offset(const struct ptm_enc *enc);

#endif
