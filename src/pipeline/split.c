/* SPDX-License-Identifier: Apache-2.0
 *
 * split.c - claims and loads segments.
 *
 * Offsets are bytes from the start of a stream.  Range i of a stream is [i * size, (i + 1) * size);
 * its segment begins at the first PSB at or behind the range's begin and ends at the first PSB at
 * or behind its end.  Both neighbours of a cut ask the same question of the same bytes, so they
 * agree.  A range without a PSB has an empty segment.
 *
 * A worker reads its range and a little around it at once; it reads on only if the PSB behind it is
 * farther away.  If the blocks of the stream have digests, it compares those of the blocks that
 * begin in its range or in what it uses behind it, in order, before anything is decoded.  A block
 * that begins before the range was compared for an earlier one, whose failure ends the run first.
 */
#include "pipeline/split.h"

#include "flow/frame.h"
#include "pipeline/span.h"
#include "pipeline/window.h"

#include <stdlib.h>
#include <string.h>

/* Blocks in which a PSB is looked for: it is mostly near, so they begin small and grow. */
#define SCAN_MIN (4u << 10)
#define SCAN_MAX (128u << 10)
/* A PSB that the end of a scanned block cuts off is seen again in the next one. */
#define OVERLAP 64u
/* What is read behind a range at once: the PSB that ends its segment is mostly in it. */
#define BEHIND (SCAN_MIN + PTM_SPLIT_LOOK)

struct ptm_split {
	struct ptm_sources *sources; /* borrowed */
	uint64_t segment_size;
	bool in_sync;              /* streams begin in sync */
	const atomic_bool *cancel; /* borrowed */
	size_t stream;             /* being claimed */
	uint64_t next;             /* begin of the next range of it */
	bool begun;                /* a job of it was claimed */
	struct ptm_window window;  /* of a stream that is read from front to back */
};

struct ptm_split *ptm_split_create(struct ptm_sources *sources, uint64_t segment_size, bool in_sync,
				   const atomic_bool *cancel, struct ptm_error *err)
{
	struct ptm_split *split = (struct ptm_split *)calloc(1, sizeof(*split));

	if (split == NULL) {
		(void)PTM_FAIL(err, PTM_E_NOMEM, "Out of memory");
		return NULL;
	}
	split->sources = sources;
	split->segment_size = segment_size;
	split->in_sync = in_sync;
	split->cancel = cancel;
	return split;
}

void ptm_split_destroy(struct ptm_split *split)
{
	if (split == NULL)
		return;
	ptm_window_fini(&split->window);
	free(split);
}

int ptm_segbuf_reserve(struct ptm_segbuf *buf, size_t len, struct ptm_error *err)
{
	size_t cap = buf->cap + buf->cap / 2;
	uint8_t *data;

	if (len <= buf->cap)
		return 0;
	if (cap < len)
		cap = len;
	data = (uint8_t *)realloc(buf->data, cap);
	if (data == NULL)
		return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory for a segment: bytes=%zu", len);
	buf->data = data;
	buf->cap = cap;
	return 0;
}

void ptm_segbuf_fini(struct ptm_segbuf *buf)
{
	free(buf->data);
	*buf = (struct ptm_segbuf){0};
}

/* One segment of a sequential stream; 0 at its end. */
static int claim_window(struct ptm_split *split, struct ptm_source *source, struct ptm_job *job,
			struct ptm_segbuf *buf, struct ptm_error *err)
{
	if (!split->begun) {
		struct ptm_segbuf reuse = split->window.buf;

		split->window = (struct ptm_window){.source = source,
						    .buf = reuse,
						    .in_sync = split->in_sync,
						    .cancel = split->cancel};
	}
	return ptm_window_next(&split->window, split->segment_size, job, buf, err);
}

static int claim_range(struct ptm_split *split, struct ptm_source *source, struct ptm_job *job)
{
	const uint64_t size = ptm_source_size(source);

	if (split->begun && split->next >= size)
		return 0;
	job->begin = split->next;
	job->end =
		size - split->next > split->segment_size ? split->next + split->segment_size : size;
	job->bytes = job->end - job->begin;
	split->next = job->end;
	return 1;
}

int ptm_split_claim(struct ptm_split *split, struct ptm_job *job, struct ptm_segbuf *buf,
		    struct ptm_error *err)
{
	while (split->stream < ptm_sources_count(split->sources)) {
		struct ptm_source *source = ptm_sources_get(split->sources, split->stream);
		int status;

		*job = (struct ptm_job){.stream = split->stream};
		if (ptm_source_is_seekable(source))
			status = claim_range(split, source, job);
		else
			status = claim_window(split, source, job, buf, err);
		if (status != 0) {
			split->begun = true;
			return status;
		}
		split->stream++;
		split->next = 0;
		split->begun = false;
	}
	return 0;
}

/* Read the range of a job, and around it what a segment needs of its neighbourhood; of a short
 * range, in which there is mostly no PSB, no more than shows that. */
static int open_range(const struct ptm_job *job, struct ptm_source *source, struct ptm_segbuf *buf,
		      struct ptm_span *span, struct ptm_error *err)
{
	const bool is_short = job->end - job->begin < SCAN_MIN;
	uint64_t before = is_short ? 0 : PTM_OVF_LOOK;

	if (before > job->begin)
		before = job->begin;
	return ptm_span_open(span, source, buf, job->begin - before,
			     job->end + (is_short ? OVERLAP : BEHIND), job->begin, err);
}

/* Offset of the first PSB in [from, limit), or UINT64_MAX.  The span grows on the way.  From @hold
 * on, bytes are dropped when they are scanned; they lie at @at of the buffer then. */
static int find_psb(const struct ptm_split *split, struct ptm_span *span, uint64_t from,
		    uint64_t limit, uint64_t hold, size_t at, uint64_t *found,
		    struct ptm_error *err)
{
	const uint64_t size = ptm_source_size(span->source);
	uint64_t block = SCAN_MIN;

	*found = UINT64_MAX;
	while (from < limit) {
		/* A PSB that begins before the limit, and the end of its run, may lie behind it. */
		uint64_t want = limit - from < block - OVERLAP ? limit - from + OVERLAP : block;
		size_t n, psb;

		if (atomic_load_explicit(split->cancel, memory_order_relaxed))
			return PTM_FAIL(err, PTM_E_CANCELED, "Canceled");
		if (from >= hold && from + want > ptm_span_end(span))
			ptm_span_drop(span, from, at);
		PTM_TRY(ptm_span_reach(span, from + want, err));
		n = (size_t)(size - from < want ? size - from : want);
		psb = ptm_psb_find(ptm_span_at(span, from), n, 0, from + n < size);
		if (psb < n) {
			if (from + psb < limit)
				*found = from + psb;
			return 0;
		}
		if (from + n == size)
			return 0;
		from += n - OVERLAP;
		PTM_TRY(ptm_span_check(span, from, err));
		block = block * 4 < SCAN_MAX ? block * 4 : SCAN_MAX;
	}
	return 0;
}

bool ptm_split_maybe_ovf(const uint8_t *data, size_t len)
{
	const uint8_t *begin = len > PTM_OVF_LOOK ? data + len - PTM_OVF_LOOK : data;
	const uint8_t *end = data + len;

	for (const uint8_t *p = begin; end - p >= 2; p++) {
		struct ptm_lexer lx;
		struct ptm_pkt pkt;
		enum ptm_lex_status status;

		p = (const uint8_t *)memmem(p, (size_t)(end - p), "\x02\xf3", 2);
		if (p == NULL)
			return false;
		ptm_lexer_init(&lx, p + 2, (size_t)(end - p) - 2);
		do
			status = ptm_lex_next(&lx, &pkt);
		while (status == PTM_LEX_OK &&
		       (pkt.kind == PTM_PKT_PAD || ptm_pkt_is_time(pkt.kind)));
		if (status == PTM_LEX_END)
			return true;
	}
	return false;
}

/* Does the frame before the PSB at @cut end in an OVF?  Reads the frame only if the bytes before
 * the cut look so.  What the span lacks is read in its place, and the span is read again; the
 * blocks of these bytes are compared by the workers of earlier ranges, without whose success
 * nothing of this one leaves the run. */
static int ovf_before(const struct ptm_split *split, const struct ptm_job *job,
		      struct ptm_span *span, uint64_t cut, bool *answer, struct ptm_error *err)
{
	struct ptm_source *source = span->source;
	struct ptm_span back = *span;
	bool done = false;

	*answer = false;
	for (uint64_t look = PTM_OVF_LOOK; !done && look < 8 * PTM_FRAME_MAX; look *= 8) {
		const size_t n = (size_t)(cut < look ? cut : look);
		const uint8_t *data;
		size_t psb = n, next;

		if (cut - n < back.begin)
			PTM_TRY(ptm_span_open(&back, source, span->buf, cut - n, cut, UINT64_MAX,
					      err));
		data = ptm_span_at(&back, cut - n);
		if (!ptm_split_maybe_ovf(data, n))
			break;
		for (next = ptm_psb_find(data, n, 0, false); next < n;
		     next = ptm_psb_find(data, n, psb + PTM_PSB_SIZE, false))
			psb = next;
		/* Without a PSB, the begin of the stream may be the frame's. */
		if (psb == n && n == cut && split->in_sync)
			psb = 0;
		if (psb < n)
			*answer = ptm_frame_ends_in_ovf(data + psb, n - psb);
		done = psb < n || n == cut;
	}
	return back.begin == span->begin ? 0 : open_range(job, source, span->buf, span, err);
}

/* Where the segment of a range begins; @end, too, if it is empty, else UINT64_MAX. */
static int find_begin(const struct ptm_split *split, struct ptm_span *span, struct ptm_job *job,
		      uint64_t *begin, uint64_t *end, struct ptm_error *err)
{
	const uint64_t size = ptm_source_size(span->source);
	const bool first = job->begin == 0;

	*end = UINT64_MAX;
	if (first && split->in_sync && size > 0)
		*begin = 0;
	else
		PTM_TRY(find_psb(split, span, job->begin, first ? size : job->end, job->end, 0,
				 begin, err));
	if (first) {
		job->seg.no_sync = *begin == UINT64_MAX;
		job->seg.head = job->seg.no_sync ? size : *begin;
		if (!job->seg.no_sync && *begin >= job->end)
			*end = *begin; /* the frames belong to a later range */
	}
	if (*begin == UINT64_MAX)
		*begin = *end = first ? size : job->end;
	return 0;
}

/* Read the segment that begins at @begin, find its end, and complete the job. */
static int load_segment(const struct ptm_split *split, struct ptm_span *span, struct ptm_job *job,
			uint64_t begin, struct ptm_error *err)
{
	const uint64_t size = ptm_source_size(span->source);
	const uint64_t max = split->segment_size + PTM_FRAME_MAX;
	/* A segment that goes on behind here is cut. */
	const uint64_t hold = begin + max + 1;
	const uint64_t base = span->begin;
	uint64_t end, len, look = 0;

	PTM_TRY(find_psb(split, span,
			 job->end > begin + PTM_PSB_SIZE ? job->end : begin + PTM_PSB_SIZE, size,
			 hold, (size_t)(hold - base), &end, err));
	if (end == UINT64_MAX)
		end = size;
	PTM_TRY(ptm_span_check(span, end + PTM_SPLIT_LOOK, err));
	len = end - begin;
	if (len > max) {
		job->seg.skipped = len - max;
		len = max;
	} else {
		look = size - end < PTM_SPLIT_LOOK ? size - end : PTM_SPLIT_LOOK;
		PTM_TRY(ptm_span_reach(span, end + look, err));
	}
	job->seg.data = span->buf->data + (size_t)(begin - base);
	job->seg.len = (size_t)len;
	job->seg.look = (size_t)look;
	job->loaded = true;
	return 0;
}

int ptm_split_load(struct ptm_split *split, struct ptm_job *job, struct ptm_segbuf *buf,
		   struct ptm_error *err)
{
	struct ptm_source *source = ptm_sources_get(split->sources, job->stream);
	struct ptm_span span;
	uint64_t begin, end;

	if (job->loaded)
		return 0;
	if (job->end == ptm_source_size(source)) {
		job->seg.missing = ptm_source_missing(source);
		job->seg.missing_at = job->end;
	}
	PTM_TRY(open_range(job, source, buf, &span, err));
	PTM_TRY(find_begin(split, &span, job, &begin, &end, err));
	job->seg.offset = begin;
	/* An empty segment, too, says something of its bytes, and of those that might begin a PSB.
	 */
	if (begin == end)
		return ptm_span_check(&span, end + OVERLAP, err);
	PTM_TRY(ovf_before(split, job, &span, begin, &job->seg.ovf_pending, err));
	return load_segment(split, &span, job, begin, err);
}
