/* SPDX-License-Identifier: Apache-2.0
 *
 * split.c - claims and loads segments.
 *
 * Offsets are bytes from the start of a stream.  Range i of a stream is [i * size, (i + 1) * size);
 * its segment begins at the first PSB at or behind the range's begin and ends at the first PSB at
 * or behind its end.  Both neighbours of a cut ask the same question of the same bytes, so they
 * agree.  A range without a PSB has an empty segment.
 */
#include "pipeline/split.h"

#include "flow/frame.h"
#include "pipeline/window.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Blocks in which a PSB is looked for: it is mostly near, so they begin small and grow. */
#define SCAN_MIN (4u << 10)
#define SCAN_MAX (128u << 10)
/* A PSB that the end of a scanned block cuts off is seen again in the next one. */
#define OVERLAP 64u

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

/* Read exactly what the size of the source promises of [offset, offset + len). */
static int read_range(struct ptm_source *source, uint64_t offset, uint64_t len,
		      struct ptm_segbuf *buf, size_t *n, struct ptm_error *err)
{
	const uint64_t size = ptm_source_size(source);
	int64_t got;

	if (len > size - offset)
		len = size - offset;
	PTM_TRY(ptm_segbuf_reserve(buf, (size_t)len, err));
	got = ptm_source_pread(source, buf->data, (size_t)len, offset, err);
	if (got < 0)
		return (int)got;
	if ((uint64_t)got < len)
		return PTM_FAIL(err, PTM_E_IO,
				"%s: the file shrank while it was read: offset=%" PRIu64,
				ptm_source_path(source), offset + (uint64_t)got);
	*n = (size_t)len;
	return 0;
}

/* Offset of the first PSB in [from, limit), or UINT64_MAX. */
static int find_psb(const struct ptm_split *split, struct ptm_source *source, uint64_t from,
		    uint64_t limit, struct ptm_segbuf *buf, uint64_t *found, struct ptm_error *err)
{
	const uint64_t size = ptm_source_size(source);
	uint64_t block = SCAN_MIN;

	*found = UINT64_MAX;
	while (from < limit) {
		/* A PSB that begins before the limit, and the end of its run, may lie behind it. */
		uint64_t want = limit - from < block - OVERLAP ? limit - from + OVERLAP : block;
		size_t at, n = 0;

		if (atomic_load_explicit(split->cancel, memory_order_relaxed))
			return PTM_FAIL(err, PTM_E_CANCELED, "Canceled");
		PTM_TRY(read_range(source, from, want, buf, &n, err));
		at = ptm_psb_find(buf->data, n, 0, from + n < size);
		if (at < n) {
			if (from + at < limit)
				*found = from + at;
			return 0;
		}
		if (from + n == size)
			return 0;
		from += n - OVERLAP;
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
 * the cut look so. */
static int ovf_before(const struct ptm_split *split, struct ptm_source *source, uint64_t cut,
		      struct ptm_segbuf *buf, bool *answer, struct ptm_error *err)
{
	*answer = false;
	for (uint64_t back = PTM_OVF_LOOK; back < 8 * PTM_FRAME_MAX; back *= 8) {
		uint64_t len = cut < back ? cut : back;
		size_t psb, next, n = 0;

		PTM_TRY(read_range(source, cut - len, len, buf, &n, err));
		if (!ptm_split_maybe_ovf(buf->data, n))
			return 0;
		psb = n;
		for (next = ptm_psb_find(buf->data, n, 0, false); next < n;
		     next = ptm_psb_find(buf->data, n, psb + PTM_PSB_SIZE, false))
			psb = next;
		/* Without a PSB, the begin of the stream may be the frame's. */
		if (psb == n && len == cut && split->in_sync)
			psb = 0;
		if (psb < n)
			*answer = ptm_frame_ends_in_ovf(buf->data + psb, n - psb);
		if (psb < n || len == cut)
			return 0;
	}
	return 0;
}

/* Where the segment of a range begins and ends; equal if it is empty. */
static int find_ends(const struct ptm_split *split, struct ptm_source *source, struct ptm_job *job,
		     struct ptm_segbuf *buf, uint64_t *begin, uint64_t *end, struct ptm_error *err)
{
	const uint64_t size = ptm_source_size(source);
	const bool first = job->begin == 0;

	*end = UINT64_MAX;
	if (first && split->in_sync && size > 0)
		*begin = 0;
	else
		PTM_TRY(find_psb(split, source, job->begin, first ? size : job->end, buf, begin,
				 err));
	if (first) {
		job->seg.no_sync = *begin == UINT64_MAX;
		job->seg.head = job->seg.no_sync ? size : *begin;
		if (!job->seg.no_sync && *begin >= job->end) {
			*end = *begin; /* the frames belong to a later range */
			return 0;
		}
	}
	if (*begin == UINT64_MAX) {
		*begin = *end = first ? size : job->end;
		return 0;
	}
	PTM_TRY(find_psb(split, source,
			 job->end > *begin + PTM_PSB_SIZE ? job->end : *begin + PTM_PSB_SIZE, size,
			 buf, end, err));
	if (*end == UINT64_MAX)
		*end = size;
	return 0;
}

int ptm_split_load(struct ptm_split *split, struct ptm_job *job, struct ptm_segbuf *buf,
		   struct ptm_error *err)
{
	struct ptm_source *source = ptm_sources_get(split->sources, job->stream);
	uint64_t begin, end, len;
	size_t n = 0;

	if (job->loaded)
		return 0;
	if (job->end == ptm_source_size(source)) {
		job->seg.missing = ptm_source_missing(source);
		job->seg.missing_at = job->end;
	}
	PTM_TRY(find_ends(split, source, job, buf, &begin, &end, err));
	job->seg.offset = begin;
	if (begin == end)
		return 0;
	PTM_TRY(ovf_before(split, source, begin, buf, &job->seg.ovf_pending, err));
	len = end - begin;
	if (len > split->segment_size + PTM_FRAME_MAX) {
		job->seg.skipped = len - (split->segment_size + PTM_FRAME_MAX);
		len -= job->seg.skipped;
	}
	PTM_TRY(read_range(source, begin, len + (job->seg.skipped > 0 ? 0 : PTM_SPLIT_LOOK), buf,
			   &n, err));
	job->seg.data = buf->data;
	job->seg.len = (size_t)len;
	job->seg.look = n - (size_t)len;
	job->loaded = true;
	return 0;
}
