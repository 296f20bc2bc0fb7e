/* SPDX-License-Identifier: Apache-2.0
 *
 * window.h - cuts a stream that can only be read from front to back.
 */
#ifndef PTM_PIPELINE_WINDOW_H
#define PTM_PIPELINE_WINDOW_H

#include "pipeline/split.h"

struct ptm_window {
	struct ptm_source *source; /* borrowed */
	struct ptm_segbuf buf;     /* bytes [base, base + n) of the stream */
	const atomic_bool *cancel; /* borrowed */
	size_t n;
	uint64_t base;
	bool in_sync; /* the stream begins in sync, with or without a PSB */
	bool started; /* base is at a PSB */
	bool eof;
	bool ovf_pending; /* of the segment at base */
};

/* The next segment, at least @segment_size bytes long unless the stream ends; complete in job->seg,
 * its bytes in
 * @buf.  Returns 1, 0 if the stream has ended, or -PTM_E_*.  An empty stream yields one empty
 * segment. */
int ptm_window_next(struct ptm_window *win, uint64_t segment_size, struct ptm_job *job,
		    struct ptm_segbuf *buf, struct ptm_error *err);
void ptm_window_fini(struct ptm_window *win);

#endif
