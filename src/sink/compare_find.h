/* SPDX-License-Identifier: Apache-2.0
 *
 * compare_find.h - the first item in which two engines differ over a frame, with its surroundings.
 */
#ifndef PTM_SINK_COMPARE_FIND_H
#define PTM_SINK_COMPARE_FIND_H

#include "image/code.h"
#include "sink/disasm.h"
#include "sink/items.h"

/* An engine that was asked for steps, and where it emits; borrowed. */
struct ptm_lane {
	struct ptm_engine *engine;
	struct ptm_emit *emit;
};

struct ptm_finder {
	struct ptm_lane lane[2];
	struct ptm_code *code; /* borrowed */
	struct ptm_disasm *disasm;
};

/* Lines of text. */
struct ptm_report {
	uint32_t len;
	char text[12u << 10];
};

void ptm_report_printf(struct ptm_report *report, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Decode @frame, a segment of one frame, by both again and append to @report where they part: in
 * the first instruction, or, with @events, in the first instruction or event.  Memory is bounded,
 * whatever the frame holds. */
int ptm_compare_find(struct ptm_finder *finder, const struct ptm_segment *frame, bool events,
		     struct ptm_report *report, struct ptm_error *err);

#endif
