/* SPDX-License-Identifier: Apache-2.0
 *
 * stat.h - the figures of a run, between collecting (stat.c) and printing them (stat_print.c).
 */
#ifndef PTM_SINK_STAT_H
#define PTM_SINK_STAT_H

#include "os/file.h"
#include "pipeline/sink.h"
#include "ptmill/session.h"
#include "sink/hot.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One stream, or the total of all: that one has no name and no digest. */
struct ptm_stat_stream {
	char *name;    /* owned; NULL: the total */
	uint64_t size; /* bytes */
	struct ptm_digest digest;
	double tsc_hz; /* 0: not known */
	struct ptm_tally tally;
};

struct ptm_stat {
	const struct ptm_stat_stream *streams;
	size_t nstreams;
	const struct ptm_stat_stream *total; /* NULL: a single stream */
	const struct ptm_run_stats *run;     /* NULL: not told */
	const struct ptm_hot *hot;           /* NULL: not asked for */
};

int ptm_stat_print_table(const struct ptm_stat *stat, struct ptm_out *out, struct ptm_error *err);
int ptm_stat_print_json(const struct ptm_stat *stat, struct ptm_out *out, struct ptm_error *err);

#endif
