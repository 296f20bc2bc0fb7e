/* SPDX-License-Identifier: Apache-2.0
 *
 * window.c - a window over a stream that can only be read once.
 *
 * The window begins at the PSB of the next segment and grows until the PSB behind it is found; then
 * the segment is copied out and the rest moves to the front.  Bytes that are not decoded (before
 * the first PSB, behind the longest frame) are counted and dropped, so the window is bounded by the
 * segment size and PTM_FRAME_MAX.
 */
#include "pipeline/window.h"

#include "flow/frame.h"

#include <stdlib.h>
#include <string.h>

#define READ_SIZE (256u << 10)
/* A PSB that the end of the window cuts off is seen again if these bytes stay. */
#define OVERLAP 64u

/* Read some more.  Returns 0; at the end of the stream sets eof. */
static int fill(struct ptm_window *win, struct ptm_error *err)
{
	int64_t n;

	if (atomic_load_explicit(win->cancel, memory_order_relaxed))
		return PTM_FAIL(err, PTM_E_CANCELED, "Canceled");
	PTM_TRY(ptm_segbuf_reserve(&win->buf, win->n + READ_SIZE, err));
	n = ptm_source_read(win->source, win->buf.data + win->n, READ_SIZE, err);
	if (n < 0)
		return (int)n;
	win->n += (size_t)n;
	win->eof = n < (int64_t)READ_SIZE;
	return 0;
}

/* Drop the first @len bytes. */
static void drop(struct ptm_window *win, size_t len)
{
	memmove(win->buf.data, win->buf.data + len, win->n - len);
	win->n -= len;
	win->base += len;
}

/* Offset in the window of the first PSB from @from on, reading at most until the window holds @max
 * bytes; win->n if there is none. */
static int find(struct ptm_window *win, size_t from, size_t max, size_t *found,
		struct ptm_error *err)
{
	for (;;) {
		size_t at = ptm_psb_find(win->buf.data, win->n, from < win->n ? from : win->n,
					 !win->eof);

		if (at < win->n || win->eof || win->n >= max) {
			*found = at;
			return 0;
		}
		if (win->n > OVERLAP && win->n - OVERLAP > from)
			from = win->n - OVERLAP;
		PTM_TRY(fill(win, err));
	}
}

/* Drop everything before the next PSB; @dropped counts. */
static int drop_to_psb(struct ptm_window *win, uint64_t *dropped, struct ptm_error *err)
{
	for (;;) {
		size_t at, len;

		PTM_TRY(find(win, 0, OVERLAP + 1, &at, err));
		len = at;
		if (at == win->n && !win->eof)
			len = win->n - OVERLAP;
		*dropped += len;
		drop(win, len);
		if (at < win->n + len || win->eof)
			return 0;
		PTM_TRY(fill(win, err));
	}
}

/* Did the segment data[0..len), which starts at a PSB or is assumed to be in sync, end in an OVF?
 */
static bool ends_in_ovf(const uint8_t *data, size_t len)
{
	size_t psb = 0;

	if (!ptm_split_maybe_ovf(data, len))
		return false;
	for (size_t next = ptm_psb_find(data, len, 0, false); next < len;
	     next = ptm_psb_find(data, len, psb + PTM_PSB_SIZE, false))
		psb = next;
	return ptm_frame_ends_in_ovf(data + psb, len - psb);
}

/* Copy the first @len bytes and what is behind them, as far as a PSB+ is looked at. */
static int copy_out(struct ptm_window *win, size_t len, size_t look, struct ptm_job *job,
		    struct ptm_segbuf *buf, struct ptm_error *err)
{
	PTM_TRY(ptm_segbuf_reserve(buf, len + look, err));
	if (len + look > 0)
		memcpy(buf->data, win->buf.data, len + look);
	job->seg.data = buf->data;
	job->seg.len = len;
	job->seg.look = look;
	job->seg.offset = win->base;
	return 0;
}

static int cut(struct ptm_window *win, uint64_t segment_size, struct ptm_job *job,
	       struct ptm_segbuf *buf, struct ptm_error *err)
{
	const size_t max = (size_t)segment_size + PTM_FRAME_MAX;
	size_t end, look;

	job->seg.ovf_pending = win->ovf_pending;
	PTM_TRY(find(win, segment_size > PTM_PSB_SIZE ? (size_t)segment_size : PTM_PSB_SIZE,
		     max + READ_SIZE, &end, err));
	if (end == win->n && !win->eof) {
		PTM_TRY(copy_out(win, max, 0, job, buf, err));
		drop(win, max);
		win->ovf_pending = false;
		return drop_to_psb(win, &job->seg.skipped, err);
	}
	while (!win->eof && win->n < end + PTM_SPLIT_LOOK)
		PTM_TRY(fill(win, err));
	look = win->n - end < PTM_SPLIT_LOOK ? win->n - end : PTM_SPLIT_LOOK;
	PTM_TRY(copy_out(win, end, look, job, buf, err));
	win->ovf_pending = ends_in_ovf(buf->data, end);
	drop(win, end);
	return 0;
}

int ptm_window_next(struct ptm_window *win, uint64_t segment_size, struct ptm_job *job,
		    struct ptm_segbuf *buf, struct ptm_error *err)
{
	const uint64_t begin = win->base;
	const bool first = !win->started;

	if (!first && win->eof && win->n == 0)
		return 0;
	if (first) {
		PTM_TRY(fill(win, err));
		if (win->n >= 8 && memcmp(win->buf.data, "PERFILE2", 8) == 0)
			return PTM_FAIL(
				err, PTM_E_FORMAT,
				"%s: a perf.data file can not be read from a pipe or compressed; "
				"name the plain file",
				ptm_source_path(win->source));
		if (!win->in_sync)
			PTM_TRY(drop_to_psb(win, &job->seg.head, err));
		win->started = true;
		job->seg.no_sync = win->n == 0;
	}
	if (win->n == 0)
		PTM_TRY(copy_out(win, 0, 0, job, buf, err));
	else
		PTM_TRY(cut(win, segment_size, job, buf, err));
	job->loaded = true;
	job->bytes = win->base - begin;
	return 1;
}

void ptm_window_fini(struct ptm_window *win)
{
	ptm_segbuf_fini(&win->buf);
}
