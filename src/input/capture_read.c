/* SPDX-License-Identifier: Apache-2.0
 *
 * capture_read.c - our own captures, as docs/capture-format.md defines them.
 */
#include "input/capture_path.h"
#include "input/desc_priv.h"
#include "input/switches.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	VERSION = 1,
	MAX_NAME = 64, /* of a stream */
	MIN_BLOCK = 4096,
	MAX_BLOCK = 16 << 20,
	DIGITS = 16, /* of the digest of a block */
};

struct reader {
	struct ptm_desc *desc;
	struct ptm_capture_root root;
	struct ptm_error *err;
	struct ptm_desc_ids pids, cpus; /* pids: sorted once they are read */
	size_t switches;                /* how many more may be read */
};

/* A member that must be a number up to @max. */
static int get_number(struct reader *r, const struct ptm_json_at *object, const char *key,
		      uint64_t max, uint64_t *v)
{
	struct ptm_json_at at = ptm_json_member(object, key);

	return ptm_json_get_number(&at, 0, max, v, r->err);
}

/* The same for one that may be absent: 0. */
static int get_optional(struct reader *r, const struct ptm_json_at *object, const char *key,
			uint64_t max, uint64_t *v)
{
	struct ptm_json_at at = ptm_json_member(object, key);

	*v = 0;
	return ptm_json_is_there(&at) ? ptm_json_get_number(&at, 0, max, v, r->err) : 0;
}

static int get_u64(struct reader *r, const struct ptm_json_at *object, const char *key, uint64_t *v)
{
	struct ptm_json_at at = ptm_json_member(object, key);

	return ptm_json_get_u64(&at, v, r->err);
}

static int get_u32(struct reader *r, const struct ptm_json_at *object, const char *key, uint32_t *v)
{
	struct ptm_json_at at = ptm_json_member(object, key);

	return ptm_desc_get_u32(&at, v, r->err);
}

static int read_format(struct reader *r, const struct ptm_json_at *root)
{
	struct ptm_json_at format = ptm_json_member(root, "format");
	struct ptm_json_at version = ptm_json_member(root, "version");
	const char *name;
	uint64_t v;

	PTM_TRY(ptm_json_check_object(root, r->err));
	PTM_TRY(ptm_json_get_str(&format, &name, r->err));
	if (strcmp(name, "ptmill-capture") != 0)
		return ptm_json_fail(&format, PTM_E_FORMAT, r->err, "must be \"ptmill-capture\"");
	PTM_TRY(ptm_json_get_number(&version, 0, UINT64_MAX, &v, r->err));
	if (v != VERSION)
		return ptm_json_fail(&version, PTM_E_FORMAT, r->err,
				     "%" PRIu64 " is not known here, only %d is", v, VERSION);
	return 0;
}

static int read_cpu(struct reader *r, const struct ptm_json_at *root)
{
	struct ptm_json_at cpu = ptm_json_member(root, "cpu");
	struct ptm_json_at vendor = ptm_json_member(&cpu, "vendor");
	uint64_t family, model, stepping;
	const char *name;

	if (!ptm_json_is_there(&cpu))
		return 0;
	PTM_TRY(ptm_json_check_object(&cpu, r->err));
	PTM_TRY(ptm_json_get_str(&vendor, &name, r->err));
	PTM_TRY(get_number(r, &cpu, "family", UINT16_MAX, &family));
	PTM_TRY(get_number(r, &cpu, "model", UINT8_MAX, &model));
	PTM_TRY(get_number(r, &cpu, "stepping", 15, &stepping));
	if (strcmp(name, "GenuineIntel") != 0)
		return 0;
	r->desc->has_cpu = true;
	r->desc->family = (uint16_t)family;
	r->desc->model = (uint8_t)model;
	r->desc->stepping = (uint8_t)stepping;
	return 0;
}

static int read_perf_time(struct reader *r, const struct ptm_json_at *clocks)
{
	static const struct ptm_desc_time_keys keys = {"mult", "shift", "zero"};
	struct ptm_json_at perf = ptm_json_member(clocks, "perf");

	return ptm_desc_get_time(&perf, &keys, &r->desc->time, r->err);
}

static int read_clocks(struct reader *r, const struct ptm_json_at *root)
{
	struct ptm_json_at clocks = ptm_json_member(root, "clocks");
	struct ptm_json_at leaf = ptm_json_member(&clocks, "cpuid_0x15");
	uint64_t mtc, nom;

	if (!ptm_json_is_there(&clocks))
		return 0;
	PTM_TRY(ptm_json_check_object(&clocks, r->err));
	PTM_TRY(get_optional(r, &clocks, "mtc_freq", 15, &mtc));
	PTM_TRY(get_optional(r, &clocks, "nom_freq", UINT8_MAX, &nom));
	r->desc->mtc_freq = (uint8_t)mtc;
	r->desc->nom_freq = (uint8_t)nom;
	if (ptm_json_is_there(&leaf)) {
		PTM_TRY(ptm_json_check_object(&leaf, r->err));
		PTM_TRY(get_u32(r, &leaf, "eax", &r->desc->cpuid_0x15_eax));
		PTM_TRY(get_u32(r, &leaf, "ebx", &r->desc->cpuid_0x15_ebx));
	}
	return read_perf_time(r, &clocks);
}

static int read_range(struct reader *r, const struct ptm_json_at *mapping, struct ptm_desc_map *map)
{
	struct ptm_json_at size = ptm_json_member(mapping, "size");
	uint64_t last;

	PTM_TRY(get_u64(r, mapping, "address", &map->address));
	PTM_TRY(ptm_json_get_u64(&size, &map->size, r->err));
	PTM_TRY(get_u64(r, mapping, "offset", &map->file_offset));
	if (map->size == 0)
		return ptm_json_fail(&size, PTM_E_FORMAT, r->err, "must not be 0");
	if (__builtin_add_overflow(map->address, map->size - 1, &last))
		return ptm_json_fail(mapping, PTM_E_FORMAT, r->err,
				     "its address and size go beyond 2^64");
	if (__builtin_add_overflow(map->file_offset, map->size, &last))
		return ptm_json_fail(mapping, PTM_E_FORMAT, r->err,
				     "its offset and size go beyond 2^64");
	return 0;
}

static int read_build_id(struct reader *r, const struct ptm_json_at *mapping,
			 struct ptm_desc_map *map)
{
	struct ptm_json_at id = ptm_json_member(mapping, "build_id");
	const char *text = "";

	if (ptm_json_is_there(&id))
		PTM_TRY(ptm_json_get_str(&id, &text, r->err));
	if (strchr(text, '-') != NULL)
		return ptm_json_fail(&id, PTM_E_FORMAT, r->err, "must be hexadecimal");
	return ptm_desc_set_build_id(map, &id, text, r->err);
}

static int read_mapping(struct reader *r, const struct ptm_json_at *mapping,
			struct ptm_desc_map *map)
{
	struct ptm_json_at image = ptm_json_member(mapping, "image");
	struct ptm_json_at path = ptm_json_member(mapping, "path");
	struct ptm_json_at from = ptm_json_member(mapping, "from");
	const char *name;

	PTM_TRY(ptm_json_check_object(mapping, r->err));
	PTM_TRY(read_range(r, mapping, map));
	PTM_TRY(ptm_capture_path(&r->root, &image, &map->path, r->err));
	PTM_TRY(ptm_desc_get_text(&path, &name, r->err));
	PTM_TRY(read_build_id(r, mapping, map));
	if (ptm_json_is_there(&from))
		return ptm_json_fail(&from, PTM_E_FORMAT, r->err,
				     "reserved, not known in version %d", VERSION);
	map->name = ptm_desc_clean(name);
	return map->name != NULL ? 0 : ptm_desc_no_memory(mapping, r->err);
}

/* The optional member @key, an array of mappings, of the process @p or, if NULL, of the kernel. */
static int read_mappings(struct reader *r, const struct ptm_json_at *object, const char *key,
			 size_t p)
{
	struct ptm_json_at mappings = ptm_json_member(object, key);
	size_t n;

	if (!ptm_json_is_there(&mappings))
		return 0;
	PTM_TRY(ptm_json_get_array(&mappings, &n, r->err));
	for (size_t i = 0; i < n; i++) {
		struct ptm_json_at mapping = ptm_json_element(&mappings, i);
		struct ptm_desc_map map = {0};
		int ret = read_mapping(r, &mapping, &map);

		if (ret == 0 &&
		    !(p == PTM_DESC_NO_PROCESS ? ptm_vec_push(&r->desc->kernel, map)
					       : ptm_vec_push(&r->desc->processes.v[p].maps, map)))
			ret = ptm_desc_no_memory(&mapping, r->err);
		if (ret < 0) {
			ptm_desc_map_fini(&map);
			return ret;
		}
	}
	return 0;
}

static int read_threads(struct reader *r, const struct ptm_json_at *process, size_t p)
{
	struct ptm_json_at threads = ptm_json_member(process, "threads");
	size_t n;

	if (!ptm_json_is_there(&threads))
		return 0;
	PTM_TRY(ptm_json_get_array(&threads, &n, r->err));
	for (size_t i = 0; i < n; i++) {
		struct ptm_json_at thread = ptm_json_element(&threads, i);
		uint32_t tid;

		PTM_TRY(ptm_desc_get_u32(&thread, &tid, r->err));
		if (!ptm_vec_push(&r->desc->processes.v[p].tids, tid))
			return ptm_desc_no_memory(&thread, r->err);
	}
	return 0;
}

static int read_process(struct reader *r, const struct ptm_json_at *at)
{
	size_t p = r->desc->processes.n;
	struct ptm_desc_process process = {0};
	struct ptm_desc_id id = {.index = p};

	PTM_TRY(ptm_json_check_object(at, r->err));
	PTM_TRY(get_u32(r, at, "pid", &process.pid));
	id.id = process.pid;
	if (!ptm_vec_push(&r->desc->processes, process) || !ptm_vec_push(&r->pids.list, id))
		return ptm_desc_no_memory(at, r->err);
	PTM_TRY(read_threads(r, at, p));
	return read_mappings(r, at, "mappings", p);
}

/* Fail for the element of @array that is the second of its kind. */
static int check_unique(struct reader *r, const struct ptm_json_at *array, struct ptm_desc_ids *ids,
			const char *what)
{
	const struct ptm_desc_id *twice;
	struct ptm_json_at at;

	ptm_desc_ids_sort(ids);
	twice = ptm_desc_ids_twice(ids);
	if (twice == NULL)
		return 0;
	at = ptm_json_element(array, twice->index);
	return ptm_json_fail(&at, PTM_E_FORMAT, r->err, "%s %" PRIu32 " stands twice", what,
			     twice->id);
}

static int read_processes(struct reader *r, const struct ptm_json_at *root)
{
	struct ptm_json_at processes = ptm_json_member(root, "processes");
	size_t n;

	if (!ptm_json_is_there(&processes))
		return 0;
	PTM_TRY(ptm_json_get_array(&processes, &n, r->err));
	for (size_t i = 0; i < n; i++) {
		struct ptm_json_at process = ptm_json_element(&processes, i);

		PTM_TRY(read_process(r, &process));
	}
	return check_unique(r, &processes, &r->pids, "process");
}

static int read_name(struct reader *r, const struct ptm_json_at *at, struct ptm_desc_stream *stream)
{
	struct ptm_json_at name = ptm_json_member(at, "name");
	const char *text;
	size_t len;

	PTM_TRY(ptm_json_get_str(&name, &text, r->err));
	len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-:");
	if (len == 0 || len > MAX_NAME || text[len] != '\0')
		return ptm_json_fail(&name, PTM_E_FORMAT, r->err,
				     "must be 1 to %d letters, digits, and . _ - :", MAX_NAME);
	stream->name = strdup(text);
	return stream->name != NULL ? 0 : ptm_desc_no_memory(&name, r->err);
}

/* The members @bytes and @xxh3_64, exactly "0x" and 16 digits, of a file. */
static int read_sum(struct reader *r, const struct ptm_json_at *at, const char *bytes,
		    const char *xxh3_64, struct ptm_desc_sum *sum)
{
	struct ptm_json_at digest = ptm_json_member(at, xxh3_64);
	const char *text;

	PTM_TRY(get_u64(r, at, bytes, &sum->bytes));
	PTM_TRY(ptm_json_get_str(&digest, &text, r->err));
	if (strlen(text) != 18 || memcmp(text, "0x", 2) != 0 ||
	    strspn(text + 2, "0123456789abcdefABCDEF") != 16)
		return ptm_json_fail(&digest, PTM_E_FORMAT, r->err,
				     "must be \"0x\" and 16 hexadecimal digits");
	sum->digest = strtoull(text, NULL, 16);
	sum->known = true;
	return 0;
}

/* 16 digits, lower case, without "0x". */
static bool parse_digits(const char *text, uint64_t *v)
{
	*v = 0;
	for (int i = 0; i < DIGITS; i++) {
		const char c = text[i];

		if ((c < '0' || c > '9') && (c < 'a' || c > 'f'))
			return false;
		*v = *v << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	return true;
}

/* The digests of the blocks of the trace, whose size is known. */
static int read_blocks(struct reader *r, const struct ptm_json_at *at,
		       struct ptm_desc_stream *stream)
{
	struct ptm_json_at blocks = ptm_json_member(at, "blocks");
	struct ptm_json_at size = ptm_json_member(&blocks, "size");
	struct ptm_json_at digits = ptm_json_member(&blocks, "xxh3_64");
	struct ptm_block_sums *sums = &stream->blocks;
	const char *text;
	uint64_t n, digest;

	if (!ptm_json_is_there(&blocks))
		return 0;
	PTM_TRY(ptm_json_check_object(&blocks, r->err));
	PTM_TRY(ptm_json_get_number(&size, MIN_BLOCK, MAX_BLOCK, &sums->size, r->err));
	if ((sums->size & (sums->size - 1)) != 0)
		return ptm_json_fail(&size, PTM_E_FORMAT, r->err, "must be a power of two");
	PTM_TRY(ptm_json_get_str(&digits, &text, r->err));
	n = stream->sum.bytes / sums->size + (stream->sum.bytes % sums->size != 0);
	if (strlen(text) != n * DIGITS)
		return ptm_json_fail(&digits, PTM_E_FORMAT, r->err,
				     "must have %" PRIu64 " digits, %d a block", n * DIGITS,
				     DIGITS);
	if (!ptm_vec_reserve(&sums->digests, (size_t)n))
		return ptm_desc_no_memory(&digits, r->err);
	for (; *text != '\0'; text += DIGITS) {
		if (!parse_digits(text, &digest))
			return ptm_json_fail(&digits, PTM_E_FORMAT, r->err,
					     "must be lower-case hexadecimal digits");
		if (!ptm_vec_push(&sums->digests, digest))
			return ptm_desc_no_memory(&digits, r->err);
	}
	return 0;
}

/* What was executed, and, both or neither, size and digest of that file. */
static int read_truth(struct reader *r, const struct ptm_json_at *at,
		      struct ptm_desc_stream *stream)
{
	struct ptm_json_at truth = ptm_json_member(at, "truth");
	struct ptm_json_at bytes = ptm_json_member(at, "truth_bytes");
	struct ptm_json_at digest = ptm_json_member(at, "truth_xxh3_64");

	if (!ptm_json_is_there(&truth))
		return 0;
	PTM_TRY(ptm_capture_path(&r->root, &truth, &stream->truth, r->err));
	if (!ptm_json_is_there(&bytes) && !ptm_json_is_there(&digest))
		return 0;
	return read_sum(r, at, "truth_bytes", "truth_xxh3_64", &stream->truth_sum);
}

/* Whose trace it is. */
static int read_owner(struct reader *r, const struct ptm_json_at *at, size_t index,
		      struct ptm_desc_stream *stream)
{
	struct ptm_json_at kind = ptm_json_member(at, "kind");
	struct ptm_json_at pid = ptm_json_member(at, "pid");
	struct ptm_desc_id id = {.index = index};
	const struct ptm_desc_id *process;
	const char *text;
	uint32_t p;

	PTM_TRY(ptm_json_get_str(&kind, &text, r->err));
	stream->process = PTM_DESC_NO_PROCESS;
	if (strcmp(text, "cpu") == 0) {
		PTM_TRY(get_u32(r, at, "cpu", &stream->cpu));
		id.id = stream->cpu;
		return ptm_vec_push(&r->cpus.list, id) ? 0 : ptm_desc_no_memory(at, r->err);
	}
	if (strcmp(text, "thread") != 0)
		return ptm_json_fail(&kind, PTM_E_FORMAT, r->err, "must be \"thread\" or \"cpu\"");
	PTM_TRY(ptm_desc_get_u32(&pid, &p, r->err));
	PTM_TRY(get_u32(r, at, "tid", &stream->tid));
	process = ptm_desc_ids_find(&r->pids, p);
	if (process == NULL)
		return ptm_json_fail(&pid, PTM_E_FORMAT, r->err, "not one of the processes");
	stream->process = process->index;
	return 0;
}

static int read_switches(struct reader *r, const struct ptm_json_at *at,
			 struct ptm_desc_stream *stream)
{
	struct ptm_json_at switches = ptm_json_member(at, "switches");
	char *path;
	int ret;

	if (!ptm_json_is_there(&switches))
		return 0;
	if (stream->process != PTM_DESC_NO_PROCESS)
		return ptm_json_fail(&switches, PTM_E_FORMAT, r->err,
				     "only a stream of kind \"cpu\" has them");
	if (!r->desc->time.known)
		return ptm_json_fail(&switches, PTM_E_FORMAT, r->err,
				     "clocks.perf must be given, too");
	PTM_TRY(ptm_capture_path(&r->root, &switches, &path, r->err));
	ret = ptm_switches_read(stream, &r->desc->time, path, &r->switches, r->err);
	free(path);
	return ret;
}

static int read_stream(struct reader *r, const struct ptm_json_at *at, size_t index,
		       struct ptm_desc_stream *stream)
{
	struct ptm_json_at file = ptm_json_member(at, "file");

	PTM_TRY(ptm_json_check_object(at, r->err));
	PTM_TRY(read_name(r, at, stream));
	PTM_TRY(read_owner(r, at, index, stream));
	PTM_TRY(ptm_capture_path(&r->root, &file, &stream->path, r->err));
	PTM_TRY(read_sum(r, at, "bytes", "xxh3_64", &stream->sum));
	PTM_TRY(read_blocks(r, at, stream));
	PTM_TRY(read_truth(r, at, stream));
	return read_switches(r, at, stream);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_names(struct reader *r, const struct ptm_json_at *streams)
{
	size_t n = r->desc->streams.n;
	const char **names = (const char **)calloc(n, sizeof(*names));
	int ret = 0;

	if (names == NULL)
		return ptm_desc_no_memory(streams, r->err);
	for (size_t i = 0; i < n; i++)
		names[i] = r->desc->streams.v[i].name;
	qsort(names, n, sizeof(*names), compare_names);
	for (size_t i = 1; i < n && ret == 0; i++)
		if (strcmp(names[i - 1], names[i]) == 0)
			ret = ptm_json_fail(streams, PTM_E_FORMAT, r->err,
					    "the name \"%s\" stands twice", names[i]);
	free(names);
	return ret;
}

static int read_streams(struct reader *r, const struct ptm_json_at *root)
{
	struct ptm_json_at streams = ptm_json_member(root, "streams");
	size_t n;

	PTM_TRY(ptm_json_get_array(&streams, &n, r->err));
	if (n == 0)
		return ptm_json_fail(&streams, PTM_E_FORMAT, r->err, "must not be empty");
	for (size_t i = 0; i < n; i++) {
		struct ptm_json_at at = ptm_json_element(&streams, i);
		struct ptm_desc_stream stream = {0};
		int ret = read_stream(r, &at, i, &stream);

		if (ret == 0 && !ptm_vec_push(&r->desc->streams, stream))
			ret = ptm_desc_no_memory(&at, r->err);
		if (ret < 0) {
			ptm_desc_stream_fini(&stream);
			return ret;
		}
	}
	PTM_TRY(check_names(r, &streams));
	return check_unique(r, &streams, &r->cpus, "CPU");
}

static int read_root(struct reader *r, const struct ptm_json_at *root)
{
	PTM_TRY(read_format(r, root));
	PTM_TRY(read_cpu(r, root));
	PTM_TRY(read_clocks(r, root));
	PTM_TRY(read_processes(r, root));
	PTM_TRY(read_mappings(r, root, "kernel", PTM_DESC_NO_PROCESS));
	return read_streams(r, root);
}

int ptm_capture_read(struct ptm_desc *desc, const struct ptm_json_doc *doc, const char *dir,
		     struct ptm_error *err)
{
	struct reader r = {.desc = desc, .err = err, .switches = PTM_MAX_SWITCHES};
	struct ptm_json_at root = ptm_json_root(doc);
	int ret = ptm_capture_root_init(&r.root, dir, err);

	if (ret == 0)
		ret = read_root(&r, &root);
	ptm_capture_root_fini(&r.root);
	free(r.pids.list.v);
	free(r.cpus.list.v);
	return ret;
}
