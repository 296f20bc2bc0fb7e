/* SPDX-License-Identifier: Apache-2.0
 *
 * json_scan.h - the text of a JSON document before it is parsed: limits, and what json-c lets pass.
 */
#ifndef PTM_OS_JSON_SCAN_H
#define PTM_OS_JSON_SCAN_H

#include "base/vec.h"

#include <stddef.h>
#include <stdint.h>

/* json-c needs up to a few hundred bytes of memory for each value, so the text alone is no bound.
 */
#define PTM_JSON_MAX_BYTES   ((size_t)64 << 20)
#define PTM_JSON_MAX_DEPTH   32
#define PTM_JSON_MAX_OBJECTS ((size_t)1 << 20)
#define PTM_JSON_MAX_VALUES  ((size_t)4 << 20)

struct ptm_json_scan_object {
	uint32_t offset;  /* of its brace */
	uint32_t members; /* in the text: also those that stand twice */
};

struct ptm_json_scan {
	PTM_VEC(struct ptm_json_scan_object) objects; /* in the order of their braces; owned */
	const char *what;                             /* NULL: nothing is wrong */
	size_t offset;                                /* of what is wrong */
};

/* Scan @text.  The grammar of what is between strings and numbers is left to the parser.  Returns
 * 0, or -1 when out of memory.  Release with ptm_json_scan_fini() in any case. */
int ptm_json_scan(struct ptm_json_scan *scan, const char *text, size_t len);
void ptm_json_scan_fini(struct ptm_json_scan *scan);

#endif
