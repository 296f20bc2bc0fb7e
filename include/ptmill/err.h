/* SPDX-License-Identifier: Apache-2.0
 *
 * err.h - error codes and the error record that travels with the data.
 *
 * A function returns >= 0 on success and -PTM_E_* on failure; the reason is written to a struct
 * ptm_error that the caller owns.  Damage in a trace is not an error: it is an event in the stream
 * (event.h).
 */
#ifndef PTMILL_ERR_H
#define PTMILL_ERR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PTM_API __attribute__((visibility("default")))
#else
#define PTM_API
#endif

/* Values are stable once released; groups leave gaps. */
enum ptm_err {
	PTM_E_OK = 0,
	PTM_E_USAGE = 1,      /* the caller asked for something that makes no sense */
	PTM_E_BUG = 2,        /* an invariant of ours does not hold */
	PTM_E_CANCELED = 3,   /* ptm_session_cancel() was called */
	PTM_E_IO = 10,        /* reading or writing failed */
	PTM_E_NOSPACE = 11,   /* the output device is full */
	PTM_E_FORMAT = 20,    /* the input is not what it says it is */
	PTM_E_TRUNCATED = 21, /* the data ends inside an item */
	PTM_E_NOINPUT = 30,   /* an input or image is missing or cannot be opened */
	PTM_E_NOMAP = 31,     /* no image covers the address */
	PTM_E_NOMEM = 40,     /* out of memory */
	PTM_E_SYSTEM = 41     /* the system refused a resource (threads, ptrace, ...) */
};

#define PTM_ERROR_CAUSES 4

/* What went wrong: cause[0] is the innermost; callers append what they were doing. */
struct ptm_error {
	enum ptm_err code;
	uint8_t ncauses;
	struct {
		const char *where; /* function, static storage */
		char text[256];
	} cause[PTM_ERROR_CAUSES];
};

/* Name of an error code, static storage ("no memory"). */
PTM_API const char *ptm_err_name(enum ptm_err code);

/* The exit code of the ptmill program for an error code (sysexits: 64, 65, 66, 70, 74, 75). */
PTM_API int ptm_err_exit_code(enum ptm_err code);

#ifdef __cplusplus
}
#endif
#endif
