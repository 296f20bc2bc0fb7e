/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_count.c - the sinks of a benchmark: they keep the count and the digest, and write nothing.
 */
#include "sink/bench.h"

#include "flow/ipt_count.h"
#include "ptmill/sink.h"

#include <pthread.h>
#include <stdlib.h>

struct count_sink {
	struct ptm_sink sink;
	bool blocks;
	struct ptm_bench_count count; /* the deliverer's, but for what workers leave at their end */
	pthread_mutex_t lock;         /* of that */
};

struct ipt_worker {
	struct ptm_ipt_counter *counter;
	uint64_t errors;
	double cpu_seconds;
};

static int count_segment_end(struct ptm_sink *sink, const struct ptm_segment_end *end,
			     struct ptm_error *err)
{
	struct ptm_bench_count *count = &((struct count_sink *)sink)->count;

	(void)err;
	ptm_digest_append(&count->digest, &end->digest);
	count->tnt_bits += end->tally->tnt_bits;
	count->tips += end->tally->packets[PTM_PKT_TIP];
	return 0;
}

static void count_destroy(struct ptm_sink *sink)
{
	(void)pthread_mutex_destroy(&((struct count_sink *)sink)->lock);
	free(sink);
}

static void *ipt_worker_create(struct ptm_sink *sink, struct ptm_error *err)
{
	struct ipt_worker *w = (struct ipt_worker *)calloc(1, sizeof(*w));

	if (w != NULL)
		w->counter = ptm_ipt_counter_create(((struct count_sink *)sink)->blocks);
	if (w != NULL && w->counter != NULL)
		return w;
	free(w);
	(void)PTM_FAIL(err, PTM_E_NOMEM, "Out of memory");
	return NULL;
}

static void ipt_worker_destroy(struct ptm_sink *sink, void *worker)
{
	struct count_sink *cs = (struct count_sink *)sink;
	struct ipt_worker *w = (struct ipt_worker *)worker;

	(void)pthread_mutex_lock(&cs->lock);
	cs->count.errors += w->errors;
	cs->count.cpu_seconds += w->cpu_seconds;
	(void)pthread_mutex_unlock(&cs->lock);
	ptm_ipt_counter_destroy(w->counter);
	free(w);
}

static int ignore(void *ctx, const struct ptm_batch *batch, struct ptm_error *err)
{
	(void)ctx;
	(void)batch;
	(void)err;
	return 0;
}

static int ipt_raw(struct ptm_sink *sink, void *worker, const struct ptm_segment *seg,
		   struct ptm_emit *emit, struct ptm_job_out *out, struct ptm_error *err)
{
	struct ipt_worker *w = (struct ipt_worker *)worker;
	struct ptm_ipt_count count;
	uint64_t power = 1, k = PTM_DIGEST_K;

	(void)sink;
	(void)out;
	ptm_emit_init(emit, ignore, NULL);
	PTM_TRY(ptm_ipt_count(w->counter, seg, &count, err));
	w->errors += count.errors;
	w->cpu_seconds += count.cpu_seconds;
	for (uint64_t n = count.insns; n > 0; n >>= 1, k *= k)
		power *= (n & 1) != 0 ? k : 1;
	emit->digest = (struct ptm_digest){count.insns, power, count.digest};
	emit->tally.insns = count.insns;
	emit->tally.bytes[PTM_BYTES_HEAD] = seg->head;
	emit->tally.bytes[PTM_BYTES_DECODED] = seg->len;
	emit->tally.bytes[PTM_BYTES_SKIPPED] = seg->skipped;
	emit->tally.bytes[PTM_BYTES_LOST] = seg->missing;
	return 0;
}

static const struct ptm_sink_ops count_ops = {
	.segment_end = count_segment_end,
	.destroy = count_destroy,
};

static const struct ptm_sink_ops tally_ops = {
	.want = PTM_WANT_TALLY,
	.segment_end = count_segment_end,
	.destroy = count_destroy,
};

static const struct ptm_sink_ops ipt_ops = {
	.worker_create = ipt_worker_create,
	.worker_destroy = ipt_worker_destroy,
	.raw = ipt_raw,
	.segment_end = count_segment_end,
	.destroy = count_destroy,
};

static struct ptm_sink *create(const struct ptm_sink_ops *ops, bool blocks)
{
	struct count_sink *cs = (struct count_sink *)calloc(1, sizeof(*cs));

	if (cs == NULL)
		return NULL;
	cs->sink.ops = ops;
	cs->blocks = blocks;
	cs->count.digest = PTM_DIGEST_EMPTY;
	cs->count.has_digest = !blocks;
	(void)pthread_mutex_init(&cs->lock, NULL);
	return &cs->sink;
}

struct ptm_sink *ptm_bench_count_create(bool tally)
{
	return create(tally ? &tally_ops : &count_ops, false);
}

struct ptm_sink *ptm_bench_ipt_create(bool blocks)
{
	return create(&ipt_ops, blocks);
}

struct ptm_bench_count ptm_bench_counted(const struct ptm_sink *sink)
{
	return ((const struct count_sink *)sink)->count;
}
