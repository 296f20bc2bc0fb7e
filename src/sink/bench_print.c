/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_print.c - the figures of a benchmark as a table and as JSON.
 *
 * Both are made of the same rows (struct row): medians over the runs, with the least and the most.
 * What is compared between single threads is CPU seconds, between one and many wall seconds.
 */
#include "sink/bench.h"

#include "os/file.h"
#include "os/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

struct range {
	double median, min, max;
};

struct row {
	struct range cpu, wall;
	double insns, bytes; /* a second: CPU, or of many threads wall */
	double ns_a_branch;  /* likewise */
	double decode;       /* median: CPU seconds of the workers, decoding */
	double serial;       /* median: CPU seconds of what only one thread does at a time */
	uint64_t peak_rss;
};

static const struct {
	const char *name;
	bool many;
} contenders[PTM_BENCH_CONTENDERS] = {
	[PTM_BENCH_PROCESS] = {"process", false},
	[PTM_BENCH_PROCESS_N] = {"process_threads", true},
	[PTM_BENCH_COLD] = {"cold", false},
	[PTM_BENCH_WARM] = {"warm", false},
	[PTM_BENCH_WARM_N] = {"warm_threads", true},
	[PTM_BENCH_IPT_BLOCK] = {"libipt_block", false},
	[PTM_BENCH_IPT_INSN] = {"libipt_insn", false},
};

/* Only another recording makes a cache warm. */
static const char *name_of(const struct ptm_bench *b, unsigned who)
{
	if (b->config.other != NULL)
		return contenders[who].name;
	return who == PTM_BENCH_WARM     ? "self_warm"
	       : who == PTM_BENCH_WARM_N ? "self_warm_threads"
					 : contenders[who].name;
}

typedef double (*figure_fn)(const struct ptm_bench_sample *sample);

static double cpu_of(const struct ptm_bench_sample *s)
{
	return s->cpu;
}

static double wall_of(const struct ptm_bench_sample *s)
{
	return s->wall;
}

static double decode_of(const struct ptm_bench_sample *s)
{
	return s->run.decode_seconds;
}

static double serial_of(const struct ptm_bench_sample *s)
{
	return s->run.prepare_seconds + s->run.claim_seconds + s->run.deliver_seconds;
}

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* NANs without samples, or memory. */
static struct range range_of(const struct ptm_bench *b, unsigned who, figure_fn figure)
{
	const size_t n = b->samples[who].n;
	double *v = n > 0 ? (double *)calloc(n, sizeof(*v)) : NULL;
	struct range r = {NAN, NAN, NAN};

	if (v == NULL)
		return r;
	for (size_t i = 0; i < n; i++)
		v[i] = figure(&b->samples[who].v[i]);
	qsort(v, n, sizeof(*v), compare);
	r = (struct range){(v[(n - 1) / 2] + v[n / 2]) / 2, v[0], v[n - 1]};
	free(v);
	return r;
}

static struct row row_of(const struct ptm_bench *b, unsigned who)
{
	const double branches = (double)(b->tnt_bits + b->tips);
	struct row row = {.cpu = range_of(b, who, cpu_of),
			  .wall = range_of(b, who, wall_of),
			  .decode = range_of(b, who, decode_of).median,
			  .serial = range_of(b, who, serial_of).median};
	const double seconds = contenders[who].many ? row.wall.median : row.cpu.median;

	row.insns = (double)b->insns / seconds;
	row.bytes = (double)b->bytes / seconds;
	row.ns_a_branch = branches > 0 ? seconds * 1e9 / branches : NAN;
	for (size_t i = 0; i < b->samples[who].n; i++)
		if (b->samples[who].v[i].peak_rss > row.peak_rss)
			row.peak_rss = b->samples[who].v[i].peak_rss;
	return row;
}

/* A figure of two contenders. */
struct ratio {
	const char *name, *what;
	enum ptm_bench_contender by, of;
	bool wall;
};

static const struct ratio ratios[] = {
	{"warm_by_libipt_insn", "warm against libipt's instruction decoder", PTM_BENCH_IPT_INSN,
	 PTM_BENCH_WARM, false},
	{"warm_by_libipt_block", "warm against libipt's block decoder", PTM_BENCH_IPT_BLOCK,
	 PTM_BENCH_WARM, false},
	{"process_by_libipt_insn", "whole process, cold, against libipt's instruction decoder",
	 PTM_BENCH_IPT_INSN, PTM_BENCH_PROCESS, false},
	{"process_by_libipt_block", "whole process, cold, against libipt's block decoder",
	 PTM_BENCH_IPT_BLOCK, PTM_BENCH_PROCESS, false},
	{"threads_by_one", "many threads against one, warm, wall", PTM_BENCH_WARM, PTM_BENCH_WARM_N,
	 true},
	{"process_threads_by_one", "many threads against one, whole process, wall",
	 PTM_BENCH_PROCESS, PTM_BENCH_PROCESS_N, true},
};

#define NRATIOS (sizeof(ratios) / sizeof(ratios[0]))

static double ratio_of(const struct ptm_bench *b, const struct ratio *r)
{
	const figure_fn figure = r->wall ? wall_of : cpu_of;

	return range_of(b, r->by, figure).median / range_of(b, r->of, figure).median;
}

/* The share of look-ups that found their edge, at least: there is no fewer look-ups than TIPs, nor
 * than sixteenths of TNT bits. */
static double hit_rate(const struct ptm_bench *b, const struct ptm_bench_sample *s)
{
	const uint64_t by_bits = b->tnt_bits / 16;
	const uint64_t steps = b->tips > by_bits ? b->tips : by_bits;

	if (steps == 0 || s->generations != 1)
		return NAN;
	return s->new_edges < steps ? 1 - (double)s->new_edges / (double)steps : 0;
}

double ptm_bench_known(const struct ptm_bench *bench)
{
	const struct ptm_bench_sample *warm = &bench->samples[PTM_BENCH_WARM].v[0];

	if (bench->nodes == 0 || warm->generations != 1)
		return NAN;
	return 1 - (double)warm->new_nodes / (double)bench->nodes;
}

static struct ptm_json *json_range(const struct range *r)
{
	struct ptm_json *j = ptm_json_object();

	ptm_json_set_double(j, "median", r->median);
	ptm_json_set_double(j, "min", r->min);
	ptm_json_set_double(j, "max", r->max);
	return j;
}

static struct ptm_json *json_contender(const struct ptm_bench *b, unsigned who)
{
	const struct ptm_bench_sample *first = &b->samples[who].v[0];
	const struct row row = row_of(b, who);
	struct ptm_json *j = ptm_json_object();

	ptm_json_set_str(j, "name", name_of(b, who));
	ptm_json_set_u64(j, "threads", contenders[who].many ? b->config.threads : 1);
	ptm_json_set_u64(j, "runs", b->samples[who].n);
	ptm_json_set_u64(j, "instructions", first->insns);
	if (who != PTM_BENCH_IPT_BLOCK)
		ptm_json_set_hex(j, "digest", first->digest);
	ptm_json_set(j, "cpu_seconds", json_range(&row.cpu));
	ptm_json_set(j, "wall_seconds", json_range(&row.wall));
	ptm_json_set_double(j, "instructions_per_second", row.insns);
	ptm_json_set_double(j, "bytes_per_second", row.bytes);
	ptm_json_set_double(j, "ns_a_branch", row.ns_a_branch);
	if (row.peak_rss > 0)
		ptm_json_set_u64(j, "peak_rss", row.peak_rss);
	if (who >= PTM_BENCH_IPT_BLOCK)
		ptm_json_set_u64(j, "errors", first->errors);
	if (who >= PTM_BENCH_COLD && who <= PTM_BENCH_WARM_N) {
		ptm_json_set_double(j, "decode_cpu_seconds", row.decode);
		ptm_json_set_double(j, "serial_cpu_seconds", row.serial);
		ptm_json_set_double(j, "serial_share", row.serial / row.wall.median);
	}
	return j;
}

static struct ptm_json *json_cache(const struct ptm_bench *b)
{
	const struct ptm_bench_sample *s = &b->samples[PTM_BENCH_WARM].v[0];
	struct ptm_json *j = ptm_json_object();

	ptm_json_set_str(j, "filled_by",
			 b->config.other != NULL ? b->config.other : b->config.input);
	ptm_json_set_bool(j, "by_another_recording", b->config.other != NULL);
	ptm_json_set_u64(j, "limit",
			 b->config.session->cache_limit != 0 ? b->config.session->cache_limit
							     : PTM_CACHE_LIMIT_DEFAULT);
	ptm_json_set_u64(j, "generations", s->generations);
	ptm_json_set_u64(j, "nodes", s->nodes);
	ptm_json_set_u64(j, "edges", s->edges);
	ptm_json_set_u64(j, "new_nodes", s->new_nodes);
	ptm_json_set_u64(j, "new_edges", s->new_edges);
	ptm_json_set_double(j, "hit_rate_at_least", hit_rate(b, s));
	return j;
}

static struct ptm_json *json_bench(const struct ptm_bench *b)
{
	struct ptm_json *j = ptm_json_object(), *list = ptm_json_array(),
			*compared = ptm_json_object();

	ptm_json_set_str(j, "input", b->config.input);
	ptm_json_set_u64(j, "trace_bytes", b->bytes);
	ptm_json_set_u64(j, "instructions", b->insns);
	ptm_json_set_hex(j, "digest", b->digest);
	ptm_json_set_u64(j, "tnt_bits", b->tnt_bits);
	ptm_json_set_u64(j, "tips", b->tips);
	ptm_json_set_u64(j, "branches", b->tnt_bits + b->tips);
	ptm_json_set_u64(j, "threads", b->config.threads);
	ptm_json_set_u64(j, "runs", b->config.runs);
	ptm_json_set_bool(j, "agree", ptm_bench_agrees(b));
	ptm_json_set(j, "cache", json_cache(b));
	for (unsigned who = 0; who < PTM_BENCH_CONTENDERS; who++)
		if (b->samples[who].n > 0)
			ptm_json_append(list, json_contender(b, who));
	ptm_json_set(j, "contenders", list);
	for (size_t i = 0; i < NRATIOS; i++) {
		const double ratio = ratio_of(b, &ratios[i]);

		if (!isnan(ratio))
			ptm_json_set_double(compared, ratios[i].name, ratio);
	}
	ptm_json_set(j, "ratios", compared);
	return j;
}

static int put_head(const struct ptm_bench *b, struct ptm_out *out, struct ptm_error *err)
{
	const struct ptm_bench_sample *s = &b->samples[PTM_BENCH_WARM].v[0];

	PTM_TRY(ptm_out_printf(out, err,
			       "%s: %.1f MB, %" PRIu64 " instructions, %" PRIu64
			       " branches (%" PRIu64 " tnt bits, %" PRIu64 " tips)\n",
			       b->config.input, (double)b->bytes / 1e6, b->insns,
			       b->tnt_bits + b->tips, b->tnt_bits, b->tips));
	PTM_TRY(ptm_out_printf(out, err, "%u run%s each, taking turns; %u thread%s where many\n",
			       b->config.runs, b->config.runs == 1 ? "" : "s", b->config.threads,
			       b->config.threads == 1 ? "" : "s"));
	if (b->config.other != NULL)
		PTM_TRY(ptm_out_printf(out, err, "warm: the cache was filled by %s\n",
				       b->config.other));
	else
		PTM_TRY(ptm_out_printf(
			out, err,
			"self_warm: the cache was filled by the same trace, which no "
			"user has twice; --warm makes it honest\n"));
	return ptm_out_printf(out, err,
			      "cache before: %" PRIu64 " nodes, %" PRIu64 " edges; added: %" PRIu64
			      " nodes, %" PRIu64 " edges; hit rate at least %.3f %%\n\n",
			      s->nodes, s->edges, s->new_nodes, s->new_edges, 100 * hit_rate(b, s));
}

static int put_row(const struct ptm_bench *b, unsigned who, struct ptm_out *out,
		   struct ptm_error *err)
{
	const struct row row = row_of(b, who);
	char rss[24] = "-";

	if (row.peak_rss > 0)
		(void)snprintf(rss, sizeof(rss), "%.0f", (double)row.peak_rss / (1 << 20));
	return ptm_out_printf(out, err,
			      "%-17s%9.4f %9.4f %9.4f %9.4f %10.1f %9.1f %8.2f  %-4s %7s\n",
			      name_of(b, who), row.cpu.median, row.cpu.min, row.cpu.max,
			      row.wall.median, row.insns / 1e6, row.bytes / 1e6, row.ns_a_branch,
			      contenders[who].many ? "wall" : "CPU", rss);
}

static int put_shares(const struct ptm_bench *b, struct ptm_out *out, struct ptm_error *err)
{
	for (unsigned who = PTM_BENCH_COLD; who <= PTM_BENCH_WARM_N; who++) {
		const struct row row = row_of(b, who);

		if (b->samples[who].n > 0)
			PTM_TRY(ptm_out_printf(
				out, err,
				"%s: decoding %.4f s of CPU, what one thread does at "
				"a time %.4f s, %.1f %% of the wall time\n",
				name_of(b, who), row.decode, row.serial,
				100 * row.serial / row.wall.median));
	}
	return 0;
}

static int put_table(const struct ptm_bench *b, struct ptm_out *out, struct ptm_error *err)
{
	PTM_TRY(put_head(b, out, err));
	PTM_TRY(ptm_out_printf(out, err, "%-17s%9s %9s %9s %9s %10s %9s %8s  %-4s %7s\n", "",
			       "CPU s", "least", "most", "wall s", "M insn/s", "MB/s", "ns/br",
			       "by", "RSS MiB"));
	for (unsigned who = 0; who < PTM_BENCH_CONTENDERS; who++)
		if (b->samples[who].n > 0)
			PTM_TRY(put_row(b, who, out, err));
	PTM_TRY(ptm_out_printf(out, err, "\n"));
	PTM_TRY(put_shares(b, out, err));
	for (size_t i = 0; i < NRATIOS; i++) {
		const double ratio = ratio_of(b, &ratios[i]);

		if (!isnan(ratio))
			PTM_TRY(ptm_out_printf(out, err, "%s%s: %.2f times as fast\n",
					       b->config.other == NULL && i < 2 ? "self_" : "",
					       ratios[i].what, ratio));
	}
	if (ptm_bench_agrees(b))
		return 0;
	for (unsigned who = 0; who < PTM_BENCH_CONTENDERS; who++)
		for (size_t k = 0; k < b->samples[who].n; k++)
			PTM_TRY(ptm_out_printf(out, err,
					       "%s: %" PRIu64 " instructions, 0x%016" PRIx64
					       ", %" PRIu64 " errors of libipt\n",
					       name_of(b, who), b->samples[who].v[k].insns,
					       b->samples[who].v[k].digest,
					       b->samples[who].v[k].errors));
	return ptm_out_printf(out, err, "They DIFFER: the figures compare different work\n");
}

int ptm_bench_print(const struct ptm_bench *bench, bool json, const char *path,
		    struct ptm_error *err)
{
	struct ptm_out *out = ptm_out_open(path, err);
	struct ptm_json *j;
	int status;

	if (out == NULL)
		return -(int)err->code;
	if (json) {
		j = json_bench(bench);
		status = ptm_json_write(j, out, err);
		ptm_json_destroy(j);
	} else {
		status = put_table(bench, out, err);
	}
	if (status >= 0)
		return ptm_out_commit(out, err);
	ptm_out_abort(out);
	return status;
}
