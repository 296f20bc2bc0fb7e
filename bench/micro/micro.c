/* SPDX-License-Identifier: Apache-2.0
 *
 * micro.c - parts of the decoder on their own, over a real trace:
 *
 *   ptm_micro RUNS CAPTURE OTHER
 *
 * PSB scan, lexer, and the fast engine without input, merge and output: cold, warm (the cache was
 * filled by OTHER), and hot (a segment again directly behind itself: it and what it needs of the
 * tables are in the caches of the CPU).  CPU time of the worker around the part alone; medians over
 * RUNS rounds, in which the parts take turns.  Prints JSON.
 */
#include "flow/cache.h"
#include "fmt/pt_packet.h"
#include "os/json.h"
#include "os/thread.h"
#include "pipeline/sink.h"
#include "ptmill/session.h"
#include "ptmill/sink.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define RUNS_MAX 1000

enum part { PSB_SCAN, LEXER, COLD, WARM, HOT, PARTS };

struct micro_sink {
	struct ptm_sink sink;
	enum part part;
	struct ptm_cache *cache;
	/* The one worker's, read after the run. */
	double seconds;
	uint64_t bytes, packets, branches;
};

/* Keeps what is measured from being optimised away. */
static volatile uint64_t seen;

static int ignore(void *ctx, const struct ptm_batch *batch, struct ptm_error *err)
{
	(void)ctx;
	(void)batch;
	(void)err;
	return 0;
}

static void *worker_create(struct ptm_sink *sink, struct ptm_error *err)
{
	const struct ptm_engine_options options = {.cache = ((struct micro_sink *)sink)->cache};

	return ptm_engine_fast.create(&options, err);
}

static void worker_destroy(struct ptm_sink *sink, void *worker)
{
	(void)sink;
	ptm_engine_fast.destroy((struct ptm_engine *)worker);
}

static void scan(const struct ptm_segment *seg)
{
	size_t at = 0;

	while (at < seg->len) {
		at = ptm_psb_find(seg->data, seg->len, at, false) + PTM_PSB_SIZE;
		seen++;
	}
}

static void lex(struct micro_sink *ms, const struct ptm_segment *seg)
{
	struct ptm_lexer lx;
	struct ptm_pkt pkt;

	ptm_lexer_init(&lx, seg->data, seg->len);
	while (ptm_lex_next(&lx, &pkt) == PTM_LEX_OK) {
		ms->packets++;
		ms->branches += pkt.kind == PTM_PKT_TIP;
		if (pkt.kind == PTM_PKT_TNT8 || pkt.kind == PTM_PKT_TNT64)
			ms->branches += pkt.n;
	}
}

static int raw(struct ptm_sink *sink, void *worker, const struct ptm_segment *seg,
	       struct ptm_emit *emit, struct ptm_job_out *out, struct ptm_error *err)
{
	struct micro_sink *ms = (struct micro_sink *)sink;
	struct ptm_engine *engine = (struct ptm_engine *)worker;
	double begin;
	int status = 0;

	(void)out;
	ms->bytes += seg->len;
	if (ms->part == HOT) {
		ptm_emit_init(emit, ignore, NULL);
		status = engine->ops->decode(engine, seg, emit, err);
	}
	if (status < 0)
		return status;
	ptm_emit_init(emit, ignore, NULL);
	begin = ptm_thread_cpu_seconds();
	if (ms->part == PSB_SCAN)
		scan(seg);
	else if (ms->part == LEXER)
		lex(ms, seg);
	else
		status = engine->ops->decode(engine, seg, emit, err);
	ms->seconds += ptm_thread_cpu_seconds() - begin;
	if (ms->part <= LEXER) {
		emit->tally.bytes[PTM_BYTES_HEAD] = seg->head;
		emit->tally.bytes[PTM_BYTES_DECODED] = seg->len;
		emit->tally.bytes[PTM_BYTES_SKIPPED] = seg->skipped;
		emit->tally.bytes[PTM_BYTES_LOST] = seg->missing;
	}
	return status;
}

static const struct ptm_sink_ops ops = {
	.worker_create = worker_create, .worker_destroy = worker_destroy, .raw = raw};

static void fail(const struct ptm_error *err)
{
	(void)fprintf(stderr, "ptm_micro: %s\n",
		      err->ncauses > 0 ? err->cause[err->ncauses - 1].text
				       : ptm_err_name(err->code));
	exit(ptm_err_exit_code(err->code));
}

static struct micro_sink run(enum part part, struct ptm_cache *cache, const char *capture)
{
	struct micro_sink ms = {.sink = {&ops}, .part = part, .cache = cache};
	const struct ptm_config config = {.size = sizeof(config), .threads = 1};
	struct ptm_error err = {.code = PTM_E_OK};
	struct ptm_session *session = ptm_session_create(&config, &err);
	struct ptm_run_stats stats;

	if (session == NULL || ptm_session_add_input(session, capture, &err) < 0 ||
	    ptm_session_run(session, &ms.sink, NULL, &stats, &err) < 0)
		fail(&err);
	ptm_session_destroy(session);
	return ms;
}

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), compare);
	return (v[(n - 1) / 2] + v[n / 2]) / 2;
}

int main(int argc, char **argv)
{
	const unsigned long runs = argc == 4 ? strtoul(argv[1], NULL, 10) : 0;
	static double seconds[PARTS][RUNS_MAX];
	double m[PARTS];
	struct ptm_cache_stats built = {0};
	struct micro_sink lexed = {.part = LEXER};
	struct ptm_json *json = ptm_json_object();
	struct ptm_out *out = ptm_out_open(NULL, NULL);
	struct ptm_error err = {.code = PTM_E_OK};

	if (runs == 0 || runs > RUNS_MAX) {
		(void)fprintf(stderr, "usage: ptm_micro RUNS CAPTURE OTHER\n");
		return 64;
	}
	for (unsigned long i = 0; i < runs; i++)
		for (unsigned part = 0; part < PARTS; part++) {
			struct ptm_cache *cache = ptm_cache_create(0, &err);
			struct micro_sink ms;

			if (cache == NULL)
				fail(&err);
			if (part == WARM || part == HOT)
				(void)run(WARM, cache, argv[3]);
			ms = run((enum part)part, cache, argv[2]);
			seconds[part][i] = ms.seconds;
			if (part == LEXER)
				lexed = ms;
			if (part == COLD)
				built = ptm_cache_stats(cache);
			ptm_cache_destroy(cache);
		}
	for (unsigned part = 0; part < PARTS; part++)
		m[part] = median(seconds[part], runs);
	ptm_json_set_double(json, "psb_scan_GB_per_s", (double)lexed.bytes / m[PSB_SCAN] / 1e9);
	ptm_json_set_double(json, "lexer_GB_per_s", (double)lexed.bytes / m[LEXER] / 1e9);
	ptm_json_set_double(json, "lexer_ns_a_packet", m[LEXER] * 1e9 / (double)lexed.packets);
	ptm_json_set_double(json, "hot_ns_a_branch", m[HOT] * 1e9 / (double)lexed.branches);
	ptm_json_set_double(json, "warm_ns_a_branch", m[WARM] * 1e9 / (double)lexed.branches);
	ptm_json_set_double(json, "cold_ns_a_branch", m[COLD] * 1e9 / (double)lexed.branches);
	ptm_json_set_double(json, "nodes", (double)built.nodes);
	ptm_json_set_double(json, "edges", (double)built.edges);
	ptm_json_set_double(json, "build_ns_a_node_or_edge",
			    (m[COLD] - m[WARM]) * 1e9 / (double)(built.nodes + built.edges));
	if (out == NULL || ptm_json_write(json, out, &err) < 0 || ptm_out_commit(out, &err) < 0)
		fail(&err);
	ptm_json_destroy(json);
	return 0;
}
