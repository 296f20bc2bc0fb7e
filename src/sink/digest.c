/* SPDX-License-Identifier: Apache-2.0
 *
 * digest.c - instruction counts and digests of streams.
 *
 * Digests compose (base/digest.h), so the end of a stream needs no steps at all; with `every`, the
 * digest is printed at each multiple of it (sink/marks.h).
 */
#include "sink/marks.h"

#include "ptmill/sink.h"

#include <inttypes.h>

struct digest_sink {
	struct ptm_file_sink file;
	uint64_t every;
	const char *name; /* of the stream; borrowed while it lasts */
	struct ptm_digest ended, resynced;
	struct ptm_marks marks;
};

static uint64_t mark_after(void *ctx, uint64_t n)
{
	const struct digest_sink *ds = (const struct digest_sink *)ctx;
	uint64_t mark;

	return __builtin_mul_overflow(n / ds->every + 1, ds->every, &mark) ? PTM_MARK_NONE : mark;
}

static int put_mark(void *ctx, uint64_t n, bool known, uint64_t digest, struct ptm_error *err)
{
	struct digest_sink *ds = (struct digest_sink *)ctx;

	if (!known)
		return ptm_out_printf(ds->file.out, err,
				      "stream %s at %" PRIu64 " digest unknown\n", ds->name, n);
	return ptm_out_printf(ds->file.out, err,
			      "stream %s at %" PRIu64 " digest 0x%016" PRIx64 "\n", ds->name, n,
			      digest);
}

static const struct ptm_marks_ops marks_ops = {mark_after, put_mark};

static int digest_stream_begin(struct ptm_sink *sink, const char *name, struct ptm_error *err)
{
	struct digest_sink *ds = (struct digest_sink *)sink;

	(void)err;
	ds->name = name;
	ds->ended = ds->resynced = PTM_DIGEST_EMPTY;
	ptm_marks_begin(&ds->marks);
	return 0;
}

static int digest_deliver(struct ptm_sink *sink, const void *data, size_t len,
			  struct ptm_error *err)
{
	return ptm_marks_deliver(&((struct digest_sink *)sink)->marks, data, len, err);
}

static int digest_segment_end(struct ptm_sink *sink, const struct ptm_segment_end *end,
			      struct ptm_error *err)
{
	struct digest_sink *ds = (struct digest_sink *)sink;

	ptm_digest_append(&ds->ended, &end->digest);
	ptm_digest_append(&ds->resynced, &end->resynced);
	return ds->every > 0 ? ptm_marks_segment_end(&ds->marks, end, err) : 0;
}

static int digest_stream_end(struct ptm_sink *sink, const char *name, struct ptm_error *err)
{
	struct digest_sink *ds = (struct digest_sink *)sink;

	PTM_TRY(ptm_out_printf(ds->file.out, err,
			       "stream %s instructions %" PRIu64 " digest 0x%016" PRIx64 "\n", name,
			       ds->ended.n, ds->ended.b));
	if (ds->resynced.n == 0)
		return 0;
	return ptm_out_printf(ds->file.out, err,
			      "stream %s resynced %" PRIu64 " digest 0x%016" PRIx64 "\n", name,
			      ds->resynced.n, ds->resynced.b);
}

static void digest_destroy(struct ptm_sink *sink)
{
	ptm_marks_fini(&((struct digest_sink *)sink)->marks);
	ptm_file_sink_destroy(sink);
}

static const struct ptm_sink_ops digest_ops = {
	.stream_begin = digest_stream_begin,
	.segment_end = digest_segment_end,
	.stream_end = digest_stream_end,
	.finish = ptm_file_sink_finish,
	.destroy = digest_destroy,
};

static const struct ptm_sink_ops digest_every_ops = {
	.want = PTM_WANT_STEPS,
	.work = ptm_marks_work,
	.stream_begin = digest_stream_begin,
	.deliver = digest_deliver,
	.segment_end = digest_segment_end,
	.stream_end = digest_stream_end,
	.finish = ptm_file_sink_finish,
	.destroy = digest_destroy,
};

struct ptm_sink *ptm_sink_digest_create(uint64_t every, const char *path, struct ptm_error *err)
{
	struct digest_sink *ds = (struct digest_sink *)ptm_file_sink_create(
		sizeof(*ds), every > 0 ? &digest_every_ops : &digest_ops, path, err);

	if (ds == NULL)
		return NULL;
	ds->every = every;
	ds->marks.ops = &marks_ops;
	ds->marks.ctx = ds;
	return &ds->file.sink;
}
