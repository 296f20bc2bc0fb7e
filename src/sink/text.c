/* SPDX-License-Identifier: Apache-2.0
 *
 * text.c - instructions and events as text.
 *
 * A worker formats an instruction once: each run of its cache of decoded code (image/code.h)
 * carries the text of its instructions, one behind the other, and where each ends.  A step is a
 * prefix of a run, so it is one copy of a prefix of that text.  In front of the cache stands a
 * direct-mapped table of steps seen lately, which saves the look-up. Both are bounded: the cache is
 * dropped when it reaches its limit, and the table with it.
 */
#include "sink/disasm.h"
#include "sink/listing.h"

#include "image/code.h"
#include "ptmill/sink.h"

#include <stdlib.h>

/* A worker's cache: some 60 bytes an instruction and run, so about a million of them: the hot code
 * of large programs. */
#define TEXT_CACHE_BYTES ((size_t)64 << 20)

#define LINE_MAX_LEN (16 + 2 + PTM_DISASM_MAX + 1)

#define FRONT_BITS 12
#define FRONT_SIZE (1u << FRONT_BITS)

struct text_worker;

/* The text of a run's first n instructions; hangs on run->user. */
struct run_text {
	struct text_worker *worker;
	uint32_t n, cap_insns;
	uint32_t cap;
	uint32_t *ends; /* offset behind the line of each instruction */
	char *text;
};

/* A step whose text is known: `run` is dropped no earlier than the table is cleared. */
struct front {
	const struct ptm_space *space;
	uint64_t ip;
	const struct run_text *run;
	uint32_t n; /* 0: empty */
	uint32_t mode;
	uint32_t len; /* of the text */
};

struct text_worker {
	struct ptm_code *code;
	struct ptm_disasm *disasm; /* NULL: the IP alone */
	bool dropped;              /* the cache was dropped: the table holds dead pointers */
	struct front front[FRONT_SIZE];
};

struct text_sink {
	struct ptm_listing list;
	bool no_disasm;
	size_t cache_limit;
};

static void free_run_text(void *user)
{
	struct run_text *rt = (struct run_text *)user;

	rt->worker->dropped = true;
	free(rt->ends);
	free(rt->text);
	free(rt);
}

static void text_worker_destroy(struct ptm_sink *sink, void *worker)
{
	struct text_worker *tw = (struct text_worker *)worker;

	(void)sink;
	if (tw == NULL)
		return;
	ptm_code_destroy(tw->code);
	ptm_disasm_destroy(tw->disasm);
	free(tw);
}

static void *text_worker_create(struct ptm_sink *sink, struct ptm_error *err)
{
	const struct text_sink *ts = (const struct text_sink *)sink;
	struct text_worker *tw = (struct text_worker *)calloc(1, sizeof(*tw));

	if (tw != NULL) {
		tw->code = ptm_code_create(ts->cache_limit, free_run_text);
		tw->disasm = ts->no_disasm ? NULL : ptm_disasm_create();
	}
	if (tw == NULL || tw->code == NULL || (tw->disasm == NULL && !ts->no_disasm)) {
		text_worker_destroy(sink, tw);
		(void)PTM_FAIL(err, PTM_E_NOMEM, "Cannot create text worker: out of memory");
		return NULL;
	}
	return tw;
}

/* The line of instruction @i of @run.  Returns what lies behind it. */
static char *put_insn(struct text_worker *tw, char *p, const struct ptm_run *run, uint32_t i)
{
	const uint64_t ip = run->ips[i];
	uint8_t bytes[16];

	p = ptm_put_hex16(p, ip);
	if (tw->disasm != NULL) {
		size_t got = ptm_space_read(run->space, ip, bytes, run->lens[i]);

		*p++ = ' ';
		*p++ = ' ';
		p += ptm_disasm_format(tw->disasm, bytes, got, ip, (enum ptm_mode)run->mode, p);
	}
	*p++ = '\n';
	return p;
}

/* Room for the text of the instructions [rt->n, want). */
static bool reserve_insns(struct text_worker *tw, struct run_text *rt, uint32_t want)
{
	uint32_t *ends;

	if (want <= rt->cap_insns)
		return true;
	ends = (uint32_t *)realloc(rt->ends, want * sizeof(*ends));
	if (ends == NULL)
		return false;
	ptm_code_charge(tw->code, (want - rt->cap_insns) * sizeof(*ends));
	rt->ends = ends;
	rt->cap_insns = want;
	return true;
}

static bool reserve_text(struct text_worker *tw, struct run_text *rt, uint32_t used)
{
	uint32_t cap = rt->cap * 2 > 512 ? rt->cap * 2 : 512;
	char *text;

	if (rt->cap - used >= LINE_MAX_LEN)
		return true;
	text = (char *)realloc(rt->text, cap);
	if (text == NULL)
		return false;
	ptm_code_charge(tw->code, cap - rt->cap);
	rt->text = text;
	rt->cap = cap;
	return true;
}

/* Make the text of the run's first @want instructions.  A run has at most PTM_RUN_MAX instructions,
 * so its text is far below 4 GiB. */
static bool make_text(struct text_worker *tw, const struct ptm_run *run, struct run_text *rt,
		      uint32_t want)
{
	if (!reserve_insns(tw, rt, want))
		return false;
	for (uint32_t i = rt->n; i < want; i++) {
		uint32_t used = i > 0 ? rt->ends[i - 1] : 0;
		char *end;

		if (!reserve_text(tw, rt, used))
			return false;
		end = put_insn(tw, rt->text + used, run, i);
		rt->ends[i] = (uint32_t)(end - rt->text);
		rt->n = i + 1;
	}
	return true;
}

/* The text of a run, for its first @want instructions; NULL when out of memory. */
static struct run_text *run_text(struct text_worker *tw, struct ptm_run *run, uint32_t want)
{
	struct run_text *rt = (struct run_text *)run->user;

	if (rt == NULL) {
		rt = (struct run_text *)calloc(1, sizeof(*rt));
		if (rt == NULL)
			return NULL;
		rt->worker = tw;
		run->user = rt;
		ptm_code_charge(tw->code, sizeof(*rt));
	}
	if (rt->n < want && !make_text(tw, run, rt, want))
		return NULL;
	return rt;
}

/* What the engine saw but the decoder of images does not find: said, not dropped. */
static bool put_unexpanded(struct ptm_lines *lines, const struct ptm_run *run, int why, uint32_t n)
{
	enum ptm_gap gap = why == -PTM_E_NOMAP ? PTM_GAP_NO_IMAGE : PTM_GAP_BAD_INSN;
	char buf[PTM_LISTING_LINE];

	if (why == 0)
		gap = PTM_GAP_MISMATCH;
	return ptm_lines_write(lines, buf, ptm_listing_unknown(buf, gap, n, run->next));
}

static int no_memory(struct ptm_error *err)
{
	return PTM_FAIL(err, PTM_E_NOMEM, "Cannot format instructions: out of memory");
}

static int put_step_slow(struct text_worker *tw, struct ptm_lines *lines,
			 const struct ptm_space *space, struct ptm_step step, struct front *front,
			 struct ptm_error *err)
{
	while (step.n > 0) {
		uint32_t want = step.n < PTM_RUN_MAX ? step.n : PTM_RUN_MAX;
		int why;
		struct ptm_run *run = ptm_code_run(tw->code, space, step.ip,
						   (enum ptm_mode)step.mode, want, &why);
		struct run_text *rt;

		if (tw->dropped) {
			memset(tw->front, 0, sizeof(tw->front));
			tw->dropped = false;
		}
		if (run == NULL)
			return no_memory(err);
		if (run->n < want)
			want = run->n;
		rt = run_text(tw, run, want);
		if (rt == NULL)
			return no_memory(err);
		if (want > 0 && !ptm_lines_write(lines, rt->text, rt->ends[want - 1]))
			return ptm_lines_failed(err);
		if (want == step.n)
			*front = (struct front){space,  step.ip,   rt,
						step.n, step.mode, rt->ends[want - 1]};
		step.n -= want;
		step.ip = run->next;
		if (step.n > 0 && (want < PTM_RUN_MAX || run->ends))
			return put_unexpanded(lines, run, why, step.n) ? 0 : ptm_lines_failed(err);
	}
	return 0;
}

static int put_step(struct text_worker *tw, struct ptm_lines *lines, const struct ptm_space *space,
		    const struct ptm_step *step, struct ptm_error *err)
{
	uint64_t hash = (step->ip ^ (uint64_t)step->n << 48) * UINT64_C(0x9e3779b97f4a7c15);
	struct front *front = &tw->front[hash >> (64 - FRONT_BITS)];

	if (front->ip == step->ip && front->n == step->n && front->mode == step->mode &&
	    front->space == space)
		return ptm_lines_write(lines, front->run->text, front->len) ? 0
									    : ptm_lines_failed(err);
	return put_step_slow(tw, lines, space, *step, front, err);
}

/* Without the time: it is an estimate, and says nothing about the flow. */
static bool put_event(struct ptm_lines *lines, const struct ptm_event *ev)
{
	struct ptm_event shown = *ev;

	if (!ptm_lines_room(lines, PTM_LISTING_LINE))
		return false;
	shown.flags &= (uint8_t)~PTM_EVF_HAS_TSC;
	lines->pos += ptm_event_format(&shown, lines->pos, PTM_LISTING_LINE - 1);
	*lines->pos++ = '\n';
	return true;
}

static int put_batch(struct text_worker *tw, struct ptm_lines *lines, const struct ptm_batch *batch,
		     struct ptm_error *err)
{
	size_t step = 0;

	for (size_t i = 0; i <= batch->nevents; i++) {
		size_t end = i < batch->nevents ? batch->events[i].step : batch->nsteps;

		if (step == 0 && end > 0 && !ptm_frame_mark(lines, batch->resynced))
			return ptm_lines_failed(err);
		for (; step < end; step++)
			PTM_TRY(put_step(tw, lines, batch->space, &batch->steps[step], err));
		if (i < batch->nevents && !put_event(lines, &batch->events[i]))
			return ptm_lines_failed(err);
	}
	return 0;
}

static int text_work(struct ptm_sink *sink, void *worker, const struct ptm_batch *batch,
		     struct ptm_job_out *out, struct ptm_error *err)
{
	struct ptm_lines lines;
	int status;

	(void)sink;
	ptm_lines_init_framed(&lines, out);
	status = put_batch((struct text_worker *)worker, &lines, batch, err);
	ptm_lines_flush(&lines);
	return status;
}

static const struct ptm_sink_ops text_ops = {
	.want = PTM_WANT_STEPS,
	.segment_size = 16u << 10, /* a trace byte makes some hundred bytes of text and more */
	.worker_create = text_worker_create,
	.worker_destroy = text_worker_destroy,
	.work = text_work,
	.streams = ptm_file_sink_streams,
	.stream_begin = ptm_listing_stream_begin,
	.deliver = ptm_listing_deliver,
	.stream_end = ptm_listing_stream_end,
	.finish = ptm_file_sink_finish,
	.destroy = ptm_file_sink_destroy,
};

struct ptm_sink *ptm_sink_text_create(const struct ptm_text_config *config, const char *path,
				      struct ptm_error *err)
{
	struct text_sink *sink =
		(struct text_sink *)ptm_file_sink_create(sizeof(*sink), &text_ops, path, err);

	if (sink == NULL)
		return NULL;
	sink->list.marks = true;
	sink->cache_limit = TEXT_CACHE_BYTES;
	if (config != NULL) {
		sink->no_disasm = config->no_disasm;
		if (config->cache_limit > 0)
			sink->cache_limit = config->cache_limit;
	}
	return &sink->list.file.sink;
}
