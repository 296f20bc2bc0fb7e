/* SPDX-License-Identifier: Apache-2.0
 *
 * qemu.c - the back end that runs a program under qemu-user with a plugin of ours.
 *
 * The plugin writes block numbers to shared memory (qemu/shared.h); one thread of ours takes them
 * out, ring by ring, and encodes.  A thread of the program has a ring while it lives, and a stream
 * for ever.  The log is always emptied before a ring is looked at, so that every number means
 * something.
 */
#include "record/qemu.h"

#include "record/code.h"
#include "record/launch.h"
#include "record/qemu/shared.h"
#include "record/retrace.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NAP_MIN_NS = 50000, NAP_MAX_NS = 5000000, AHEAD = 8 /* words */ };

struct thread {
	struct ptm_feed feed;
	struct ptm_retrace retrace;
	struct ptm_cap_stream *stream; /* borrowed */
	uint64_t taken;                /* words */
	bool enough;                   /* what follows is not recorded */
};

struct ptm_qemu {
	const struct ptm_record_config *config; /* borrowed while running */
	struct ptm_capture *cap;
	struct ptm_error *err;
	struct ptm_qemu_shared *shared;
	pid_t pid; /* -1: ended */
	int status;
	bool passed_on;
	struct ptm_blocks blocks;
	struct ptm_code code;
	struct thread *ring_of[PTM_QEMU_RINGS]; /* the thread that has the ring, borrowed */
	PTM_VEC(struct thread *) threads;       /* owned */
};

bool ptm_qemu_is_there(void)
{
	char *qemu = ptm_find_program(PTM_QEMU_NAME), *plugin = ptm_find_plugin();
	bool there = qemu != NULL && plugin != NULL;

	free(qemu);
	free(plugin);
	return there;
}

static int no_memory(struct ptm_qemu *q)
{
	return PTM_FAIL(q->err, PTM_E_NOMEM, "Cannot record: out of memory");
}

static int damaged(struct ptm_qemu *q)
{
	return PTM_FAIL(q->err, PTM_E_SYSTEM,
			"Cannot record: the program has overwritten what the plugin told about it");
}

/* --- the log --- */

/* The program can write to all its memory, and so to the log. */
static bool is_sound(const struct ptm_qemu_log_head *head, uint64_t room)
{
	const struct ptm_qemu_block *block = (const void *)head;
	size_t least = sizeof(*head);

	if (room < least || head->size < least || head->size > room || head->size % 8 != 0)
		return false;
	if (head->kind == PTM_QEMU_LOG_BLOCK) {
		least = sizeof(*block);
		if (head->size >= least)
			least += (size_t)block->n + block->len;
	} else if (head->kind == PTM_QEMU_LOG_MAP) {
		least = sizeof(struct ptm_qemu_map) + 1;
	}
	return head->size >= least &&
	       (head->kind == PTM_QEMU_LOG_SKIP || head->kind == PTM_QEMU_LOG_BLOCK ||
		((const char *)head)[head->size - 1] == '\0');
}

/* A block of code, described behind @block. */
static int take_block(struct ptm_qemu *q, const struct ptm_qemu_block *block)
{
	const uint8_t *lens = (const uint8_t *)(block + 1), *code = lens + block->n;
	const struct ptm_block *b;

	PTM_TRY(ptm_blocks_add(&q->blocks, block->address, lens, block->n, code));
	b = &q->blocks.blocks.v[q->blocks.blocks.n - 1];
	PTM_TRY(ptm_capture_code(q->cap, b->begin, code, (size_t)(b->end - b->begin)));
	return ptm_code_bytes(&q->code, block->address, code, block->len);
}

static int take_record(struct ptm_qemu *q, const struct ptm_qemu_log_head *head)
{
	const struct ptm_qemu_map *map = (const void *)head;

	switch ((enum ptm_qemu_log_kind)head->kind) {
	case PTM_QEMU_LOG_SKIP:
		break;
	case PTM_QEMU_LOG_BLOCK:
		return take_block(q, (const void *)head);
	case PTM_QEMU_LOG_MAP:
		return ptm_code_map(&q->code, map->begin, map->end, map->offset,
				    (const char *)(map + 1));
	case PTM_QEMU_LOG_FAILED:
		return PTM_FAIL(q->err, PTM_E_SYSTEM, "Cannot record under QEMU: %s",
				(const char *)(head + 1));
	}
	return 0;
}

static int take_log(struct ptm_qemu *q)
{
	struct ptm_qemu_shared *shared = q->shared;
	/* Acquire: pairs with the release of the plugin's log_put(). */
	uint64_t head = atomic_load_explicit(&shared->log_head, memory_order_acquire);
	uint64_t tail = atomic_load_explicit(&shared->log_tail, memory_order_relaxed);
	int ret = 0;

	while (tail < head && ret == 0) {
		const struct ptm_qemu_log_head *record =
			(const void *)(shared->log + tail % PTM_QEMU_LOG);
		uint64_t room = PTM_QEMU_LOG - tail % PTM_QEMU_LOG;

		if (!is_sound(record, room < head - tail ? room : head - tail))
			return damaged(q);
		ret = take_record(q, record);
		tail += record->size;
		/* Release: pairs with the acquire of the plugin's log_put(). */
		atomic_store_explicit(&shared->log_tail, tail, memory_order_release);
	}
	return ret;
}

/* --- the rings --- */

static struct thread *begin_thread(struct ptm_qemu *q, uint32_t number)
{
	struct thread *th = calloc(1, sizeof(*th));
	uint64_t cycles = 0;

	/* As far as the first thread is: the streams share a clock. */
	if (q->threads.n > 0)
		cycles = ptm_enc_cycles(q->threads.v[0]->feed.enc);
	if (th == NULL || !ptm_vec_push(&q->threads, th)) {
		free(th);
		(void)no_memory(q);
		return NULL;
	}
	th->stream = ptm_capture_stream(q->cap, number, &th->feed);
	if (th->stream == NULL)
		return NULL;
	if (ptm_feed_init(&th->feed, q->config, ptm_capture_write, th->stream, cycles) < 0) {
		(void)no_memory(q);
		return NULL;
	}
	ptm_retrace_init(&th->retrace, &th->feed, &q->blocks, q->err);
	return th;
}

static int end_thread(struct thread *th)
{
	if (!th->enough)
		PTM_TRY(ptm_retrace_end(&th->retrace));
	PTM_TRY(ptm_feed_finish(&th->feed));
	return ptm_capture_close(th->stream);
}

static uint64_t number_at(const struct ptm_qemu_ring *ring, uint64_t at)
{
	return ring->words[at % PTM_QEMU_WORDS] | (uint64_t)ring->words[(at + 1) % PTM_QEMU_WORDS]
							  << 32;
}

static void take_control(struct thread *th, const struct ptm_qemu_ring *ring, uint64_t at)
{
	struct ptm_retrace_signal signal;

	switch ((enum ptm_qemu_control)ring->words[(at + 1) % PTM_QEMU_WORDS]) {
	case PTM_QEMU_SYSCALL:
		ptm_retrace_syscall(&th->retrace, (int64_t)number_at(ring, at + 2));
		break;
	case PTM_QEMU_SIGNAL:
		signal.frame = number_at(ring, at + 2);
		signal.ip = number_at(ring, at + 4);
		signal.fault = number_at(ring, at + 6) >> 32 != 0;
		ptm_retrace_signal(&th->retrace, &signal);
		break;
	}
}

/* Take the words up to @published out of @ring. */
static int take_words(struct ptm_qemu *q, struct thread *th, const struct ptm_qemu_ring *ring,
		      uint64_t published)
{
	uint64_t at = th->taken;
	int ret = 0;

	while (at < published && ret == 0) {
		uint32_t word = ring->words[at % PTM_QEMU_WORDS];
		uint32_t later = ring->words[(at + AHEAD) % PTM_QEMU_WORDS];

		/* Whatever lies there: a prefetch goes nowhere wrong. */
		__builtin_prefetch(q->blocks.blocks.v + later);
		if (word != 0) {
			if (word >= q->blocks.blocks.n)
				return damaged(q);
			ret = ptm_retrace_block(&th->retrace, word);
			at++;
		} else if (published - at >= PTM_QEMU_CONTROL) {
			take_control(th, ring, at);
			at += PTM_QEMU_CONTROL;
		} else {
			break;
		}
	}
	th->taken = at;
	th->enough = ret > 0;
	return ret < 0 ? ret : 0;
}

/* Returns 1 if there was something, 0, or -PTM_E_*. */
static int drain(struct ptm_qemu *q, unsigned i, uint64_t published)
{
	struct ptm_qemu_ring *ring = &q->shared->rings[i];
	struct thread *th = q->ring_of[i];
	uint64_t before = th->taken;
	int ret;

	if (before == published)
		return 0;
	/* Then nobody waits for us any more, and what was not taken is written over. */
	if (atomic_load_explicit(&q->shared->over, memory_order_relaxed) != 0)
		th->enough = true;
	if (!th->enough && published - before > PTM_QEMU_WORDS)
		return damaged(q);
	if (th->enough) {
		th->taken = published;
	} else {
		/* A block is in the log before it is in a ring. */
		PTM_TRY(take_log(q));
		ret = take_words(q, th, ring, published);
		if (ret < 0 && q->err->code == PTM_E_OK)
			return PTM_FAIL(q->err, (enum ptm_err) - ret, "Cannot record: %s",
					ptm_err_name((enum ptm_err) - ret));
		PTM_TRY(ret);
	}
	/* Release: pairs with the acquire of the plugin's next_chunk(). */
	atomic_store_explicit(&ring->taken, th->taken, memory_order_release);
	return th->taken != before;
}

/* The plugin takes the first ring that is free, so there are no more than threads so far.  Relaxed:
 * a thread that is missed now is seen next time. */
static unsigned rings_used(const struct ptm_qemu *q)
{
	uint32_t n = atomic_load_explicit(&q->shared->threads, memory_order_relaxed);

	return n < PTM_QEMU_RINGS ? n : PTM_QEMU_RINGS;
}

/* A look at every ring: returns 1 if there was something, 0, or -PTM_E_*. */
static int drain_all(struct ptm_qemu *q)
{
	unsigned n = rings_used(q);
	int ret, some = 0;

	PTM_TRY(take_log(q));
	for (unsigned i = 0; i < n; i++) {
		struct ptm_qemu_ring *ring = &q->shared->rings[i];
		/* Acquire: pairs with the releases of the plugin's find_ring() and end_ring(). */
		uint32_t state = atomic_load_explicit(&ring->state, memory_order_acquire);

		if (state == PTM_QEMU_FREE)
			continue;
		if (q->ring_of[i] == NULL) {
			q->ring_of[i] = begin_thread(q, ring->number);
			if (q->ring_of[i] == NULL)
				return -(int)q->err->code;
		}
		/* Acquire: pairs with the releases of the plugin's next_chunk() and end_ring(). */
		PTM_TRY(ret = drain(q, i,
				    atomic_load_explicit(&ring->published, memory_order_acquire)));
		some |= ret;
		if (state == PTM_QEMU_ENDED) {
			PTM_TRY(end_thread(q->ring_of[i]));
			q->ring_of[i] = NULL;
			/* Release: pairs with the acquire of the plugin's find_ring(). */
			atomic_store_explicit(&ring->state, PTM_QEMU_FREE, memory_order_release);
		}
	}
	return some;
}

/* The program is gone: take what its threads had not published. */
static int drain_rest(struct ptm_qemu *q)
{
	int ret;

	do
		PTM_TRY(ret = drain_all(q));
	while (ret > 0);
	for (unsigned i = 0; i < rings_used(q); i++) {
		const struct ptm_qemu_ring *ring = &q->shared->rings[i];
		struct thread *th = q->ring_of[i];
		uint64_t n, more;

		if (th == NULL)
			continue;
		n = atomic_load_explicit(&ring->published, memory_order_relaxed);
		more = ((uint64_t)(uintptr_t)ring->next - (uint64_t)(uintptr_t)ring->base) /
			       sizeof(uint32_t) -
		       n % PTM_QEMU_WORDS;
		if (more > PTM_QEMU_CHUNK)
			return damaged(q);
		PTM_TRY(drain(q, i, n + more));
		PTM_TRY(end_thread(th));
	}
	return 0;
}

static bool all_enough(const struct ptm_qemu *q)
{
	for (size_t i = 0; i < q->threads.n; i++)
		if (!q->threads.v[i]->enough)
			return false;
	return q->threads.n > 0;
}

/* --- the process --- */

static void pass_on(struct ptm_qemu *q)
{
	const volatile int *from = q->config->pass_on;
	int sig = from != NULL && !q->passed_on ? *from : 0;

	if (sig == 0 || q->pid <= 0)
		return;
	q->passed_on = true;
	(void)kill(q->pid, sig);
}

/* Returns true when the program has ended. */
static bool has_ended(struct ptm_qemu *q)
{
	if (waitpid(q->pid, &q->status, WNOHANG) != q->pid)
		return false;
	q->pid = -1;
	return true;
}

static int run(struct ptm_qemu *q)
{
	struct timespec nap = {0, NAP_MIN_NS};
	int ret;

	for (;;) {
		pass_on(q);
		PTM_TRY(ret = drain_all(q));
		if (ret > 0) {
			nap.tv_nsec = NAP_MIN_NS;
			if (q->config->max_instructions != 0 && all_enough(q))
				atomic_store_explicit(&q->shared->over, 1, memory_order_relaxed);
			continue;
		}
		if (has_ended(q))
			return drain_rest(q);
		/* Polling: what we wait for may die without a word.  A ring holds more than a
		 * program executes in the shortest nap. */
		(void)nanosleep(&nap, NULL);
		nap.tv_nsec = nap.tv_nsec < NAP_MAX_NS / 2 ? 2 * nap.tv_nsec : NAP_MAX_NS;
	}
}

/* The run as a whole makes sense. */
static int check(struct ptm_qemu *q, const char *name)
{
	if (atomic_load_explicit(&q->shared->started, memory_order_acquire) == 0)
		return PTM_FAIL(q->err, PTM_E_SYSTEM,
				"Cannot record under QEMU: it did not accept the plugin (QEMU 7.x "
				"with plugins is needed)");
	if (q->threads.n == 0)
		return PTM_FAIL(q->err, PTM_E_NOINPUT,
				"Cannot execute \"%s\": QEMU ended before its first instruction",
				name);
	for (size_t i = 0; i < q->threads.n; i++) {
		const struct ptm_retrace *rt = &q->threads.v[i]->retrace;

		if (!q->threads.v[i]->enough && rt->in_syscall &&
		    (rt->syscall == SYS_execve || rt->syscall == SYS_execveat))
			return PTM_FAIL(q->err, PTM_E_SYSTEM,
					"Cannot record a program that replaces itself by exec: "
					"record the last one directly");
	}
	return 0;
}

/* QEMU takes it for no instruction. */
static void warn_of_ptwrite(const struct ptm_qemu *q)
{
	char line[128];

	if (q->blocks.ptwrite == 0 || q->config->warn == NULL)
		return;
	(void)snprintf(line, sizeof(line),
		       "PTWRITE at 0x%" PRIx64 " raises SIGILL under QEMU: record with --backend "
		       "step --ptwrite",
		       q->blocks.ptwrite);
	q->config->warn(q->config->warn_ctx, line);
}

static void sum_up(const struct ptm_qemu *q, struct ptm_qemu_result *result)
{
	*result = (struct ptm_qemu_result){
		.exit_code =
			WIFEXITED(q->status) ? WEXITSTATUS(q->status) : 128 + WTERMSIG(q->status),
		.digest = q->threads.v[0]->feed.digest.b,
	};
	for (size_t i = 0; i < q->threads.n; i++) {
		const struct ptm_feed *feed = &q->threads.v[i]->feed;

		result->instructions += feed->digest.n;
		result->trace_bytes += ptm_enc_offset(feed->enc);
		result->psbs += feed->psbs;
		result->gaps += feed->gaps;
		result->lost += feed->lost;
	}
}

static int share(struct ptm_qemu *q, int *fd)
{
	void *memory = MAP_FAILED;

	*fd = memfd_create("ptmill", MFD_CLOEXEC);
	if (*fd >= 0 && ftruncate(*fd, sizeof(*q->shared)) == 0)
		memory = mmap(NULL, sizeof(*q->shared), PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (memory == MAP_FAILED)
		return PTM_FAIL(q->err, PTM_E_SYSTEM, "Cannot share memory with QEMU: %s",
				strerror(errno));
	q->shared = memory;
	q->shared->magic = PTM_QEMU_MAGIC;
	return 0;
}

struct ptm_qemu *ptm_qemu_run(const struct ptm_record_config *config,
			      const struct ptm_program *program, char *const argv[],
			      struct ptm_capture *cap, struct ptm_qemu_result *result,
			      struct ptm_error *err)
{
	struct ptm_qemu *q = calloc(1, sizeof(*q));
	int ret, fd = -1;

	if (q == NULL) {
		(void)PTM_FAIL(err, PTM_E_NOMEM, "Cannot record: out of memory");
		return NULL;
	}
	q->config = config;
	q->cap = cap;
	q->err = err;
	q->pid = -1;
	ptm_blocks_init(&q->blocks, err);
	ptm_code_init(&q->code, ptm_capture_images(cap), err);
	ret = share(q, &fd);
	if (ret == 0)
		ret = ptm_launch(program, argv, fd, config->seed, &q->pid, err);
	if (fd >= 0)
		(void)close(fd);
	if (ret == 0)
		ret = run(q);
	if (ret == 0)
		ret = check(q, argv[0]);
	if (ret == 0)
		ret = ptm_code_write(&q->code);
	if (ret == 0) {
		warn_of_ptwrite(q);
		sum_up(q, result);
		return q;
	}
	ptm_qemu_destroy(q);
	return NULL;
}

void ptm_qemu_destroy(struct ptm_qemu *q)
{
	if (q == NULL)
		return;
	if (q->pid > 0) {
		(void)kill(q->pid, SIGKILL);
		(void)waitpid(q->pid, NULL, 0);
	}
	for (size_t i = 0; i < q->threads.n; i++) {
		ptm_feed_fini(&q->threads.v[i]->feed);
		free(q->threads.v[i]);
	}
	free(q->threads.v);
	ptm_code_fini(&q->code);
	ptm_blocks_fini(&q->blocks);
	if (q->shared != NULL)
		(void)munmap(q->shared, sizeof(*q->shared));
	free(q);
}
