/* SPDX-License-Identifier: Apache-2.0
 *
 * json.h - writing JSON.
 *
 * Values are built in memory and written once.  Building never fails for the caller to see: every
 * function accepts NULL, and a value that could not be had makes ptm_json_write() of whatever holds
 * it fail with PTM_E_NOMEM. Members keep the order in which they were set.  Text is UTF-8; a byte
 * that is not becomes U+FFFD.
 */
#ifndef PTM_OS_JSON_H
#define PTM_OS_JSON_H

#include "base/error.h"
#include "os/file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An object or an array. */
struct ptm_json;

struct ptm_json *ptm_json_object(void);
struct ptm_json *ptm_json_array(void);
void ptm_json_destroy(struct ptm_json *json);

/* Members of an object. */
void ptm_json_set_u64(struct ptm_json *object, const char *key, uint64_t v);
void ptm_json_set_hex(struct ptm_json *object, const char *key, uint64_t v); /* "0x%016x" */
void ptm_json_set_bool(struct ptm_json *object, const char *key, bool v);
void ptm_json_set_str(struct ptm_json *object, const char *key, const char *v); /* NULL: null */
/* The shortest decimal number that reads back as @v; null for infinities and what is not a number.
 */
void ptm_json_set_double(struct ptm_json *object, const char *key, double v);
/* Takes @child: it is complete, and no longer the caller's. */
void ptm_json_set(struct ptm_json *object, const char *key, struct ptm_json *child);

/* Elements of an array. */
void ptm_json_append_u64(struct ptm_json *array, uint64_t v);
void ptm_json_append(struct ptm_json *array, struct ptm_json *child); /* takes @child */

/* Write it, indented and with a newline at the end.  Returns 0 or -PTM_E_*. */
int ptm_json_write(const struct ptm_json *json, struct ptm_out *out, struct ptm_error *err);

/* Write it on one line, without blanks between its parts, and a newline.  Returns 0 or -PTM_E_*. */
int ptm_json_write_line(const struct ptm_json *json, struct ptm_out *out, struct ptm_error *err);

/* The same without the newline, at @buf.  Returns the length; 0 if it needs more than @size bytes,
 * or memory ran out. */
size_t ptm_json_print(const struct ptm_json *json, char *buf, size_t size);

#endif
