/* SPDX-License-Identifier: Apache-2.0
 *
 * json_read.c - reading JSON, over json-c.
 *
 * The text is scanned (json_scan.c), parsed strictly, and the members of each object are counted
 * against the text.  struct ptm_json_value is json-c's value under another name.
 */
#include "os/json_read.h"

#include "os/file.h"
#include "os/json_scan.h"

#include <json-c/json.h>

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	CHUNK = 1 << 16,
	MAX_NAME = 100, /* of the name in an error message */
	MAX_TEXT = 200, /* of the place in one */
};

struct ptm_json_doc {
	char name[MAX_NAME]; /* for messages */
	struct json_object *root;
};

/* Fail at @offset of the text. */
static int fail_at(const char *name, const char *text, size_t offset, const char *what,
		   struct ptm_error *err)
{
	size_t line = 1, column = 1;

	for (size_t i = 0; i < offset; i++) {
		column = text[i] == '\n' ? 1 : column + 1;
		line += text[i] == '\n';
	}
	return PTM_FAIL(err, PTM_E_FORMAT, "%s: line %zu, column %zu: %s", name, line, column,
			what);
}

static int no_memory(const char *name, struct ptm_error *err)
{
	return PTM_FAIL(err, PTM_E_NOMEM, "Cannot read JSON: out of memory: path=\"%s\"", name);
}

/* Find the first object that has fewer members than its text.  Objects are visited in the order of
 * their braces; that holds up to the first that lost a member, which is seen before its children
 * are.  Returns its number, or SIZE_MAX; recursion is bounded by the depth of the document. */
static size_t find_lost(struct json_object *value, const struct ptm_json_scan *scan, size_t *next)
{
	size_t lost = SIZE_MAX;

	if (json_object_is_type(value, json_type_array)) {
		for (size_t i = 0; lost == SIZE_MAX && i < json_object_array_length(value); i++)
			lost = find_lost(json_object_array_get_idx(value, i), scan, next);
		return lost;
	}
	if (!json_object_is_type(value, json_type_object))
		return SIZE_MAX;
	if ((size_t)json_object_object_length(value) != scan->objects.v[*next].members)
		return *next;
	(*next)++;
	json_object_object_foreach(value, key, child)
	{
		(void)key;
		lost = find_lost(child, scan, next);
		if (lost != SIZE_MAX)
			break;
	}
	return lost;
}

/* Parse scanned text, which ends in a NUL. */
static int parse(struct ptm_json_doc *doc, const char *text, size_t len,
		 const struct ptm_json_scan *scan, struct ptm_error *err)
{
	/* json-c counts levels in another way; the scan has checked them. */
	struct json_tokener *tok = json_tokener_new_ex(PTM_JSON_MAX_DEPTH + 4);
	enum json_tokener_error status;
	size_t lost, next = 0;
	size_t end;

	if (tok == NULL)
		return no_memory(doc->name, err);
	json_tokener_set_flags(tok, JSON_TOKENER_STRICT);
	doc->root = json_tokener_parse_ex(tok, text, (int)len + 1);
	status = json_tokener_get_error(tok);
	end = json_tokener_get_parse_end(tok);
	json_tokener_free(tok);
	if (status == json_tokener_continue || (status == json_tokener_success && end > len))
		status = json_tokener_error_parse_eof;
	if (status != json_tokener_success)
		return fail_at(doc->name, text, end < len ? end : len,
			       json_tokener_error_desc(status), err);
	lost = find_lost(doc->root, scan, &next);
	if (lost != SIZE_MAX)
		return fail_at(doc->name, text, scan->objects.v[lost].offset,
			       "a member stands twice in this object", err);
	return 0;
}

/* Keep @name; of a long one the end, for the message behind it must find room. */
static void name_doc(struct ptm_json_doc *doc, const char *name)
{
	size_t len = strlen(name);
	size_t max = sizeof(doc->name) - sizeof("...");

	if (len > max)
		(void)snprintf(doc->name, sizeof(doc->name), "...%s", name + len - max);
	else
		memcpy(doc->name, name, len + 1);
}

/* @text ends in a NUL behind its @len bytes. */
static struct ptm_json_doc *read_all(const char *name, const char *text, size_t len,
				     struct ptm_error *err)
{
	struct ptm_json_doc *doc = calloc(1, sizeof(*doc));
	struct ptm_json_scan scan = {0};
	int ret;

	if (doc != NULL)
		name_doc(doc, name);
	if (doc == NULL || ptm_json_scan(&scan, text, len) < 0)
		ret = no_memory(name, err);
	else if (scan.what != NULL)
		ret = fail_at(doc->name, text, scan.offset, scan.what, err);
	else
		ret = parse(doc, text, len, &scan, err);
	ptm_json_scan_fini(&scan);
	if (ret < 0) {
		ptm_json_doc_destroy(doc);
		return NULL;
	}
	return doc;
}

static int too_long(const char *name, struct ptm_error *err)
{
	return PTM_FAIL(err, PTM_E_FORMAT, "%s: too long for JSON (at most %zu bytes)", name,
			PTM_JSON_MAX_BYTES);
}

struct ptm_json_doc *ptm_json_read_text(const char *name, const char *text, size_t len,
					struct ptm_error *err)
{
	struct ptm_json_doc *doc;
	char *copy;

	if (len > PTM_JSON_MAX_BYTES) {
		(void)too_long(name, err);
		return NULL;
	}
	copy = malloc(len + 1);
	if (copy == NULL) {
		(void)no_memory(name, err);
		return NULL;
	}
	memcpy(copy, text, len);
	copy[len] = '\0';
	doc = read_all(name, copy, len, err);
	free(copy);
	return doc;
}

struct text {
	PTM_VEC(char) chars;
};

/* Append all of @file and a NUL, which does not count. */
static int slurp(struct ptm_file *file, const char *path, struct text *text, struct ptm_error *err)
{
	int64_t n;

	do {
		if (!ptm_vec_reserve(&text->chars, CHUNK + 1))
			return no_memory(path, err);
		n = ptm_file_read(file, text->chars.v + text->chars.n, CHUNK, err);
		if (n < 0)
			return (int)n;
		text->chars.n += (size_t)n;
		if (text->chars.n > PTM_JSON_MAX_BYTES)
			return too_long(path, err);
	} while (n == CHUNK);
	text->chars.v[text->chars.n] = '\0';
	return 0;
}

struct ptm_json_doc *ptm_json_read_file(const char *path, struct ptm_error *err)
{
	struct ptm_file *file = ptm_file_open(path, err);
	struct ptm_json_doc *doc = NULL;
	struct text text = {0};

	if (file == NULL)
		return NULL;
	if (slurp(file, path, &text, err) == 0)
		doc = read_all(path, text.chars.v, text.chars.n, err);
	ptm_file_close(file);
	free(text.chars.v);
	return doc;
}

void ptm_json_doc_destroy(struct ptm_json_doc *doc)
{
	if (doc == NULL)
		return;
	(void)json_object_put(doc->root);
	free(doc);
}

/* json-c's getters take no const values, and change none. */
static struct json_object *raw(const struct ptm_json_at *at)
{
	union {
		const struct ptm_json_value *value;
		struct json_object *raw;
	} u = {.value = at->value};

	return u.raw;
}

static const struct ptm_json_value *wrap(struct json_object *value)
{
	return (const struct ptm_json_value *)value;
}

struct ptm_json_at ptm_json_root(const struct ptm_json_doc *doc)
{
	return (struct ptm_json_at){.doc = doc, .value = wrap(doc->root)};
}

struct ptm_json_at ptm_json_member(const struct ptm_json_at *object, const char *key)
{
	struct ptm_json_at at = {.doc = object->doc, .parent = object, .key = key};
	struct json_object *value;

	if (json_object_is_type(raw(object), json_type_object) &&
	    json_object_object_get_ex(raw(object), key, &value))
		at.value = wrap(value);
	return at;
}

struct ptm_json_at ptm_json_element(const struct ptm_json_at *array, size_t i)
{
	return (struct ptm_json_at){.doc = array->doc,
				    .parent = array,
				    .index = i,
				    .value = wrap(json_object_array_get_idx(raw(array), i))};
}

/* Write the way to @at behind the @n bytes of @text: "a.b[3]"; what is too long is cut. */
static size_t format_place(const struct ptm_json_at *at, char text[MAX_TEXT], size_t n)
{
	int len;

	if (at->parent == NULL)
		return n;
	n = format_place(at->parent, text, n);
	if (at->key == NULL)
		len = snprintf(text + n, MAX_TEXT - n, "[%zu]", at->index);
	else
		len = snprintf(text + n, MAX_TEXT - n, "%s%s", n > 0 ? "." : "", at->key);
	return len < 0 || (size_t)len >= MAX_TEXT - n ? MAX_TEXT - 1 : n + (size_t)len;
}

int ptm_json_fail(const struct ptm_json_at *at, enum ptm_err code, struct ptm_error *err,
		  const char *fmt, ...)
{
	char place[MAX_TEXT] = "", what[MAX_TEXT];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	(void)format_place(at, place, 0);
	return PTM_FAIL(err, code, "%s: %s%s%s", at->doc->name, place, place[0] != '\0' ? ": " : "",
			what);
}

/* Fail for a value that is not what it must be. */
static int wrong(const struct ptm_json_at *at, struct ptm_error *err, const char *must)
{
	if (at->value == NULL && at->parent != NULL)
		return ptm_json_fail(at, PTM_E_FORMAT, err, "missing (must be %s)", must);
	return ptm_json_fail(at, PTM_E_FORMAT, err, "must be %s", must);
}

int ptm_json_check_object(const struct ptm_json_at *at, struct ptm_error *err)
{
	return json_object_is_type(raw(at), json_type_object) ? 0 : wrong(at, err, "an object");
}

int ptm_json_get_array(const struct ptm_json_at *at, size_t *len, struct ptm_error *err)
{
	if (!json_object_is_type(raw(at), json_type_array))
		return wrong(at, err, "an array");
	*len = json_object_array_length(raw(at));
	return 0;
}

int ptm_json_get_str(const struct ptm_json_at *at, const char **s, struct ptm_error *err)
{
	if (!json_object_is_type(raw(at), json_type_string))
		return wrong(at, err, "a string");
	*s = json_object_get_string(raw(at));
	return 0;
}

/* A whole number that is not negative. */
static bool get_whole(const struct ptm_json_at *at, uint64_t *v)
{
	if (!json_object_is_type(raw(at), json_type_int))
		return false;
	/* A negative number becomes 0 here, and stays negative there. */
	*v = json_object_get_uint64(raw(at));
	return *v > (uint64_t)INT64_MAX || json_object_get_int64(raw(at)) >= 0;
}

int ptm_json_get_number(const struct ptm_json_at *at, uint64_t min, uint64_t max, uint64_t *v,
			struct ptm_error *err)
{
	char must[80];

	if (get_whole(at, v) && *v >= min && *v <= max)
		return 0;
	(void)snprintf(must, sizeof(must), "a number from %" PRIu64 " to %" PRIu64, min, max);
	return wrong(at, err, must);
}

/* Is all of @s a decimal number, or a hexadecimal one with 0x? */
static bool parse_u64(const char *s, uint64_t *v)
{
	bool hex = s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
	const char *first = hex ? s + 2 : s;

	if (first[0] == '\0' ||
	    first[strspn(first, hex ? "0123456789abcdefABCDEF" : "0123456789")] != '\0')
		return false;
	errno = 0;
	*v = strtoull(first, NULL, hex ? 16 : 10);
	return errno == 0;
}

int ptm_json_get_u64(const struct ptm_json_at *at, uint64_t *v, struct ptm_error *err)
{
	if (get_whole(at, v))
		return 0;
	if (json_object_is_type(raw(at), json_type_string) &&
	    parse_u64(json_object_get_string(raw(at)), v))
		return 0;
	return wrong(at, err, "a number below 2^64, or a string of one (decimal, or 0x and hex)");
}
