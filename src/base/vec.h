/* SPDX-License-Identifier: Apache-2.0
 *
 * vec.h - growable arrays.
 *
 * A vector of T is a plain struct { T *v; size_t n, cap; }, zero-initialised, owned by whoever
 * holds it and released by free(x.v).  Growth is geometric; a failed growth leaves the vector as it
 * was.
 */
#ifndef PTM_BASE_VEC_H
#define PTM_BASE_VEC_H

#include <stdbool.h>
#include <stddef.h>

#define PTM_VEC(T)                                                                                 \
	struct {                                                                                   \
		T *v;                                                                              \
		size_t n, cap;                                                                     \
	}

/* Make room for @more elements of @size behind @n in the array whose pointer lies at @slot; returns
 * false when out of memory. */
bool ptm_vec_grow(void *slot, size_t *cap, size_t n, size_t more, size_t size);

/* Room for @more further elements: true on success. */
#define ptm_vec_reserve(x, more)                                                                   \
	((x)->cap - (x)->n >= (size_t)(more) ||                                                    \
	 ptm_vec_grow(&(x)->v, &(x)->cap, (x)->n, (size_t)(more), sizeof(*(x)->v)))

/* Append one element: true on success. */
#define ptm_vec_push(x, elem) (ptm_vec_reserve((x), 1) ? ((x)->v[(x)->n++] = (elem), true) : false)

#endif
