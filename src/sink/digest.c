/* SPDX-License-Identifier: Apache-2.0
 *
 * digest.c - instruction counts and digests of streams.
 *
 * Digests compose (base/digest.h), so the end of a stream needs no steps at all.  With `every`, a
 * worker hands on each batch as a record: its composed digest, then its steps.  The deliverer
 * composes whole records, and expands the steps of those records only in which a multiple of
 * `every` lies.  Records never leave the process: they have the layout of the structs.  They reach
 * the deliverer in pieces cut anywhere, so what a piece leaves over is carried.
 */
#include "sink/common.h"

#include "image/code.h"
#include "ptmill/sink.h"

#include <inttypes.h>
#include <stdlib.h>

/* The deliverer's cache of decoded code. */
#define DIGEST_CACHE_BYTES ((size_t)64 << 20)

/* What precedes the steps of a record. */
struct record_head {
	const struct ptm_space *space;
	struct ptm_digest digest;
	uint64_t nsteps;
};

struct digest_sink {
	struct ptm_file_sink file;
	uint64_t every;

	/* The deliverer's. */
	struct ptm_code *code;   /* owned; made when first needed */
	const char *name;        /* of the stream; borrowed while it lasts */
	struct ptm_digest ended; /* of the segments that ended */
	struct ptm_digest sum;   /* of the records that ended, too */

	/* The record under way. */
	const struct ptm_space *space;
	struct ptm_digest batch;
	uint64_t steps_left;  /* 0: a head is next */
	uint64_t marks;       /* multiples of `every` in what is left of it */
	struct ptm_digest at; /* up to where its steps were expanded */
	bool lost;            /* a step could not be expanded: `at` counts on, without a digest */
	union {
		uint8_t bytes[sizeof(struct record_head)];
		struct record_head head;
		struct ptm_step step;
	} carry;
	size_t ncarry;
};

static int digest_work(struct ptm_sink *sink, void *worker, const struct ptm_batch *batch,
		       struct ptm_job_out *out, struct ptm_error *err)
{
	struct record_head head = {batch->space, batch->digest, batch->nsteps};
	struct ptm_lines lines;
	bool ok;

	(void)sink;
	(void)worker;
	if (batch->nsteps == 0)
		return 0;
	ptm_lines_init(&lines, out);
	ok = ptm_lines_write(&lines, (const char *)&head, sizeof(head)) &&
	     ptm_lines_write(&lines, (const char *)batch->steps,
			     batch->nsteps * sizeof(*batch->steps));
	ptm_lines_flush(&lines);
	return ok ? 0 : ptm_lines_failed(err);
}

static int put_mark(struct digest_sink *ds, struct ptm_error *err)
{
	ds->marks--;
	if (ds->lost)
		return ptm_out_printf(ds->file.out, err,
				      "stream %s at %" PRIu64 " digest unknown\n", ds->name,
				      ds->at.n);
	return ptm_out_printf(ds->file.out, err,
			      "stream %s at %" PRIu64 " digest 0x%016" PRIx64 "\n", ds->name,
			      ds->at.n, ds->at.b);
}

/* Go on by @n instructions whose addresses are not known. */
static int skip_insns(struct digest_sink *ds, uint64_t n, struct ptm_error *err)
{
	uint64_t end = ds->at.n + n;

	ds->lost = true;
	while (ds->marks > 0 && end / ds->every > ds->at.n / ds->every) {
		ds->at.n = (ds->at.n / ds->every + 1) * ds->every;
		PTM_TRY(put_mark(ds, err));
	}
	ds->at.n = end;
	return 0;
}

/* Add @n instructions of @run. */
static int add_insns(struct digest_sink *ds, const struct ptm_run *run, uint32_t n,
		     struct ptm_error *err)
{
	for (uint32_t i = 0; i < n; i++) {
		ptm_digest_add(&ds->at, run->ips[i]);
		if (ds->at.n % ds->every == 0)
			PTM_TRY(put_mark(ds, err));
	}
	return 0;
}

static int expand_step(struct digest_sink *ds, struct ptm_step step, struct ptm_error *err)
{
	while (step.n > 0 && ds->marks > 0) {
		uint32_t want = step.n < PTM_RUN_MAX ? step.n : PTM_RUN_MAX;
		int why = 0;
		struct ptm_run *run;

		if (ds->lost)
			return skip_insns(ds, step.n, err);
		run = ptm_code_run(ds->code, ds->space, step.ip, (enum ptm_mode)step.mode, want,
				   &why);
		if (run == NULL)
			return PTM_FAIL(err, PTM_E_NOMEM,
					"Cannot expand instructions: out of memory");
		if (run->n < want)
			want = run->n;
		PTM_TRY(add_insns(ds, run, want, err));
		step.n -= want;
		step.ip = run->next;
		if (want < PTM_RUN_MAX || run->ends)
			return step.n > 0 ? skip_insns(ds, step.n, err) : 0;
	}
	return 0;
}

static int begin_record(struct digest_sink *ds, const struct record_head *head,
			struct ptm_error *err)
{
	ds->space = head->space;
	ds->batch = head->digest;
	ds->steps_left = head->nsteps;
	ds->at = ds->sum;
	ds->lost = false;
	ds->marks = (ds->sum.n + head->digest.n) / ds->every - ds->sum.n / ds->every;
	if (ds->marks > 0 && ds->code == NULL) {
		ds->code = ptm_code_create(DIGEST_CACHE_BYTES, NULL);
		if (ds->code == NULL)
			return PTM_FAIL(err, PTM_E_NOMEM,
					"Cannot expand instructions: out of memory");
	}
	return 0;
}

static void end_step(struct digest_sink *ds, uint64_t n)
{
	ds->steps_left -= n;
	if (ds->steps_left == 0)
		ptm_digest_append(&ds->sum, &ds->batch);
}

/* One whole item. */
static int take_item(struct digest_sink *ds, const uint8_t *item, struct ptm_error *err)
{
	struct record_head head;
	struct ptm_step step;

	if (ds->steps_left == 0) {
		memcpy(&head, item, sizeof(head));
		return begin_record(ds, &head, err);
	}
	memcpy(&step, item, sizeof(step));
	PTM_TRY(expand_step(ds, step, err));
	end_step(ds, 1);
	return 0;
}

static int digest_deliver(struct ptm_sink *sink, const void *data, size_t len,
			  struct ptm_error *err)
{
	struct digest_sink *ds = (struct digest_sink *)sink;
	const uint8_t *p = (const uint8_t *)data;

	while (len > 0) {
		size_t size =
			ds->steps_left == 0 ? sizeof(struct record_head) : sizeof(struct ptm_step);

		if (ds->ncarry > 0 || len < size) {
			size_t part = size - ds->ncarry < len ? size - ds->ncarry : len;

			memcpy(ds->carry.bytes + ds->ncarry, p, part);
			ds->ncarry += part;
			p += part;
			len -= part;
			if (ds->ncarry < size)
				return 0;
			ds->ncarry = 0;
			PTM_TRY(take_item(ds, ds->carry.bytes, err));
		} else if (ds->steps_left > 0 && ds->marks == 0) {
			/* Nothing to print in the rest of this record. */
			uint64_t n = len / size < ds->steps_left ? len / size : ds->steps_left;

			p += n * size;
			len -= n * size;
			end_step(ds, n);
		} else {
			PTM_TRY(take_item(ds, p, err));
			p += size;
			len -= size;
		}
	}
	return 0;
}

static int digest_stream_begin(struct ptm_sink *sink, const char *name, struct ptm_error *err)
{
	struct digest_sink *ds = (struct digest_sink *)sink;

	(void)err;
	ds->name = name;
	ds->ended = ds->sum = PTM_DIGEST_EMPTY;
	ds->steps_left = 0;
	ds->ncarry = 0;
	return 0;
}

static int digest_segment_end(struct ptm_sink *sink, const struct ptm_segment_end *end,
			      struct ptm_error *err)
{
	struct digest_sink *ds = (struct digest_sink *)sink;

	ptm_digest_append(&ds->ended, &end->digest);
	if (ds->every == 0)
		return 0;
	if (ds->steps_left > 0 || ds->ncarry > 0 || ds->sum.n != ds->ended.n ||
	    ds->sum.b != ds->ended.b)
		return PTM_FAIL(err, PTM_E_BUG,
				"Cannot compose digests: a segment's records and its end differ: "
				"stream=\"%s\", "
				"offset=0x%" PRIx64 ", instructions=%" PRIu64 "/%" PRIu64,
				ds->name, end->offset, ds->sum.n, ds->ended.n);
	return 0;
}

static int digest_stream_end(struct ptm_sink *sink, const char *name, struct ptm_error *err)
{
	struct digest_sink *ds = (struct digest_sink *)sink;

	return ptm_out_printf(ds->file.out, err,
			      "stream %s instructions %" PRIu64 " digest 0x%016" PRIx64 "\n", name,
			      ds->ended.n, ds->ended.b);
}

static void digest_destroy(struct ptm_sink *sink)
{
	ptm_code_destroy(((struct digest_sink *)sink)->code);
	ptm_file_sink_destroy(sink);
}

static const struct ptm_sink_ops digest_ops = {
	.stream_begin = digest_stream_begin,
	.segment_end = digest_segment_end,
	.stream_end = digest_stream_end,
	.finish = ptm_file_sink_finish,
	.destroy = digest_destroy,
};

static const struct ptm_sink_ops digest_every_ops = {
	.work = digest_work,
	.stream_begin = digest_stream_begin,
	.deliver = digest_deliver,
	.segment_end = digest_segment_end,
	.stream_end = digest_stream_end,
	.finish = ptm_file_sink_finish,
	.destroy = digest_destroy,
};

struct ptm_sink *ptm_sink_digest_create(uint64_t every, const char *path, struct ptm_error *err)
{
	struct digest_sink *ds = (struct digest_sink *)ptm_file_sink_create(
		sizeof(*ds), every > 0 ? &digest_every_ops : &digest_ops, path, err);

	if (ds == NULL)
		return NULL;
	ds->every = every;
	return &ds->file.sink;
}
