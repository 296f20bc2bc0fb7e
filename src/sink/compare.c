/* SPDX-License-Identifier: Apache-2.0
 *
 * compare.c - two engines side by side: do they see the same instructions and events?
 *
 * A worker decodes its segment three times: by the first engine with steps, by the second, and by
 * the first without steps, which may be another path through it.  Each leaves a sum.  Where the
 * sums differ, the frames of the segment are decoded one by one: that tells which frames differ,
 * whatever the segments are, and what differs first (compare_find.h).  Only the first difference of
 * a stream is shown, so a worker that knows of an earlier one does not look for its own.
 *
 * Both engines go on at PSBs only, because one of them can nothing else.
 */
#include "sink/compare.h"

#include "base/vec.h"
#include "flow/cache.h"
#include "flow/frame.h"
#include "pipeline/engines.h"
#include "ptmill/sink.h"
#include "sink/common.h"
#include "sink/compare_find.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

/* Decoded code, to expand steps, of a worker. */
#define COMPARE_CODE_BYTES ((size_t)16 << 20)

enum lane { FIRST, SECOND, NO_STEPS, LANES };

enum kind {
	IN_INSNS,  /* in instructions */
	IN_EVENTS, /* in events alone: their order, place or contents */
	IN_STEPS,  /* of the first engine, between asking for steps and not asking */
	KINDS
};

static const char *const headings[KINDS] = {
	[IN_INSNS] = "first difference in instructions",
	[IN_EVENTS] = "first difference in events alone",
	[IN_STEPS] = "first difference between asking for steps and not asking",
};

/* What a lane makes of a segment or frame. */
struct sum {
	struct ptm_digest insns, resynced;
	uint64_t events; /* hash of their contents */
	uint64_t placed; /* and of how many instructions precede each */
	const atomic_bool *cancel;
};

/* The first known difference of each kind in a stream: its segment. */
struct known {
	const struct ptm_stream_context *stream;
	uint64_t first[KINDS];
};

/* What a segment that differs tells the deliverer; texts of `len` bytes follow. */
struct record {
	uint64_t frames[KINDS]; /* that differ */
	uint64_t any;           /* that differ in any way */
	uint64_t len[KINDS];
};

struct compare_sink {
	struct ptm_file_sink file;
	const struct ptm_engine_ops *engine[2];
	struct ptm_cache *cache; /* owned; of all engines that have one */
	size_t nwrong;

	pthread_mutex_t lock;
	PTM_VEC(struct known) known; /* under the lock */

	/* The deliverer's: the segment under way ... */
	PTM_VEC(char) data;
	/* ... and the stream. */
	struct ptm_digest insns;
	struct record sum;
	uint64_t frames, events, gaps;
	uint64_t whole; /* segments that differ, but none of whose frames does */
	char *text[KINDS];
};

struct worker {
	struct ptm_lane lane[LANES];
	struct ptm_finder finder;
	struct ptm_report report[KINDS];
	PTM_VEC(struct ptm_segment) frames;
};

static int no_memory(struct ptm_error *err)
{
	return PTM_FAIL(err, PTM_E_NOMEM, "Cannot compare engines: out of memory");
}

static void worker_destroy(struct ptm_sink *sink, void *worker)
{
	struct worker *w = (struct worker *)worker;

	(void)sink;
	for (unsigned i = 0; i < LANES; i++) {
		if (w->lane[i].engine != NULL)
			w->lane[i].engine->ops->destroy(w->lane[i].engine);
		free(w->lane[i].emit);
	}
	ptm_code_destroy(w->finder.code);
	ptm_disasm_destroy(w->finder.disasm);
	free(w->frames.v);
	free(w);
}

static int fill_worker(const struct compare_sink *cs, struct worker *w, struct ptm_error *err)
{
	for (unsigned i = 0; i < LANES; i++) {
		const struct ptm_engine_options options = {
			.cache = cs->cache,
			.resync = PTM_RESYNC_PSB,
			.want = i == NO_STEPS ? 0 : PTM_WANT_STEPS | PTM_WANT_TALLY};

		w->lane[i].emit = (struct ptm_emit *)malloc(sizeof(*w->lane[i].emit));
		if (w->lane[i].emit == NULL)
			return no_memory(err);
		w->lane[i].engine = cs->engine[i == SECOND ? 1 : 0]->create(&options, err);
		if (w->lane[i].engine == NULL)
			return -(int)err->code;
	}
	w->finder.lane[0] = w->lane[FIRST];
	w->finder.lane[1] = w->lane[SECOND];
	w->finder.code = ptm_code_create(COMPARE_CODE_BYTES, NULL);
	w->finder.disasm = ptm_disasm_create();
	return w->finder.code != NULL && w->finder.disasm != NULL ? 0 : no_memory(err);
}

static void *worker_create(struct ptm_sink *sink, struct ptm_error *err)
{
	struct worker *w = (struct worker *)calloc(1, sizeof(*w));

	if (w == NULL) {
		(void)no_memory(err);
		return NULL;
	}
	if (fill_worker((struct compare_sink *)sink, w, err) < 0) {
		worker_destroy(sink, w);
		return NULL;
	}
	return w;
}

/* A ptm_emit_fn. */
static int sum_batch(void *ctx, const struct ptm_batch *batch, struct ptm_error *err)
{
	struct sum *sum = (struct sum *)ctx;
	uint64_t at = sum->insns.n + sum->resynced.n;
	size_t step = 0;

	if (sum->cancel != NULL && atomic_load_explicit(sum->cancel, memory_order_relaxed))
		return PTM_FAIL(err, PTM_E_CANCELED, "Canceled");
	for (size_t i = 0; i < batch->nevents; i++) {
		uint64_t hash = ptm_event_hash(&batch->events[i]);

		for (; step < batch->events[i].step; step++)
			at += batch->steps[step].n;
		sum->events = sum->events * PTM_DIGEST_K + ptm_digest_mix(hash);
		sum->placed = sum->placed * PTM_DIGEST_K + ptm_digest_mix(hash + at);
	}
	ptm_digest_append(batch->resynced ? &sum->resynced : &sum->insns, &batch->digest);
	return 0;
}

static int decode(struct worker *w, const struct ptm_segment *seg, struct sum sum[LANES],
		  struct ptm_error *err)
{
	for (unsigned i = 0; i < LANES; i++) {
		const struct ptm_lane *lane = &w->lane[i];

		sum[i] = (struct sum){.insns = PTM_DIGEST_EMPTY,
				      .resynced = PTM_DIGEST_EMPTY,
				      .cancel = seg->cancel};
		ptm_emit_init(lane->emit, sum_batch, &sum[i]);
		PTM_TRY(lane->engine->ops->decode(lane->engine, seg, lane->emit, err));
	}
	return 0;
}

static bool same_digest(const struct ptm_digest *a, const struct ptm_digest *b)
{
	return a->n == b->n && a->b == b->b;
}

static bool same_insns(const struct sum *a, const struct sum *b)
{
	return same_digest(&a->insns, &b->insns) && same_digest(&a->resynced, &b->resynced);
}

/* The kinds of differences, as bits. */
static unsigned judge(const struct sum sum[LANES])
{
	unsigned kinds = 0;

	if (!same_insns(&sum[FIRST], &sum[SECOND]))
		kinds |= 1u << IN_INSNS;
	else if (sum[FIRST].placed != sum[SECOND].placed)
		kinds |= 1u << IN_EVENTS;
	if (!same_insns(&sum[FIRST], &sum[NO_STEPS]) || sum[FIRST].events != sum[NO_STEPS].events)
		kinds |= 1u << IN_STEPS;
	return kinds;
}

static int ignore(void *ctx, const struct ptm_batch *batch, struct ptm_error *err)
{
	(void)ctx;
	(void)batch;
	(void)err;
	return 0;
}

/* Cut @seg into segments of one frame each, as an engine has to see them. */
static int cut(struct worker *w, const struct ptm_segment *seg, struct ptm_error *err)
{
	const size_t avail = seg->len + seg->look;
	bool ovf_pending = seg->ovf_pending;
	size_t begin = 0, end;

	w->frames.n = 0;
	for (; begin < seg->len; begin = end) {
		/* The begin of a stream may be assumed to be in sync without a PSB. */
		bool psb = ptm_psb_find(seg->data, avail, begin, false) == begin;
		struct ptm_segment one = {.stream = seg->stream,
					  .data = seg->data + begin,
					  .offset = seg->offset + begin,
					  .ovf_pending = ovf_pending,
					  .cancel = seg->cancel};

		end = ptm_psb_find(seg->data, avail, begin + (psb ? PTM_PSB_SIZE : 0), false);
		if (end > seg->len)
			end = seg->len;
		one.len = end - begin < PTM_FRAME_MAX ? end - begin : PTM_FRAME_MAX;
		/* Of what is too long for a frame the rest is not decoded. */
		one.skipped = end - begin - one.len + (end == seg->len ? seg->skipped : 0);
		if (one.skipped == 0)
			one.look = avail - end < PTM_PSBPLUS_LOOK ? avail - end : PTM_PSBPLUS_LOOK;
		if (!ptm_vec_push(&w->frames, one))
			return no_memory(err);
		ovf_pending = one.skipped == 0 && ptm_frame_ends_in_ovf(one.data, one.len);
	}
	return 0;
}

/* Is @offset the first place of the stream that is known to differ in this way?  Then it is now. */
static int is_first(struct compare_sink *cs, const struct ptm_segment *seg, enum kind kind,
		    bool *first, struct ptm_error *err)
{
	const struct known none = {seg->stream, {UINT64_MAX, UINT64_MAX, UINT64_MAX}};
	size_t i = 0;
	bool ok = true;

	(void)pthread_mutex_lock(&cs->lock);
	while (i < cs->known.n && cs->known.v[i].stream != seg->stream)
		i++;
	if (i == cs->known.n)
		ok = ptm_vec_push(&cs->known, none);
	*first = ok && seg->offset < cs->known.v[i].first[kind];
	if (*first)
		cs->known.v[i].first[kind] = seg->offset;
	(void)pthread_mutex_unlock(&cs->lock);
	return ok ? 0 : no_memory(err);
}

static void tell_sum(const char *name, const char *how, const struct sum *sum,
		     struct ptm_report *report)
{
	ptm_report_printf(report,
			  "    %s %s steps: instructions %" PRIu64 " digest 0x%016" PRIx64
			  ", resynced %" PRIu64 " digest 0x%016" PRIx64 ", events 0x%016" PRIx64
			  "\n",
			  name, how, sum->insns.n, sum->insns.b, sum->resynced.n, sum->resynced.b,
			  sum->events);
}

static int describe(struct worker *w, const struct ptm_segment *frame, const struct sum sum[LANES],
		    enum kind kind, struct ptm_error *err)
{
	struct ptm_report *report = &w->report[kind];
	const char *name = w->lane[FIRST].engine->ops->name;

	ptm_report_printf(report, "  %s:\n", headings[kind]);
	if (kind != IN_STEPS)
		return ptm_compare_find(&w->finder, frame, kind == IN_EVENTS, report, err);
	ptm_report_printf(report, "  frame at offset 0x%" PRIx64 ":\n", frame->offset);
	tell_sum(name, "with", &sum[FIRST], report);
	tell_sum(name, "without", &sum[NO_STEPS], report);
	return 0;
}

static int write_record(struct worker *w, struct record *record, struct ptm_job_out *out,
			struct ptm_error *err)
{
	struct ptm_lines lines;
	bool ok;

	for (unsigned k = 0; k < KINDS; k++)
		record->len[k] = w->report[k].len;
	ptm_lines_init(&lines, out);
	ok = ptm_lines_write(&lines, (const char *)record, sizeof(*record));
	for (unsigned k = 0; k < KINDS; k++)
		ok = ok && ptm_lines_write(&lines, w->report[k].text, w->report[k].len);
	ptm_lines_flush(&lines);
	return ok ? 0 : ptm_lines_failed(err);
}

/* The segment differs: which of its frames do? */
static int look_closer(struct compare_sink *cs, struct worker *w, const struct ptm_segment *seg,
		       struct ptm_job_out *out, struct ptm_error *err)
{
	struct record record = {.any = 0};

	for (unsigned k = 0; k < KINDS; k++)
		w->report[k].len = 0;
	PTM_TRY(cut(w, seg, err));
	for (size_t i = 0; i < w->frames.n; i++) {
		const struct ptm_segment *frame = &w->frames.v[i];
		struct sum sum[LANES];
		unsigned kinds;

		PTM_TRY(decode(w, frame, sum, err));
		kinds = judge(sum);
		record.any += kinds != 0;
		for (unsigned k = 0; k < KINDS; k++) {
			bool first = false;

			if ((kinds & 1u << k) == 0)
				continue;
			if (record.frames[k]++ == 0)
				PTM_TRY(is_first(cs, seg, (enum kind)k, &first, err));
			if (first)
				PTM_TRY(describe(w, frame, sum, (enum kind)k, err));
		}
	}
	return write_record(w, &record, out, err);
}

static int compare_raw(struct ptm_sink *sink, void *worker, const struct ptm_segment *seg,
		       struct ptm_emit *emit, struct ptm_job_out *out, struct ptm_error *err)
{
	struct worker *w = (struct worker *)worker;
	struct sum sum[LANES];

	PTM_TRY(decode(w, seg, sum, err));
	ptm_emit_init(emit, ignore, NULL);
	emit->tally = w->lane[FIRST].emit->tally;
	emit->digest = sum[FIRST].insns;
	emit->resynced = sum[FIRST].resynced;
	return judge(sum) == 0 ? 0 : look_closer((struct compare_sink *)sink, w, seg, out, err);
}

static void forget(struct compare_sink *cs)
{
	for (unsigned k = 0; k < KINDS; k++) {
		free(cs->text[k]);
		cs->text[k] = NULL;
	}
}

static int compare_stream_begin(struct ptm_sink *sink, const char *name, struct ptm_error *err)
{
	struct compare_sink *cs = (struct compare_sink *)sink;

	(void)name;
	(void)err;
	forget(cs);
	cs->insns = PTM_DIGEST_EMPTY;
	cs->sum = (struct record){.any = 0};
	cs->frames = cs->events = cs->gaps = cs->whole = 0;
	cs->data.n = 0;
	return 0;
}

static int compare_deliver(struct ptm_sink *sink, const void *data, size_t len,
			   struct ptm_error *err)
{
	struct compare_sink *cs = (struct compare_sink *)sink;

	if (!ptm_vec_reserve(&cs->data, len))
		return no_memory(err);
	memcpy(cs->data.v + cs->data.n, data, len);
	cs->data.n += len;
	return 0;
}

/* Add a segment that differs to its stream. */
static int take_record(struct compare_sink *cs, struct ptm_error *err)
{
	const char *text = cs->data.v + sizeof(struct record);
	struct record record;

	memcpy(&record, cs->data.v, sizeof(record));
	cs->sum.any += record.any;
	cs->whole += record.any == 0;
	for (unsigned k = 0; k < KINDS; k++) {
		cs->sum.frames[k] += record.frames[k];
		if (record.len[k] > 0 && cs->text[k] == NULL) {
			cs->text[k] = strndup(text, record.len[k]);
			if (cs->text[k] == NULL)
				return no_memory(err);
		}
		text += record.len[k];
	}
	cs->data.n = 0;
	return 0;
}

static int compare_segment_end(struct ptm_sink *sink, const struct ptm_segment_end *end,
			       struct ptm_error *err)
{
	struct compare_sink *cs = (struct compare_sink *)sink;

	ptm_digest_append(&cs->insns, &end->digest);
	cs->frames += end->tally->frames;
	cs->events += end->tally->events;
	for (unsigned i = 0; i < PTM_GAP_KINDS; i++)
		cs->gaps += end->tally->gaps[i];
	return cs->data.n > 0 ? take_record(cs, err) : 0;
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static int put_differences(struct compare_sink *cs, const char *name, struct ptm_error *err)
{
	struct ptm_out *out = cs->file.out;

	PTM_TRY(ptm_out_printf(out, err,
			       "stream %s differs by %s and %s: %" PRIu64 " of %" PRIu64
			       " frame%s: %" PRIu64 " in instructions, %" PRIu64 " in events alone",
			       name, cs->engine[0]->name, cs->engine[1]->name, cs->sum.any,
			       cs->frames, plural(cs->frames), cs->sum.frames[IN_INSNS],
			       cs->sum.frames[IN_EVENTS]));
	if (cs->sum.frames[IN_STEPS] > 0)
		PTM_TRY(ptm_out_printf(out, err, ", %" PRIu64 " by %s without steps",
				       cs->sum.frames[IN_STEPS], cs->engine[0]->name));
	PTM_TRY(ptm_out_printf(out, err, "\n"));
	for (unsigned k = 0; k < KINDS; k++) {
		if (cs->text[k] != NULL)
			PTM_TRY(ptm_out_printf(out, err, "%s", cs->text[k]));
	}
	if (cs->whole == 0)
		return 0;
	return ptm_out_printf(out, err,
			      "  segments that differ although none of their frames does: %" PRIu64
			      "\n",
			      cs->whole);
}

static int compare_stream_end(struct ptm_sink *sink, const char *name, struct ptm_error *err)
{
	struct compare_sink *cs = (struct compare_sink *)sink;

	if (cs->sum.any > 0 || cs->whole > 0) {
		cs->nwrong++;
		return put_differences(cs, name, err);
	}
	return ptm_out_printf(
		cs->file.out, err,
		"stream %s same by %s and %s: instructions %" PRIu64 " digest 0x%016" PRIx64
		", %" PRIu64 " frame%s, %" PRIu64 " event%s, %" PRIu64 " of them gaps\n",
		name, cs->engine[0]->name, cs->engine[1]->name, cs->insns.n, cs->insns.b,
		cs->frames, plural(cs->frames), cs->events, plural(cs->events), cs->gaps);
}

static void compare_destroy(struct ptm_sink *sink)
{
	struct compare_sink *cs = (struct compare_sink *)sink;

	forget(cs);
	free(cs->data.v);
	free(cs->known.v);
	ptm_cache_destroy(cs->cache);
	(void)pthread_mutex_destroy(&cs->lock);
	ptm_file_sink_destroy(sink);
}

static const struct ptm_sink_ops compare_ops = {
	.worker_create = worker_create,
	.worker_destroy = worker_destroy,
	.raw = compare_raw,
	.stream_begin = compare_stream_begin,
	.deliver = compare_deliver,
	.segment_end = compare_segment_end,
	.stream_end = compare_stream_end,
	.finish = ptm_file_sink_finish,
	.destroy = compare_destroy,
};

struct ptm_sink *ptm_compare_create(const struct ptm_engine_ops *first,
				    const struct ptm_engine_ops *second, uint64_t cache_limit,
				    const char *path, struct ptm_error *err)
{
	struct compare_sink *cs =
		(struct compare_sink *)ptm_file_sink_create(sizeof(*cs), &compare_ops, path, err);

	if (cs == NULL)
		return NULL;
	cs->engine[0] = first;
	cs->engine[1] = second;
	(void)pthread_mutex_init(&cs->lock, NULL);
	cs->cache = ptm_cache_create(cache_limit, err);
	if (cs->cache == NULL) {
		compare_destroy(&cs->file.sink);
		return NULL;
	}
	return &cs->file.sink;
}

struct ptm_sink *ptm_sink_compare_create(uint64_t cache_limit, const char *path,
					 struct ptm_error *err)
{
	return ptm_compare_create(ptm_engine_of(PTM_ENGINE_FAST), ptm_engine_of(PTM_ENGINE_LIBIPT),
				  cache_limit, path, err);
}

size_t ptm_compare_wrong(const struct ptm_sink *sink)
{
	return sink->ops == &compare_ops ? ((const struct compare_sink *)sink)->nwrong : 0;
}
