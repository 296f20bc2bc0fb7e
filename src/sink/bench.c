/* SPDX-License-Identifier: Apache-2.0
 *
 * bench.c - the rounds of a benchmark: in each, every contender decodes the trace once, so that
 * what else the machine does meets all of them alike.
 *
 * Warm means that the cache was filled by another recording.  A run adds to its cache, so each has
 * a new one, which is filled before and not measured.
 */
#include "sink/bench.h"

#include "flow/cache.h"
#include "ptmill/sink.h"

#include <stdlib.h>

#define RUNS_DEFAULT 5u

/* How a contender runs, within this process. */
struct way {
	unsigned threads;
	enum ptm_engine_kind engine;
	struct ptm_cache *cache;
	bool other;            /* over the other recording */
	uint64_t segment_size; /* 0: the default */
};

static int run_once(const struct ptm_bench *b, const struct way *way, struct ptm_sink *sink,
		    struct ptm_run_stats *stats, struct ptm_error *err)
{
	struct ptm_config config = *b->config.session;
	struct ptm_session *session;
	int status;

	if (sink == NULL)
		return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory");
	config.threads = way->threads;
	config.engine = PTM_ENGINE_FAST;
	config.cache = way->cache;
	config.segment_size = way->segment_size;
	session = ptm_session_create(&config, err);
	if (session == NULL)
		return -(int)err->code;
	status = b->config.fill(b->config.ctx, session, way->other, err);
	if (status >= 0)
		status = ptm_session_run(session, sink, NULL, stats, err);
	ptm_session_destroy(session);
	return status;
}

/* By our engine. */
static int measure(const struct ptm_bench *b, const struct way *way, struct ptm_bench_sample *s,
		   struct ptm_error *err)
{
	struct ptm_sink *sink = ptm_bench_count_create(false);
	int status = run_once(b, way, sink, &s->run, err);

	if (status >= 0) {
		s->cpu = s->run.cpu_seconds;
		s->wall = s->run.seconds;
		s->insns = ptm_bench_counted(sink).digest.n;
		s->digest = ptm_bench_counted(sink).digest.b;
	}
	ptm_sink_destroy(sink);
	return status;
}

static int measure_warm(const struct ptm_bench *b, unsigned threads, struct ptm_bench_sample *s,
			struct ptm_error *err)
{
	struct ptm_cache *cache = ptm_cache_create(b->config.session->cache_limit, err);
	const struct way fill = {
		.threads = b->config.threads, .cache = cache, .other = b->config.other != NULL};
	const struct way way = {.threads = threads, .cache = cache};
	struct ptm_bench_sample ignored = {0};
	struct ptm_cache_stats before, after;
	int status;

	if (cache == NULL)
		return -(int)err->code;
	status = measure(b, &fill, &ignored, err);
	before = ptm_cache_stats(cache);
	if (status >= 0)
		status = measure(b, &way, s, err);
	after = ptm_cache_stats(cache);
	s->generations = after.generations;
	s->nodes = before.nodes;
	s->edges = before.edges;
	if (after.generations == before.generations) {
		s->new_nodes = after.nodes - before.nodes;
		s->new_edges = after.edges - before.edges;
	}
	ptm_cache_destroy(cache);
	return status;
}

/* The whole stream at once, as far as a segment goes: libipt would count differently at seams. */
static int measure_ipt(const struct ptm_bench *b, bool blocks, struct ptm_bench_sample *s,
		       struct ptm_error *err)
{
	const struct way way = {.threads = 1, .segment_size = PTM_SEGMENT_SIZE_MAX};
	struct ptm_sink *sink = ptm_bench_ipt_create(blocks);
	int status = run_once(b, &way, sink, &s->run, err);

	if (status >= 0) {
		const struct ptm_bench_count count = ptm_bench_counted(sink);

		s->cpu = count.cpu_seconds;
		s->wall = s->run.seconds;
		s->insns = count.digest.n;
		s->digest = count.has_digest ? count.digest.b : 0;
		s->errors = count.errors;
	}
	ptm_sink_destroy(sink);
	return status;
}

static int take_sample(struct ptm_bench *b, enum ptm_bench_contender who, struct ptm_error *err)
{
	const struct way cold = {.threads = 1};
	struct ptm_bench_sample s = {0};
	int status = 0;

	switch (who) {
	case PTM_BENCH_PROCESS:
		status = ptm_bench_process(b, 1, &s, err);
		break;
	case PTM_BENCH_PROCESS_N:
		status = ptm_bench_process(b, b->config.threads, &s, err);
		break;
	case PTM_BENCH_COLD:
		status = measure(b, &cold, &s, err);
		break;
	case PTM_BENCH_WARM:
		status = measure_warm(b, 1, &s, err);
		break;
	case PTM_BENCH_WARM_N:
		status = measure_warm(b, b->config.threads, &s, err);
		break;
	case PTM_BENCH_IPT_BLOCK:
	case PTM_BENCH_IPT_INSN:
		status = measure_ipt(b, who == PTM_BENCH_IPT_BLOCK, &s, err);
		break;
	case PTM_BENCH_CONTENDERS:
		break;
	}
	if (status >= 0 && !ptm_vec_push(&b->samples[who], s))
		status = PTM_FAIL(err, PTM_E_NOMEM, "Out of memory");
	return status;
}

static bool takes_part(const struct ptm_bench *b, unsigned who)
{
	const bool many = b->config.threads > 1;

	switch (who) {
	case PTM_BENCH_PROCESS:
		return b->config.spawn != NULL;
	case PTM_BENCH_PROCESS_N:
		return b->config.spawn != NULL && many;
	case PTM_BENCH_WARM_N:
		return many;
	case PTM_BENCH_IPT_BLOCK:
	case PTM_BENCH_IPT_INSN:
		return !b->config.no_libipt;
	default:
		return true;
	}
}

/* What the trace is.  It is read for the first time here, so that it is in memory for all. */
static int look_at(struct ptm_bench *b, struct ptm_error *err)
{
	struct ptm_cache *cache = ptm_cache_create(b->config.session->cache_limit, err);
	const struct way way = {.threads = b->config.threads, .cache = cache};
	struct ptm_sink *sink = ptm_bench_count_create(true);
	struct ptm_run_stats stats;
	int status = cache != NULL ? run_once(b, &way, sink, &stats, err) : -PTM_E_NOMEM;

	if (status >= 0) {
		const struct ptm_bench_count count = ptm_bench_counted(sink);

		b->config.threads = stats.workers;
		b->bytes = stats.bytes;
		b->insns = count.digest.n;
		b->digest = count.digest.b;
		b->tnt_bits = count.tnt_bits;
		b->tips = count.tips;
		if (ptm_cache_stats(cache).generations == 1)
			b->nodes = ptm_cache_stats(cache).nodes;
	}
	ptm_cache_destroy(cache);
	ptm_sink_destroy(sink);
	if (status >= 0 && b->insns == 0)
		return PTM_FAIL(err, PTM_E_FORMAT,
				"%s: no instruction can be decoded: there is nothing to measure",
				b->config.input);
	return status;
}

static int run_rounds(struct ptm_bench *b, struct ptm_error *err)
{
	PTM_TRY(look_at(b, err));
	for (unsigned i = 0; i < b->config.runs; i++)
		for (unsigned who = 0; who < PTM_BENCH_CONTENDERS; who++)
			if (takes_part(b, who))
				PTM_TRY(take_sample(b, (enum ptm_bench_contender)who, err));
	return 0;
}

struct ptm_bench *ptm_bench_run(const struct ptm_bench_config *config, struct ptm_error *err)
{
	struct ptm_bench *b;

	if (config->size != sizeof(*config)) {
		(void)PTM_FAIL(err, PTM_E_USAGE, "Bad config: size=%zu", config->size);
		return NULL;
	}
	b = (struct ptm_bench *)calloc(1, sizeof(*b));
	if (b == NULL) {
		(void)PTM_FAIL(err, PTM_E_NOMEM, "Out of memory");
		return NULL;
	}
	b->config = *config;
	if (b->config.runs == 0)
		b->config.runs = RUNS_DEFAULT;
	if (run_rounds(b, err) < 0) {
		ptm_bench_destroy(b);
		return NULL;
	}
	return b;
}

void ptm_bench_destroy(struct ptm_bench *bench)
{
	if (bench == NULL)
		return;
	for (unsigned i = 0; i < PTM_BENCH_CONTENDERS; i++)
		free(bench->samples[i].v);
	free(bench);
}

bool ptm_bench_agrees(const struct ptm_bench *bench)
{
	for (unsigned i = 0; i < PTM_BENCH_CONTENDERS; i++)
		for (size_t k = 0; k < bench->samples[i].n; k++) {
			const struct ptm_bench_sample *s = &bench->samples[i].v[k];

			if (s->insns != bench->insns ||
			    (i != PTM_BENCH_IPT_BLOCK && s->digest != bench->digest))
				return false;
		}
	return true;
}
