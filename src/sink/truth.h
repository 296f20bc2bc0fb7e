/* SPDX-License-Identifier: Apache-2.0
 *
 * truth.h - what a recorder knows about a stream: how many instructions, and their digest so far at
 * certain places.
 */
#ifndef PTM_SINK_TRUTH_H
#define PTM_SINK_TRUTH_H

#include "base/error.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

/* After the first n instructions the digest is `digest`; at a PSB `offset` is where it stands in
 * the trace. */
struct ptm_truth_mark {
	uint64_t n, digest, offset;
	bool psb;
};

struct ptm_truth {
	uint64_t instructions, digest;
	uint64_t places; /* number of marks, if the file tells */
	bool has_places;
	PTM_VEC(struct ptm_truth_mark) marks; /* by n, ascending */
};

/* Read a file of truths as `ptmill record` writes it (docs/capture-format.md). */
int ptm_truth_read(struct ptm_truth *truth, const char *path, struct ptm_error *err);
void ptm_truth_fini(struct ptm_truth *truth);

#endif
