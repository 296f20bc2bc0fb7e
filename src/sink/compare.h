/* SPDX-License-Identifier: Apache-2.0
 *
 * compare.h - two engines side by side.
 */
#ifndef PTM_SINK_COMPARE_H
#define PTM_SINK_COMPARE_H

#include "flow/engine.h"
#include "pipeline/sink.h"

/* As ptm_sink_compare_create(), with engines of choice: static storage. */
struct ptm_sink *ptm_compare_create(const struct ptm_engine_ops *first,
				    const struct ptm_engine_ops *second, uint64_t cache_limit,
				    const char *path, struct ptm_error *err);

/* Streams over which the engines differ; 0 for other sinks. */
size_t ptm_compare_wrong(const struct ptm_sink *sink);

#endif
