/* SPDX-License-Identifier: Apache-2.0
 *
 * pipeline_ring_test.c - the ordered ring: order, back-pressure, errors in their place,
 * cancellation.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "os/thread.h"
#include "pipeline/ring.h"

struct shared {
	struct ptm_ring *ring;
	uint64_t next, jobs; /* of the claims; under the ring's entry lock */
	uint64_t fail_claim; /* this claim fails */
	uint64_t fail_job;   /* this job fails */
	size_t words;        /* each job writes this many times its number */
};

struct worker {
	struct shared *shared;
	uint64_t seq;
	uint64_t rng;
	pthread_t thread;
};

static int claim(void *ctx, struct ptm_error *err)
{
	struct worker *w = (struct worker *)ctx;

	if (w->shared->next == w->shared->jobs)
		return 0;
	w->seq = w->shared->next++;
	if (w->seq == w->shared->fail_claim)
		return ptm_error_set(err, PTM_E_IO, "claim", "claim %u", (unsigned)w->seq);
	return 1;
}

static void nap(struct worker *w)
{
	struct timespec ts = {0, 0};

	w->rng = w->rng * 6364136223846793005u + 1442695040888963407u;
	ts.tv_nsec = (long)(w->rng >> 44);
	(void)nanosleep(&ts, NULL);
}

static void *work(void *arg)
{
	struct worker *w = (struct worker *)arg;
	struct ptm_job_out *out;
	struct ptm_job_result *result;

	while (ptm_ring_enter(w->shared->ring, claim, w, &out, &result) > 0) {
		nap(w);
		result->offset = w->seq;
		for (size_t i = 0; i < w->shared->words; i++) {
			void *room = ptm_job_room(out, sizeof(w->seq));

			if (room == NULL) {
				result->status = -PTM_E_CANCELED;
				break;
			}
			memcpy(room, &w->seq, sizeof(w->seq));
			ptm_job_used(out, sizeof(w->seq));
		}
		if (w->seq == w->shared->fail_job)
			result->status = ptm_error_set(&result->err, PTM_E_IO, "job", "job");
		nap(w);
		ptm_ring_done(out);
	}
	ptm_ring_leave(w->shared->ring, NULL);
	return NULL;
}

#define WORKERS 5

static void start(struct shared *s, struct worker *workers)
{
	struct ptm_error err;

	s->ring = ptm_ring_create(WORKERS, &err);
	assert_non_null(s->ring);
	for (unsigned i = 0; i < WORKERS; i++) {
		workers[i] = (struct worker){.shared = s, .rng = i};
		assert_int_equal(ptm_thread_start(&workers[i].thread, "w", work, &workers[i], &err),
				 0);
	}
}

static void stop(struct shared *s, struct worker *workers)
{
	for (unsigned i = 0; i < WORKERS; i++)
		pthread_join(workers[i].thread, NULL);
	ptm_ring_destroy(s->ring);
}

/* Deliver until the end or the first failed job; checks order and amounts.  Returns the number of
 * good jobs. */
static uint64_t deliver(struct shared *s, int *status)
{
	uint64_t seq = 0;
	size_t words = 0;

	*status = 0;
	for (;;) {
		struct ptm_chunk *chunk = NULL;
		const struct ptm_job_result *result;
		enum ptm_ring_event event =
			ptm_ring_wait(s->ring, seq % 2 != 0 ? 0.01 : 0, &chunk, &result);

		if (event == PTM_RING_TICK)
			continue;
		if (event == PTM_RING_CHUNK) {
			for (size_t i = 0; i < chunk->len; i += sizeof(seq), words++)
				assert_memory_equal(chunk->data + i, &seq, sizeof(seq));
		} else if (event == PTM_RING_RESULT) {
			*status = result->status;
			if (*status < 0)
				return seq;
			assert_int_equal(result->offset, seq);
			assert_int_equal(words, s->words);
			words = 0;
			seq++;
		} else {
			return seq;
		}
		ptm_ring_recycle(s->ring, chunk);
	}
}

static void test_order(void **state)
{
	struct worker workers[WORKERS];
	/* Four times the pool's bytes in every job: only streaming the oldest one gets through. */
	struct shared s = {.jobs = 12,
			   .fail_claim = UINT64_MAX,
			   .fail_job = UINT64_MAX,
			   .words = (size_t)WORKERS * 32 * PTM_CHUNK_SIZE / sizeof(uint64_t) / 4};
	int status;

	(void)state;
	start(&s, workers);
	assert_int_equal(deliver(&s, &status), s.jobs);
	assert_int_equal(status, 0);
	stop(&s, workers);
	s = (struct shared){
		.jobs = 3000, .fail_claim = UINT64_MAX, .fail_job = UINT64_MAX, .words = 3};
	start(&s, workers);
	assert_int_equal(deliver(&s, &status), s.jobs);
	stop(&s, workers);
}

static void test_nothing(void **state)
{
	struct worker workers[WORKERS];
	struct shared s = {.jobs = 0};
	int status;

	(void)state;
	start(&s, workers);
	assert_int_equal(deliver(&s, &status), 0);
	stop(&s, workers);
}

/* An error comes to light in its place: all before it is delivered, nothing after it. */
static void test_errors(void **state)
{
	struct worker workers[WORKERS];
	struct shared s = {.jobs = 500, .fail_claim = 321, .fail_job = UINT64_MAX, .words = 10};
	int status;

	(void)state;
	start(&s, workers);
	assert_int_equal(deliver(&s, &status), 321);
	assert_int_equal(status, -PTM_E_IO);
	ptm_ring_cancel(s.ring);
	stop(&s, workers);
	s = (struct shared){.jobs = 500, .fail_claim = UINT64_MAX, .fail_job = 77, .words = 10};
	start(&s, workers);
	assert_int_equal(deliver(&s, &status), 77);
	assert_int_equal(status, -PTM_E_IO);
	ptm_ring_cancel(s.ring);
	stop(&s, workers);
}

/* Cancel while workers wait for chunks and slots. */
static void test_cancel(void **state)
{
	struct timespec ts = {0, 20000000};

	(void)state;
	for (int round = 0; round < 5; round++) {
		struct worker workers[WORKERS];
		struct shared s = {.jobs = 1000,
				   .fail_claim = UINT64_MAX,
				   .fail_job = UINT64_MAX,
				   .words = (size_t)12 * PTM_CHUNK_SIZE};
		struct ptm_chunk *chunk;
		const struct ptm_job_result *result;

		start(&s, workers);
		(void)nanosleep(&ts, NULL);
		ptm_ring_cancel(s.ring);
		assert_int_equal(ptm_ring_wait(s.ring, 0, &chunk, &result), PTM_RING_CANCELED);
		stop(&s, workers);
	}
}

/* A worker that cannot start: the run ends, with its reason. */
static void test_leave(void **state)
{
	struct ptm_error err = {0}, reason = {.code = PTM_E_NOMEM};
	struct ptm_ring *ring = ptm_ring_create(2, &err);
	struct ptm_chunk *chunk;
	const struct ptm_job_result *result;

	(void)state;
	ptm_ring_leave(ring, &reason);
	ptm_ring_leave(ring, NULL);
	assert_int_equal(ptm_ring_wait(ring, 0, &chunk, &result), PTM_RING_END);
	assert_int_equal(ptm_ring_error(ring)->code, PTM_E_NOMEM);
	ptm_ring_destroy(ring);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),  cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_errors), cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_leave),
	};

	return cmocka_run_group_tests_name("pipeline_ring", tests, NULL, NULL);
}
