/* SPDX-License-Identifier: Apache-2.0
 *
 * json_scan.c - one pass over the text of a JSON document.
 *
 * json-c rounds whole numbers beyond 64 bits to the next it has, keeps the last of several members
 * of one name, and takes NaN, "1.", and control characters in strings.  This pass refuses those,
 * counts the members of each object so that a name that stands twice shows as a difference, and
 * bounds the memory that parsing can take.
 */
#include "os/json_scan.h"

#include "os/utf8.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The text being scanned; the stack holds the index of each open object, NOT_OBJECT for arrays. */
struct scanner {
	struct ptm_json_scan *scan;
	const char *text;
	size_t len, pos;
	size_t values;
	size_t depth;
	size_t open[PTM_JSON_MAX_DEPTH];
	bool no_memory;
};

#define NOT_OBJECT SIZE_MAX

static bool fail(struct scanner *s, size_t offset, const char *what)
{
	s->scan->what = what;
	s->scan->offset = offset;
	return false;
}

/* Behind the backslash at the position. */
static bool scan_escape(struct scanner *s)
{
	const char *at = s->text + s->pos;

	if (s->len - s->pos >= 6 && memcmp(at, "\\u0000", 6) == 0)
		return fail(s, s->pos, "the character U+0000 in a string");
	/* What follows is at least no quote that ends the string. */
	s->pos += s->len - s->pos >= 2 ? 2 : 1;
	return true;
}

static bool scan_string(struct scanner *s)
{
	size_t begin = s->pos++;

	while (s->pos < s->len) {
		unsigned char c = (unsigned char)s->text[s->pos];
		size_t n;

		if (c == '"') {
			s->pos++;
			return true;
		}
		if (c < 0x20)
			return fail(s, s->pos, "a control character in a string");
		if (c == '\\') {
			if (!scan_escape(s))
				return false;
			continue;
		}
		n = ptm_utf8_len((const unsigned char *)s->text + s->pos);
		if (n == 0)
			return fail(s, s->pos, "a byte that is not UTF-8");
		s->pos += n;
	}
	return fail(s, begin, "a string that does not end");
}

static bool digits(struct scanner *s)
{
	size_t begin = s->pos;

	while (s->pos < s->len && s->text[s->pos] >= '0' && s->text[s->pos] <= '9')
		s->pos++;
	return s->pos > begin;
}

static bool at_any(const struct scanner *s, const char *set)
{
	return s->pos < s->len && s->text[s->pos] != '\0' && strchr(set, s->text[s->pos]) != NULL;
}

static bool scan_number(struct scanner *s)
{
	size_t begin = s->pos, first;
	bool whole = true, good;

	if (at_any(s, "-"))
		s->pos++;
	first = s->pos;
	good = digits(s) && (s->text[first] != '0' || s->pos == first + 1);
	if (good && at_any(s, ".")) {
		s->pos++;
		whole = false;
		good = digits(s);
	}
	if (good && at_any(s, "eE")) {
		s->pos++;
		whole = false;
		if (at_any(s, "+-"))
			s->pos++;
		good = digits(s);
	}
	if (!good)
		return fail(s, begin, "not a number");
	errno = 0;
	if (!whole)
		return true;
	/* The text ends in a NUL, so neither runs on. */
	if (s->text[begin] == '-')
		(void)strtoll(s->text + begin, NULL, 10);
	else
		(void)strtoull(s->text + begin, NULL, 10);
	return errno == 0 || fail(s, begin, "a number beyond 64 bits");
}

static bool scan_open(struct scanner *s, bool is_object)
{
	struct ptm_json_scan_object object = {.offset = (uint32_t)s->pos};

	if (s->depth == PTM_JSON_MAX_DEPTH)
		return fail(s, s->pos, "nested too deeply (at most 32 levels)");
	s->open[s->depth++] = is_object ? s->scan->objects.n : NOT_OBJECT;
	if (!is_object)
		return true;
	if (s->scan->objects.n == PTM_JSON_MAX_OBJECTS)
		return fail(s, s->pos, "too many objects (at most 1048576)");
	if (!ptm_vec_push(&s->scan->objects, object)) {
		s->no_memory = true;
		return false;
	}
	return true;
}

static bool scan_punctuation(struct scanner *s, char c)
{
	if ((c == '{' || c == '[') && !scan_open(s, c == '{'))
		return false;
	if ((c == '}' || c == ']') && s->depth > 0)
		s->depth--;
	if (c == ':' && s->depth > 0 && s->open[s->depth - 1] != NOT_OBJECT)
		s->scan->objects.v[s->open[s->depth - 1]].members++;
	if ((c == ',' || c == '[' || c == '{') && s->values++ == PTM_JSON_MAX_VALUES)
		return fail(s, s->pos, "too many values (at most 4194304)");
	s->pos++;
	return true;
}

/* true, false, null; the parser tells them apart. */
static bool scan_word(struct scanner *s)
{
	size_t begin = s->pos;

	while (s->pos < s->len && s->text[s->pos] >= 'a' && s->text[s->pos] <= 'z')
		s->pos++;
	return s->pos > begin || fail(s, s->pos, "unexpected character");
}

static bool scan_one(struct scanner *s)
{
	char c = s->text[s->pos];

	if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
		s->pos++;
		return true;
	}
	if (c == '"')
		return scan_string(s);
	if (c == '-' || (c >= '0' && c <= '9'))
		return scan_number(s);
	if (c != '\0' && strchr("{}[]:,", c) != NULL)
		return scan_punctuation(s, c);
	return scan_word(s);
}

int ptm_json_scan(struct ptm_json_scan *scan, const char *text, size_t len)
{
	struct scanner s = {.scan = scan, .text = text, .len = len};

	*scan = (struct ptm_json_scan){0};
	while (s.pos < len && scan_one(&s))
		;
	return s.no_memory ? -1 : 0;
}

void ptm_json_scan_fini(struct ptm_json_scan *scan)
{
	free(scan->objects.v);
	*scan = (struct ptm_json_scan){0};
}
