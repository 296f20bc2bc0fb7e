/* SPDX-License-Identifier: Apache-2.0
 *
 * iter.c - an iterator: a run in a thread of its own, whose result is pulled.
 *
 * The thread of the run delivers a piece of output by lending it to the reader, and waits until the
 * reader has used it up; meanwhile the workers go on as far as the ring lets them.  So nothing is
 * copied or queued here.  `turn` says whose move it is:
 *
 *     READER  (there is nothing)  --lend-->  LENT  --reader uses it up-->  READER ...
 *
 * and `over` that no more is lent.  All is under one lock, taken twice a piece (1 MiB at most).
 */
#include "sink/blocks.h"
#include "sink/visit.h"

#include "os/thread.h"
#include "ptmill/sink.h"

#include <stdlib.h>

struct ptm_iter {
	struct ptm_sink sink; /* of the run; first */
	struct ptm_session *session;
	struct ptm_run_options options;
	pthread_t thread;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Under `lock`. */
	bool lent;        /* by the run: data, len, stream_end; back when false */
	const void *data; /* NULL: the end of a stream */
	size_t len;
	bool closing; /* the reader wants no more */
	bool over;    /* the run has ended; what follows is set, and read only */
	int status;
	struct ptm_error err;
	struct ptm_run_stats stats;

	/* The reader's. */
	bool holds; /* it has what was lent */
	bool ended; /* it knows that the run is over */
	struct ptm_visit_reader reader;
};

/* In the thread of the run: lend it and wait until it comes back. */
static int lend(struct ptm_iter *it, const void *data, size_t len, struct ptm_error *err)
{
	bool closing;

	(void)pthread_mutex_lock(&it->lock);
	it->data = data;
	it->len = len;
	it->lent = true;
	(void)pthread_cond_broadcast(&it->changed);
	while (it->lent && !it->closing)
		(void)pthread_cond_wait(&it->changed, &it->lock);
	closing = it->closing;
	(void)pthread_mutex_unlock(&it->lock);
	return closing ? PTM_FAIL(err, PTM_E_CANCELED, "Canceled") : 0;
}

static int iter_deliver(struct ptm_sink *sink, const void *data, size_t len, struct ptm_error *err)
{
	return lend((struct ptm_iter *)sink, data, len, err);
}

static int iter_stream_end(struct ptm_sink *sink, const char *name, struct ptm_error *err)
{
	(void)name;
	return lend((struct ptm_iter *)sink, NULL, 0, err);
}

static const struct ptm_sink_ops iter_ops = {
	.segment_size = PTM_VISIT_SEGMENT,
	.want = PTM_WANT_STEPS,
	.worker_create = ptm_visit_worker_create,
	.worker_destroy = ptm_blocks_worker_destroy,
	.work = ptm_visit_work,
	.deliver = iter_deliver,
	.stream_end = iter_stream_end,
};

static void *run_main(void *arg)
{
	struct ptm_iter *it = (struct ptm_iter *)arg;
	struct ptm_run_stats stats = {0};
	struct ptm_error err = {PTM_E_OK};
	int status = ptm_session_run(it->session, &it->sink, &it->options, &stats, &err);

	(void)pthread_mutex_lock(&it->lock);
	it->status = status;
	it->err = err;
	it->stats = stats;
	it->over = true;
	(void)pthread_cond_broadcast(&it->changed);
	(void)pthread_mutex_unlock(&it->lock);
	return NULL;
}

static void iter_free(struct ptm_iter *it)
{
	(void)pthread_cond_destroy(&it->changed);
	(void)pthread_mutex_destroy(&it->lock);
	free(it);
}

struct ptm_iter *ptm_iter_create(struct ptm_session *session, const struct ptm_run_options *options,
				 struct ptm_error *err)
{
	struct ptm_iter *it = (struct ptm_iter *)calloc(1, sizeof(*it));

	if (it == NULL) {
		(void)PTM_FAIL(err, PTM_E_NOMEM, "Cannot create iterator: out of memory");
		return NULL;
	}
	it->sink.ops = &iter_ops;
	it->session = session;
	it->options = options != NULL ? *options : (struct ptm_run_options){.size = 0};
	it->options.size = sizeof(it->options);
	(void)pthread_mutex_init(&it->lock, NULL);
	(void)pthread_cond_init(&it->changed, NULL);
	if (ptm_thread_start(&it->thread, "ptm-iter", run_main, it, err) < 0) {
		iter_free(it);
		return NULL;
	}
	return it;
}

/* Give back what was lent, and wait for more.  False: the run is over. */
static bool borrow(struct ptm_iter *it)
{
	(void)pthread_mutex_lock(&it->lock);
	if (it->holds) {
		it->lent = false;
		(void)pthread_cond_broadcast(&it->changed);
	}
	while (!it->lent && !it->over)
		(void)pthread_cond_wait(&it->changed, &it->lock);
	it->holds = it->lent;
	it->ended = !it->lent;
	(void)pthread_mutex_unlock(&it->lock);
	return it->holds;
}

/* The next batch, or NULL when the run is over. */
static const struct ptm_block_batch *next_batch(struct ptm_iter *it)
{
	const struct ptm_block_batch *batch = ptm_visit_next(&it->reader);

	while (batch == NULL && !it->ended) {
		if (it->holds && it->data == NULL)
			it->reader.batch.stream++;
		if (borrow(it) && it->data != NULL) {
			ptm_frame_feed(&it->reader.frames, it->data, it->len);
			batch = ptm_visit_next(&it->reader);
		} else {
			batch = ptm_visit_last(&it->reader);
		}
	}
	return batch;
}

int ptm_iter_next(struct ptm_iter *it, const struct ptm_block_batch **batch, struct ptm_error *err)
{
	*batch = next_batch(it);
	if (*batch != NULL)
		return 1;
	if (it->status < 0 && err != NULL)
		*err = it->err;
	return it->status;
}

struct ptm_run_stats ptm_iter_stats(const struct ptm_iter *it)
{
	const struct ptm_run_stats none = {0};

	return it->ended ? it->stats : none;
}

void ptm_iter_destroy(struct ptm_iter *it)
{
	if (it == NULL)
		return;
	(void)pthread_mutex_lock(&it->lock);
	it->closing = true;
	(void)pthread_cond_broadcast(&it->changed);
	(void)pthread_mutex_unlock(&it->lock);
	if (!it->ended)
		ptm_session_cancel(it->session);
	(void)pthread_join(it->thread, NULL);
	iter_free(it);
}
