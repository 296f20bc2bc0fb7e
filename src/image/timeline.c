/* SPDX-License-Identifier: Apache-2.0
 *
 * timeline.c - looking up a time in a sorted array.
 */
#include "image/timeline.h"

const struct ptm_space *ptm_timeline_at(const struct ptm_timeline *timeline, uint64_t tsc)
{
	size_t lo = 0, hi = timeline->entries.n;

	/* The number of entries that begin at or before @tsc. */
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (timeline->entries.v[mid].tsc <= tsc)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo > 0 ? timeline->entries.v[lo - 1].space : timeline->first;
}
