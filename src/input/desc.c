/* SPDX-License-Identifier: Apache-2.0
 *
 * desc.c - descriptions: which kind a path is, and what their readers share.
 */
#include "input/desc_priv.h"

#include "os/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CAPTURE_NAME "capture.json"
#define LLDB_NAME    "trace.json"

void ptm_desc_map_fini(struct ptm_desc_map *map)
{
	free(map->path);
	free(map->name);
	free(map->build_id);
}

void ptm_desc_stream_fini(struct ptm_desc_stream *stream)
{
	free(stream->name);
	free(stream->path);
	free(stream->truth);
	free(stream->switches.v);
	free(stream->blocks.digests.v);
}

void ptm_desc_fini(struct ptm_desc *desc)
{
	if (desc == NULL)
		return;
	for (size_t i = 0; i < desc->processes.n; i++) {
		struct ptm_desc_process *process = &desc->processes.v[i];

		for (size_t k = 0; k < process->maps.n; k++)
			ptm_desc_map_fini(&process->maps.v[k]);
		free(process->maps.v);
		free(process->tids.v);
	}
	for (size_t i = 0; i < desc->kernel.n; i++)
		ptm_desc_map_fini(&desc->kernel.v[i]);
	for (size_t i = 0; i < desc->streams.n; i++)
		ptm_desc_stream_fini(&desc->streams.v[i]);
	free(desc->processes.v);
	free(desc->kernel.v);
	free(desc->streams.v);
	free(desc->path);
	*desc = (struct ptm_desc){0};
}

int ptm_desc_no_memory(const struct ptm_json_at *at, struct ptm_error *err)
{
	return ptm_json_fail(at, PTM_E_NOMEM, err, "out of memory");
}

int ptm_desc_get_text(const struct ptm_json_at *at, const char **text, struct ptm_error *err)
{
	PTM_TRY(ptm_json_get_str(at, text, err));
	return (*text)[0] != '\0' ? 0 : ptm_json_fail(at, PTM_E_FORMAT, err, "must not be empty");
}

int ptm_desc_get_u32(const struct ptm_json_at *at, uint32_t *v, struct ptm_error *err)
{
	uint64_t wide;

	PTM_TRY(ptm_json_get_number(at, 0, UINT32_MAX, &wide, err));
	*v = (uint32_t)wide;
	return 0;
}

int ptm_desc_get_time(const struct ptm_json_at *at, const struct ptm_desc_time_keys *keys,
		      struct ptm_desc_time *time, struct ptm_error *err)
{
	struct ptm_json_at mult = ptm_json_member(at, keys->mult);
	struct ptm_json_at shift = ptm_json_member(at, keys->shift);
	struct ptm_json_at zero = ptm_json_member(at, keys->zero);
	uint64_t m, s;

	if (!ptm_json_is_there(at))
		return 0;
	PTM_TRY(ptm_json_check_object(at, err));
	PTM_TRY(ptm_json_get_number(&mult, 1, UINT32_MAX, &m, err));
	PTM_TRY(ptm_json_get_number(&shift, 0, 63, &s, err));
	PTM_TRY(ptm_json_get_u64(&zero, &time->zero, err));
	time->mult = (uint32_t)m;
	time->shift = (uint16_t)s;
	time->known = true;
	return 0;
}

char *ptm_desc_join(const char *dir, const char *path)
{
	char *joined;

	if (path[0] == '/' || dir[0] == '\0')
		return strdup(path);
	if (asprintf(&joined, "%s%s%s", dir, dir[strlen(dir) - 1] == '/' ? "" : "/", path) < 0)
		return NULL;
	return joined;
}

char *ptm_desc_clean(const char *text)
{
	char *copy = strdup(text);

	for (char *c = copy; c != NULL && *c != '\0'; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	return copy;
}

int ptm_desc_set_build_id(struct ptm_desc_map *map, const struct ptm_json_at *at, const char *text,
			  struct ptm_error *err)
{
	static const char digits[] = "0123456789abcdefABCDEF";
	size_t n = 0;

	map->build_id = (char *)malloc(strlen(text) + 1);
	if (map->build_id == NULL)
		return ptm_desc_no_memory(at, err);
	for (; *text != '\0'; text++) {
		const char *digit = strchr(digits, *text);

		if (*text == '-')
			continue;
		if (digit == NULL)
			return ptm_json_fail(at, PTM_E_FORMAT, err, "must be hexadecimal");
		map->build_id[n++] =
			(char)(*text >= 'A' && *text <= 'F' ? *text - 'A' + 'a' : *text);
	}
	map->build_id[n] = '\0';
	if (n % 2 != 0 || n > (size_t)2 * PTM_DESC_MAX_BUILD_ID)
		return ptm_json_fail(at, PTM_E_FORMAT, err,
				     "must have two digits a byte, and at most %d bytes",
				     PTM_DESC_MAX_BUILD_ID);
	return 0;
}

static int compare_ids(const void *a, const void *b)
{
	const struct ptm_desc_id *x = (const struct ptm_desc_id *)a;
	const struct ptm_desc_id *y = (const struct ptm_desc_id *)b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

void ptm_desc_ids_sort(struct ptm_desc_ids *ids)
{
	if (ids->list.n > 1)
		qsort(ids->list.v, ids->list.n, sizeof(*ids->list.v), compare_ids);
}

const struct ptm_desc_id *ptm_desc_ids_twice(const struct ptm_desc_ids *ids)
{
	for (size_t i = 1; i < ids->list.n; i++)
		if (ids->list.v[i].id == ids->list.v[i - 1].id)
			return &ids->list.v[i];
	return NULL;
}

const struct ptm_desc_id *ptm_desc_ids_find(const struct ptm_desc_ids *ids, uint32_t id)
{
	size_t lo = 0, hi = ids->list.n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (ids->list.v[mid].id < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < ids->list.n && ids->list.v[lo].id == id ? &ids->list.v[lo] : NULL;
}

static bool is_regular(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static bool is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool holds(const char *dir, const char *name)
{
	char *path = ptm_desc_join(dir, name);
	bool is = path != NULL && is_regular(path);

	free(path);
	return is;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}

/* A .json file under a name of its own: by its first bytes. */
static enum ptm_desc_kind probe_content(const char *path)
{
	struct ptm_file *file = ptm_file_open(path, NULL);
	char head[4097];
	int64_t n = file != NULL ? ptm_file_read(file, head, sizeof(head) - 1, NULL) : 0;

	ptm_file_close(file);
	if (n <= 0)
		return PTM_DESC_NONE;
	head[n] = '\0';
	if (head[strspn(head, " \t\r\n")] != '{')
		return PTM_DESC_NONE;
	return strstr(head, "\"ptmill-capture\"") != NULL ? PTM_DESC_CAPTURE : PTM_DESC_LLDB;
}

enum ptm_desc_kind ptm_desc_probe(const char *path)
{
	const char *name = base_name(path);
	size_t len = strlen(name);

	if (is_dir(path)) {
		if (holds(path, CAPTURE_NAME))
			return PTM_DESC_CAPTURE;
		return holds(path, LLDB_NAME) ? PTM_DESC_LLDB : PTM_DESC_NONE;
	}
	/* Others are opened by name only if they may be read without waiting. */
	if (!is_regular(path))
		return PTM_DESC_NONE;
	if (strcmp(name, CAPTURE_NAME) == 0)
		return PTM_DESC_CAPTURE;
	if (strcmp(name, LLDB_NAME) == 0)
		return PTM_DESC_LLDB;
	return len > 5 && strcmp(name + len - 5, ".json") == 0 ? probe_content(path)
							       : PTM_DESC_NONE;
}

/* The path of the JSON file and the directory it lies in, both owned by the caller. */
static int locate(const char *path, enum ptm_desc_kind kind, char **file, char **dir)
{
	const char *base;

	if (is_dir(path))
		*file = ptm_desc_join(path, kind == PTM_DESC_CAPTURE ? CAPTURE_NAME : LLDB_NAME);
	else
		*file = strdup(path);
	if (*file == NULL)
		return -1;
	base = base_name(*file);
	/* "/" stays; "a/" becomes "a". */
	*dir = strndup(*file, (size_t)(base - *file) - (base - *file > 1 ? 1 : 0));
	return *dir != NULL ? 0 : -1;
}

int ptm_desc_read(struct ptm_desc *desc, const char *path, enum ptm_desc_kind kind,
		  struct ptm_error *err)
{
	struct ptm_json_doc *doc = NULL;
	struct ptm_error local;
	char *dir = NULL;
	int ret;

	if (err == NULL)
		err = &local;
	*desc = (struct ptm_desc){0};
	if (locate(path, kind, &desc->path, &dir) < 0) {
		ret = PTM_FAIL(err, PTM_E_NOMEM, "Cannot read \"%s\": out of memory", path);
		goto out;
	}
	doc = ptm_json_read_file(desc->path, err);
	if (doc == NULL)
		ret = -(int)err->code;
	else if (kind == PTM_DESC_CAPTURE)
		ret = ptm_capture_read(desc, doc, dir, err);
	else
		ret = ptm_lldb_read(desc, doc, dir, err);
out:
	ptm_json_doc_destroy(doc);
	free(dir);
	if (ret < 0)
		ptm_desc_fini(desc);
	return ret;
}

int ptm_desc_check_size(const char *path, const struct ptm_desc_sum *sum, uint64_t bytes,
			struct ptm_error *err)
{
	if (!sum->known || bytes == sum->bytes)
		return 0;
	return PTM_FAIL(err, PTM_E_FORMAT,
			"%s: the file is not what capture.json says (size %" PRIu64 ", not %" PRIu64
			")",
			path, bytes, sum->bytes);
}

int ptm_desc_check(const char *path, const struct ptm_desc_sum *sum, const atomic_bool *cancel,
		   struct ptm_error *err)
{
	uint64_t digest, bytes;

	if (!sum->known)
		return 0;
	PTM_TRY(ptm_hash_file(path, cancel, &digest, &bytes, err));
	PTM_TRY(ptm_desc_check_size(path, sum, bytes, err));
	if (digest != sum->digest)
		return PTM_FAIL(err, PTM_E_FORMAT,
				"%s: the file is not what capture.json says (digest 0x%016" PRIx64
				", not 0x%016" PRIx64 ")",
				path, digest, sum->digest);
	return 0;
}
