/* SPDX-License-Identifier: Apache-2.0
 *
 * images.c - the code of a recorded process.
 *
 * Two lists: mappings in the order in which they appeared, and images, one a file or a piece of
 * memory, under working names.  A file is copied when it is first seen mapped.  Memory is written
 * page by page over what was there before, so that a piece that is unmapped in parts keeps all of
 * them.
 */
#include "record/images.h"

#include "os/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGE = 4096, HALF = PTM_REC_CHUNK / 2 };

int ptm_rec_fail(struct ptm_error *err, const char *what, const char *path)
{
	int e = errno;
	enum ptm_err code = ptm_error_from_errno(e);

	return PTM_FAIL(err, code == PTM_E_NOSPACE || code == PTM_E_NOMEM ? code : PTM_E_IO,
			"Cannot %s \"%s\": %s", what, path, strerror(e));
}

static int no_memory(struct ptm_images *images)
{
	return PTM_FAIL(images->err, PTM_E_NOMEM, "Cannot copy the images: out of memory");
}

void ptm_images_init(struct ptm_images *images, char *dir, struct ptm_error *err)
{
	images->dir = dir;
	images->err = err;
}

void ptm_images_fini(struct ptm_images *images)
{
	for (size_t i = 0; i < images->images.n; i++) {
		free(images->images.v[i].source);
		free(images->images.v[i].name);
	}
	for (size_t i = 0; i < images->maps.n; i++)
		free(images->maps.v[i].path);
	free(images->images.v);
	free(images->maps.v);
	free(images->dir);
}

static char *path_of(const struct ptm_images *images, const char *name)
{
	char *path;

	return asprintf(&path, "%s/%s", images->dir, name) < 0 ? NULL : path;
}

static int open_image(struct ptm_images *images, size_t i, int flags)
{
	char *path = path_of(images, images->images.v[i].name);
	int fd;

	if (path == NULL)
		return no_memory(images);
	fd = open(path, flags | O_CLOEXEC, 0666);
	if (fd < 0)
		fd = ptm_rec_fail(images->err, "open", path);
	free(path);
	return fd;
}

static int write_all(int fd, const uint8_t *p, size_t len, uint64_t at)
{
	while (len > 0) {
		ssize_t n = pwrite(fd, p, len, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		p += n;
		len -= (size_t)n;
		at += (uint64_t)n;
	}
	return 0;
}

/* A new image with a working name; -PTM_E_NOMEM or 0, and its index. */
static int add_image(struct ptm_images *images, const char *source, size_t *index)
{
	struct ptm_rec_image image = {0};

	/* No final name looks like that: they are hexadecimal. */
	if (asprintf(&image.name, "image-%zu", images->images.n) < 0)
		return no_memory(images);
	if (source != NULL)
		image.source = strdup(source);
	if ((source != NULL && image.source == NULL) || !ptm_vec_push(&images->images, image)) {
		free(image.source);
		free(image.name);
		return no_memory(images);
	}
	*index = images->images.n - 1;
	return 0;
}

static int copy(struct ptm_images *images, int from, size_t image)
{
	const char *source = images->images.v[image].source;
	int to = open_image(images, image, O_WRONLY | O_CREAT | O_EXCL);
	uint64_t at = 0;
	int ret = 0;
	ssize_t n;

	if (to < 0)
		return to;
	while (ret == 0 && (n = read(from, images->chunk, PTM_REC_CHUNK)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			ret = ptm_rec_fail(images->err, "read", source);
		else if (write_all(to, images->chunk, (size_t)n, at) < 0)
			ret = ptm_rec_fail(images->err, "write the copy of", source);
		else
			at += (uint64_t)n;
	}
	if (close(to) < 0 && ret == 0)
		ret = ptm_rec_fail(images->err, "write the copy of", source);
	return ret;
}

/* The image of file @path, copied on first use.  Returns 1 if there is no such regular file. */
static int file_image(struct ptm_images *images, const char *path, size_t *image)
{
	struct stat sb;
	int fd, ret;

	for (size_t i = 0; i < images->images.n; i++) {
		if (images->images.v[i].source != NULL &&
		    strcmp(images->images.v[i].source, path) == 0) {
			*image = i;
			return 0;
		}
	}
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return 1;
	ret = fstat(fd, &sb) == 0 && S_ISREG(sb.st_mode) ? add_image(images, path, image) : 1;
	if (ret == 0)
		ret = copy(images, fd, *image);
	(void)close(fd);
	return ret;
}

/* Up to @len bytes of the process's memory; execute-only pages cannot be read. */
static size_t peek(pid_t pid, uint64_t at, uint8_t *buf, size_t len)
{
	struct iovec local = {buf, len};
	struct iovec remote = {(void *)(uintptr_t)at, len};
	ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);

	return n < 0 ? 0 : (size_t)n;
}

/* Returns 1 if the memory of @map is not what its image holds, 0, or -PTM_E_*. */
static int is_altered(struct ptm_images *images, pid_t pid, const struct ptm_rec_map *map)
{
	int fd = open_image(images, map->image, O_RDONLY);
	bool altered = false;
	uint64_t at = map->begin;

	if (fd < 0)
		return fd;
	while (at < map->end && !altered) {
		size_t want = map->end - at < HALF ? (size_t)(map->end - at) : HALF;
		uint64_t offset = map->offset + (at - map->begin);
		ssize_t n = pread(fd, images->chunk, want, (off_t)offset);
		size_t have;

		if (n <= 0)
			break;
		have = peek(pid, at, images->chunk + HALF, (size_t)n);
		altered = memcmp(images->chunk, images->chunk + HALF, have) != 0;
		at += have > 0 ? have : PAGE;
	}
	(void)close(fd);
	return altered;
}

static int dump(struct ptm_images *images, pid_t pid, const struct ptm_rec_map *map)
{
	int fd = open_image(images, map->image, O_WRONLY | O_CREAT);
	uint64_t at = map->begin;
	int ret = 0;

	if (fd < 0)
		return fd;
	while (ret == 0 && at < map->end) {
		size_t want =
			map->end - at < PTM_REC_CHUNK ? (size_t)(map->end - at) : PTM_REC_CHUNK;
		size_t n = peek(pid, at, images->chunk, want);

		if (n > 0 && write_all(fd, images->chunk, n, at - map->begin) < 0)
			ret = ptm_rec_fail(images->err, "write the memory in", images->dir);
		at += n > 0 ? n : PAGE;
	}
	if (close(fd) < 0 && ret == 0)
		ret = ptm_rec_fail(images->err, "write the memory in", images->dir);
	return ret;
}

/* Copy the memory of @map if no file holds it. */
static int update(struct ptm_images *images, pid_t pid, struct ptm_rec_map *map)
{
	if (images->images.v[map->image].source != NULL) {
		int ret = is_altered(images, pid, map);

		if (ret <= 0)
			return ret;
		PTM_TRY(add_image(images, NULL, &map->image));
	}
	return dump(images, pid, map);
}

static struct ptm_rec_map *find(struct ptm_images *images, const struct ptm_rec_map *map,
				const char *path)
{
	for (size_t i = 0; i < images->maps.n; i++) {
		struct ptm_rec_map *known = &images->maps.v[i];

		if (known->begin == map->begin && known->end == map->end &&
		    known->offset == map->offset && strcmp(known->path, path) == 0)
			return known;
	}
	return NULL;
}

/* Takes over @map but for its path, which is copied. */
static int push_map(struct ptm_images *images, struct ptm_rec_map map, const char *path)
{
	map.live = true;
	map.path = strdup(path);
	if (map.path == NULL || !ptm_vec_push(&images->maps, map)) {
		free(map.path);
		return no_memory(images);
	}
	return 0;
}

static int add_map(struct ptm_images *images, pid_t pid, struct ptm_rec_map map, const char *path)
{
	struct ptm_rec_map *known = find(images, &map, path);
	int ret = 1;

	if (known != NULL) {
		known->live = true;
		return 0;
	}
	if (path[0] == '/')
		PTM_TRY(ret = file_image(images, path, &map.image));
	if (ret > 0)
		PTM_TRY(add_image(images, NULL, &map.image));
	PTM_TRY(update(images, pid, &map));
	return push_map(images, map, path);
}

int ptm_images_add_file(struct ptm_images *images, const char *path, uint64_t begin, uint64_t end,
			uint64_t offset, size_t *image)
{
	struct ptm_rec_map map = {.begin = begin, .end = end, .offset = offset};
	int ret = file_image(images, path, &map.image);

	if (ret != 0)
		return ret;
	*image = map.image;
	return find(images, &map, path) != NULL ? 0 : push_map(images, map, path);
}

int ptm_images_add_memory(struct ptm_images *images, uint64_t begin, const uint8_t *bytes,
			  size_t len)
{
	struct ptm_rec_map map = {.begin = begin, .end = begin + len};
	bool bad;
	int fd;

	PTM_TRY(add_image(images, NULL, &map.image));
	PTM_TRY(fd = open_image(images, map.image, O_WRONLY | O_CREAT));
	bad = write_all(fd, bytes, len, 0) < 0;
	if (close(fd) < 0 || bad)
		return ptm_rec_fail(images->err, "write the memory in", images->dir);
	return push_map(images, map, "");
}

char *ptm_images_path(const struct ptm_images *images, size_t i)
{
	return path_of(images, images->images.v[i].name);
}

int ptm_images_scan(struct ptm_images *images, pid_t pid)
{
	char name[64], *line = NULL;
	size_t size = 0;
	int ret = 0;
	FILE *f;

	(void)snprintf(name, sizeof(name), "/proc/%d/maps", (int)pid);
	f = fopen(name, "re");
	if (f == NULL)
		return ptm_rec_fail(images->err, "open", name);
	for (size_t i = 0; i < images->maps.n; i++)
		images->maps.v[i].live = false;
	while (ret == 0 && getline(&line, &size, f) > 0) {
		struct ptm_rec_map map = {0};
		char perms[5];
		int path = 0;

		line[strcspn(line, "\n")] = '\0';
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %n", &map.begin,
			   &map.end, perms, &map.offset, &path) < 4 ||
		    path == 0)
			ret = PTM_FAIL(images->err, PTM_E_SYSTEM,
				       "Cannot understand \"%s\": \"%s\"", name, line);
		else if (strchr(perms, 'x') != NULL && strcmp(line + path, "[vsyscall]") != 0)
			ret = add_map(images, pid, map, line + path);
	}
	free(line);
	(void)fclose(f);
	return ret;
}

int ptm_images_refresh(struct ptm_images *images, pid_t pid, uint64_t begin, uint64_t end)
{
	for (size_t i = 0; i < images->maps.n; i++) {
		struct ptm_rec_map *map = &images->maps.v[i];

		if (map->live && map->begin < end && begin < map->end)
			PTM_TRY(update(images, pid, map));
	}
	return 0;
}

/* Build-id, if it is a copy of an ELF file, and digest. */
static int identify(struct ptm_images *images, struct ptm_rec_image *image, const char *path)
{
	uint64_t bytes;

	if (image->source != NULL) {
		struct ptm_map map;

		PTM_TRY(ptm_map_open(&map, path, images->err));
		ptm_elf_build_id(&map, image->build_id);
		ptm_map_close(&map);
	}
	return ptm_hash_file(path, NULL, &image->digest, &bytes, images->err);
}

/* The name of @image among those before it; sets @twin if one of them has the same bytes. */
static char *choose_name(const struct ptm_images *images, const struct ptm_rec_image *image,
			 const struct ptm_rec_image **twin)
{
	bool taken = image->build_id[0] == '\0';
	char *name;

	*twin = NULL;
	for (const struct ptm_rec_image *it = images->images.v; it < image; it++) {
		if (!it->used)
			continue;
		if (it->digest == image->digest) {
			*twin = it;
			return strdup(it->name);
		}
		/* Stripped, or patched: the build-id is the same, the bytes are not. */
		taken = taken || strcmp(it->name, image->build_id) == 0;
	}
	if (!taken)
		return strdup(image->build_id);
	return asprintf(&name, "%016" PRIx64, image->digest) < 0 ? NULL : name;
}

static int settle(struct ptm_images *images, struct ptm_rec_image *image)
{
	const struct ptm_rec_image *twin = NULL;
	char *from = path_of(images, image->name), *name = NULL, *to = NULL;
	int ret = 0;

	if (from == NULL)
		return no_memory(images);
	if (image->used)
		ret = identify(images, image, from);
	if (ret == 0 && image->used) {
		name = choose_name(images, image, &twin);
		to = name != NULL ? path_of(images, name) : NULL;
		ret = to != NULL ? 0 : no_memory(images);
	}
	if (ret == 0 && (!image->used || twin != NULL)) {
		ret = unlink(from) < 0 ? ptm_rec_fail(images->err, "remove", from) : 0;
	} else if (ret == 0) {
		ret = rename(from, to) < 0 ? ptm_rec_fail(images->err, "rename", from) : 0;
	}
	if (twin != NULL)
		memcpy(image->build_id, twin->build_id, sizeof(image->build_id));
	if (name != NULL) {
		free(image->name);
		image->name = name;
	}
	free(from);
	free(to);
	return ret;
}

/* Move what was there at the last scan behind what was not; the order is kept otherwise. */
static int move_live_back(struct ptm_images *images)
{
	struct ptm_rec_map *sorted = calloc(images->maps.cap, sizeof(*sorted));
	size_t n = 0;

	if (sorted == NULL && images->maps.cap > 0)
		return no_memory(images);
	for (int live = 0; live <= 1; live++)
		for (size_t i = 0; i < images->maps.n; i++)
			if (images->maps.v[i].live == (live != 0))
				sorted[n++] = images->maps.v[i];
	free(images->maps.v);
	images->maps.v = sorted;
	return 0;
}

int ptm_images_settle(struct ptm_images *images)
{
	PTM_TRY(move_live_back(images));
	for (size_t i = 0; i < images->maps.n; i++)
		images->images.v[images->maps.v[i].image].used = true;
	for (size_t i = 0; i < images->images.n; i++)
		PTM_TRY(settle(images, &images->images.v[i]));
	return 0;
}

uint64_t ptm_images_offset(const struct ptm_images *images, const struct ptm_rec_map *map)
{
	return images->images.v[map->image].source != NULL ? map->offset : 0;
}
