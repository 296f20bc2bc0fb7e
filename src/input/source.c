/* SPDX-License-Identifier: Apache-2.0
 *
 * source.c - streams over files: a table of pieces, found by binary search.
 */
#include "input/source_priv.h"

#include <stdlib.h>
#include <string.h>

struct ptm_sources {
	PTM_VEC(struct ptm_file *) files;     /* owned */
	PTM_VEC(struct ptm_source *) sources; /* owned */
};

struct ptm_sources *ptm_sources_create(void)
{
	return (struct ptm_sources *)calloc(1, sizeof(struct ptm_sources));
}

static void source_destroy(struct ptm_source *source)
{
	if (source == NULL)
		return;
	free(source->name);
	free(source->pieces.v);
	free(source);
}

void ptm_sources_destroy(struct ptm_sources *sources)
{
	if (sources == NULL)
		return;
	for (size_t i = 0; i < sources->sources.n; i++)
		source_destroy(sources->sources.v[i]);
	for (size_t i = 0; i < sources->files.n; i++)
		ptm_file_close(sources->files.v[i]);
	free(sources->sources.v);
	free(sources->files.v);
	free(sources);
}

struct ptm_source *ptm_sources_new(struct ptm_sources *sources, struct ptm_file *file,
				   const char *name)
{
	struct ptm_source *source = (struct ptm_source *)calloc(1, sizeof(*source));

	if (source == NULL)
		return NULL;
	source->file = file;
	source->name = strdup(name);
	if (source->name == NULL || !ptm_vec_push(&sources->sources, source)) {
		source_destroy(source);
		return NULL;
	}
	return source;
}

static struct ptm_file *find_file(const struct ptm_sources *sources, const char *path)
{
	for (size_t i = 0; i < sources->files.n; i++) {
		if (strcmp(ptm_file_path(sources->files.v[i]), path) == 0)
			return sources->files.v[i];
	}
	return NULL;
}

static int is_perf(struct ptm_file *file, struct ptm_error *err)
{
	char magic[8];
	int64_t n;

	if (!ptm_file_is_seekable(file))
		return 0;
	n = ptm_file_pread(file, magic, sizeof(magic), 0, err);
	if (n < 0)
		return (int)n;
	return n == (int64_t)sizeof(magic) && memcmp(magic, PTM_PERF_MAGIC, sizeof(magic)) == 0;
}

/* Open @path; the sources own the file. */
static int open_file(struct ptm_sources *sources, const char *path, struct ptm_file **file,
		     struct ptm_error *err)
{
	if (find_file(sources, path) != NULL)
		return PTM_FAIL(err, PTM_E_USAGE, "%s: named twice", path);
	*file = ptm_file_open(path, err);
	if (*file == NULL)
		return -(int)err->code;
	if (!ptm_vec_push(&sources->files, *file)) {
		ptm_file_close(*file);
		return PTM_FAIL(err, PTM_E_NOMEM, "%s: out of memory", path);
	}
	return 0;
}

static int add_raw(struct ptm_sources *sources, struct ptm_file *file, const char *name,
		   struct ptm_error *err)
{
	struct ptm_source *source = ptm_sources_new(sources, file, name);

	if (source == NULL)
		return PTM_FAIL(err, PTM_E_NOMEM, "%s: out of memory", name);
	source->size = ptm_file_size(file);
	return 0;
}

int ptm_sources_add(struct ptm_sources *sources, const char *path, struct ptm_error *err)
{
	struct ptm_file *file;
	int status;

	PTM_TRY(open_file(sources, path, &file, err));
	status = is_perf(file, err);
	if (status < 0)
		return status;
	if (status > 0)
		return ptm_sources_add_perf(sources, file, err);
	return add_raw(sources, file, path, err);
}

int ptm_sources_add_as(struct ptm_sources *sources, const char *path, const char *name,
		       struct ptm_error *err)
{
	struct ptm_file *file = find_file(sources, path);

	/* A bundle may say that two threads share a trace. */
	if (file == NULL || !ptm_file_is_seekable(file))
		PTM_TRY(open_file(sources, path, &file, err));
	return add_raw(sources, file, name, err);
}

size_t ptm_sources_count(const struct ptm_sources *sources)
{
	return sources->sources.n;
}

struct ptm_source *ptm_sources_get(const struct ptm_sources *sources, size_t i)
{
	return sources->sources.v[i];
}

const char *ptm_source_name(const struct ptm_source *source)
{
	return source->name;
}

const char *ptm_source_path(const struct ptm_source *source)
{
	return ptm_file_path(source->file);
}

bool ptm_source_is_seekable(const struct ptm_source *source)
{
	return ptm_file_is_seekable(source->file);
}

uint64_t ptm_source_size(const struct ptm_source *source)
{
	return source->size;
}

void ptm_source_set_blocks(struct ptm_source *source, const struct ptm_block_sums *blocks,
			   uint64_t bytes)
{
	if (ptm_source_is_seekable(source) && source->size == bytes && blocks->size != 0)
		source->blocks = blocks;
}

const struct ptm_block_sums *ptm_source_blocks(const struct ptm_source *source)
{
	return source->blocks;
}

uint64_t ptm_source_missing(const struct ptm_source *source)
{
	return source->missing;
}

/* Index of the piece that holds @offset, which is below the stream's size. */
static size_t find_piece(const struct ptm_source *source, uint64_t offset)
{
	size_t lo = 0, hi = source->pieces.n;

	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (source->pieces.v[mid].offset <= offset)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

static int64_t pread_pieces(struct ptm_source *source, uint8_t *buf, size_t len, uint64_t offset,
			    struct ptm_error *err)
{
	size_t done = 0;

	while (done < len && offset + done < source->size) {
		const struct ptm_piece *piece =
			&source->pieces.v[find_piece(source, offset + done)];
		uint64_t skip = offset + done - piece->offset;
		uint64_t room = piece->size - skip;
		size_t want = room < len - done ? (size_t)room : len - done;
		int64_t n = ptm_file_pread(source->file, buf + done, want,
					   piece->file_offset + skip, err);

		if (n < 0)
			return n;
		done += (size_t)n;
		if ((size_t)n < want)
			break;
	}
	return (int64_t)done;
}

int64_t ptm_source_pread(struct ptm_source *source, void *buf, size_t len, uint64_t offset,
			 struct ptm_error *err)
{
	if (source->pieces.n > 0)
		return pread_pieces(source, (uint8_t *)buf, len, offset, err);
	return ptm_file_pread(source->file, buf, len, offset, err);
}

int64_t ptm_source_read(struct ptm_source *source, void *buf, size_t len, struct ptm_error *err)
{
	return ptm_file_read(source->file, buf, len, err);
}

void ptm_sources_interrupt(const struct ptm_sources *sources)
{
	for (size_t i = 0; i < sources->files.n; i++)
		ptm_file_interrupt(sources->files.v[i]);
}
