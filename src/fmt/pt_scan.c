/* SPDX-License-Identifier: Apache-2.0
 *
 * pt_scan.c - finding PSBs at the speed of memory.
 *
 * Any 16 bytes of 02 82 pairs hold four bytes of the pattern at a multiple of four from wherever
 * the scan began, in one of two phases: 02 82 02 82 or 82 02 82 02.  The fast loop tests 64 bytes
 * at a time for such a word; setting bit 7 folds both phases into one comparison and lets a few
 * more words through.  A block with a hit is searched byte by byte.  Runs are measured once: the
 * scan goes on behind them.
 */
#include "fmt/pt_packet.h"

#include "base/bytes.h"

#define BLOCK 64
#define AHEAD                                                                                      \
	2048 /* bytes; the hardware's own prefetching leaves a quarter of the bandwidth unused */

/* Four words; gcc and clang map it to whatever vectors the machine has. */
typedef uint32_t words __attribute__((vector_size(16)));

/* True if one of the words may belong to a PSB. */
static inline bool block_may_hold_psb(const uint8_t *p)
{
	words hit = {0};
	uint64_t half[2];

	for (unsigned i = 0; i < BLOCK / sizeof(words); i++) {
		words w;

		memcpy(&w, p + i * sizeof(w), sizeof(w));
		hit |= (words)((w | UINT32_C(0x80808080)) == UINT32_C(0x82828282));
	}
	memcpy(half, &hit, sizeof(half));
	return (half[0] | half[1]) != 0;
}

static inline bool is_pair(const uint8_t *p)
{
	return p[0] == 0x02 && p[1] == 0x82;
}

/* Search for a run that begins in [*pos, limit).  Returns the offset of its PSB, @len if a run is
 * cut off by the end of data that goes on, or SIZE_MAX if there is none; then *pos is where to go
 * on, >= limit. */
static size_t search(const uint8_t *data, size_t len, size_t *pos, size_t limit, bool more)
{
	size_t i = *pos;

	while (i < limit && i + 1 < len) {
		if (!is_pair(data + i)) {
			i++;
			continue;
		}
		size_t end = i + 2;
		while (end + 1 < len && is_pair(data + end))
			end += 2;
		/* A lone 02 at the end may be the first half of one more pair. */
		if (more && (end == len || (end + 1 == len && data[end] == 0x02)))
			return len;
		if (end - i >= PTM_PSB_SIZE)
			return end - PTM_PSB_SIZE;
		i = end;
	}
	*pos = i;
	return SIZE_MAX;
}

size_t ptm_psb_find(const uint8_t *data, size_t len, size_t from, bool more)
{
	size_t pos = from;  /* no run that begins before here is open */
	size_t scan = from; /* no word before here is part of a run that begins at or behind pos */
	size_t found;

	while (scan < len && len - scan >= BLOCK) {
		/* May name memory behind the data, which a prefetch does not touch. */
		__builtin_prefetch((const void *)((uintptr_t)(data + scan) + AHEAD));
		if (!block_may_hold_psb(data + scan)) {
			scan += BLOCK;
			continue;
		}
		/* The first word of a run lies at most three bytes behind the run's begin. */
		if (scan - pos > 3)
			pos = scan - 3;
		found = search(data, len, &pos, scan + BLOCK, more);
		if (found != SIZE_MAX)
			return found;
		scan = pos;
	}
	if (scan - pos > 3)
		pos = scan - 3;
	found = search(data, len, &pos, len, more);
	return found != SIZE_MAX ? found : len;
}
