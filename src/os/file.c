/* SPDX-License-Identifier: Apache-2.0
 *
 * file.c - input files and read-only mappings.
 *
 * A regular file is read with pread only, also in sequence, so that positioned and sequential
 * readers do not disturb each other; everything else is a stream whose first bytes, read to
 * recognise zstd, are kept and given out first.  Offsets count from where the descriptor stood when
 * we got it (standard input may have been read by others).
 */
#include "os/file.h"

#include "os/zst_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* What ptm_file_read_all() asks for at a time. */
#define READ_ALL_BLOCK ((size_t)64 << 10)

struct ptm_file {
	char *path;
	int fd;
	int wake;      /* of a stream: an eventfd that ends a wait for data; -1 if it has none */
	bool regular;  /* pread works */
	bool seekable; /* and the size is known, and nothing is compressed */
	uint64_t base; /* offset of our first byte in a regular file */
	uint64_t size; /* of the underlying file from there; 0: unknown */
	uint64_t pos;  /* next raw byte for the sequential reader */
	uint8_t peek[PTM_ZST_MAGIC_LEN];
	bool peeked;         /* what the file is, is known */
	size_t npeek;        /* bytes of a stream read ahead ... */
	size_t peek_at;      /* ... and given out */
	struct ptm_zst *zst; /* NULL: not compressed */
};

static int64_t read_failed(const struct ptm_file *file, uint64_t offset, struct ptm_error *err)
{
	enum ptm_err code = errno == ENOMEM ? PTM_E_NOMEM : PTM_E_IO;

	return PTM_FAIL(err, code, "Cannot read: %m: offset=%" PRIu64 ", path=\"%s\"", offset,
			file->path);
}

/* Fill @buf from @offset of a regular file; short only at its end. */
static int64_t read_at(struct ptm_file *file, void *buf, size_t len, uint64_t offset,
		       struct ptm_error *err)
{
	size_t done = 0;

	if (offset > (uint64_t)INT64_MAX - file->base)
		return 0;
	/* An offset beyond the largest is an error of pread, to us the end. */
	if (len > (uint64_t)INT64_MAX - file->base - offset)
		len = (size_t)((uint64_t)INT64_MAX - file->base - offset);
	while (done < len) {
		ssize_t n = pread(file->fd, (uint8_t *)buf + done, len - done,
				  (off_t)(file->base + offset + done));

		if (n == 0)
			break;
		if (n > 0)
			done += (size_t)n;
		else if (errno != EINTR)
			return read_failed(file, offset + done, err);
	}
	return (int64_t)done;
}

/* read() of a stream that ptm_file_interrupt() can end.  Returns a number of bytes or -PTM_E_*. */
static int64_t read_stream(struct ptm_file *file, void *buf, size_t len, struct ptm_error *err)
{
	for (;;) {
		struct pollfd p[2] = {{.fd = file->fd, .events = POLLIN},
				      {.fd = file->wake, .events = POLLIN}};
		ssize_t n;

		if (poll(p, 2, -1) < 0) {
			if (errno == EINTR)
				continue;
			return read_failed(file, file->pos, err);
		}
		if (p[1].revents != 0)
			return PTM_FAIL(err, PTM_E_CANCELED, "Canceled");
		n = read(file->fd, buf, len);
		if (n >= 0)
			return n;
		if (errno != EINTR && errno != EAGAIN)
			return read_failed(file, file->pos, err);
	}
}

/* The next raw bytes, at least one unless at the end. */
static int64_t read_some(void *ctx, void *buf, size_t len, struct ptm_error *err)
{
	struct ptm_file *file = (struct ptm_file *)ctx;
	int64_t n;

	if (file->regular) {
		n = read_at(file, buf, len, file->pos, err);
	} else if (file->peek_at < file->npeek) {
		size_t left = file->npeek - file->peek_at;

		n = (int64_t)(len < left ? len : left);
		memcpy(buf, file->peek + file->peek_at, (size_t)n);
		file->peek_at += (size_t)n;
	} else {
		n = read_stream(file, buf, len, err);
	}
	if (n > 0)
		file->pos += (uint64_t)n;
	return n;
}

/* Read the bytes that tell what the file is.  Of a stream that may take as long as it takes, so it
 * is done by the first reader, not when the file is opened. */
static int peek(struct ptm_file *file, struct ptm_error *err)
{
	int64_t n;

	if (file->regular) {
		n = read_at(file, file->peek, sizeof(file->peek), 0, err);
		PTM_TRY((int)n);
		file->npeek = (size_t)n;
	}
	while (!file->regular && file->npeek < sizeof(file->peek)) {
		n = read_stream(file, file->peek + file->npeek, sizeof(file->peek) - file->npeek,
				err);
		if (n < 0)
			return (int)n;
		if (n == 0)
			break;
		file->npeek += (size_t)n;
	}
	file->peeked = true;
	if (!ptm_zst_is_magic(file->peek, file->npeek))
		return 0;
	file->zst = ptm_zst_create(file->path, read_some, file, err);
	return file->zst != NULL ? 0 : -PTM_E_NOMEM;
}

static int open_fd(const char *path, struct ptm_error *err)
{
	int fd;

	/* A copy of standard input, so that closing is the same for all. */
	if (strcmp(path, "-") == 0)
		fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
	else
		/* O_NONBLOCK: a FIFO that nobody writes to yet must not stop us here, where
		 * ptm_file_interrupt() cannot reach.  Streams are polled before they are read. */
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return PTM_FAIL(err, ptm_error_from_errno(errno),
				"Cannot open input: %m: path=\"%s\"", path);
	return fd;
}

/* What kind of file it is, where it begins, how long it is. */
static int examine(struct ptm_file *file, struct ptm_error *err)
{
	struct stat st;
	off_t at;

	if (fstat(file->fd, &st) < 0)
		return PTM_FAIL(err, ptm_error_from_errno(errno),
				"Cannot examine input: %m: path=\"%s\"", file->path);
	if (S_ISDIR(st.st_mode))
		return PTM_FAIL(err, PTM_E_NOINPUT, "Input is a directory, not a file: path=\"%s\"",
				file->path);
	file->regular = S_ISREG(st.st_mode);
	if (file->regular) {
		at = lseek(file->fd, 0, SEEK_CUR);
		file->base = at > 0 ? (uint64_t)at : 0;
		file->size = st.st_size > at ? (uint64_t)(st.st_size - at) : 0;
	}
	if (!file->regular) {
		file->wake = eventfd(0, EFD_CLOEXEC);
		return file->wake >= 0 ? 0
				       : PTM_FAIL(err, PTM_E_SYSTEM,
						  "Cannot read input: eventfd: %m: path=\"%s\"",
						  file->path);
	}
	PTM_TRY(peek(file, err));
	/* Files of /proc are regular, say they are empty, and are not. */
	file->seekable = (file->size > 0 || file->npeek == 0) && file->zst == NULL;
	return 0;
}

struct ptm_file *ptm_file_open(const char *path, struct ptm_error *err)
{
	struct ptm_file *file = calloc(1, sizeof(*file));

	if (file != NULL) {
		file->fd = -1;
		file->wake = -1;
		file->path = strdup(path);
	}
	if (file == NULL || file->path == NULL) {
		(void)PTM_FAIL(err, PTM_E_NOMEM, "Cannot open input: out of memory: path=\"%s\"",
			       path);
		goto fail;
	}
	file->fd = open_fd(path, err);
	if (file->fd < 0 || examine(file, err) < 0)
		goto fail;
	return file;
fail:
	ptm_file_close(file);
	return NULL;
}

void ptm_file_close(struct ptm_file *file)
{
	if (file == NULL)
		return;
	ptm_zst_destroy(file->zst);
	if (file->fd >= 0)
		(void)close(file->fd);
	if (file->wake >= 0)
		(void)close(file->wake);
	free(file->path);
	free(file);
}

const char *ptm_file_path(const struct ptm_file *file)
{
	return file->path;
}

bool ptm_file_is_seekable(const struct ptm_file *file)
{
	return file->seekable;
}

uint64_t ptm_file_size(const struct ptm_file *file)
{
	return file->seekable ? file->size : 0;
}

int64_t ptm_file_pread(struct ptm_file *file, void *buf, size_t len, uint64_t offset,
		       struct ptm_error *err)
{
	if (!file->seekable)
		return PTM_FAIL(err, PTM_E_BUG, "Positioned read of a stream: path=\"%s\"",
				file->path);
	return read_at(file, buf, len, offset, err);
}

int64_t ptm_file_read(struct ptm_file *file, void *buf, size_t len, struct ptm_error *err)
{
	size_t done = 0;

	if (!file->peeked)
		PTM_TRY(peek(file, err));
	if (file->zst != NULL)
		return ptm_zst_read(file->zst, buf, len, err);
	while (done < len) {
		int64_t n = read_some(file, (uint8_t *)buf + done, len - done, err);

		if (n < 0)
			return n;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (int64_t)done;
}

/* Room for one more block and a NUL behind @n bytes. */
static bool grow(char **data, size_t *cap, size_t n)
{
	char *more;

	if (*cap - n > READ_ALL_BLOCK)
		return true;
	more = (char *)realloc(*data, *cap * 2 + 2 * READ_ALL_BLOCK);
	if (more == NULL)
		return false;
	*data = more;
	*cap = *cap * 2 + 2 * READ_ALL_BLOCK;
	return true;
}

static int read_whole(struct ptm_file *file, size_t limit, char **data, size_t *len,
		      struct ptm_error *err)
{
	size_t cap = 0;
	int64_t n = 1;

	for (*len = 0; n > 0; *len += (size_t)n) {
		if (*len > limit)
			return PTM_FAIL(err, PTM_E_FORMAT,
					"Too large: more than %zu bytes: path=\"%s\"", limit,
					file->path);
		if (!grow(data, &cap, *len))
			return PTM_FAIL(err, PTM_E_NOMEM, "Cannot read: out of memory: path=\"%s\"",
					file->path);
		n = ptm_file_read(file, *data + *len, READ_ALL_BLOCK, err);
		if (n < 0)
			return (int)n;
	}
	(*data)[*len] = '\0';
	return 0;
}

int ptm_file_read_all(const char *path, size_t limit, char **data, size_t *len,
		      struct ptm_error *err)
{
	struct ptm_error why = {.code = PTM_E_OK};
	struct ptm_file *file = ptm_file_open(path, &why);
	int status;

	*data = NULL;
	*len = 0;
	if (file == NULL) {
		if (err != NULL)
			*err = why;
		return -(int)why.code;
	}
	status = read_whole(file, limit, data, len, err);
	ptm_file_close(file);
	if (status < 0) {
		free(*data);
		*data = NULL;
	}
	return status;
}

void ptm_file_interrupt(struct ptm_file *file)
{
	/* The counter stays up, so later reads end at once, too. */
	if (file->wake >= 0)
		(void)eventfd_write(file->wake, 1);
}

/* Map the regular file behind @fd. */
static int map_fd(struct ptm_map *map, int fd, const char *path, struct ptm_error *err)
{
	struct stat st;
	void *p;

	if (fstat(fd, &st) < 0)
		return PTM_FAIL(err, ptm_error_from_errno(errno),
				"Cannot examine image: %m: path=\"%s\"", path);
	if (!S_ISREG(st.st_mode))
		return PTM_FAIL(err, PTM_E_NOINPUT, "Image is not a regular file: path=\"%s\"",
				path);
	if (st.st_size == 0)
		return 0;
	if ((uint64_t)st.st_size > SIZE_MAX)
		return PTM_FAIL(err, PTM_E_NOMEM, "Image is too large to map: path=\"%s\"", path);
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		return PTM_FAIL(err, ptm_error_from_errno(errno),
				"Cannot map image: %m: path=\"%s\"", path);
	map->data = (const uint8_t *)p;
	map->len = (size_t)st.st_size;
	return 0;
}

int ptm_map_open(struct ptm_map *map, const char *path, struct ptm_error *err)
{
	int fd, ret;

	*map = (struct ptm_map){0};
	/* O_NONBLOCK: a FIFO must be refused, not waited for. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return PTM_FAIL(err, ptm_error_from_errno(errno),
				"Cannot open image: %m: path=\"%s\"", path);
	ret = map_fd(map, fd, path, err);
	(void)close(fd);
	return ret;
}

void ptm_map_close(struct ptm_map *map)
{
	if (map->data != NULL)
		(void)munmap((void *)map->data, map->len);
	*map = (struct ptm_map){0};
}
