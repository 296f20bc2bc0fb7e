/* SPDX-License-Identifier: Apache-2.0
 *
 * capture_path.c - paths that must not leave a capture.
 *
 * The text of a path is checked first, then where it leads: its canonical path must begin with that
 * of the directory.  Of a path that is missing the longest part that exists is looked at, so that
 * nothing is opened through a link that leads out of the directory, whatever appears behind it
 * later.
 */
#include "input/capture_path.h"

#include "input/desc_priv.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int ptm_capture_root_init(struct ptm_capture_root *root, const char *dir, struct ptm_error *err)
{
	root->dir = dir;
	root->real = realpath(dir[0] != '\0' ? dir : ".", NULL);
	if (root->real == NULL)
		return PTM_FAIL(err, ptm_error_from_errno(errno),
				"Cannot examine the directory of the capture: %m: path=\"%s\"",
				dir);
	return 0;
}

void ptm_capture_root_fini(struct ptm_capture_root *root)
{
	free(root->real);
	root->real = NULL;
}

static int leaves(const struct ptm_json_at *at, struct ptm_error *err)
{
	return ptm_json_fail(at, PTM_E_FORMAT, err, "leaves the capture");
}

/* What can be told from the text alone. */
static int check_text(const struct ptm_json_at *at, const char *path, struct ptm_error *err)
{
	if (path[0] == '/')
		return leaves(at, err);
	for (const char *c = path; *c != '\0'; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			return ptm_json_fail(at, PTM_E_FORMAT, err,
					     "a control character in a path");
	for (const char *part = path;;) {
		size_t len = strcspn(part, "/");

		if (len == 2 && memcmp(part, "..", 2) == 0)
			return leaves(at, err);
		if (len == 0 || (len == 1 && part[0] == '.'))
			return ptm_json_fail(at, PTM_E_FORMAT, err,
					     "must be a path without \".\" and empty parts");
		if (part[len] == '\0')
			return 0;
		part += len + 1;
	}
}

static bool is_below(const char *real, const char *path)
{
	size_t len = strlen(real);

	/* The canonical path of the root directory is the only one that ends in a slash. */
	if (len > 1 && strncmp(path, real, len) == 0)
		return path[len] == '\0' || path[len] == '/';
	return len == 1;
}

/* Where does @path lead?  0 if it exists below the directory, 1 if it does not exist. */
static int look(const struct ptm_capture_root *root, const struct ptm_json_at *at, const char *path,
		struct ptm_error *err)
{
	char real[PATH_MAX];
	struct stat st;

	if (realpath(path, real) != NULL)
		return is_below(root->real, real) ? 0 : leaves(at, err);
	if (errno != ENOENT && errno != ENOTDIR)
		return ptm_json_fail(at, ptm_error_from_errno(errno), err,
				     "cannot be examined: %m");
	if (lstat(path, &st) == 0)
		return ptm_json_fail(at, PTM_E_FORMAT, err, "a link that leads nowhere");
	return 1;
}

/* @path is missing: look at the parts of it, behind the first @skip bytes, that are not. */
static int look_at_parts(const struct ptm_capture_root *root, const struct ptm_json_at *at,
			 char *path, size_t skip, struct ptm_error *err)
{
	for (char *slash = path + skip; (slash = strchr(slash, '/')) != NULL; slash++) {
		int ret;

		*slash = '\0';
		ret = look(root, at, path, err);
		*slash = '/';
		if (ret != 0)
			return ret < 0 ? ret : 0;
	}
	return 0;
}

static int check_place(const struct ptm_capture_root *root, const struct ptm_json_at *at,
		       char *path, size_t skip, struct ptm_error *err)
{
	struct stat st;
	int ret = look(root, at, path, err);

	if (ret < 0)
		return ret;
	if (ret > 0)
		return look_at_parts(root, at, path, skip, err);
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return ptm_json_fail(at, PTM_E_FORMAT, err, "not a regular file");
	return 0;
}

int ptm_capture_path(const struct ptm_capture_root *root, const struct ptm_json_at *at, char **path,
		     struct ptm_error *err)
{
	const char *text;
	int ret;

	PTM_TRY(ptm_desc_get_text(at, &text, err));
	PTM_TRY(check_text(at, text, err));
	*path = ptm_desc_join(root->dir, text);
	if (*path == NULL)
		return ptm_desc_no_memory(at, err);
	ret = check_place(root, at, *path, strlen(*path) - strlen(text), err);
	if (ret < 0) {
		free(*path);
		*path = NULL;
	}
	return ret;
}
