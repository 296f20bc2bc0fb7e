/* SPDX-License-Identifier: Apache-2.0
 *
 * record.h - the recorder: runs a program and writes the Intel PT packets that a CPU would have
 * written for it (user-only tracing), together with the truth about what was executed.
 */
#ifndef PTMILL_RECORD_H
#define PTMILL_RECORD_H

#include "err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ptm_record_backend {
	PTM_RECORD_AUTO = 0, /* the best one that works here */
	PTM_RECORD_STEP = 1, /* single-steps the program by ptrace: slow, needs nothing */
	PTM_RECORD_QEMU = 2, /* runs it under qemu-user, with a plugin of ours */
	PTM_RECORD_PERF = 3  /* `perf record`, on a CPU with Intel PT: first thread only, no truth;
				what shapes packets is not heeded */
};

/* When a near return is one TNT bit instead of a TIP. */
enum ptm_record_ret_comp {
	PTM_RET_COMP_ON = 0, /* where the SDM's and libipt's model of the return stack agree */
	PTM_RET_COMP_SDM =
		1, /* wherever the SDM allows it: decoders that pop differently go wrong */
	PTM_RET_COMP_OFF = 2 /* never (DisRETC) */
};

enum ptm_record_timing {
	PTM_TIMING_NONE = 0,
	PTM_TIMING_TSC = 1, /* TSC in PSB+ and after overflows */
	PTM_TIMING_MTC = 2, /* and TMA, MTC */
	PTM_TIMING_CYC = 3  /* and CYC */
};

/* What happens to an indirect branch while TNT bits wait for their packet to fill. */
enum ptm_record_tips {
	PTM_TIPS_FLUSH = 0, /* a partial TNT, then the TIP */
	PTM_TIPS_DEFER = 1, /* the TIP waits behind the TNT */
	PTM_TIPS_MIXED = 2  /* one or the other, by the seed */
};

/* What becomes of a PTWRITE; only the single-stepper and perf know the instruction. */
enum ptm_record_ptwrite {
	PTM_PTWRITE_OFF = 0, /* the CPU's own affair: it may do nothing, or raise SIGILL */
	PTM_PTWRITE_ON = 1,  /* it is executed on any CPU: a PTW packet */
	PTM_PTWRITE_FUP = 2  /* and a FUP with its address (FUPonPTW) */
};

/* What to record, and how.  Initialise with ptm_record_config_init(), then change what differs. */
struct ptm_record_config {
	size_t size; /* sizeof(struct ptm_record_config) */
	enum ptm_record_backend backend;
	enum ptm_record_ret_comp ret_comp;
	enum ptm_record_timing timing;
	enum ptm_record_tips tips;
	bool tnt64;                /* long TNT packets, too */
	uint8_t mtc_freq;          /* an MTC each 2^mtc_freq crystal ticks, at most 15 */
	uint64_t psb_period;       /* a PSB about every so many bytes of trace, at least 64 */
	uint64_t ovf_period;       /* an overflow about every so many bytes; 0: none */
	uint64_t irq_period;       /* an interrupt about every so many instructions; 0: none */
	uint64_t max_instructions; /* stop recording a thread after so many, let the program run on;
				      0: no limit */
	uint64_t seed;             /* of every choice above */
	bool compress;             /* the trace by zstd */
	/* A handler may store a signal number here: it is passed on to the program, once.  Borrowed
	 * while recording, may be NULL. */
	const volatile int *pass_on;
	/* Called for each thing worth a warning: one line, no newline.  May be NULL. */
	void (*warn)(void *ctx, const char *line);
	void *warn_ctx;
	enum ptm_record_ptwrite ptwrite;
};

/* Clocks of the recorded CPU, for decoders: TSC ticks are crystal ticks times EBX / EAX. */
#define PTM_RECORD_CPUID_15_EAX 2
#define PTM_RECORD_CPUID_15_EBX 200
#define PTM_RECORD_NOM_FREQ     24 /* bus ratio of the TSC: 2.4 GHz */

/* What was recorded. */
struct ptm_record_result {
	size_t size;           /* set by the caller */
	uint64_t instructions; /* that the trace shows */
	uint64_t digest;       /* of the first thread's */
	uint64_t trace_bytes;
	uint64_t psbs;
	uint64_t gaps; /* overflows */
	uint64_t lost; /* instructions inside the gaps */
	double seconds;
	int exit_code;                   /* the program's, or 128 + the signal that ended it */
	enum ptm_record_backend backend; /* that was used */
	uint64_t replaced;  /* how often code was replaced that had been executed: a capture keeps
			       one state of it */
	uint64_t ambiguous; /* how often packets went off where the program had come by since the
			       last packet: nobody can tell how often it did */
};

/* Defaults: the best back end, return compression, no timing, a PSB every 128 KiB, MTC each 2^3
 * ticks, seed 1. */
PTM_API void ptm_record_config_init(struct ptm_record_config *config);

/* Run @argv (found by PATH) to its end and write the capture directory @out_dir, which must not
 * exist.  It is made beside its final place and renamed when complete: on failure nothing is left.
 * The process is called 1 in it, its threads 1, 2, 3, so that the same program gives the same
 * capture. The program shares our standard streams and environment; its exit code is in @result,
 * which may be NULL.
 *
 * Threads: one recording at a time in a process that waits for no other children meanwhile.
 *
 * Returns 0, or -PTM_E_*:
 *   -PTM_E_USAGE    the configuration makes no sense, or @out_dir exists
 *   -PTM_E_NOINPUT  the program, or the back end, is missing or cannot be executed
 *   -PTM_E_SYSTEM   ptrace was refused, or the program does what the back end cannot follow (an
 *                   exec; threads, single-stepped)
 *   -PTM_E_IO, -PTM_E_NOSPACE  writing the capture failed */
PTM_API int ptm_record(const struct ptm_record_config *config, char *const argv[],
		       const char *out_dir, struct ptm_record_result *result,
		       struct ptm_error *err);

#ifdef __cplusplus
}
#endif
#endif
