/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c - a run: workers that claim, load, decode; the caller's thread that delivers.
 *
 * The threads, queues and buffers are explained in docs/architecture.md.
 */
#include "pipeline/session.h"

#include "base/error.h"
#include "flow/cache.h"
#include "os/thread.h"
#include "pipeline/engines.h"
#include "pipeline/split.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NO_IMAGE_MANY 16 /* gaps: it is not damage alone that leads out of the images */

struct run {
	struct ptm_session *session;
	struct ptm_sink *sink;
	const struct ptm_run_options *options;
	struct ptm_split *split; /* under the ring's entry lock */
	struct ptm_ring *ring;
	struct ptm_cache *cache;     /* shared by the workers' engines; NULL: they need none */
	struct ptm_run_stats *stats; /* the deliverer's */
	atomic_uint pinned;          /* workers count themselves; read after they are joined */

	/* The deliverer's. */
	double started, last_tick;
	uint64_t done, total;
	bool in_stream;
	size_t stream;
	uint64_t claimed, accounted; /* bytes of the stream */
	bool no_sync;                /* it has no PSB */
	size_t first_unsynced;       /* stream, and its bytes */
	uint64_t unsynced_bytes;
	bool warned_of_images; /* before the run */
};

struct worker {
	struct run *run;
	unsigned index;
	pthread_t thread;
	struct ptm_engine *engine;
	void *sink_state;
	struct ptm_emit *emit;
	struct ptm_counts *counts; /* owned; summed after the worker is joined; NULL: not wanted */
	struct ptm_segbuf buf;
	struct ptm_job job;
	struct ptm_job_out *out;
	uint64_t random;
	double claiming, loading, decoding; /* CPU seconds; read after the worker is joined */
};

static int claim(void *ctx, struct ptm_error *err)
{
	struct worker *w = (struct worker *)ctx;
	const double begin = ptm_thread_cpu_seconds();
	const int status = ptm_split_claim(w->run->split, &w->job, &w->buf, err);

	w->claiming += ptm_thread_cpu_seconds() - begin;
	return status;
}

static int pass_batch(void *ctx, const struct ptm_batch *batch, struct ptm_error *err)
{
	struct worker *w = (struct worker *)ctx;
	const struct ptm_sink_ops *ops = w->run->sink->ops;

	if (atomic_load_explicit(&w->run->session->cancel, memory_order_relaxed))
		return PTM_FAIL(err, PTM_E_CANCELED, "Canceled");
	if (ops->work == NULL)
		return 0;
	return ops->work(w->run->sink, w->sink_state, batch, w->out, err);
}

/* Tests ask for delays, to shake the order in which workers finish. */
static void delay(struct worker *w)
{
	struct timespec ts = {0, 0};

	if (w->run->session->config.test_delay_seed == 0)
		return;
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	ts.tv_nsec = (long)(w->random % 2000000);
	(void)nanosleep(&ts, NULL);
}

static int do_job(struct worker *w, struct ptm_job_result *result)
{
	struct run *run = w->run;
	struct ptm_job *job = &w->job;
	const double begin = ptm_thread_cpu_seconds();
	double loaded;
	int status;

	result->stream = job->stream;
	result->bytes = job->bytes;
	result->digest = result->resynced = PTM_DIGEST_EMPTY;
	PTM_TRY(ptm_split_load(run->split, job, &w->buf, &result->err));
	loaded = ptm_thread_cpu_seconds();
	w->loading += loaded - begin;
	job->seg.cancel = &run->session->cancel;
	job->seg.stream = &run->session->streams.v[job->stream];
	result->offset = job->seg.offset;
	if (run->sink->ops->raw != NULL) {
		status = run->sink->ops->raw(run->sink, w->sink_state, &job->seg, w->emit, w->out,
					     &result->err);
	} else {
		ptm_emit_init(w->emit, pass_batch, w);
		status = w->engine->ops->decode(w->engine, &job->seg, w->emit, &result->err);
	}
	result->tally = w->emit->tally;
	result->digest = w->emit->digest;
	result->resynced = w->emit->resynced;
	w->decoding += ptm_thread_cpu_seconds() - loaded;
	return status;
}

static int worker_start(struct worker *w, struct ptm_error *err)
{
	struct ptm_session *session = w->run->session;
	struct ptm_sink *sink = w->run->sink;
	/* Not being pinned costs speed, not results. */
	int pinned = ptm_plan_bind(session->plan, w->index, NULL);

	if (pinned > 0)
		atomic_fetch_add_explicit(&w->run->pinned, 1, memory_order_relaxed);
	w->random = session->config.test_delay_seed * UINT64_C(0x9e3779b97f4a7c15) + w->index + 1;
	w->emit = (struct ptm_emit *)malloc(sizeof(*w->emit));
	if (w->emit == NULL)
		return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory");
	if ((sink->ops->want & PTM_WANT_COUNTS) != 0) {
		w->counts = ptm_counts_create();
		if (w->counts == NULL)
			return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory");
	}
	if (sink->ops->raw == NULL) {
		const struct ptm_engine_options options = {.cache = w->run->cache,
							   .resync = session->config.resync,
							   .want = sink->ops->want,
							   .counts = w->counts};

		w->engine = ptm_engine_of(session->config.engine)->create(&options, err);
		if (w->engine == NULL)
			return -(int)err->code;
	}
	if (sink->ops->worker_create == NULL)
		return 0;
	w->sink_state = sink->ops->worker_create(sink, err);
	return w->sink_state != NULL ? 0 : -(int)err->code;
}

static void worker_stop(struct worker *w)
{
	if (w->sink_state != NULL)
		w->run->sink->ops->worker_destroy(w->run->sink, w->sink_state);
	if (w->engine != NULL)
		w->engine->ops->destroy(w->engine);
	free(w->emit);
	ptm_segbuf_fini(&w->buf);
}

static void *worker_main(void *arg)
{
	struct worker *w = (struct worker *)arg;
	struct ptm_ring *ring = w->run->ring;
	struct ptm_job_result *result;
	struct ptm_error err = {0};
	int status = worker_start(w, &err);

	while (status >= 0 && ptm_ring_enter(ring, claim, w, &w->out, &result) > 0) {
		delay(w);
		result->status = do_job(w, result);
		delay(w);
		ptm_ring_done(w->out);
	}
	if (status >= 0 && w->engine != NULL && w->engine->ops->settle != NULL)
		status = w->engine->ops->settle(w->engine, &err);
	worker_stop(w);
	ptm_ring_leave(ring, status < 0 ? &err : NULL);
	return NULL;
}

/* A stream without a PSB: a perf.data file or a capture may well have empty ones. */
static void count_unsynced(struct run *run)
{
	const struct ptm_source *source = ptm_sources_get(run->session->sources, run->stream);
	const char *path = ptm_source_path(source);
	const bool alone = path == NULL || strcmp(path, ptm_source_name(source)) == 0;

	if (!run->no_sync || (run->claimed == 0 && !alone))
		return;
	if (run->stats->unsynced++ > 0)
		return;
	run->first_unsynced = run->stream;
	run->unsynced_bytes = run->claimed;
}

/* Begin and end streams as the results say: a stream without a job of its own cannot be, so each
 * gets both. */
static int switch_stream(struct run *run, bool more, size_t stream, struct ptm_error *err)
{
	const struct ptm_sink_ops *ops = run->sink->ops;

	if (run->in_stream && (!more || stream != run->stream)) {
		const char *name =
			ptm_source_name(ptm_sources_get(run->session->sources, run->stream));

		run->in_stream = false;
		if (run->claimed != run->accounted)
			return PTM_FAIL(err, PTM_E_BUG,
					"%s: %" PRIu64 " of %" PRIu64 " bytes are accounted for",
					name, run->accounted, run->claimed);
		count_unsynced(run);
		if (ops->stream_end != NULL)
			PTM_TRY(ops->stream_end(run->sink, name, err));
	}
	if (more && !run->in_stream) {
		run->in_stream = true;
		run->claimed = run->accounted = 0;
		run->no_sync = false;
		run->stream = stream;
		if (ops->stream_begin != NULL)
			PTM_TRY(ops->stream_begin(
				run->sink,
				ptm_source_name(ptm_sources_get(run->session->sources, stream)),
				err));
	}
	return 0;
}

static int deliver_result(struct run *run, const struct ptm_job_result *result,
			  struct ptm_error *err)
{
	const struct ptm_segment_end end = {
		.offset = result->offset,
		.size = result->bytes,
		.digest = result->digest,
		.resynced = result->resynced,
		.tsc_hz = run->session->streams.v[result->stream].timing.nom_freq * 100e6,
		.tally = &result->tally};

	if (result->status < 0) {
		*err = result->err;
		return result->status;
	}
	PTM_TRY(switch_stream(run, true, result->stream, err));
	if (run->sink->ops->segment_end != NULL)
		PTM_TRY(run->sink->ops->segment_end(run->sink, &end, err));
	run->done += result->bytes;
	run->stats->segments++;
	run->stats->insns += result->tally.insns;
	run->stats->resynced += result->tally.resynced;
	run->claimed += result->bytes;
	for (unsigned i = 0; i < PTM_BYTES_CLASSES; i++)
		run->accounted += result->tally.bytes[i];
	run->stats->bytes += result->bytes;
	for (unsigned i = 0; i < PTM_GAP_KINDS; i++)
		run->stats->gaps += result->tally.gaps[i];
	run->stats->no_image += result->tally.gaps[PTM_GAP_NO_IMAGE];
	run->no_sync |= result->tally.gaps[PTM_GAP_NO_SYNC] > 0;
	run->stats->overflows += result->tally.overflows;
	return 0;
}

static void tick(struct run *run)
{
	double now = ptm_now();

	if (run->options->progress == NULL || now - run->last_tick < 0.2)
		return;
	run->last_tick = now;
	run->options->progress(run->options->ctx, run->done, run->total, now - run->started);
}

/* Deliver until the end, an error or a cancellation. */
static int deliver(struct run *run, struct ptm_error *err)
{
	const struct ptm_sink_ops *ops = run->sink->ops;
	const double timeout = run->options->progress != NULL ? 0.2 : 0;

	for (;;) {
		const struct ptm_job_result *result;
		struct ptm_chunk *chunk = NULL;
		int status = 0;

		switch (ptm_ring_wait(run->ring, timeout, &chunk, &result)) {
		case PTM_RING_CHUNK:
			status = switch_stream(run, true, result->stream, err);
			if (status >= 0 && ops->deliver != NULL)
				status = ops->deliver(run->sink, chunk->data, chunk->len, err);
			ptm_ring_recycle(run->ring, chunk);
			break;
		case PTM_RING_RESULT:
			status = deliver_result(run, result, err);
			ptm_ring_recycle(run->ring, NULL);
			break;
		case PTM_RING_TICK:
			break;
		case PTM_RING_CANCELED:
			return PTM_FAIL(err, PTM_E_CANCELED, "Canceled");
		case PTM_RING_END:
			if (ptm_ring_error(run->ring) != NULL) {
				*err = *ptm_ring_error(run->ring);
				return -(int)err->code;
			}
			return switch_stream(run, false, 0, err);
		}
		if (status < 0)
			return status;
		tick(run);
	}
}

/* What each of @n workers counted, summed in the first one's table. */
static int sum_counts(struct run *run, struct worker *workers, unsigned n, struct ptm_error *err)
{
	const struct ptm_sink_ops *ops = run->sink->ops;
	int status = 0;

	for (unsigned i = 1; i < n && status >= 0; i++)
		if (workers[i].counts != NULL)
			status = ptm_counts_sum(workers[0].counts, workers[i].counts, err);
	if (status >= 0 && ops->counted != NULL)
		status = ops->counted(run->sink, workers[0].counts, err);
	return status;
}

static void set_ring(struct ptm_session *session, struct ptm_ring *ring)
{
	(void)pthread_mutex_lock(&session->lock);
	session->ring = ring;
	if (ring != NULL && atomic_load_explicit(&session->cancel, memory_order_relaxed)) {
		ptm_ring_cancel(ring);
		ptm_sources_interrupt(session->sources);
	}
	(void)pthread_mutex_unlock(&session->lock);
}

static int run_workers(struct run *run, struct worker *workers, unsigned n, struct ptm_error *err)
{
	const double begin = ptm_thread_cpu_seconds();
	unsigned started = 0;
	int status = 0;

	set_ring(run->session, run->ring);
	for (; started < n && status >= 0; started++) {
		char name[16];

		workers[started].run = run;
		workers[started].index = started;
		(void)snprintf(name, sizeof(name), "ptm-w%u", started);
		status = ptm_thread_start(&workers[started].thread, name, worker_main,
					  &workers[started], err);
		if (status < 0)
			break;
	}
	/* Beside the workers, before anything they decode leaves the run. */
	if (status >= 0)
		status = ptm_session_check_streams(run->session, err);
	run->stats->check_seconds = ptm_thread_cpu_seconds() - begin;
	if (status >= 0)
		status = deliver(run, err);
	if (status < 0) {
		/* Workers look at the flag, waiters at the ring. */
		atomic_store_explicit(&run->session->cancel, true, memory_order_relaxed);
		ptm_ring_cancel(run->ring);
		ptm_sources_interrupt(run->session->sources);
	}
	for (unsigned i = 0; i < started; i++) {
		(void)pthread_join(workers[i].thread, NULL);
		run->stats->claim_seconds += workers[i].claiming;
		run->stats->load_seconds += workers[i].loading;
		run->stats->decode_seconds += workers[i].decoding;
	}
	run->stats->deliver_seconds = ptm_thread_cpu_seconds() - begin - run->stats->check_seconds;
	set_ring(run->session, NULL);
	return status;
}

static void warn_count(const struct run *run, size_t n, const char *what)
{
	char text[160];

	if (n == 0)
		return;
	(void)snprintf(text, sizeof(text), "%zu mapped image%s %s; `ptmill info` lists %s", n,
		       n == 1 ? " is" : "s are", what, n == 1 ? "it" : "them");
	run->options->warn(run->options->ctx, text);
}

/* Does a stream lie where no image at all is mapped? */
static bool lacks_images(const struct ptm_session *session)
{
	for (size_t i = 0; i < session->streams.n; i++) {
		const struct ptm_stream_context *stream = &session->streams.v[i];

		if (stream->images.entries.n == 0 && ptm_space_count(stream->images.first) == 0)
			return true;
	}
	return false;
}

static void warn(struct run *run)
{
	struct ptm_session *session = run->session;
	size_t missing = 0, other = 0;

	if (run->options->warn == NULL)
		return;
	for (size_t i = 0; i < session->streams.n; i++) {
		const char *line = ptm_engine_cpu_warning(&session->streams.v[i].cpu);

		if (line != NULL) {
			run->options->warn(run->options->ctx, line);
			break;
		}
	}
	for (size_t i = 0; i < ptm_session_images(session); i++) {
		struct ptm_image_info m = ptm_session_image(session, i);

		missing += !m.found;
		other += m.found && m.wanted_id[0] != '\0' && strcmp(m.wanted_id, m.build_id) != 0;
	}
	warn_count(run, missing, "missing");
	warn_count(run, other, "of another build than recorded");
	run->warned_of_images = missing > 0 || other > 0;
}

/* What only the run has shown. */
static void warn_after(const struct run *run)
{
	const struct ptm_run_stats *stats = run->stats;
	const char *name;
	char text[512], others[48] = "";

	if (run->options->warn == NULL)
		return;
	if (stats->unsynced > 0) {
		name = ptm_source_name(ptm_sources_get(run->session->sources, run->first_unsynced));
		if (stats->unsynced > 1)
			(void)snprintf(others, sizeof(others), " (and %" PRIu64 " more)",
				       stats->unsynced - 1);
		(void)snprintf(text, sizeof(text),
			       "%.300s: no PSB in %" PRIu64 " byte%s: is it an Intel PT trace?%s",
			       name, run->unsynced_bytes, run->unsynced_bytes == 1 ? "" : "s",
			       others);
		run->options->warn(run->options->ctx, text);
	}
	if (run->warned_of_images || stats->no_image == 0)
		return;
	if (lacks_images(run->session)) {
		run->options->warn(run->options->ctx,
				   "no images are given for a stream, without which nothing of it "
				   "is decoded: name them by --elf, --raw or --maps");
		return;
	}
	/* A wrong address here and there is damage. */
	if (stats->no_image <= stats->gaps / 2 ||
	    (stats->no_image < NO_IMAGE_MANY && stats->insns > 0))
		return;
	(void)snprintf(text, sizeof(text),
		       "%" PRIu64 " of %" PRIu64 " gap%s for want of an image: `ptmill info' lists "
		       "those there are, --elf, --raw and --maps name more",
		       stats->no_image, stats->gaps, stats->gaps == 1 ? " is" : "s are");
	run->options->warn(run->options->ctx, text);
}

static uint64_t segment_size(const struct ptm_session *session, const struct ptm_sink *sink)
{
	if (session->config.segment_size != 0)
		return session->config.segment_size;
	return sink->ops->segment_size != 0 ? sink->ops->segment_size : PTM_SEGMENT_SIZE_DEFAULT;
}

static uint64_t total_bytes(const struct ptm_session *session)
{
	uint64_t total = 0;

	for (size_t i = 0; i < ptm_sources_count(session->sources); i++) {
		const struct ptm_source *source = ptm_sources_get(session->sources, i);

		if (!ptm_source_is_seekable(source))
			return 0;
		total += ptm_source_size(source);
	}
	return total;
}

/* What the workers share: before they start ... */
static int open_shared(struct run *run, struct ptm_error *err)
{
	struct ptm_session *session = run->session;

	run->split = ptm_split_create(session->sources, segment_size(session, run->sink),
				      session->config.assume.given, &session->cancel, err);
	run->ring = ptm_ring_create(ptm_plan_workers(session->plan), err);
	if (run->split == NULL || run->ring == NULL)
		return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory");
	if (run->sink->ops->raw != NULL || session->config.engine != PTM_ENGINE_FAST)
		return 0;
	run->cache = session->config.cache;
	if (run->cache == NULL)
		run->cache = ptm_cache_create(session->config.cache_limit, err);
	return run->cache != NULL ? 0 : -PTM_E_NOMEM;
}

/* ... and after they are joined. */
static void close_shared(struct run *run)
{
	if (run->cache != run->session->config.cache)
		ptm_cache_destroy(run->cache);
	ptm_ring_destroy(run->ring);
	ptm_split_destroy(run->split);
}

int ptm_session_run(struct ptm_session *session, struct ptm_sink *sink,
		    const struct ptm_run_options *options, struct ptm_run_stats *stats,
		    struct ptm_error *err)
{
	const struct ptm_run_options none = {.size = sizeof(none)};
	const unsigned n = ptm_plan_workers(session->plan);
	struct run run = {.session = session,
			  .sink = sink,
			  .options = options != NULL ? options : &none,
			  .stats = stats,
			  .started = ptm_now(),
			  .total = total_bytes(session)};
	struct worker *workers = (struct worker *)calloc(n, sizeof(*workers));
	double cpu = ptm_cpu_seconds();
	int status = workers != NULL ? ptm_session_seal(session, err)
				     : PTM_FAIL(err, PTM_E_NOMEM, "Out of memory");

	*stats = (struct ptm_run_stats){.workers = n};
	if (status >= 0) {
		warn(&run);
		if (sink->ops->streams != NULL)
			sink->ops->streams(sink, ptm_sources_count(session->sources));
		status = open_shared(&run, err);
	}
	stats->prepare_seconds = ptm_cpu_seconds() - cpu;
	if (status >= 0)
		status = run_workers(&run, workers, n, err);
	if (status >= 0)
		status = sum_counts(&run, workers, n, err);
	if (status >= 0)
		warn_after(&run);
	for (unsigned i = 0; workers != NULL && i < n; i++)
		ptm_counts_destroy(workers[i].counts);
	close_shared(&run);
	free(workers);
	stats->pinned = atomic_load_explicit(&run.pinned, memory_order_relaxed);
	stats->seconds = ptm_now() - run.started;
	stats->cpu_seconds = ptm_cpu_seconds() - cpu;
	return status;
}
