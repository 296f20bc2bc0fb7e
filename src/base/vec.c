/* SPDX-License-Identifier: Apache-2.0
 *
 * vec.c - growth of arrays, with checked arithmetic.
 */
#include "base/vec.h"

#include "base/bytes.h"

#include <stdlib.h>

bool ptm_vec_grow(void *slot, size_t *cap, size_t n, size_t more, size_t size)
{
	size_t want, bytes;
	void *p;

	if (__builtin_add_overflow(n, more, &want))
		return false;
	if (want < *cap + *cap / 2)
		want = *cap + *cap / 2;
	if (want < 16)
		want = 16;
	if (ptm_mul_overflow(want, size, &bytes))
		return false;
	/* The slot holds a pointer of another type: copy it, for the sake of strict aliasing. */
	memcpy(&p, slot, sizeof(p));
	p = realloc(p, bytes);
	if (p == NULL)
		return false;
	memcpy(slot, &p, sizeof(p));
	*cap = want;
	return true;
}
