/* SPDX-License-Identifier: Apache-2.0
 *
 * ptmill.h - all of the library.
 *
 * In the order of need: err.h (every call), session.h (a run over traces), sink.h (where its result
 * goes), iter.h (its result for a program), event.h (what stands between instructions), topo.h
 * (where the workers run), record.h (making traces), bench.h (how fast it is).
 */
#ifndef PTMILL_PTMILL_H
#define PTMILL_PTMILL_H

#include "bench.h"
#include "err.h"
#include "event.h"
#include "iter.h"
#include "record.h"
#include "session.h"
#include "sink.h"
#include "topo.h"
#include "ptmill/version.h" /* generated */

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library in use; PTM_VERSION_STRING is that of the headers.  Static storage. */
PTM_API const char *ptm_version(void);

/* The libraries that this one was built with, "libipt 2.0.5, hwloc 2.9.0, ...".  Static storage. */
PTM_API const char *ptm_version_libraries(void);

#ifdef __cplusplus
}
#endif
#endif
