/* SPDX-License-Identifier: Apache-2.0
 *
 * marks.c - the digest of a stream at given instructions: records of batches, expanded where a mark
 * lies.
 */
#include "sink/marks.h"

#include <inttypes.h>

/* The deliverer's cache of decoded code. */
#define MARKS_CACHE_BYTES ((size_t)64 << 20)

int ptm_marks_work(struct ptm_sink *sink, void *worker, const struct ptm_batch *batch,
		   struct ptm_job_out *out, struct ptm_error *err)
{
	struct ptm_marks_head head = {batch->space, batch->digest, batch->nsteps};
	struct ptm_lines lines;
	bool ok;

	(void)sink;
	(void)worker;
	if (batch->resynced || (batch->nsteps == 0 && batch->digest.n == 0))
		return 0;
	ptm_lines_init(&lines, out);
	ok = ptm_lines_write(&lines, (const char *)&head, sizeof(head)) &&
	     (batch->nsteps == 0 || ptm_lines_write(&lines, (const char *)batch->steps,
						    batch->nsteps * sizeof(*batch->steps)));
	ptm_lines_flush(&lines);
	return ok ? 0 : ptm_lines_failed(err);
}

void ptm_marks_begin(struct ptm_marks *m)
{
	m->ended = m->sum = PTM_DIGEST_EMPTY;
	m->steps_left = 0;
	m->ncarry = 0;
}

void ptm_marks_fini(struct ptm_marks *m)
{
	ptm_code_destroy(m->code);
	m->code = NULL;
}

/* The mark behind `at` that lies in this record. */
static void find_next(struct ptm_marks *m)
{
	m->next = m->ops->after(m->ctx, m->at.n);
	if (m->next > m->sum.n + m->batch.n)
		m->next = PTM_MARK_NONE;
}

static int reach(struct ptm_marks *m, struct ptm_error *err)
{
	PTM_TRY(m->ops->reach(m->ctx, m->at.n, !m->lost, m->at.b, err));
	find_next(m);
	return 0;
}

/* Go on by @n instructions whose addresses are not known. */
static int skip_insns(struct ptm_marks *m, uint64_t n, struct ptm_error *err)
{
	uint64_t end = m->at.n + n;

	m->lost = true;
	while (m->next <= end) {
		m->at.n = m->next;
		PTM_TRY(reach(m, err));
	}
	m->at.n = end;
	return 0;
}

/* Add @n instructions of @run. */
static int add_insns(struct ptm_marks *m, const struct ptm_run *run, uint32_t n,
		     struct ptm_error *err)
{
	for (uint32_t i = 0; i < n; i++) {
		ptm_digest_add(&m->at, run->ips[i]);
		if (m->at.n == m->next)
			PTM_TRY(reach(m, err));
	}
	return 0;
}

static int expand_step(struct ptm_marks *m, struct ptm_step step, struct ptm_error *err)
{
	while (step.n > 0 && m->next != PTM_MARK_NONE) {
		uint32_t want = step.n < PTM_RUN_MAX ? step.n : PTM_RUN_MAX;
		int why = 0;
		struct ptm_run *run;

		if (m->lost)
			return skip_insns(m, step.n, err);
		run = ptm_code_run(m->code, m->space, step.ip, (enum ptm_mode)step.mode, want,
				   &why);
		if (run == NULL)
			return PTM_FAIL(err, PTM_E_NOMEM,
					"Cannot expand instructions: out of memory");
		if (run->n < want)
			want = run->n;
		PTM_TRY(add_insns(m, run, want, err));
		step.n -= want;
		step.ip = run->next;
		if (want < PTM_RUN_MAX || run->ends)
			return step.n > 0 ? skip_insns(m, step.n, err) : 0;
	}
	return 0;
}

static int begin_record(struct ptm_marks *m, const struct ptm_marks_head *head,
			struct ptm_error *err)
{
	m->space = head->space;
	m->batch = head->digest;
	m->steps_left = head->nsteps;
	m->at = m->sum;
	m->lost = false;
	find_next(m);
	if (m->next != PTM_MARK_NONE && m->code == NULL) {
		m->code = ptm_code_create(MARKS_CACHE_BYTES, NULL);
		if (m->code == NULL)
			return PTM_FAIL(err, PTM_E_NOMEM,
					"Cannot expand instructions: out of memory");
	}
	if (head->nsteps > 0)
		return 0;
	PTM_TRY(skip_insns(m, head->digest.n, err));
	ptm_digest_append(&m->sum, &m->batch);
	return 0;
}

static void end_step(struct ptm_marks *m, uint64_t n)
{
	m->steps_left -= n;
	if (m->steps_left == 0)
		ptm_digest_append(&m->sum, &m->batch);
}

/* One whole item. */
static int take_item(struct ptm_marks *m, const uint8_t *item, struct ptm_error *err)
{
	struct ptm_marks_head head;
	struct ptm_step step;

	if (m->steps_left == 0) {
		memcpy(&head, item, sizeof(head));
		return begin_record(m, &head, err);
	}
	memcpy(&step, item, sizeof(step));
	PTM_TRY(expand_step(m, step, err));
	end_step(m, 1);
	return 0;
}

int ptm_marks_deliver(struct ptm_marks *m, const void *data, size_t len, struct ptm_error *err)
{
	const uint8_t *p = (const uint8_t *)data;

	while (len > 0) {
		size_t size = m->steps_left == 0 ? sizeof(struct ptm_marks_head)
						 : sizeof(struct ptm_step);

		if (m->ncarry > 0 || len < size) {
			size_t part = size - m->ncarry < len ? size - m->ncarry : len;

			memcpy(m->carry.bytes + m->ncarry, p, part);
			m->ncarry += part;
			p += part;
			len -= part;
			if (m->ncarry < size)
				return 0;
			m->ncarry = 0;
			PTM_TRY(take_item(m, m->carry.bytes, err));
		} else if (m->steps_left > 0 && m->next == PTM_MARK_NONE) {
			/* No mark in the rest of this record. */
			uint64_t n = len / size < m->steps_left ? len / size : m->steps_left;

			p += n * size;
			len -= n * size;
			end_step(m, n);
		} else {
			PTM_TRY(take_item(m, p, err));
			p += size;
			len -= size;
		}
	}
	return 0;
}

int ptm_marks_segment_end(struct ptm_marks *m, const struct ptm_segment_end *end,
			  struct ptm_error *err)
{
	ptm_digest_append(&m->ended, &end->digest);
	if (m->steps_left > 0 || m->ncarry > 0 || m->sum.n != m->ended.n || m->sum.b != m->ended.b)
		return PTM_FAIL(err, PTM_E_BUG,
				"Cannot compose digests: a segment's records and its end differ: "
				"offset=0x%" PRIx64 ", instructions=%" PRIu64 "/%" PRIu64,
				end->offset, m->sum.n, m->ended.n);
	return 0;
}
