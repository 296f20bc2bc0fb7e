/* SPDX-License-Identifier: Apache-2.0
 *
 * stat.c - collects the figures of a run: the tallies of all segments, summed by stream.
 */
#include "sink/common.h"
#include "sink/stat.h"

#include "base/vec.h"
#include "ptmill/sink.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct stat_sink {
	struct ptm_file_sink file;
	bool json;
	bool has_run;
	struct ptm_run_stats run;
	struct ptm_hot hot; /* hot.max 0: nobody asked */
	PTM_VEC(struct ptm_stat_stream) streams;
};

static int stat_stream_begin(struct ptm_sink *sink, const char *name, struct ptm_error *err)
{
	struct stat_sink *ss = (struct stat_sink *)sink;
	struct ptm_stat_stream stream = {.name = strdup(name), .digest = PTM_DIGEST_EMPTY};

	if (stream.name == NULL || !ptm_vec_push(&ss->streams, stream)) {
		free(stream.name);
		return PTM_FAIL(err, PTM_E_NOMEM,
				"Cannot count stream: out of memory: stream=\"%s\"", name);
	}
	return 0;
}

static int stat_segment_end(struct ptm_sink *sink, const struct ptm_segment_end *end,
			    struct ptm_error *err)
{
	struct stat_sink *ss = (struct stat_sink *)sink;
	struct ptm_stat_stream *stream = &ss->streams.v[ss->streams.n - 1];

	(void)err;
	stream->size += end->size;
	stream->tsc_hz = end->tsc_hz;
	ptm_digest_append(&stream->digest, &end->digest);
	ptm_tally_add(&stream->tally, end->tally);
	return 0;
}

static int stat_counted(struct ptm_sink *sink, struct ptm_counts *counts, struct ptm_error *err)
{
	return ptm_hot_make(&((struct stat_sink *)sink)->hot, counts, err);
}

static int stat_finish(struct ptm_sink *sink, struct ptm_error *err)
{
	struct stat_sink *ss = (struct stat_sink *)sink;
	struct ptm_stat_stream total = {0};
	struct ptm_stat stat = {.streams = ss->streams.v,
				.nstreams = ss->streams.n,
				.total = ss->streams.n > 1 ? &total : NULL,
				.run = ss->has_run ? &ss->run : NULL,
				.hot = ss->hot.max > 0 ? &ss->hot : NULL};

	if (ss->file.out == NULL)
		return ptm_file_sink_finish(sink, err);
	for (size_t i = 0; i < ss->streams.n; i++) {
		total.size += ss->streams.v[i].size;
		ptm_tally_add(&total.tally, &ss->streams.v[i].tally);
	}
	if (ss->json)
		PTM_TRY(ptm_stat_print_json(&stat, ss->file.out, err));
	else
		PTM_TRY(ptm_stat_print_table(&stat, ss->file.out, err));
	return ptm_file_sink_finish(sink, err);
}

static void stat_destroy(struct ptm_sink *sink)
{
	struct stat_sink *ss = (struct stat_sink *)sink;

	for (size_t i = 0; i < ss->streams.n; i++)
		free(ss->streams.v[i].name);
	free(ss->streams.v);
	ptm_hot_fini(&ss->hot);
	ptm_file_sink_destroy(sink);
}

static const struct ptm_sink_ops stat_ops = {
	.want = PTM_WANT_TALLY,
	.stream_begin = stat_stream_begin,
	.segment_end = stat_segment_end,
	.finish = stat_finish,
	.destroy = stat_destroy,
};

/* The same, of a report that lists what was executed most. */
static const struct ptm_sink_ops hot_ops = {
	.want = PTM_WANT_TALLY | PTM_WANT_COUNTS,
	.stream_begin = stat_stream_begin,
	.segment_end = stat_segment_end,
	.counted = stat_counted,
	.finish = stat_finish,
	.destroy = stat_destroy,
};

struct ptm_sink *ptm_sink_stat_create(bool json, const char *path, struct ptm_error *err)
{
	struct stat_sink *ss =
		(struct stat_sink *)ptm_file_sink_create(sizeof(*ss), &stat_ops, path, err);

	if (ss == NULL)
		return NULL;
	ss->json = json;
	return &ss->file.sink;
}

void ptm_sink_stat_run(struct ptm_sink *sink, const struct ptm_run_stats *stats)
{
	struct stat_sink *ss = (struct stat_sink *)sink;

	if (sink->ops != &stat_ops && sink->ops != &hot_ops)
		return;
	ss->run = *stats;
	ss->has_run = true;
}

void ptm_sink_stat_hot(struct ptm_sink *sink, size_t max)
{
	if (sink->ops != &stat_ops || max == 0)
		return;
	((struct stat_sink *)sink)->hot.max = max;
	sink->ops = &hot_ops;
}
