/* SPDX-License-Identifier: Apache-2.0
 *
 * session.h - one run over recorded traces: inputs, images, options, and a sink that receives the
 * result.
 */
#ifndef PTMILL_SESSION_H
#define PTMILL_SESSION_H

#include "err.h"
#include "event.h"
#include "topo.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The CPU on which a trace was recorded: it selects errata. */
struct ptm_cpu {
	bool known; /* false: no errata but those that are applied to every CPU */
	uint16_t family;
	uint8_t model;
	uint8_t stepping;
};

/* What the recording machine's clocks were; zero where not known. */
struct ptm_timing {
	uint8_t mtc_freq;        /* IA32_RTIT_CTL.MTCFreq */
	uint8_t nom_freq;        /* max non-turbo ratio, MSR_PLATFORM_INFO[15:8] */
	uint32_t cpuid_0x15_eax; /* TSC / crystal ratio: denominator */
	uint32_t cpuid_0x15_ebx; /* and numerator */
};

/* How a stream begins, told by the user: bytes before the first PSB are decoded from here. */
struct ptm_assume_sync {
	bool given;
	bool enabled; /* packets are enabled, and the flow stands at ip */
	uint8_t bits; /* of the code there: 16, 32 or 64 */
	uint64_t ip;
};

/* The decoder of the flow. */
enum ptm_engine_kind {
	PTM_ENGINE_FAST = 0,  /* ours */
	PTM_ENGINE_LIBIPT = 1 /* the reference */
};

/* Where decoding goes on after packets and code were found not to fit together. */
enum ptm_resync {
	PTM_RESYNC_IP = 0, /* at the next packet of the same PSB frame that states a sure IP; what
			      is decoded so is marked, and has a count and a digest of its own.
			      Engine libipt has PSB only. */
	PTM_RESYNC_PSB = 1 /* at the next PSB */
};

#define PTM_SEGMENT_SIZE_DEFAULT (256u << 10)
#define PTM_SEGMENT_SIZE_MIN     64u
#define PTM_SEGMENT_SIZE_MAX     (1u << 30)

/* Bytes of decoded code that all workers share. */
#define PTM_CACHE_LIMIT_DEFAULT (UINT64_C(128) << 20)
#define PTM_CACHE_LIMIT_MIN     (UINT64_C(4) << 20)

/* Decoded code, for sessions that follow one another: what the first one found out is there for the
 * next, also of another recording, if the same files are mapped at the same places.  Opaque. */
struct ptm_cache;

/* @limit: bytes, at least PTM_CACHE_LIMIT_MIN; 0: PTM_CACHE_LIMIT_DEFAULT.  NULL and @err on
 * failure. */
PTM_API struct ptm_cache *ptm_cache_create(uint64_t limit, struct ptm_error *err);
/* No session that uses it is running.  Accepts NULL. */
PTM_API void ptm_cache_destroy(struct ptm_cache *cache);

/* Zero-initialise, then set `size`; zero selects the default of every field. */
struct ptm_config {
	size_t size;      /* sizeof(struct ptm_config) */
	unsigned threads; /* workers; 0: one a core that we may use */
	enum ptm_bind bind;
	enum ptm_engine_kind engine;
	enum ptm_resync resync;
	uint64_t cache_limit;    /* bytes, at least PTM_CACHE_LIMIT_MIN; 0: the default */
	struct ptm_cache *cache; /* borrowed while the session runs, instead of one of that many
				    bytes of its own; NULL: its own */
	struct ptm_cpu cpu;
	struct ptm_timing timing;
	struct ptm_assume_sync assume; /* for the begin of every stream */
	uint64_t segment_size; /* bytes of trace a worker takes at a time; 0: what suits the sink */
	uint64_t test_delay_seed; /* tests only: workers sleep at random around each segment */
};

/* Opaque. */
struct ptm_session;
struct ptm_sink;

/* Copies @config.  Destroy with ptm_session_destroy().  NULL and @err on failure. */
PTM_API struct ptm_session *ptm_session_create(const struct ptm_config *config,
					       struct ptm_error *err);
PTM_API void ptm_session_destroy(struct ptm_session *session);

/* Add an input: a raw trace (also zstd-compressed, "-" is standard input), or a perf.data file,
 * whose AUX buffers become one stream each.  Returns 0 or -PTM_E_*. */
PTM_API int ptm_session_add_input(struct ptm_session *session, const char *path,
				  struct ptm_error *err);

/* Add images, as --elf FILE[:BASE], --raw FILE[:FROM[-TO]]:BASE and --maps FILE spell them; numbers
 * take 0x. */
PTM_API int ptm_session_add_elf(struct ptm_session *session, const char *spec,
				struct ptm_error *err);
PTM_API int ptm_session_add_raw(struct ptm_session *session, const char *spec,
				struct ptm_error *err);
/* Files named in @path are looked up below @sysroot (NULL: /). */
PTM_API int ptm_session_add_maps(struct ptm_session *session, const char *path, const char *sysroot,
				 struct ptm_error *err);

/* What a finished or failed run was. */
struct ptm_run_stats {
	unsigned workers;
	unsigned pinned;   /* workers that were bound to their core */
	uint64_t segments; /* jobs, empty ones included */
	uint64_t bytes;    /* of trace */
	uint64_t insns;    /* without those below */
	uint64_t resynced; /* decoded behind an error, inside a PSB frame (PTM_RESYNC_IP) */
	uint64_t gaps;
	uint64_t no_image;      /* of the gaps: no image covers the address */
	uint64_t unsynced;      /* streams without a PSB, so that nothing of them is decoded; but
				   for empty ones of an input that has many */
	uint64_t overflows;     /* packets lost by the hardware: how many times */
	double seconds;         /* wall */
	double cpu_seconds;     /* of the process, during the run; of these: */
	double prepare_seconds; /* before the workers start: images */
	double claim_seconds;   /* of the workers, dealing out the trace one at a time */
	double load_seconds;    /* of the workers, reading it */
	double decode_seconds;  /* of the workers, decoding, and in the sink */
	double deliver_seconds; /* of the thread that delivers in order */
	double check_seconds; /* of the same, comparing digests of files beside the workers, before
				 it delivers anything */
};

/* Called by the delivering thread about five times a second: bytes of trace done, bytes in all (0:
 * not known). */
typedef void (*ptm_progress_fn)(void *ctx, uint64_t done, uint64_t total, double seconds);

/* Called for each thing worth a warning (an unknown CPU, missing images): one line, no newline. */
typedef void (*ptm_warn_fn)(void *ctx, const char *line);

struct ptm_run_options {
	size_t size; /* sizeof(struct ptm_run_options) */
	ptm_progress_fn progress;
	ptm_warn_fn warn;
	void *ctx; /* of both */
};

/* Is @path the same file as one that the session reads: a trace, an image, a description, a --maps
 * file?  For programs that are about to write to it. */
PTM_API bool ptm_session_reads(const struct ptm_session *session, const char *path);

/* Decode every input and give the result to @sink, in order.  A session runs once.  The sink is not
 * finished here: call ptm_sink_finish() on success, ptm_sink_destroy() in any case.
 *
 * Threads: the caller's thread delivers; workers are started and joined inside.  Output is the same
 * for any number.
 *
 * Returns 0, or -PTM_E_*: damage in a trace is not an error, but counted in @stats->gaps. */
PTM_API int ptm_session_run(struct ptm_session *session, struct ptm_sink *sink,
			    const struct ptm_run_options *options, struct ptm_run_stats *stats,
			    struct ptm_error *err);

/* Stop a running session soon; it returns -PTM_E_CANCELED.  May be called from any thread, also
 * before the run. */
PTM_API void ptm_session_cancel(struct ptm_session *session);

/* For reports: the plan of workers, the streams, the images.  Borrowed from the session. */
PTM_API const struct ptm_plan *ptm_session_plan(const struct ptm_session *session);

struct ptm_stream_info {
	const char *name;  /* as in the digest's lines */
	const char *path;  /* file it comes from */
	const char *truth; /* file of what was executed, NULL if a capture does not name one */
	uint64_t bytes;    /* 0: not known in advance */
	bool seekable;     /* a regular, uncompressed file */
};
PTM_API size_t ptm_session_streams(const struct ptm_session *session);
PTM_API struct ptm_stream_info ptm_session_stream(const struct ptm_session *session, size_t i);

struct ptm_image_info {
	uint64_t begin, end; /* end exclusive */
	uint64_t file_offset;
	const char *path;
	const char *build_id; /* hex, "" if none */
	const char
		*wanted_id; /* what a bundle or capture states it should be, "" if nothing does */
	uint32_t pid;       /* the process it is mapped into; 0: every traced one, or not known */
	bool found;
};
/* Settle the images; ptm_session_run() does it by itself.  Needed before these two are called
 * without a run. */
PTM_API int ptm_session_seal(struct ptm_session *session, struct ptm_error *err);
PTM_API size_t ptm_session_images(const struct ptm_session *session);
PTM_API struct ptm_image_info ptm_session_image(const struct ptm_session *session, size_t i);

#ifdef __cplusplus
}
#endif
#endif
