/* SPDX-License-Identifier: Apache-2.0
 *
 * sink.h - where a run's result goes.
 *
 * A sink belongs to the caller: create, run (session.h), finish on success, destroy.  Files appear
 * under their name only when ptm_sink_finish() succeeded; path NULL or "-" is standard output.
 */
#ifndef PTMILL_SINK_H
#define PTMILL_SINK_H

#include "err.h"
#include "session.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Opaque. */
struct ptm_sink;

/* Instructions, one a line: `%016x` of the IP, two spaces, the disassembly; events on lines of
 * their own. */
struct ptm_text_config {
	size_t size;        /* sizeof(struct ptm_text_config) */
	bool no_disasm;     /* the IP alone */
	size_t cache_limit; /* bytes of formatted instructions that each worker keeps; 0: 64 MiB */
};
PTM_API struct ptm_sink *ptm_sink_text_create(const struct ptm_text_config *config,
					      const char *path, struct ptm_error *err);

/* Blocks (iter.h) and events, one a line: as text, `%016x` of the address of the first instruction,
 * instructions, bytes and what the last one is; or as JSON, an object a line.  The formats are
 * described in docs/formats.md. */
PTM_API struct ptm_sink *ptm_sink_blocks_create(bool json, const char *path, struct ptm_error *err);

/* `stream NAME instructions N digest 0x%016x` a stream, and with @every > 0 one line every so many
 * instructions. */
PTM_API struct ptm_sink *ptm_sink_digest_create(uint64_t every, const char *path,
						struct ptm_error *err);

/* Figures of a run: instructions, branches, packets, accounting of every byte, gaps. */
PTM_API struct ptm_sink *ptm_sink_stat_create(bool json, const char *path, struct ptm_error *err);

/* Add what the run cost to a report of ptm_sink_stat_create(): to be called after the run, before
 * ptm_sink_finish(). JSON has it under `run`; the table does not, because it is not the same twice.
 * Does nothing to other sinks. */
PTM_API void ptm_sink_stat_run(struct ptm_sink *sink, const struct ptm_run_stats *stats);

/* Have a report of ptm_sink_stat_create() list what was executed most: the @max hottest functions,
 * blocks, branches, with names and lines of source as far as the images tell.  To be called before
 * the run, which counts then.  Does nothing to other sinks. */
PTM_API void ptm_sink_stat_hot(struct ptm_sink *sink, size_t max);

/* Packets, one a line: offset, name, payload.  Nothing is decoded. */
PTM_API struct ptm_sink *ptm_sink_dump_create(const char *path, struct ptm_error *err);

/* The images that are mapped: found, missing or of another build-id, and the share of the trace's
 * addresses that lie in each.  Nothing is decoded; of more than 256 MiB of trace only some frames
 * are looked at.  @session is borrowed until the sink is destroyed; its inputs must have been
 * added. */
struct ptm_session;
PTM_API struct ptm_sink *ptm_sink_preflight_create(const struct ptm_session *session,
						   const char *path, struct ptm_error *err);

/* Compare each stream with the truth that the recorder wrote: `stream NAME as recorded: ...` or
 * `stream NAME differs:
 * ...` and where.  @truth: the file of truths (borrowed), NULL for those that captures name.
 * @session is borrowed until the sink is destroyed.  ptm_sink_verify_wrong() is the number of
 * streams that differ, after the run, also of a sink of ptm_sink_compare_create(). */
PTM_API struct ptm_sink *ptm_sink_verify_create(const struct ptm_session *session,
						const char *truth, const char *path,
						struct ptm_error *err);

/* Decode by both engines, whatever the session's configuration names, going on at the next PSB
 * after an error, and compare: `stream NAME same by fast and libipt: ...`, or `stream NAME differs
 * by fast and libipt: ...`, in how many PSB frames, and the first differences with what surrounds
 * them.  @cache_limit: as in struct ptm_config. */
PTM_API struct ptm_sink *ptm_sink_compare_create(uint64_t cache_limit, const char *path,
						 struct ptm_error *err);

/* The number of streams that differ, after a run with one of the two; 0 for other sinks. */
PTM_API size_t ptm_sink_verify_wrong(const struct ptm_sink *sink);

/* Write what is left and put the output in its place.  Call once, after a run that succeeded. */
PTM_API int ptm_sink_finish(struct ptm_sink *sink, struct ptm_error *err);

/* Frees the sink; an output that was not finished is removed.  Accepts NULL. */
PTM_API void ptm_sink_destroy(struct ptm_sink *sink);

#ifdef __cplusplus
}
#endif
#endif
