/* SPDX-License-Identifier: Apache-2.0
 *
 * json_read.h - reading JSON.
 *
 * A document is parsed whole.  Its values are visited with struct ptm_json_at: a value and the way
 * to it, on the caller's stack, so that an error can say where it is ("trace.json:
 * processes[0].threads[1].tid: missing").  Getters are exact: a number that does not fit is an
 * error.
 *
 * Refused when parsing, with line and column: what is not RFC 8259, text that is not UTF-8, members
 * that stand twice, numbers beyond 64 bits, U+0000, more than 64 MiB, 32 levels, 1 Mi objects or 4
 * Mi values.
 */
#ifndef PTM_OS_JSON_READ_H
#define PTM_OS_JSON_READ_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ptm_json_doc;
struct ptm_json_value; /* lives as long as its document */

/* Parse a file (also one compressed with zstd), or the @len bytes at @text, which are not kept;
 * @name is what errors call them.  NULL and @err on failure. */
struct ptm_json_doc *ptm_json_read_file(const char *path, struct ptm_error *err);
struct ptm_json_doc *ptm_json_read_text(const char *name, const char *text, size_t len,
					struct ptm_error *err);
void ptm_json_doc_destroy(struct ptm_json_doc *doc);

/* A value and where it stands. */
struct ptm_json_at {
	const struct ptm_json_doc *doc;
	const struct ptm_json_at *parent;   /* NULL: the document itself; must outlive this */
	const char *key;                    /* as a member; borrowed from the caller */
	size_t index;                       /* as an element, if key is NULL */
	const struct ptm_json_value *value; /* NULL: absent, or null */
};

struct ptm_json_at ptm_json_root(const struct ptm_json_doc *doc);

/* Is it there, and not null? */
static inline bool ptm_json_is_there(const struct ptm_json_at *at)
{
	return at->value != NULL;
}

/* The member @key; absent if there is none, or if @object is none (to be checked first). */
struct ptm_json_at ptm_json_member(const struct ptm_json_at *object, const char *key);

/* The element @i of an array, below its length. */
struct ptm_json_at ptm_json_element(const struct ptm_json_at *array, size_t i);

/* Each of these returns 0, or -PTM_E_FORMAT also if the value is absent. */
int ptm_json_check_object(const struct ptm_json_at *at, struct ptm_error *err);
int ptm_json_get_array(const struct ptm_json_at *at, size_t *len, struct ptm_error *err);
int ptm_json_get_str(const struct ptm_json_at *at, const char **s, struct ptm_error *err);
/* A whole number from @min to @max. */
int ptm_json_get_number(const struct ptm_json_at *at, uint64_t min, uint64_t max, uint64_t *v,
			struct ptm_error *err);
/* A whole number, or a string of one: decimal, or hexadecimal with 0x. */
int ptm_json_get_u64(const struct ptm_json_at *at, uint64_t *v, struct ptm_error *err);

/* Fail with @code: the file, the place, and the message. */
int ptm_json_fail(const struct ptm_json_at *at, enum ptm_err code, struct ptm_error *err,
		  const char *fmt, ...) __attribute__((format(printf, 4, 5)));

#endif
