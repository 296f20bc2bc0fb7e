/* SPDX-License-Identifier: Apache-2.0
 *
 * timeline.h - which address space a stream executes in, over time.
 *
 * A trace of one thread lies in one space.  A trace of a CPU changes space with each context
 * switch; who runs when is told by the sideband, in TSC units.
 */
#ifndef PTM_IMAGE_TIMELINE_H
#define PTM_IMAGE_TIMELINE_H

#include "base/vec.h"
#include "image/space.h"

#include <stddef.h>
#include <stdint.h>

struct ptm_timeline_entry {
	uint64_t tsc; /* from here on */
	const struct ptm_space *space;
};

struct ptm_timeline {
	const struct ptm_space *first; /* before the first entry, and while no time is known */
	PTM_VEC(struct ptm_timeline_entry) entries; /* in order of time */
};

/* The space at @tsc.  Threads: any number at once. */
const struct ptm_space *ptm_timeline_at(const struct ptm_timeline *timeline, uint64_t tsc);

#endif
