/* SPDX-License-Identifier: Apache-2.0
 *
 * calls.c - how often each function was called: an example of the iterator.
 *
 *     calls TRACE [ELF...]
 *
 * TRACE is a capture, a bundle, or a raw trace, which needs the ELF files that were mapped.  A
 * function is where a call led to: the block behind one that ends with a call.  Prints the ten that
 * were called most, `%016x COUNT`.
 */
#include <ptmill/ptmill.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

struct function {
	uint64_t ip;
	uint64_t calls; /* 0: empty */
};

/* A hash table with open addressing: enough for the functions of most programs. */
#define SIZE (1u << 16)
static struct function functions[SIZE];

static void count_call(uint64_t ip)
{
	size_t i = (size_t)(ip * 0x9e3779b97f4a7c15u >> 20) % SIZE;

	for (size_t tries = 0; functions[i].calls > 0 && functions[i].ip != ip; tries++) {
		if (tries == SIZE) {
			fprintf(stderr, "calls: too many functions\n");
			exit(EXIT_FAILURE);
		}
		i = (i + 1) % SIZE;
	}
	functions[i].ip = ip;
	functions[i].calls++;
}

/* Behind these, the next block is not where the last one led to. */
static bool breaks_flow(const struct ptm_event *ev)
{
	return ev->kind == PTM_EV_GAP || ev->kind == PTM_EV_OVERFLOW ||
	       ev->kind == PTM_EV_DISABLED || ev->kind == PTM_EV_ASYNC_DISABLED ||
	       ev->kind == PTM_EV_ASYNC_BRANCH;
}

/* @called: the last block ended with a call; it may have been in the batch before. */
static void count_batch(const struct ptm_block_batch *batch, bool *called)
{
	size_t e = 0;

	for (size_t i = 0; i <= batch->nblocks; i++) {
		for (; e < batch->nevents && batch->events[e].step == i; e++)
			*called = *called && !breaks_flow(&batch->events[e]);
		if (i == batch->nblocks)
			break;
		if (*called)
			count_call(batch->blocks[i].ip);
		*called = batch->blocks[i].ends == PTM_BRANCH_CALL ||
			  batch->blocks[i].ends == PTM_BRANCH_CALL_INDIRECT;
	}
}

static int by_calls(const void *a, const void *b)
{
	const struct function *f = a, *g = b;

	if (f->calls != g->calls)
		return f->calls < g->calls ? 1 : -1;
	return (f->ip > g->ip) - (f->ip < g->ip);
}

static int read_all(struct ptm_session *session, struct ptm_error *err)
{
	struct ptm_iter *it = ptm_iter_create(session, NULL, err);
	const struct ptm_block_batch *batch;
	size_t stream = 0;
	bool called = false;
	int got;

	if (it == NULL)
		return -(int)err->code;
	while ((got = ptm_iter_next(it, &batch, err)) > 0) {
		called = called && batch->stream == stream;
		stream = batch->stream;
		count_batch(batch, &called);
	}
	ptm_iter_destroy(it);
	return got;
}

int main(int argc, char **argv)
{
	const struct ptm_config config = {.size = sizeof(config)};
	struct ptm_error err = {.code = PTM_E_OK};
	struct ptm_session *session = ptm_session_create(&config, &err);
	int ret = session != NULL && argc > 1 ? 0 : -1;

	if (ret == 0)
		ret = ptm_session_add_input(session, argv[1], &err);
	for (int i = 2; i < argc && ret >= 0; i++)
		ret = ptm_session_add_elf(session, argv[i], &err);
	if (ret >= 0)
		ret = read_all(session, &err);
	ptm_session_destroy(session);
	if (ret < 0) {
		fprintf(stderr, "calls: %s\n",
			err.ncauses > 0 ? err.cause[0].text : "usage: calls TRACE [ELF...]");
		return EXIT_FAILURE;
	}
	qsort(functions, SIZE, sizeof(functions[0]), by_calls);
	for (size_t i = 0; i < 10 && functions[i].calls > 0; i++)
		printf("%016" PRIx64 " %" PRIu64 "\n", functions[i].ip, functions[i].calls);
	return EXIT_SUCCESS;
}
