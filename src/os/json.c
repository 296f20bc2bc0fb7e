/* SPDX-License-Identifier: Apache-2.0
 *
 * json.c - writing JSON, over json-c (which keeps 64-bit numbers exact).
 *
 * A handle is a json-c value and a flag that memory ran out somewhere inside; the flag moves up
 * with a child.
 */
#include "os/json.h"

#include "os/utf8.h"

#include <json-c/json.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ptm_json {
	struct json_object *value; /* owned */
	bool lost;                 /* something is missing in it: out of memory */
};

static struct ptm_json *wrap(struct json_object *value)
{
	struct ptm_json *json = calloc(1, sizeof(*json));

	if (json == NULL || value == NULL) {
		(void)json_object_put(value);
		free(json);
		return NULL;
	}
	json->value = value;
	return json;
}

struct ptm_json *ptm_json_object(void)
{
	return wrap(json_object_new_object());
}

struct ptm_json *ptm_json_array(void)
{
	return wrap(json_object_new_array());
}

void ptm_json_destroy(struct ptm_json *json)
{
	if (json == NULL)
		return;
	(void)json_object_put(json->value);
	free(json);
}

/* A copy of @s in which every byte outside UTF-8 is U+FFFD; NULL when out of memory. */
static char *clean(const char *s)
{
	const unsigned char *from = (const unsigned char *)s;
	char *copy = malloc(strlen(s) * 3 + 1);
	char *to = copy;

	if (copy == NULL)
		return NULL;
	while (*from != '\0') {
		size_t len = ptm_utf8_len(from);

		if (len == 0) {
			memcpy(to, "\xef\xbf\xbd", 3);
			to += 3;
			from++;
		} else {
			memcpy(to, from, len);
			to += len;
			from += len;
		}
	}
	*to = '\0';
	return copy;
}

/* A string value; NULL when out of memory. */
static struct json_object *string(const char *v)
{
	char *text = clean(v);
	struct json_object *value = text != NULL ? json_object_new_string(text) : NULL;

	free(text);
	return value;
}

/* Put @value, which is NULL for null if @is_null and otherwise when out of memory, into an object.
 */
static void set(struct ptm_json *object, const char *key, struct json_object *value, bool is_null)
{
	char *text = object != NULL ? clean(key) : NULL;

	if (text == NULL || (value == NULL && !is_null) ||
	    json_object_object_add(object->value, text, value) < 0) {
		(void)json_object_put(value);
		if (object != NULL)
			object->lost = true;
	}
	free(text);
}

static void append(struct ptm_json *array, struct json_object *value)
{
	if (array == NULL || value == NULL || json_object_array_add(array->value, value) < 0) {
		(void)json_object_put(value);
		if (array != NULL)
			array->lost = true;
	}
}

/* Unwrap a child that is taken, and hand on what it lost. */
static struct json_object *take(struct ptm_json *parent, struct ptm_json *child)
{
	struct json_object *value;

	if (child == NULL)
		return NULL;
	if (parent != NULL && child->lost)
		parent->lost = true;
	value = child->value;
	free(child);
	return value;
}

void ptm_json_set_u64(struct ptm_json *object, const char *key, uint64_t v)
{
	set(object, key, json_object_new_uint64(v), false);
}

void ptm_json_set_hex(struct ptm_json *object, const char *key, uint64_t v)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "0x%016" PRIx64, v);
	set(object, key, json_object_new_string(text), false);
}

void ptm_json_set_bool(struct ptm_json *object, const char *key, bool v)
{
	set(object, key, json_object_new_boolean(v), false);
}

void ptm_json_set_str(struct ptm_json *object, const char *key, const char *v)
{
	set(object, key, v != NULL ? string(v) : NULL, v == NULL);
}

void ptm_json_set_double(struct ptm_json *object, const char *key, double v)
{
	char text[40];

	if (!isfinite(v)) {
		set(object, key, NULL, true);
		return;
	}
	for (int digits = 15; digits <= 17; digits++) {
		(void)snprintf(text, sizeof(text), "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	/* The decimal point is the locale's, in JSON always a dot. */
	if (strspn(text, "-0123456789") == strlen(text))
		memcpy(text + strlen(text), ".0", 3); /* at most 24 characters so far */
	else if (text[strspn(text, "-0123456789")] != 'e')
		text[strspn(text, "-0123456789")] = '.';
	set(object, key, json_object_new_double_s(v, text), false);
}

void ptm_json_set(struct ptm_json *object, const char *key, struct ptm_json *child)
{
	set(object, key, take(object, child), false);
}

void ptm_json_append_u64(struct ptm_json *array, uint64_t v)
{
	append(array, json_object_new_uint64(v));
}

void ptm_json_append(struct ptm_json *array, struct ptm_json *child)
{
	append(array, take(array, child));
}

/* Borrowed from @json until it is printed again; NULL when out of memory. */
static const char *print(const struct ptm_json *json, int flags, size_t *len)
{
	if (json == NULL || json->lost)
		return NULL;
	return json_object_to_json_string_length(json->value,
						 flags | JSON_C_TO_STRING_NOSLASHESCAPE, len);
}

static int write_as(const struct ptm_json *json, int flags, struct ptm_out *out,
		    struct ptm_error *err)
{
	size_t len = 0;
	const char *text = print(json, flags, &len);

	if (text == NULL)
		return PTM_FAIL(err, PTM_E_NOMEM, "Cannot write JSON: out of memory");
	PTM_TRY(ptm_out_write(out, text, len, err));
	return ptm_out_write(out, "\n", 1, err);
}

int ptm_json_write(const struct ptm_json *json, struct ptm_out *out, struct ptm_error *err)
{
	return write_as(json, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED, out, err);
}

int ptm_json_write_line(const struct ptm_json *json, struct ptm_out *out, struct ptm_error *err)
{
	return write_as(json, JSON_C_TO_STRING_PLAIN, out, err);
}

size_t ptm_json_print(const struct ptm_json *json, char *buf, size_t size)
{
	size_t len = 0;
	const char *text = print(json, JSON_C_TO_STRING_PLAIN, &len);

	if (text == NULL || len > size)
		return 0;
	memcpy(buf, text, len);
	return len;
}
