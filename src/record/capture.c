/* SPDX-License-Identifier: Apache-2.0
 *
 * capture.c - the directory that a recording is written to.
 *
 * Mappings are kept in the order in which they appeared; each names a file below images/.  Files
 * are copied when they are first seen mapped, memory without a file when it is first seen and again
 * at the end.  Everything lies in a temporary directory beside the final one until it is committed.
 */
#include "record/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { CHUNK = 1 << 16 };

struct mapping {
	uint64_t begin, end, offset;
	char *path;  /* owned; begins with '/', below images/ */
	bool memory; /* no file: dumped */
};

struct ptm_capture {
	char *out, *tmp; /* owned */
	FILE *trace;
	struct ptm_error *err;
	bool made;      /* the temporary directory exists */
	bool committed; /* ... under its final name */
	PTM_VEC(struct mapping) maps;
	uint8_t chunk[CHUNK];
};

static int fail_path(struct ptm_capture *cap, const char *what, const char *path)
{
	int e = errno;
	enum ptm_err code = ptm_error_from_errno(e);

	return PTM_FAIL(cap->err, code == PTM_E_NOSPACE || code == PTM_E_NOMEM ? code : PTM_E_IO,
			"Cannot %s \"%s\": %s", what, path, strerror(e));
}

static int no_memory(struct ptm_capture *cap)
{
	return PTM_FAIL(cap->err, PTM_E_NOMEM, "Cannot write the capture: out of memory");
}

struct ptm_capture *ptm_capture_create(const char *out_dir, struct ptm_error *err)
{
	struct ptm_capture *cap = calloc(1, sizeof(*cap));
	size_t len = strlen(out_dir);
	char path[PATH_MAX];
	struct stat sb;

	while (len > 1 && out_dir[len - 1] == '/')
		len--;
	if (cap == NULL || (cap->out = strndup(out_dir, len)) == NULL ||
	    asprintf(&cap->tmp, "%s.tmp-%d", cap->out, (int)getpid()) < 0) {
		(void)PTM_FAIL(err, PTM_E_NOMEM, "Cannot write the capture: out of memory");
		goto fail;
	}
	cap->err = err;
	if (lstat(cap->out, &sb) == 0) {
		(void)PTM_FAIL(err, PTM_E_USAGE, "Cannot write capture \"%s\": it exists already",
			       cap->out);
		goto fail;
	}
	(void)snprintf(path, sizeof(path), "%s/trace.pt", cap->tmp);
	if (mkdir(cap->tmp, 0777) != 0) {
		(void)fail_path(cap, "make directory", cap->tmp);
		goto fail;
	}
	cap->made = true;
	cap->trace = fopen(path, "wbxe");
	if (cap->trace == NULL) {
		(void)fail_path(cap, "create", path);
		goto fail;
	}
	return cap;
fail:
	ptm_capture_destroy(cap);
	return NULL;
}

static int remove_one(const char *path, const struct stat *sb, int flag, struct FTW *ftw)
{
	(void)sb;
	(void)flag;
	(void)ftw;
	(void)remove(path);
	return 0;
}

void ptm_capture_destroy(struct ptm_capture *cap)
{
	if (cap == NULL)
		return;
	if (cap->trace != NULL)
		(void)fclose(cap->trace);
	if (cap->made && !cap->committed)
		(void)nftw(cap->tmp, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	for (size_t i = 0; i < cap->maps.n; i++)
		free(cap->maps.v[i].path);
	free(cap->maps.v);
	free(cap->out);
	free(cap->tmp);
	free(cap);
}

int ptm_capture_write(void *ctx, const uint8_t *bytes, size_t len)
{
	struct ptm_capture *cap = ctx;

	return fwrite(bytes, 1, len, cap->trace) == len
		       ? 0
		       : fail_path(cap, "write the trace in", cap->tmp);
}

/* Create images/PATH and its directories. */
static FILE *create_image(struct ptm_capture *cap, const char *image)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s/images%s", cap->tmp, image);
	FILE *f;

	if (n < 0 || (size_t)n >= sizeof(path)) {
		errno = ENAMETOOLONG;
		(void)fail_path(cap, "create the copy of", image);
		return NULL;
	}
	for (char *p = path + strlen(cap->tmp) + 1; (p = strchr(p, '/')) != NULL; *p++ = '/') {
		*p = '\0';
		if (mkdir(path, 0777) != 0 && errno != EEXIST) {
			(void)fail_path(cap, "make directory", path);
			return NULL;
		}
	}
	f = fopen(path, "wbe");
	if (f == NULL)
		(void)fail_path(cap, "create", path);
	return f;
}

static int close_image(struct ptm_capture *cap, FILE *f, const char *image)
{
	bool bad = ferror(f) != 0;

	if (fclose(f) != 0 || bad)
		return fail_path(cap, "write the copy of", image);
	return 0;
}

/* Copy the file of a mapping.  Returns 1 if it cannot be opened. */
static int copy_file(struct ptm_capture *cap, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = 0;
	FILE *f;

	if (fd < 0)
		return 1;
	f = create_image(cap, path);
	if (f != NULL)
		while ((n = read(fd, cap->chunk, sizeof(cap->chunk))) > 0)
			if (fwrite(cap->chunk, 1, (size_t)n, f) != (size_t)n)
				break;
	if (n < 0)
		(void)fail_path(cap, "read", path);
	(void)close(fd);
	if (f == NULL)
		return -(int)PTM_E_IO;
	PTM_TRY(close_image(cap, f, path));
	return n < 0 ? -(int)PTM_E_IO : 0;
}

static int dump_memory(struct ptm_capture *cap, pid_t pid, const struct mapping *m)
{
	FILE *f = create_image(cap, m->path);

	if (f == NULL)
		return -(int)PTM_E_IO;
	for (uint64_t at = m->begin; at < m->end;) {
		size_t want = m->end - at < CHUNK ? (size_t)(m->end - at) : CHUNK;
		struct iovec local = {cap->chunk, want};
		struct iovec remote = {(void *)(uintptr_t)at, want};
		ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);

		/* Execute-only pages cannot be read: nothing is known behind them. */
		if (n <= 0 || fwrite(cap->chunk, 1, (size_t)n, f) != (size_t)n)
			break;
		at += (uint64_t)n;
	}
	return close_image(cap, f, m->path);
}

static bool has_path(const struct ptm_capture *cap, const char *path)
{
	for (size_t i = 0; i < cap->maps.n; i++)
		if (strcmp(cap->maps.v[i].path, path) == 0)
			return true;
	return false;
}

static bool is_known(const struct ptm_capture *cap, const struct mapping *m, const char *path)
{
	for (size_t i = 0; i < cap->maps.n; i++) {
		const struct mapping *k = &cap->maps.v[i];

		if (k->begin == m->begin && k->end == m->end &&
		    (k->memory ? path[0] != '/'
			       : k->offset == m->offset && strcmp(k->path, path) == 0))
			return true;
	}
	return false;
}

/* Take over a mapping of the file @path, "[vdso]", or "" of anonymous memory. */
static int add_mapping(struct ptm_capture *cap, pid_t pid, struct mapping m, const char *path)
{
	int ret = 1;

	if (is_known(cap, &m, path))
		return 0;
	if (path[0] == '/') {
		m.path = strdup(path);
		ret = has_path(cap, path) ? 0 : copy_file(cap, path);
	}
	if (ret > 0) {
		/* No file, or a deleted one. */
		free(m.path);
		m.memory = true;
		m.offset = 0;
		if (strcmp(path, "[vdso]") == 0)
			m.path = strdup("/[vdso]");
		else if (asprintf(&m.path, "/[memory-%" PRIx64 "-%" PRIx64 "]", m.begin, m.end) < 0)
			m.path = NULL;
		ret = m.path == NULL ? 0 : dump_memory(cap, pid, &m);
	}
	if (m.path == NULL || !ptm_vec_push(&cap->maps, m)) {
		free(m.path);
		return no_memory(cap);
	}
	return ret;
}

int ptm_capture_mappings(void *ctx, pid_t pid)
{
	struct ptm_capture *cap = ctx;
	char name[64], *line = NULL;
	size_t size = 0;
	int ret = 0;
	FILE *f;

	(void)snprintf(name, sizeof(name), "/proc/%d/maps", (int)pid);
	f = fopen(name, "re");
	if (f == NULL)
		return fail_path(cap, "open", name);
	while (ret == 0 && getline(&line, &size, f) > 0) {
		struct mapping m = {0};
		char perms[5];
		int path = 0;

		line[strcspn(line, "\n")] = '\0';
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %n", &m.begin,
			   &m.end, perms, &m.offset, &path) < 4 ||
		    path == 0)
			ret = PTM_FAIL(cap->err, PTM_E_SYSTEM, "Cannot understand \"%s\": \"%s\"",
				       name, line);
		else if (strchr(perms, 'x') != NULL && strcmp(line + path, "[vsyscall]") != 0)
			ret = add_mapping(cap, pid, m, line + path);
	}
	free(line);
	(void)fclose(f);
	return ret;
}

int ptm_capture_leaving(void *ctx, pid_t pid)
{
	struct ptm_capture *cap = ctx;

	PTM_TRY(ptm_capture_mappings(ctx, pid));
	for (size_t i = 0; i < cap->maps.n; i++)
		if (cap->maps.v[i].memory)
			PTM_TRY(dump_memory(cap, pid, &cap->maps.v[i]));
	return 0;
}

static void print_maps(FILE *f, const struct ptm_capture *cap)
{
	for (size_t i = 0; i < cap->maps.n; i++) {
		const struct mapping *m = &cap->maps.v[i];

		(void)fprintf(f, "%08" PRIx64 "-%08" PRIx64 " r-xp %08" PRIx64 " 00:00 0 %s\n",
			      m->begin, m->end, m->offset, m->path);
	}
}

static void print_truth(FILE *f, const struct ptm_feed *feed)
{
	(void)fprintf(f, "instructions %" PRIu64 "\ndigest 0x%016" PRIx64 "\n", feed->digest.n,
		      feed->digest.b);
	for (size_t i = 0; i < feed->truth.n; i++) {
		const struct ptm_truth_line *t = &feed->truth.v[i];

		switch (t->kind) {
		case PTM_TRUTH_CHECKPOINT:
			(void)fprintf(f, "checkpoint %" PRIu64 " 0x%016" PRIx64 "\n", t->n,
				      t->digest);
			break;
		case PTM_TRUTH_PSB:
			(void)fprintf(f, "psb %" PRIu64 " %" PRIu64 " 0x%016" PRIx64 "\n",
				      t->offset, t->n, t->digest);
			break;
		case PTM_TRUTH_GAP:
			(void)fprintf(f,
				      "gap %" PRIu64 " %" PRIu64 " 0x%016" PRIx64 " lost %" PRIu64
				      "\n",
				      t->offset, t->n, t->digest, t->lost);
			break;
		}
	}
}

static FILE *create_text(struct ptm_capture *cap, const char *name)
{
	char path[PATH_MAX];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", cap->tmp, name);
	f = fopen(path, "we");
	if (f == NULL)
		(void)fail_path(cap, "create", path);
	return f;
}

int ptm_capture_commit(struct ptm_capture *cap, const struct ptm_feed *feed)
{
	FILE *f = cap->trace;

	cap->trace = NULL;
	PTM_TRY(close_image(cap, f, "the trace"));
	f = create_text(cap, "maps");
	if (f == NULL)
		return -(int)PTM_E_IO;
	print_maps(f, cap);
	PTM_TRY(close_image(cap, f, "the mappings"));
	f = create_text(cap, "truth.txt");
	if (f == NULL)
		return -(int)PTM_E_IO;
	print_truth(f, feed);
	PTM_TRY(close_image(cap, f, "the truth"));
	if (rename(cap->tmp, cap->out) != 0)
		return fail_path(cap, "give the capture its name", cap->out);
	cap->committed = true;
	return 0;
}
