/* SPDX-License-Identifier: Apache-2.0
 *
 * error.c - error records: a code and a short chain of causes, innermost first.
 */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

static void add_cause(struct ptm_error *err, const char *where, const char *fmt, va_list ap)
{
	if (err->ncauses == PTM_ERROR_CAUSES)
		return;
	err->cause[err->ncauses].where = where;
	(void)vsnprintf(err->cause[err->ncauses].text, sizeof(err->cause[0].text), fmt, ap);
	err->ncauses++;
}

int ptm_error_set(struct ptm_error *err, enum ptm_err code, const char *where, const char *fmt, ...)
{
	va_list ap;

	if (err == NULL)
		return -(int)code;
	err->code = code;
	err->ncauses = 0;
	va_start(ap, fmt);
	add_cause(err, where, fmt, ap);
	va_end(ap);
	return -(int)code;
}

int ptm_error_add(struct ptm_error *err, const char *where, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add_cause(err, where, fmt, ap);
	va_end(ap);
	return -(int)err->code;
}

enum ptm_err ptm_error_from_errno(int e)
{
	switch (e) {
	case ENOENT:
	case ENOTDIR:
	case EACCES:
	case EISDIR:
	case ELOOP:
	case ENAMETOOLONG:
		return PTM_E_NOINPUT;
	case ENOSPC:
	case EDQUOT:
	case EFBIG: /* a limit, ulimit -f: as a full disk */
		return PTM_E_NOSPACE;
	case ENOMEM:
		return PTM_E_NOMEM;
	case EAGAIN:
	case EMFILE:
	case ENFILE:
	case EPERM:
		return PTM_E_SYSTEM;
	default:
		return PTM_E_IO;
	}
}

const char *ptm_err_name(enum ptm_err code)
{
	switch (code) {
	case PTM_E_OK:
		return "success";
	case PTM_E_USAGE:
		return "bad usage";
	case PTM_E_BUG:
		return "internal error";
	case PTM_E_CANCELED:
		return "canceled";
	case PTM_E_IO:
		return "I/O error";
	case PTM_E_NOSPACE:
		return "no space left";
	case PTM_E_FORMAT:
		return "bad format";
	case PTM_E_TRUNCATED:
		return "truncated";
	case PTM_E_NOINPUT:
		return "missing input";
	case PTM_E_NOMAP:
		return "no image";
	case PTM_E_NOMEM:
		return "no memory";
	case PTM_E_SYSTEM:
		return "refused by the system";
	}
	return "unknown error";
}

int ptm_err_exit_code(enum ptm_err code)
{
	switch (code) {
	case PTM_E_OK:
		return 0;
	case PTM_E_USAGE:
		return 64;
	case PTM_E_FORMAT:
	case PTM_E_TRUNCATED:
		return 65;
	case PTM_E_NOINPUT:
	case PTM_E_NOMAP:
		return 66;
	case PTM_E_BUG:
		return 70;
	case PTM_E_IO:
		return 74;
	case PTM_E_CANCELED:
	case PTM_E_NOSPACE:
	case PTM_E_NOMEM:
	case PTM_E_SYSTEM:
		return 75;
	}
	return 70;
}
