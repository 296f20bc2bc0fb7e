/* SPDX-License-Identifier: Apache-2.0
 *
 * out.c - outputs that appear under their name only when complete.
 *
 * One buffer in front of a descriptor; writes as large as the buffer go past it.  A named output
 * goes to a file beside its destination, which takes its name by rename(): a reader sees the old
 * file or the new one, never a part.  The first failure is kept, so that a caller who only looks at
 * commit still learns of it.
 */
#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define PTM_OUT_BUF   (256 * 1024)
#define PTM_OUT_TRIES 100 /* random names before we give up */

struct ptm_out {
	char *path; /* destination, symbolic links resolved; for messages "-" */
	char *tmp;  /* NULL: written to directly */
	int fd;
	size_t used;
	enum ptm_err failed;
	int failed_errno;
	char buf[PTM_OUT_BUF];
};

/* An output that cannot be made is not a missing input. */
static enum ptm_err out_code(int e)
{
	enum ptm_err code = ptm_error_from_errno(e);

	return code == PTM_E_NOINPUT || e == EPERM ? PTM_E_IO : code;
}

static int out_failed(struct ptm_out *out, int e, struct ptm_error *err)
{
	out->failed = out_code(e);
	out->failed_errno = e;
	errno = e;
	return PTM_FAIL(err, out->failed, "Cannot write output: %m: path=\"%s\"", out->path);
}

static int open_failed(const char *path, int e, struct ptm_error *err)
{
	errno = e;
	return PTM_FAIL(err, out_code(e), "Cannot create output: %m: path=\"%s\"", path);
}

/* Create the file beside the destination.  open() rather than mkstemp(): only so do the umask and
 * default ACLs give the mode that a plain create would. */
static int create_tmp(struct ptm_out *out, mode_t mode, struct ptm_error *err)
{
	static const char digits[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	size_t len = strlen(out->path);
	static const char suffix[] = ".tmp-";

	out->tmp = malloc(len + sizeof(suffix) + 6);
	if (out->tmp == NULL)
		return open_failed(out->path, ENOMEM, err);
	memcpy(out->tmp, out->path, len);
	memcpy(out->tmp + len, suffix, sizeof(suffix));
	for (unsigned i = 0; i < PTM_OUT_TRIES; i++) {
		char *x = out->tmp + len + sizeof(suffix) - 1;
		uint8_t random[6];

		if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
			continue;
		for (unsigned k = 0; k < 6; k++)
			x[k] = digits[random[k] % (sizeof(digits) - 1)];
		x[6] = '\0';
		out->fd = open(out->tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
		if (out->fd >= 0)
			return 0;
		if (errno != EEXIST && errno != EINTR)
			break;
	}
	/* Nothing of ours exists under that name. */
	free(out->tmp);
	out->tmp = NULL;
	return open_failed(out->path, errno, err);
}

/* A regular file stands at the destination: it must be writable, and lends its permissions. */
static int open_over(struct ptm_out *out, const struct stat *st, struct ptm_error *err)
{
	char *real = realpath(out->path, NULL);

	/* The file that a link names is replaced, not the link. */
	if (real == NULL)
		return open_failed(out->path, errno, err);
	free(out->path);
	out->path = real;
	if (access(out->path, W_OK) < 0)
		return open_failed(out->path, errno, err);
	PTM_TRY(create_tmp(out, 0600, err));
	/* Mostly only the superuser can keep another's ownership: no matter if not. */
	if (fchown(out->fd, st->st_uid, st->st_gid) < 0)
		errno = 0;
	if (fchmod(out->fd, st->st_mode & 0777) < 0)
		return open_failed(out->path, errno, err);
	return 0;
}

static int open_out(struct ptm_out *out, struct ptm_error *err)
{
	struct stat st;

	if (strcmp(out->path, "-") == 0) {
		/* A copy, whose close() reports what the file system held back. */
		out->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
		return out->fd < 0 ? open_failed("-", errno, err) : 0;
	}
	/* An empty name would do for the temporary file, but for nothing after it. */
	if (out->path[0] == '\0')
		return open_failed(out->path, ENOENT, err);
	if (stat(out->path, &st) < 0)
		return errno == ENOENT ? create_tmp(out, 0666, err)
				       : open_failed(out->path, errno, err);
	if (S_ISREG(st.st_mode))
		return open_over(out, &st, err);
	do
		out->fd = open(out->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	while (out->fd < 0 && errno == EINTR);
	return out->fd < 0 ? open_failed(out->path, errno, err) : 0;
}

struct ptm_out *ptm_out_open(const char *path, struct ptm_error *err)
{
	struct ptm_out *out = malloc(sizeof(*out));

	if (path == NULL)
		path = "-";
	if (out != NULL) {
		memset(out, 0, offsetof(struct ptm_out, buf));
		out->fd = -1;
		out->path = strdup(path);
	}
	if (out == NULL || out->path == NULL) {
		(void)open_failed(path, ENOMEM, err);
		ptm_out_abort(out);
		return NULL;
	}
	if (open_out(out, err) < 0) {
		ptm_out_abort(out);
		return NULL;
	}
	return out;
}

static int write_all(struct ptm_out *out, const char *p, size_t len, struct ptm_error *err)
{
	while (len > 0) {
		ssize_t n = write(out->fd, p, len);

		if (n >= 0) {
			p += n;
			len -= (size_t)n;
		} else if (errno == EAGAIN) {
			/* Someone made our pipe non-blocking: wait for room. */
			struct pollfd fd = {.fd = out->fd, .events = POLLOUT};

			if (poll(&fd, 1, -1) < 0 && errno != EINTR)
				return out_failed(out, errno, err);
		} else if (errno != EINTR) {
			return out_failed(out, errno, err);
		}
	}
	return 0;
}

static int flush(struct ptm_out *out, struct ptm_error *err)
{
	size_t used = out->used;

	if (out->failed != PTM_E_OK)
		return out_failed(out, out->failed_errno, err);
	out->used = 0;
	return write_all(out, out->buf, used, err);
}

int ptm_out_write(struct ptm_out *out, const void *data, size_t len, struct ptm_error *err)
{
	if (len > sizeof(out->buf) - out->used || out->failed != PTM_E_OK) {
		PTM_TRY(flush(out, err));
		if (len >= sizeof(out->buf))
			return write_all(out, (const char *)data, len, err);
	}
	if (len > 0)
		memcpy(out->buf + out->used, data, len);
	out->used += len;
	return 0;
}

/* Text too long for the room in the buffer. */
static int print_long(struct ptm_out *out, struct ptm_error *err, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));

static int print_long(struct ptm_out *out, struct ptm_error *err, const char *fmt, va_list ap)
{
	char *text;
	int n = vasprintf(&text, fmt, ap);
	int ret;

	if (n < 0)
		return out_failed(out, ENOMEM, err);
	ret = ptm_out_write(out, text, (size_t)n, err);
	free(text);
	return ret;
}

int ptm_out_printf(struct ptm_out *out, struct ptm_error *err, const char *fmt, ...)
{
	size_t room = sizeof(out->buf) - out->used;
	va_list ap;
	int n;

	if (out->failed != PTM_E_OK)
		return out_failed(out, out->failed_errno, err);
	va_start(ap, fmt);
	n = vsnprintf(out->buf + out->used, room, fmt, ap);
	va_end(ap);
	if (n < 0)
		return out_failed(out, errno, err);
	if ((size_t)n < room) {
		out->used += (size_t)n;
		return 0;
	}
	va_start(ap, fmt);
	n = print_long(out, err, fmt, ap);
	va_end(ap);
	return n;
}

int ptm_out_commit(struct ptm_out *out, struct ptm_error *err)
{
	int ret = flush(out, err);
	int fd = out->fd;

	out->fd = -1;
	/* Linux has closed the descriptor also where it says EINTR. */
	if (close(fd) < 0 && errno != EINTR && ret == 0)
		ret = out_failed(out, errno, err);
	if (ret == 0 && out->tmp != NULL) {
		if (rename(out->tmp, out->path) < 0) {
			ret = out_failed(out, errno, err);
		} else {
			free(out->tmp);
			out->tmp = NULL;
		}
	}
	ptm_out_abort(out);
	return ret;
}

void ptm_out_abort(struct ptm_out *out)
{
	if (out == NULL)
		return;
	if (out->fd >= 0)
		(void)close(out->fd);
	if (out->tmp != NULL)
		(void)unlink(out->tmp);
	free(out->tmp);
	free(out->path);
	free(out);
}
