/* SPDX-License-Identifier: Apache-2.0
 *
 * quota.c - the CPU bandwidth that control groups grant us.
 *
 * /proc/self/cgroup names our group in each hierarchy, /proc/self/mountinfo says where a hierarchy
 * is mounted and which group its mount point shows.  A limit of any group on the way up binds us,
 * so the smallest one counts. Quotas are rounded up to whole CPUs: 1.5 CPUs' worth keeps two
 * workers busy part of the time, one worker would leave a third of it unused.
 */
#include "os/quota.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Room for the directory of a group: a mount point and a group below it, behind the root of the
 * tests. */
#define PTM_QUOTA_DIR (3 * PATH_MAX)

/* Where one hierarchy with a CPU controller is seen. */
struct mount {
	char root[PATH_MAX];  /* the group that the mount point shows */
	char point[PATH_MAX]; /* the mount point */
};

static bool parse_u64(const char **p, uint64_t *v)
{
	char *end;

	if (**p < '0' || **p > '9')
		return false;
	errno = 0;
	*v = strtoull(*p, &end, 10);
	*p = end;
	return errno == 0;
}

static int round_up(uint64_t quota, uint64_t period)
{
	uint64_t cpus = quota / period + (quota % period != 0);

	return cpus > INT_MAX ? INT_MAX : (int)cpus;
}

int ptm_quota_parse(const char *text)
{
	uint64_t quota = 0, period;
	bool unlimited = strncmp(text, "max ", 4) == 0;

	if (unlimited)
		text += 4;
	else if (!parse_u64(&text, &quota) || quota == 0 || *text++ != ' ')
		return -1;
	if (!parse_u64(&text, &period) || period == 0)
		return -1;
	if (*text == '\n')
		text++;
	if (*text != '\0')
		return -1;
	return unlimited ? 0 : round_up(quota, period);
}

/* Read a short file whole; returns false if it cannot be read or is not short. */
static bool read_text(const char *path, char *buf, size_t size)
{
	size_t used = 0;
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	do {
		n = read(fd, buf + used, size - 1 - used);
		if (n > 0)
			used += (size_t)n;
	} while ((n > 0 && used < size - 1) || (n < 0 && errno == EINTR));
	(void)close(fd);
	buf[used] = '\0';
	return n == 0;
}

int ptm_quota_read(const char *path, struct ptm_error *err)
{
	char text[128];
	int cpus;

	if (access(path, R_OK) < 0)
		return PTM_FAIL(err, PTM_E_NOINPUT, "Cannot read CPU quota: %m: path=\"%s\"", path);
	cpus = read_text(path, text, sizeof(text)) ? ptm_quota_parse(text) : -1;
	if (cpus < 0)
		return PTM_FAIL(err, PTM_E_USAGE,
				"Not a cpu.max file (want \"QUOTA PERIOD\" or \"max PERIOD\"): "
				"path=\"%s\"",
				path);
	return cpus;
}

/* The limit of the one group whose directory is @dir: 0 for none. */
static int group_quota(const char *dir)
{
	char path[PTM_QUOTA_DIR + 32], quota_text[128], period_text[128];
	const char *q = quota_text, *p = period_text;
	uint64_t quota, period;
	int cpus;

	(void)snprintf(path, sizeof(path), "%s/cpu.max", dir);
	if (read_text(path, quota_text, sizeof(quota_text))) {
		cpus = ptm_quota_parse(quota_text);
		return cpus > 0 ? cpus : 0;
	}
	(void)snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", dir);
	if (!read_text(path, quota_text, sizeof(quota_text)))
		return 0;
	(void)snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", dir);
	if (!read_text(path, period_text, sizeof(period_text)))
		return 0;
	/* Version 1 says -1 for no limit, which is not a number to parse_u64(). */
	if (!parse_u64(&q, &quota) || !parse_u64(&p, &period) || quota == 0 || period == 0)
		return 0;
	return round_up(quota, period);
}

/* Is @name one of the comma-separated words of @list? */
static bool has_word(const char *list, const char *name)
{
	size_t len = strlen(name);

	for (const char *p = list; p != NULL; p = strchr(p, ',')) {
		if (*p == ',')
			p++;
		if (strncmp(p, name, len) == 0 && (p[len] == ',' || p[len] == '\0'))
			return true;
	}
	return false;
}

/* mountinfo writes space, tab, newline and backslash as three octal digits. */
static void unescape(char *s)
{
	char *to = s;

	while (*s != '\0') {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
		    s[3] >= '0' && s[3] <= '7') {
			*to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = '\0';
}

/* Take apart one line of mountinfo; true if it is the hierarchy asked for. */
static bool match_mount(char *line, bool v2, struct mount *m)
{
	char *fields[6], *rest, *save = NULL, *type, *options;
	char *tail = strstr(line, " - ");
	unsigned n = 0;

	if (tail == NULL)
		return false;
	*tail = '\0';
	for (char *f = strtok_r(line, " ", &save); f != NULL && n < 6;
	     f = strtok_r(NULL, " ", &save))
		fields[n++] = f;
	rest = tail + 3;
	type = strtok_r(rest, " ", &save);
	(void)strtok_r(NULL, " ", &save); /* the source */
	options = strtok_r(NULL, " \n", &save);
	if (n < 5 || type == NULL || options == NULL)
		return false;
	if (v2 ? strcmp(type, "cgroup2") != 0
	       : (strcmp(type, "cgroup") != 0 || !has_word(options, "cpu")))
		return false;
	unescape(fields[3]);
	unescape(fields[4]);
	(void)snprintf(m->root, sizeof(m->root), "%s", fields[3]);
	(void)snprintf(m->point, sizeof(m->point), "%s", fields[4]);
	return true;
}

static bool find_mount(const char *root, bool v2, struct mount *m)
{
	char path[PTM_QUOTA_DIR];
	char *line = NULL;
	size_t cap = 0;
	bool found = false;
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/proc/self/mountinfo", root);
	f = fopen(path, "re");
	if (f == NULL)
		return false;
	while (!found && getline(&line, &cap, f) > 0)
		found = match_mount(line, v2, m);
	free(line);
	(void)fclose(f);
	return found;
}

/* The smallest limit from the group @group of the hierarchy up to the group that its mount point
 * shows. */
static int hierarchy_quota(const char *root, const char *group, bool v2)
{
	struct mount m;
	char dir[PTM_QUOTA_DIR];
	size_t rootlen, top;
	int least = 0;

	if (!find_mount(root, v2, &m))
		return 0;
	rootlen = strcmp(m.root, "/") == 0 ? 0 : strlen(m.root);
	/* A group that the mount does not show (a container's view of its host): the mount point is
	 * all we see. */
	if (strncmp(group, m.root, rootlen) != 0 || strstr(group, "/..") != NULL ||
	    (group[rootlen] != '/' && group[rootlen] != '\0'))
		group = "";
	else
		group += rootlen;
	top = (size_t)snprintf(dir, sizeof(dir), "%s%s", root, m.point);
	if (top >= sizeof(dir) || strlen(group) >= sizeof(dir) - top)
		return 0;
	memcpy(dir + top, group, strlen(group) + 1);
	for (;;) {
		int cpus = group_quota(dir);
		char *slash = strrchr(dir + top, '/');

		if (cpus > 0 && (least == 0 || cpus < least))
			least = cpus;
		if (slash == NULL)
			return least;
		*slash = '\0';
	}
}

unsigned ptm_quota_own(const char *root)
{
	char path[PTM_QUOTA_DIR];
	char *line = NULL;
	size_t cap = 0;
	int least = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	f = fopen(path, "re");
	if (f == NULL)
		return 0;
	while (getline(&line, &cap, f) > 0) {
		char *controllers = strchr(line, ':');
		char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
		int cpus;
		bool v2;

		if (group == NULL)
			continue;
		controllers++;
		*group++ = '\0';
		group[strcspn(group, "\n")] = '\0';
		v2 = controllers[0] == '\0';
		if (!v2 && !has_word(controllers, "cpu"))
			continue;
		cpus = hierarchy_quota(root, group, v2);
		if (cpus > 0 && (least == 0 || cpus < least))
			least = cpus;
	}
	free(line);
	(void)fclose(f);
	return (unsigned)least;
}
