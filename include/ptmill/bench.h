/* SPDX-License-Identifier: Apache-2.0
 *
 * bench.h - how fast decoders are over a trace: ours cold and warm, in one thread and in many, and
 * libipt's two, all in one run, taking turns.
 */
#ifndef PTMILL_BENCH_H
#define PTMILL_BENCH_H

#include "err.h"
#include "session.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Give a session its inputs and images: those of the trace that is measured, or of the @other
 * recording.  Returns 0 or -PTM_E_*. */
typedef int (*ptm_bench_fill_fn)(void *ctx, struct ptm_session *session, bool other,
				 struct ptm_error *err);

/* Start a process that writes to @fd what ptm_bench_once() with @threads writes.  Returns its id,
 * or -1 and errno. */
typedef pid_t (*ptm_bench_spawn_fn)(void *ctx, unsigned threads, int fd);

/* Zero-initialise, then set `size`.  What it points to is borrowed until ptm_bench_destroy(). */
struct ptm_bench_config {
	size_t size;                      /* sizeof(struct ptm_bench_config) */
	const struct ptm_config *session; /* threads, cache, engine are not looked at */
	const char *input;                /* what the report calls the trace ... */
	const char *other; /* ... and the other recording; NULL: there is none, and caches are
			      filled by the trace itself, which the report says */
	unsigned runs;     /* of each contender; 0: 5 */
	unsigned threads;  /* where there are many; 0: one a core that we may use */
	bool no_libipt;    /* leave its decoders out, which take most of the time */
	ptm_bench_fill_fn fill;
	ptm_bench_spawn_fn spawn; /* NULL: figures of whole processes are left out */
	void *ctx;                /* of both */
};

/* Opaque. */
struct ptm_bench;

/* Measure; destroy with ptm_bench_destroy().  NULL and @err on failure. */
PTM_API struct ptm_bench *ptm_bench_run(const struct ptm_bench_config *config,
					struct ptm_error *err);
PTM_API void ptm_bench_destroy(struct ptm_bench *bench);

/* Did all contenders see the same instructions, each time? */
PTM_API bool ptm_bench_agrees(const struct ptm_bench *bench);

/* Of the code that the trace decodes, the share that was in the warm cache before; NAN if not
 * known.  The hit rate does not tell: a long trace fills the cache by itself. */
PTM_API double ptm_bench_known(const struct ptm_bench *bench);

/* Write the figures, as a table or as JSON, to @path (NULL or "-": standard output).  Returns 0 or
 * -PTM_E_*. */
PTM_API int ptm_bench_print(const struct ptm_bench *bench, bool json, const char *path,
			    struct ptm_error *err);

/* Decode once with an empty cache, and write one line for the process that measures this one.
 * Returns 0 or -PTM_E_*. */
PTM_API int ptm_bench_once(const struct ptm_bench_config *config, unsigned threads,
			   struct ptm_error *err);

#ifdef __cplusplus
}
#endif
#endif
