/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
 *
 * shared.h - the memory that the plugin inside QEMU and the recorder share.
 *
 * Each thread of the program has a ring of words: the numbers of the blocks it is about to execute,
 * and between them control records of PTM_QEMU_CONTROL words that begin with a 0.  All threads
 * share the log, a ring of bytes: what the numbers mean (the code of each block, once), and which
 * files hold the code.  A block is in the log before its number is in a ring.
 *
 * The memory outlives the program: whatever ends it, what it executed up to there can be read.
 */
#ifndef PTM_RECORD_QEMU_SHARED_H
#define PTM_RECORD_QEMU_SHARED_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#define PTM_QEMU_MAGIC   UINT32_C(0x50544d01) /* the last byte is the version of all this */
#define PTM_QEMU_WORDS   (1U << 16)           /* a ring; fits the second-level cache */
#define PTM_QEMU_CHUNK   (1U << 12)           /* words that are published at once */
#define PTM_QEMU_RINGS   1024                 /* threads that live at the same time */
#define PTM_QEMU_LOG     (1U << 24)           /* bytes */
#define PTM_QEMU_CONTROL 8                    /* words */

enum ptm_qemu_ring_state {
	PTM_QEMU_FREE = 0,
	PTM_QEMU_LIVE = 1, /* by the plugin */
	PTM_QEMU_ENDED = 2 /* by the plugin: published is final; the recorder makes it FREE */
};

/* Second word of a control record; then three numbers, low word first. */
enum ptm_qemu_control {
	PTM_QEMU_SYSCALL = 1, /* number: the last block's SYSCALL was executed */
	/* The next block is a signal handler's first.  Address of the signal frame, interrupted IP,
	 * signal | 1 << 32 if the kernel reports a fault of the program.  Several in a row: the
	 * first handler interrupted the second one before its first instruction, and so on. */
	PTM_QEMU_SIGNAL = 2
};

struct ptm_qemu_ring {
	/* The thread's own; read by the recorder when the program is gone.  Addresses in QEMU. */
	uint32_t *next, *end; /* of the current chunk */
	uint32_t *base;       /* where words[] begins */
	uint32_t number;      /* of the thread, from 1 in the order of their first blocks */
	_Atomic uint32_t state;
	/* Words so far, in whole chunks but for the last; by the plugin, release. */
	alignas(64) _Atomic uint64_t published;
	/* By the recorder, release. */
	alignas(64) _Atomic uint64_t taken;
	alignas(64) uint32_t words[PTM_QEMU_WORDS];
};

enum ptm_qemu_log_kind {
	PTM_QEMU_LOG_SKIP = 0, /* up to the end of the ring */
	PTM_QEMU_LOG_BLOCK = 1,
	PTM_QEMU_LOG_MAP = 2,
	PTM_QEMU_LOG_FAILED = 3 /* text: why nothing more will come */
};

/* Log records begin at multiples of 8. */
struct ptm_qemu_log_head {
	uint32_t size; /* with the head and what fills up to a multiple of 8 */
	uint32_t kind;
};

/* n lengths of one byte each follow, then the code: len bytes. */
struct ptm_qemu_block {
	struct ptm_qemu_log_head head;
	uint64_t address;
	uint32_t id; /* 1, 2, 3 ... */
	uint16_t n, len;
};

/* The path follows, with its 0. */
struct ptm_qemu_map {
	struct ptm_qemu_log_head head;
	uint64_t begin, end, offset;
};

struct ptm_qemu_shared {
	uint32_t magic;
	_Atomic uint32_t started; /* the plugin is there */
	_Atomic uint32_t over;    /* by the recorder: nobody listens any more */
	_Atomic uint32_t threads; /* so far */
	/* Bytes so far; written by the plugin under its lock, release. */
	alignas(64) _Atomic uint64_t log_head;
	/* By the recorder, release. */
	alignas(64) _Atomic uint64_t log_tail;
	alignas(64) uint8_t log[PTM_QEMU_LOG];
	struct ptm_qemu_ring rings[PTM_QEMU_RINGS];
};

#endif
