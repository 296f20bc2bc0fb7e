/* SPDX-License-Identifier: Apache-2.0
 *
 * frame.h - PSB frames: what a PSB+ says about the flow, what a frame's packets are.
 *
 * A frame runs from one PSB to the next (or to the end of the data).  Engines decode a segment
 * frame by frame, each from a cold state: "a decoder that runs through an in-stream PSB must behave
 * as if it had been split there".
 */
#ifndef PTM_FLOW_FRAME_H
#define PTM_FLOW_FRAME_H

#include "flow/engine.h"
#include "flow/errata.h"
#include "fmt/pt_packet.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* No more than this many bytes from a PSB on are looked at to judge its PSB+, wherever it lies: so
 * the judgement is the same from inside a segment and from its look-ahead.  A PSB+ has some 60
 * bytes; the rest is for time packets between PSBEND and the first flow packet. */
#define PTM_PSBPLUS_LOOK 4096u

/* Longest frame that is decoded: twice the longest PSB period that IA32_RTIT_CTL.PSBFreq can ask
 * for (64 MiB). */
#define PTM_FRAME_MAX (UINT64_C(128) << 20)

/* An OVF counts as standing before a PSB if no more than this many bytes of PAD and time packets
 * lie between: hardware sends the PSB at once, and a cut has to be judged by its neighbourhood. */
#define PTM_OVF_LOOK 4096u

/* What a PSB+ says (SDM vol. 3, ch. Intel PT, "PSB"). */
struct ptm_psbplus {
	size_t end;     /* bytes up to and with PSBEND; 0: PSB+ is broken or cut off */
	bool no_psbend; /* a packet of the flow stands at `end`, PSBEND is missing before it */
	bool on;        /* packets are enabled and the flow stands at ip */
	bool fup_first; /* the first flow packet behind PSBEND is a FUP: an overflow's resume IP */
	bool has_mode;  /* it has a MODE.Exec */
	uint64_t ip;
	bool has_tsc;
	uint64_t tsc;
};

/* Judge the PSB+ at @data, which starts at a PSB.  A FUP in it does not prove that packets are
 * enabled (erratum BDM70 of most big cores): it is ignored if PSBEND is followed, over status and
 * time packets only, by TIP.PGE.  @errata of the CPU; NULL: none. */
struct ptm_psbplus ptm_psbplus_judge(const uint8_t *data, size_t len,
				     const struct ptm_errata *errata);

/* One frame of a segment. */
struct ptm_frame {
	const uint8_t *data;
	size_t len;
	uint64_t offset;                 /* in the stream */
	const struct ptm_errata *errata; /* of the CPU; NULL: none */
	const struct ptm_psbplus *next;  /* NULL: the stream ends here */
	uint64_t next_offset;
	bool ovf_pending; /* an OVF stands directly before this PSB */
	const struct ptm_assume_sync
		*assume; /* there is no PSB: this is assumed instead; else NULL */
};

/* A lexer at the first packet of the frame, over its first @len bytes. */
void ptm_frame_lexer(const struct ptm_frame *frame, size_t len, struct ptm_lexer *lx);

/* What the frame's own PSB+ says, or what is assumed. */
struct ptm_psbplus ptm_frame_psbplus(const struct ptm_frame *frame);

/* What its packets are. */
struct ptm_frame_scan {
	size_t good;                /* bytes of whole, known packets */
	enum ptm_lex_status status; /* what follows them: END, BAD or TRUNCATED */
	bool has_ovf;               /* there is an OVF */
	size_t ovf_at;              /* offset of the last one */
	bool ovf_last; /* it is the last packet, PAD and time skipped, and whole (not SKD007) */
};

/* Lex a frame and count its packets in @tally (packets, TNT bits, frame length; not the byte
 * classes). */
struct ptm_frame_scan ptm_frame_scan(const struct ptm_frame *frame, struct ptm_tally *tally);

/* Account for the bytes of a frame: those before @decoded by packet, the others as skipped. */
void ptm_frame_account(const struct ptm_frame *frame, size_t decoded, struct ptm_tally *tally);

/* True if the packets in data[0..len), which starts at a PSB, end in an OVF, PAD and time skipped
 * (up to PTM_OVF_LOOK bytes). */
bool ptm_frame_ends_in_ovf(const uint8_t *data, size_t len);

/* Are only PAD and time left of what @lx has before it, whole? */
bool ptm_frame_rest_is_time(const struct ptm_frame *frame, const struct ptm_lexer *lx);

/* Decodes one frame.  Stores whether an OVF is its last packet (as ptm_frame_scan() sees it). */
typedef int (*ptm_frame_fn)(void *ctx, const struct ptm_frame *frame, bool *ovf_last,
			    struct ptm_emit *emit, struct ptm_error *err);

/* Walk the frames of a segment in order; head, skipped and missing sync are emitted and accounted
 * for here. */
int ptm_frames_walk(const struct ptm_segment *seg, ptm_frame_fn fn, void *ctx,
		    struct ptm_emit *emit, struct ptm_error *err);

#endif
