/* SPDX-License-Identifier: Apache-2.0
 *
 * sink_iter_test.c - the iterator and the visitor on a recorded program: what they show is counted
 * and digested, and compared with what the recorder saw (datasets/README.md).
 */
#include "base/digest.h"
#include "ptmill/iter.h"
#include "ptmill/sink.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* Of datasets/sig. */
#define SIG        PTM_SOURCE_DIR "/datasets/sig"
#define SIG_INSNS  205227
#define SIG_DIGEST UINT64_C(0x356e1d0378a900b1)

static struct ptm_session *open_sig(unsigned threads, uint64_t segment_size, unsigned times)
{
	const struct ptm_config config = {.size = sizeof(config),
					  .threads = threads,
					  .segment_size = segment_size,
					  .test_delay_seed = segment_size % 100 == 7};
	struct ptm_session *session = ptm_session_create(&config, NULL);

	assert_non_null(session);
	for (unsigned i = 0; i < times; i++)
		assert_int_equal(ptm_session_add_input(session, SIG, NULL), 0);
	return session;
}

/* Count and digest what a batch shows. */
static void digest_batch(struct ptm_expander *expander, const struct ptm_block_batch *batch,
			 struct ptm_digest *digest)
{
	struct ptm_instruction insns[64];

	for (size_t i = 0; i < batch->nblocks; i++) {
		const struct ptm_block *block = &batch->blocks[i];

		for (uint32_t at = 0; at < block->n;) {
			int got = ptm_expand(expander, block, at, insns, 64, NULL);

			assert_in_range(got, 1, 64);
			for (int k = 0; k < got; k++)
				ptm_digest_add(digest, insns[k].ip);
			at += (uint32_t)got;
		}
	}
}

static void check_sig(const struct ptm_digest *digest)
{
	assert_int_equal(digest->n, SIG_INSNS);
	assert_int_equal(digest->b, SIG_DIGEST);
}

static void check_read(unsigned threads, uint64_t segment_size)
{
	struct ptm_session *session = open_sig(threads, segment_size, 3);
	struct ptm_iter *it = ptm_iter_create(session, NULL, NULL);
	struct ptm_expander *expander = ptm_expander_create(100000, NULL);
	struct ptm_digest digests[3] = {PTM_DIGEST_EMPTY, PTM_DIGEST_EMPTY, PTM_DIGEST_EMPTY};
	const struct ptm_block_batch *batch;
	struct ptm_error err;
	size_t stream = 0;
	int got;

	assert_non_null(it);
	assert_non_null(expander);
	while ((got = ptm_iter_next(it, &batch, &err)) > 0) {
		assert_in_range(batch->stream, stream, 2);
		stream = batch->stream;
		assert_true(batch->nblocks + batch->nevents > 0);
		digest_batch(expander, batch, &digests[stream]);
	}
	assert_int_equal(got, 0);
	assert_null(batch);
	assert_int_equal(ptm_iter_next(it, &batch, &err), 0);
	assert_int_equal(ptm_iter_stats(it).insns, 3 * SIG_INSNS);
	assert_int_equal(ptm_iter_stats(it).workers, threads);
	for (unsigned i = 0; i < 3; i++)
		check_sig(&digests[i]);
	ptm_iter_destroy(it);
	ptm_expander_destroy(expander);
	ptm_session_destroy(session);
}

static void test_read(void **state)
{
	static const unsigned threads[] = {1, 2, 3, 8};

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		check_read(threads[i], 300);
		check_read(threads[i], 4007);
		check_read(threads[i], 1 << 20);
	}
}

/* Destroyed after any number of batches, while workers wait for room or run. */
static void test_early(void **state)
{
	(void)state;
	for (unsigned n = 0; n < 40; n++) {
		struct ptm_session *session = open_sig(1 + n % 4, n % 4 == 3 ? 407 : 400, 8);
		struct ptm_iter *it = ptm_iter_create(session, NULL, NULL);
		const struct ptm_block_batch *batch;

		assert_non_null(it);
		for (unsigned i = 0; i < n * n / 4; i++)
			if (ptm_iter_next(it, &batch, NULL) <= 0)
				break;
		if (n % 5 == 4)
			(void)usleep(2000);
		ptm_iter_destroy(it);
		ptm_session_destroy(session);
	}
	ptm_iter_destroy(NULL);
}

static void *cancel(void *session)
{
	(void)usleep(3000);
	ptm_session_cancel(session);
	return NULL;
}

static void test_cancel(void **state)
{
	(void)state;
	for (unsigned before = 0; before < 2; before++) {
		struct ptm_session *session = open_sig(2, 307, 50);
		struct ptm_error err = {0};
		const struct ptm_block_batch *batch;
		struct ptm_iter *it;
		pthread_t thread;
		int got;

		if (before)
			ptm_session_cancel(session);
		it = ptm_iter_create(session, NULL, NULL);
		assert_non_null(it);
		assert_int_equal(pthread_create(&thread, NULL, cancel, session), 0);
		while ((got = ptm_iter_next(it, &batch, &err)) > 0)
			;
		assert_int_equal(got, -PTM_E_CANCELED);
		assert_int_equal(err.code, PTM_E_CANCELED);
		assert_int_equal(pthread_join(thread, NULL), 0);
		ptm_iter_destroy(it);
		ptm_session_destroy(session);
	}
}

/* The trace of datasets/sig, and a file of its first bytes. */
static uint8_t trace[1 << 16];
static size_t trace_len;

static void read_trace(void)
{
	FILE *f = fopen(SIG "/streams/tid1.pt", "rb");

	assert_non_null(f);
	trace_len = fread(trace, 1, sizeof(trace), f);
	assert_in_range(trace_len, 30000, sizeof(trace) - 1);
	assert_int_equal(fclose(f), 0);
}

static void write_trace(const char *path, size_t len)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(trace, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

/* Iterate over the first @len bytes of the trace, twice.  Returns whether each ended in the middle
 * of a block. */
static bool check_cut(const char *path, size_t len, uint64_t n, uint64_t digest)
{
	struct ptm_digest digests[2] = {PTM_DIGEST_EMPTY, PTM_DIGEST_EMPTY};
	const struct ptm_config config = {.size = sizeof(config), .threads = 2};
	struct ptm_session *session = ptm_session_create(&config, NULL);
	struct ptm_expander *expander = ptm_expander_create(0, NULL);
	const struct ptm_block_batch *batch;
	struct ptm_iter *it;
	bool open = false;
	char other[64];

	write_trace(path, len);
	assert_non_null(session);
	assert_int_equal(ptm_session_add_elf(session, SIG "/images/695b86be6899f34c", NULL), 0);
	(void)snprintf(other, sizeof(other), "%s-2", path);
	write_trace(other, len);
	assert_int_equal(ptm_session_add_input(session, path, NULL), 0);
	assert_int_equal(ptm_session_add_input(session, other, NULL), 0);
	assert_int_equal(unlink(other), 0);
	it = ptm_iter_create(session, NULL, NULL);
	assert_non_null(it);
	while (ptm_iter_next(it, &batch, NULL) > 0) {
		digest_batch(expander, batch, &digests[batch->stream]);
		open = batch->nblocks > 0 && batch->nevents == 0 &&
		       batch->blocks[batch->nblocks - 1].ends == PTM_BRANCH_NONE;
	}
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(digests[i].n, n);
		assert_int_equal(digests[i].b, digest);
	}
	ptm_iter_destroy(it);
	ptm_expander_destroy(expander);
	ptm_session_destroy(session);
	return open;
}

/* A trace that was cut behind a PSB+ ends where the flow stood then, often in the middle of a
 * block, which is shown all the same.  The recorder wrote down how far that is. */
static void test_cut(void **state)
{
	FILE *truth = fopen(SIG "/truth/tid1.txt", "r");
	char path[] = "/tmp/ptm-iter-XXXXXX";
	unsigned open = 0, psbs = 0;
	char line[200];
	int fd = mkstemp(path);

	(void)state;
	assert_non_null(truth);
	assert_true(fd >= 0);
	assert_int_equal(close(fd), 0);
	read_trace();
	while (fgets(line, sizeof(line), truth) != NULL) {
		unsigned long long n, digest;
		size_t at;

		if (sscanf(line, "psb %zu %llu %llx", &at, &n, &digest) != 3 || at == 0)
			continue;
		/* PSBEND. */
		while (at + 2 < trace_len && (trace[at] != 0x02 || trace[at + 1] != 0x23))
			at++;
		open += check_cut(path, at + 2, n, digest);
		psbs++;
	}
	assert_in_range(psbs, 30, 100);
	assert_in_range(open, 1, psbs);
	assert_int_equal(fclose(truth), 0);
	assert_int_equal(unlink(path), 0);
}

/* What precedes an error comes first, then the error, again and again. */
static void test_error(void **state)
{
	char path[] = "/tmp/ptm-iter-XXXXXX";
	struct ptm_session *session = open_sig(2, 1000, 1);
	struct ptm_expander *expander = ptm_expander_create(0, NULL);
	struct ptm_digest digest = PTM_DIGEST_EMPTY;
	const struct ptm_block_batch *batch;
	struct ptm_error err = {0};
	struct ptm_iter *it;
	int fd = mkstemp(path);
	int got;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(close(fd), 0);
	read_trace();
	write_trace(path, trace_len);
	assert_int_equal(ptm_session_add_input(session, path, NULL), 0);
	assert_int_equal(truncate(path, 10), 0);
	it = ptm_iter_create(session, NULL, NULL);
	assert_non_null(it);
	while ((got = ptm_iter_next(it, &batch, &err)) > 0)
		if (batch->stream == 0)
			digest_batch(expander, batch, &digest);
	check_sig(&digest);
	assert_int_equal(got, -PTM_E_IO);
	assert_int_equal(err.code, PTM_E_IO);
	assert_int_equal(ptm_iter_next(it, &batch, NULL), -PTM_E_IO);
	ptm_iter_destroy(it);
	ptm_expander_destroy(expander);
	ptm_session_destroy(session);
	assert_int_equal(unlink(path), 0);
}

struct visited {
	struct ptm_expander *expander;
	struct ptm_digest digest;
	unsigned begins, ends, batches;
	int answer;
};

static int visit_begin(void *ctx, size_t stream, const char *name)
{
	assert_int_equal(stream, ((struct visited *)ctx)->begins++);
	assert_non_null(strstr(name, "sig:tid1"));
	return 0;
}

static int visit_batch(void *ctx, const struct ptm_block_batch *batch)
{
	struct visited *visited = ctx;

	visited->batches++;
	digest_batch(visited->expander, batch, &visited->digest);
	return visited->answer;
}

static int visit_end(void *ctx, size_t stream, const char *name)
{
	struct visited *visited = ctx;

	(void)name;
	assert_int_equal(stream, visited->ends++);
	check_sig(&visited->digest);
	visited->digest = PTM_DIGEST_EMPTY;
	return 0;
}

static void test_visit(void **state)
{
	(void)state;
	for (unsigned fail = 0; fail < 2; fail++) {
		struct visited v = {.expander = ptm_expander_create(0, NULL),
				    .digest = PTM_DIGEST_EMPTY,
				    .answer = fail ? -PTM_E_USAGE : 0};
		const struct ptm_visitor visitor = {sizeof(visitor), &v, visit_begin, visit_batch,
						    visit_end};
		struct ptm_session *session = open_sig(2, 2000, 2);
		struct ptm_sink *sink = ptm_sink_visit_create(&visitor, NULL);
		struct ptm_run_stats stats;
		struct ptm_error err = {0};

		assert_non_null(sink);
		assert_int_equal(ptm_session_run(session, sink, NULL, &stats, &err), v.answer);
		assert_int_equal(err.code, -v.answer);
		assert_int_equal(v.begins, fail ? 1 : 2);
		assert_int_equal(v.ends, fail ? 0 : 2);
		assert_true(fail ? v.batches == 1 : v.batches > 2);
		ptm_sink_destroy(sink);
		ptm_session_destroy(session);
		ptm_expander_destroy(v.expander);
	}
	assert_null(ptm_sink_visit_create(&(struct ptm_visitor){.size = 1}, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read),   cmocka_unit_test(test_early),
		cmocka_unit_test(test_cancel), cmocka_unit_test(test_cut),
		cmocka_unit_test(test_error),  cmocka_unit_test(test_visit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
