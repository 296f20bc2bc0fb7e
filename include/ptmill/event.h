/* SPDX-License-Identifier: Apache-2.0
 *
 * event.h - what happens between instructions: events of the traced program and gaps in the trace.
 */
#ifndef PTMILL_EVENT_H
#define PTMILL_EVENT_H

#include "err.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of events, in the terms of SDM vol. 3, ch. Intel PT.  Values are stable once released. */
enum ptm_event_kind {
	PTM_EV_ENABLED = 0,        /* ip: first traced instruction */
	PTM_EV_RESUMED = 1,        /* as ENABLED, at the IP at which tracing was disabled */
	PTM_EV_DISABLED = 2,       /* to: where the branch went, if known */
	PTM_EV_ASYNC_DISABLED = 3, /* ip: interrupted at; to: as DISABLED */
	PTM_EV_ASYNC_BRANCH = 4,   /* ip: from; to */
	PTM_EV_PAGING = 5,         /* value: CR3; arg: 1 in VMX non-root mode */
	PTM_EV_ASYNC_PAGING = 6,   /* as PAGING, at ip */
	PTM_EV_OVERFLOW =
		7, /* packets lost by the hardware; ip: where tracing resumes, if it was enabled */
	PTM_EV_EXEC_MODE = 8,   /* arg: bits of the code that follows (16, 32, 64), at ip */
	PTM_EV_TSX = 9,         /* arg: bit 0 in transaction, bit 1 aborted; at ip */
	PTM_EV_STOP = 10,       /* TraceStop */
	PTM_EV_VMCS = 11,       /* value: VMCS base */
	PTM_EV_ASYNC_VMCS = 12, /* as VMCS, at ip */
	PTM_EV_EXSTOP = 13,     /* execution stopped, at ip */
	PTM_EV_MWAIT = 14,      /* value: hints | extensions << 32; at ip */
	PTM_EV_PWRE = 15,       /* value: state | sub-state << 8 | initiated by hardware << 16 */
	PTM_EV_PWRX = 16,       /* value: last | deepest << 8 | wake reasons << 16 */
	PTM_EV_PTWRITE = 17,    /* value: payload; arg: payload bytes; ip: of the PTWRITE */
	PTM_EV_CBR = 18,        /* arg: core:bus ratio */
	PTM_EV_MNT = 19,        /* value: payload */
	PTM_EV_CFE = 20, /* Event Trace, control flow event: arg: type; value: vector; at ip */
	PTM_EV_EVD = 21, /* Event Trace, data of the CFE that follows: arg: type; value: payload */
	PTM_EV_BLOCK_BEGIN = 22, /* BBP, PEBS via PT: arg: type; value: bytes of an item (4, 8) */
	PTM_EV_BLOCK_ITEM = 23,  /* BIP: arg: id; value: payload */
	PTM_EV_BLOCK_END = 24,   /* BEP; at ip */
	PTM_EV_TRIGGER = 25, /* TRIG: arg: its second byte; value: bit vector | instructions << 8;
				at ip */
	PTM_EV_IFLAG = 26,   /* Event Trace: arg: RFLAGS.IF from ip on */
	PTM_EV_TARGET = 27,  /* a branch led to ip: only of a trace without TNT packets, where no
				instructions can be told */
	PTM_EV_GAP = 32 /* part of the trace could not be decoded: arg is an enum ptm_gap, value the
			 * number of trace bytes skipped, offset where they begin, ip where the flow
			 * stood (if known) */
};

/* Why a part of the trace could not be decoded.  Values are stable once released. */
enum ptm_gap {
	PTM_GAP_BAD_PACKET = 0,  /* bytes that are no packet */
	PTM_GAP_TRUNCATED = 1,   /* a packet cut off by a PSB or by the end of the data */
	PTM_GAP_UNSUPPORTED = 2, /* a packet that this engine does not know */
	PTM_GAP_NO_IMAGE = 3,    /* no image covers the IP */
	PTM_GAP_BAD_INSN = 4,    /* the image holds no instruction at the IP */
	PTM_GAP_MISMATCH = 5,    /* packets and code do not fit together */
	PTM_GAP_RETCOMP = 6,     /* a compressed return without a call to return to */
	PTM_GAP_SEAM = 7,        /* the flow does not arrive at the IP that the next PSB+ states */
	PTM_GAP_RUNAWAY = 8,     /* code without a branch goes on and on: a wrong image */
	PTM_GAP_TOO_LONG = 9,    /* more bytes without a PSB than a frame can have */
	PTM_GAP_NO_SYNC = 10,    /* the stream has no PSB at all */
	PTM_GAP_CONFIG = 11,     /* the engine refused the configuration or the PSB+ */
	PTM_GAP_KINDS = 12
};

/* Flags of struct ptm_event. */
enum { PTM_EVF_HAS_IP = 1, PTM_EVF_HAS_TO = 2, PTM_EVF_HAS_TSC = 4 };

struct ptm_event {
	uint8_t kind;    /* enum ptm_event_kind */
	uint8_t flags;   /* PTM_EVF_* */
	uint16_t arg;    /* see the kind */
	uint32_t step;   /* in a batch: the event precedes this step */
	uint64_t offset; /* bytes from the start of the stream, near the packet; exact for GAP */
	uint64_t ip;     /* if HAS_IP */
	uint64_t to;     /* if HAS_TO */
	uint64_t value;  /* see the kind */
	uint64_t tsc;    /* TSC units, if HAS_TSC */
};

/* Where a byte of the input ended; the classes of a stream add up to its size.  Values are stable.
 */
enum ptm_byte_class {
	PTM_BYTES_DECODED = 0,
	PTM_BYTES_HEAD = 1, /* before the first PSB */
	PTM_BYTES_PADDING = 2,
	PTM_BYTES_OVERFLOW = 3, /* OVF packets: they stand for what the hardware lost */
	PTM_BYTES_LOST = 4,     /* lost to the kernel */
	PTM_BYTES_SKIPPED = 5,  /* after an error, up to the next point of synchronisation */
	PTM_BYTES_CLASSES = 6
};

/* Names in the field's terms ("async branch", "no image", "decoded"), static storage. */
PTM_API const char *ptm_event_name(unsigned kind);
PTM_API const char *ptm_gap_name(unsigned gap);
PTM_API const char *ptm_byte_class_name(unsigned byte_class);

/* Format an event as `[name key=value ...]`, without a newline; at most size - 1 characters.
 * Returns the length; 256 bytes are always enough.  Thread-safe. */
PTM_API unsigned ptm_event_format(const struct ptm_event *ev, char *buf, unsigned size);

#ifdef __cplusplus
}
#endif
#endif
