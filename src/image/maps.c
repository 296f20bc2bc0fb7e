/* SPDX-License-Identifier: Apache-2.0
 *
 * maps.c - the executable mappings of a file in the format of /proc/PID/maps.
 *
 * A line is "begin-end perms offset major:minor inode [path]", addresses and offset in hex.  The
 * kernel writes a newline in a path as \012 and appends " (deleted)" to the name of a file that is
 * gone; the name is then taken as it was.  The file is read as a whole (proc files cannot be
 * mapped) up to a limit.
 */
#include "image/space_build.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAPS_MAX ((size_t)64 << 20)

struct line {
	uint64_t begin, end, offset;
	bool executable;
	char *path; /* in the buffer; "" if none */
};

/* Unsigned number of up to 16 digits; advances *s. */
static bool number(char **s, unsigned base, uint64_t *value)
{
	unsigned n = 0, digit;

	*value = 0;
	for (;; (*s)++, n++) {
		if (**s >= '0' && **s <= '9')
			digit = (unsigned)(**s - '0');
		else if (base == 16 && **s >= 'a' && **s <= 'f')
			digit = (unsigned)(**s - 'a' + 10);
		else
			return n > 0;
		if (n == (base == 16 ? 16 : 19))
			return false;
		*value = *value * base + digit;
	}
}

static bool skip(char **s, char c)
{
	if (**s != c)
		return false;
	(*s)++;
	return true;
}

/* "\012" to a newline, in place. */
static void unescape(char *s)
{
	char *to = s;

	while (*s != '\0') {
		if (strncmp(s, "\\012", 4) == 0) {
			*to++ = '\n';
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = '\0';
}

static void tidy_path(char *path)
{
	static const char deleted[] = " (deleted)";
	size_t len = strlen(path);

	if (len > sizeof(deleted) - 1 && strcmp(path + len - (sizeof(deleted) - 1), deleted) == 0)
		path[len - (sizeof(deleted) - 1)] = '\0';
	unescape(path);
}

/* Take apart a NUL-terminated line; false if it is not of the format. */
static bool parse_line(char *s, struct line *line)
{
	uint64_t ignored;

	if (!number(&s, 16, &line->begin) || !skip(&s, '-') || !number(&s, 16, &line->end) ||
	    !skip(&s, ' '))
		return false;
	if (strspn(s, "rwxps-") != 4 || line->begin >= line->end)
		return false;
	line->executable = s[2] == 'x';
	s += 4;
	if (!skip(&s, ' ') || !number(&s, 16, &line->offset) || !skip(&s, ' ') ||
	    !number(&s, 16, &ignored) || !skip(&s, ':') || !number(&s, 16, &ignored) ||
	    !skip(&s, ' ') || !number(&s, 10, &ignored))
		return false;
	if (*s != '\0' && *s != ' ')
		return false;
	s += strspn(s, " ");
	tidy_path(s);
	line->path = s;
	return true;
}

/* A path that would leave the sysroot. */
static bool climbs(const char *path)
{
	for (const char *s = path; (s = strstr(s, "/..")) != NULL; s += 3) {
		if (s[3] == '/' || s[3] == '\0')
			return true;
	}
	return false;
}

static int add_line(struct ptm_space *space, const struct line *line, const char *sysroot,
		    struct ptm_error *err)
{
	uint64_t len = line->end - line->begin;
	char *path;
	int rc;

	if (line->path[0] != '/')
		return ptm_space_map_missing(space,
					     line->path[0] != '\0' ? line->path : "[anonymous]",
					     line->begin, len, line->offset, err);
	if (sysroot == NULL)
		sysroot = "";
	path = malloc(strlen(sysroot) + strlen(line->path) + 1);
	if (path == NULL)
		return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory for a path");
	(void)stpcpy(stpcpy(path, sysroot), line->path);
	if (climbs(line->path))
		rc = ptm_space_map_missing(space, path, line->begin, len, line->offset, err);
	else
		rc = ptm_space_add_file(space, path, line->begin, len, line->offset, "", err);
	free(path);
	return rc;
}

int ptm_space_add_maps(struct ptm_space *space, const char *path, const char *sysroot,
		       struct ptm_error *err)
{
	char *text = NULL, *s, *eol;
	struct line line = {0};
	size_t len = 0, lineno = 0;
	int rc = 0;

	PTM_TRY(ptm_file_read_all(path, MAPS_MAX, &text, &len, err));
	for (s = text; s < text + len && rc >= 0; s = eol + 1) {
		lineno++;
		eol = memchr(s, '\n', (size_t)(text + len - s));
		if (eol == NULL)
			eol = text + len;
		*eol = '\0';
		if (eol == s)
			continue;
		if (strlen(s) != (size_t)(eol - s) || !parse_line(s, &line))
			rc = PTM_FAIL(
				err, PTM_E_FORMAT,
				"Not a line of /proc/PID/maps: path=\"%s\" line=%zu: \"%.80s\"",
				path, lineno, s);
		else if (line.executable)
			rc = add_line(space, &line, sysroot, err);
	}
	free(text);
	return rc;
}
