/* SPDX-License-Identifier: Apache-2.0
 *
 * error.h - recording what went wrong, and where.
 */
#ifndef PTM_BASE_ERROR_H
#define PTM_BASE_ERROR_H

#include "ptmill/err.h"

/* Start a fresh error record; returns -code so that a caller can return it.  @err may be NULL. */
int ptm_error_set(struct ptm_error *err, enum ptm_err code, const char *where, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Append an outer cause; a full record drops the newest.  Returns -err->code. */
int ptm_error_add(struct ptm_error *err, const char *where, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The code for an errno value. */
enum ptm_err ptm_error_from_errno(int e);

#define PTM_FAIL(err, code, ...) ptm_error_set((err), (code), __func__, __VA_ARGS__)

#define PTM_TRY(expr)                                                                              \
	do {                                                                                       \
		int ptm_try_ = (expr);                                                             \
		if (ptm_try_ < 0)                                                                  \
			return ptm_try_;                                                           \
	} while (0)

#endif
