/* SPDX-License-Identifier: Apache-2.0
 *
 * ring.c - the ordered job ring and its pool of chunks.
 *
 * A slot is FREE, RUNNING or DONE.  Positions are sequence numbers: `head` is the next to enter,
 * `tail` the next to leave, tail <= head <= tail + slots.  A running job fills one chunk at a time
 * and appends it to its slot's list when full; the deliverer takes chunks from the list of the slot
 * at `tail`.
 */
#include "pipeline/ring.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Jobs in flight: each worker runs one and may have one finished ahead of the oldest, and some more
 * so that a slow job does not stop the others at once, and so that the deliverer need not wake for
 * each. */
#define SLOTS_PER_WORKER 8
/* Output waiting to be written, in chunks of 1 MiB: a segment's text (16 KiB of trace) is mostly
 * below 8 MiB. */
#define CHUNKS_PER_WORKER 32

enum slot_state { SLOT_FREE, SLOT_RUNNING, SLOT_DONE };

struct ptm_job_out {
	struct ptm_ring *ring;
	uint64_t seq;
	enum slot_state state;        /* under lock */
	struct ptm_chunk *first;      /* published chunks, under lock */
	struct ptm_chunk **last;      /* where the next one is hung, under lock */
	struct ptm_chunk *filling;    /* the worker's alone */
	struct ptm_job_result result; /* the worker's until DONE, then the deliverer's */
};

struct ptm_ring {
	pthread_mutex_t lock;
	pthread_mutex_t entry; /* held around room + claim; taken before `lock` */
	pthread_cond_t room; /* workers wait: a slot or a chunk became free, the oldest job changed,
				canceled */
	pthread_cond_t ready; /* the deliverer waits: the oldest job has something that is due */

	/* All below under `lock`. */
	uint64_t head, tail;
	uint64_t urgent;  /* chunks to be delivered, and jobs that failed */
	unsigned workers; /* that have not left */
	size_t chunks;    /* allocated so far */
	size_t chunks_max;
	size_t free_n; /* chunks that may still be taken: on the free list or not yet allocated */
	struct ptm_chunk *free_list;
	bool canceled;
	bool closed; /* a claim found the end or failed: no more jobs */
	bool failed;
	struct ptm_error error;

	size_t mask;
	struct ptm_job_out *slots;
};

struct ptm_ring *ptm_ring_create(unsigned workers, struct ptm_error *err)
{
	struct ptm_ring *ring = (struct ptm_ring *)calloc(1, sizeof(*ring));
	pthread_condattr_t attr;
	size_t slots = 4;

	while (slots < (size_t)workers * SLOTS_PER_WORKER)
		slots *= 2;
	if (ring != NULL)
		ring->slots = (struct ptm_job_out *)calloc(slots, sizeof(*ring->slots));
	if (ring == NULL || ring->slots == NULL) {
		free(ring);
		(void)PTM_FAIL(err, PTM_E_NOMEM, "Out of memory");
		return NULL;
	}
	ring->mask = slots - 1;
	ring->workers = workers;
	ring->chunks_max = (size_t)workers * CHUNKS_PER_WORKER + 1;
	ring->free_n = ring->chunks_max;
	for (size_t i = 0; i < slots; i++)
		ring->slots[i].ring = ring;
	(void)pthread_mutex_init(&ring->lock, NULL);
	(void)pthread_mutex_init(&ring->entry, NULL);
	(void)pthread_cond_init(&ring->room, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&ring->ready, &attr);
	(void)pthread_condattr_destroy(&attr);
	return ring;
}

static void free_chunks(struct ptm_chunk *chunk)
{
	while (chunk != NULL) {
		struct ptm_chunk *next = chunk->next;

		free(chunk);
		chunk = next;
	}
}

void ptm_ring_destroy(struct ptm_ring *ring)
{
	if (ring == NULL)
		return;
	for (size_t i = 0; i <= ring->mask; i++) {
		free_chunks(ring->slots[i].first);
		free(ring->slots[i].filling);
	}
	free_chunks(ring->free_list);
	(void)pthread_cond_destroy(&ring->ready);
	(void)pthread_cond_destroy(&ring->room);
	(void)pthread_mutex_destroy(&ring->entry);
	(void)pthread_mutex_destroy(&ring->lock);
	free(ring->slots);
	free(ring);
}

/* Wake the deliverer if the oldest job has something and it is due.  Results without output may
 * wait for each other: to be woken costs more than to deliver one.  Call with `lock` held. */
static void wake_deliverer(struct ptm_ring *ring)
{
	const struct ptm_job_out *oldest = &ring->slots[ring->tail & ring->mask];
	const uint64_t in_use = ring->head - ring->tail;

	if (in_use == 0 || (oldest->first == NULL && oldest->state != SLOT_DONE))
		return;
	if (ring->urgent > 0 || ring->closed || in_use > ring->mask / 2)
		(void)pthread_cond_signal(&ring->ready);
}

/* Call with `entry` held.  Takes the next slot, or NULL if the run is over. */
static struct ptm_job_out *take_slot(struct ptm_ring *ring)
{
	struct ptm_job_out *out = NULL;

	(void)pthread_mutex_lock(&ring->lock);
	while (!ring->canceled && !ring->closed && ring->head - ring->tail > ring->mask)
		(void)pthread_cond_wait(&ring->room, &ring->lock);
	if (!ring->canceled && !ring->closed) {
		out = &ring->slots[ring->head & ring->mask];
		out->seq = ring->head;
		out->first = NULL;
		out->last = &out->first;
		memset(&out->result, 0, sizeof(out->result));
	}
	(void)pthread_mutex_unlock(&ring->lock);
	return out;
}

int ptm_ring_enter(struct ptm_ring *ring, ptm_ring_claim_fn claim, void *ctx,
		   struct ptm_job_out **out, struct ptm_job_result **result)
{
	struct ptm_job_out *slot;
	int status = 0;

	(void)pthread_mutex_lock(&ring->entry);
	slot = take_slot(ring);
	if (slot != NULL) {
		status = claim(ctx, &slot->result.err);
		slot->result.status = status < 0 ? status : 0;
		(void)pthread_mutex_lock(&ring->lock);
		if (status <= 0)
			ring->closed = true;
		if (status != 0) {
			slot->state = status > 0 ? SLOT_RUNNING : SLOT_DONE;
			ring->head++;
		}
		wake_deliverer(ring);
		(void)pthread_mutex_unlock(&ring->lock);
	}
	(void)pthread_mutex_unlock(&ring->entry);
	if (status <= 0)
		return 0;
	*out = slot;
	*result = &slot->result;
	return 1;
}

/* Hang the chunk that the worker filled on its slot's list.  Call with `lock` held. */
static void publish(struct ptm_job_out *out)
{
	struct ptm_ring *ring = out->ring;

	if (out->filling == NULL)
		return;
	out->filling->next = NULL;
	*out->last = out->filling;
	out->last = &out->filling->next;
	out->filling = NULL;
	ring->urgent++;
	wake_deliverer(ring);
}

/* A chunk for @out; the last one only if it is the oldest job.  NULL when canceled or out of
 * memory. */
static struct ptm_chunk *take_chunk(struct ptm_job_out *out)
{
	struct ptm_ring *ring = out->ring;
	struct ptm_chunk *chunk = NULL;

	(void)pthread_mutex_lock(&ring->lock);
	publish(out);
	while (!ring->canceled &&
	       !(ring->free_n > 1 || (ring->free_n == 1 && out->seq == ring->tail)))
		(void)pthread_cond_wait(&ring->room, &ring->lock);
	if (!ring->canceled) {
		ring->free_n--;
		chunk = ring->free_list;
		if (chunk != NULL)
			ring->free_list = chunk->next;
		else
			chunk = (struct ptm_chunk *)malloc(sizeof(*chunk));
		if (chunk == NULL)
			ring->free_n++;
		else
			chunk->len = 0;
	}
	(void)pthread_mutex_unlock(&ring->lock);
	return chunk;
}

void *ptm_job_room(struct ptm_job_out *out, size_t need)
{
	if (out->filling == NULL || PTM_CHUNK_SIZE - out->filling->len < need) {
		out->filling = take_chunk(out);
		if (out->filling == NULL)
			return NULL;
	}
	return out->filling->data + out->filling->len;
}

void ptm_job_used(struct ptm_job_out *out, size_t n)
{
	out->filling->len += n;
}

void ptm_ring_done(struct ptm_job_out *out)
{
	struct ptm_ring *ring = out->ring;

	(void)pthread_mutex_lock(&ring->lock);
	publish(out);
	out->state = SLOT_DONE;
	ring->urgent += out->result.status < 0;
	wake_deliverer(ring);
	(void)pthread_mutex_unlock(&ring->lock);
}

void ptm_ring_leave(struct ptm_ring *ring, const struct ptm_error *err)
{
	(void)pthread_mutex_lock(&ring->lock);
	ring->workers--;
	if (err != NULL && !ring->failed) {
		ring->failed = true;
		ring->error = *err;
		ring->closed = true;
		(void)pthread_cond_broadcast(&ring->room);
	}
	(void)pthread_cond_signal(&ring->ready);
	(void)pthread_mutex_unlock(&ring->lock);
}

/* What the oldest job has, if anything.  Call with `lock` held. */
static bool take_ready(struct ptm_ring *ring, struct ptm_chunk **chunk,
		       const struct ptm_job_result **result, enum ptm_ring_event *event)
{
	struct ptm_job_out *out = &ring->slots[ring->tail & ring->mask];

	if (ring->canceled) {
		*event = PTM_RING_CANCELED;
		return true;
	}
	if (ring->tail == ring->head) {
		*event = PTM_RING_END;
		return ring->workers == 0;
	}
	*result = &out->result;
	if (out->first != NULL) {
		*chunk = out->first;
		out->first = (*chunk)->next;
		ring->urgent--;
		if (out->first == NULL)
			out->last = &out->first;
		*event = PTM_RING_CHUNK;
		return true;
	}
	*event = PTM_RING_RESULT;
	return out->state == SLOT_DONE;
}

enum ptm_ring_event ptm_ring_wait(struct ptm_ring *ring, double timeout, struct ptm_chunk **chunk,
				  const struct ptm_job_result **result)
{
	enum ptm_ring_event event = PTM_RING_TICK;
	struct timespec until;
	bool ready;

	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += (time_t)timeout;
	until.tv_nsec += (long)((timeout - (double)(time_t)timeout) * 1e9);
	if (until.tv_nsec >= 1000000000L) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000L;
	}
	(void)pthread_mutex_lock(&ring->lock);
	while (!(ready = take_ready(ring, chunk, result, &event))) {
		if (timeout <= 0)
			(void)pthread_cond_wait(&ring->ready, &ring->lock);
		else if (pthread_cond_timedwait(&ring->ready, &ring->lock, &until) == ETIMEDOUT)
			break;
	}
	(void)pthread_mutex_unlock(&ring->lock);
	return ready ? event : PTM_RING_TICK;
}

void ptm_ring_recycle(struct ptm_ring *ring, struct ptm_chunk *chunk)
{
	(void)pthread_mutex_lock(&ring->lock);
	if (chunk != NULL) {
		chunk->next = ring->free_list;
		ring->free_list = chunk;
		ring->free_n++;
	} else {
		ring->slots[ring->tail & ring->mask].state = SLOT_FREE;
		ring->tail++;
	}
	/* All: who waits for a slot, who waits for a chunk, and who has become the oldest. */
	(void)pthread_cond_broadcast(&ring->room);
	(void)pthread_mutex_unlock(&ring->lock);
}

void ptm_ring_cancel(struct ptm_ring *ring)
{
	(void)pthread_mutex_lock(&ring->lock);
	ring->canceled = true;
	(void)pthread_cond_broadcast(&ring->room);
	(void)pthread_cond_broadcast(&ring->ready);
	(void)pthread_mutex_unlock(&ring->lock);
}

const struct ptm_error *ptm_ring_error(const struct ptm_ring *ring)
{
	return ring->failed ? &ring->error : NULL;
}
