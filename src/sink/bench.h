/* SPDX-License-Identifier: Apache-2.0
 *
 * bench.h - what a benchmark has measured: samples, a row of them a contender.  Private to the
 * benchmark.
 */
#ifndef PTM_SINK_BENCH_H
#define PTM_SINK_BENCH_H

#include "base/digest.h"
#include "base/vec.h"
#include "pipeline/sink.h"
#include "ptmill/bench.h"

enum ptm_bench_contender {
	PTM_BENCH_PROCESS,   /* a process of its own: one thread, cold */
	PTM_BENCH_PROCESS_N, /* likewise, many threads */
	PTM_BENCH_COLD,      /* one thread, empty cache */
	PTM_BENCH_WARM,      /* one thread, cache filled by another recording */
	PTM_BENCH_WARM_N,    /* likewise, many threads */
	PTM_BENCH_IPT_BLOCK, /* libipt's block decoder with its section cache */
	PTM_BENCH_IPT_INSN,  /* libipt's instruction decoder */
	PTM_BENCH_CONTENDERS
};

/* One run. */
struct ptm_bench_sample {
	double cpu,
		wall; /* seconds; CPU: of the process, of libipt's decoders the decoding alone */
	uint64_t insns, digest;        /* a digest of 0: it has none */
	uint64_t errors;               /* of libipt */
	uint64_t peak_rss;             /* bytes; 0: not measured */
	struct ptm_run_stats run;      /* but for processes */
	uint64_t generations;          /* of the cache, before and during the run */
	uint64_t nodes, edges;         /* in the cache before the run */
	uint64_t new_nodes, new_edges; /* that the run added */
};

struct ptm_bench {
	struct ptm_bench_config config;
	/* What the trace is; from a run that is not measured. */
	uint64_t bytes, insns, digest, tnt_bits, tips;
	uint64_t nodes; /* that it puts into an empty cache; 0: more than there is room for */
	PTM_VEC(struct ptm_bench_sample) samples[PTM_BENCH_CONTENDERS];
};

/* A sink that counts and digests by our engine.  With @tally it has the figures of packets, too. */
struct ptm_sink *ptm_bench_count_create(bool tally);
/* One that does so by one of libipt's decoders. */
struct ptm_sink *ptm_bench_ipt_create(bool blocks);

/* What either has seen, after a run. */
struct ptm_bench_count {
	struct ptm_digest digest; /* of all streams, in order */
	bool has_digest;
	uint64_t tnt_bits, tips;
	uint64_t errors;
	double cpu_seconds; /* libipt's */
};
struct ptm_bench_count ptm_bench_counted(const struct ptm_sink *sink);

/* Run the process that spawn() makes. */
int ptm_bench_process(const struct ptm_bench *bench, unsigned threads,
		      struct ptm_bench_sample *sample, struct ptm_error *err);

#endif
