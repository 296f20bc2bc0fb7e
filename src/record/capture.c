/* SPDX-License-Identifier: Apache-2.0
 *
 * capture.c - the directory that a recording is written to.
 *
 * Everything lies in a temporary directory beside the final one until it is committed; capture.json
 * is written last.
 */
#include "record/capture.h"

#include "os/hash.h"
#include "os/json.h"
#include "os/zst_write.h"
#include "record/images.h"
#include "record/seen.h"

#include <cpuid.h>
#include <ctype.h>
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Blocks of traces, of which the capture has digests: their size, unless there would be too many of
 * them.  All digests of a capture have 32 MiB of capture.json, which may have 64 MiB. */
#define BLOCK_MIN     (UINT64_C(16) << 10)
#define BLOCK_MAX     (UINT64_C(16) << 20)
#define BLOCKS_STREAM (UINT64_C(1) << 20)
#define BLOCKS_ALL    (UINT64_C(2) << 20)

/* The trace of a thread. */
struct ptm_cap_stream {
	struct ptm_capture *cap;
	uint32_t number;             /* of the thread */
	const struct ptm_feed *feed; /* borrowed */
	char *path;                  /* owned */
	/* One of these is open until the end. */
	FILE *plain;
	struct ptm_zst_out *packed;
	uint64_t bytes, digest;       /* of the file, once closed */
	struct ptm_block_sums blocks; /* of the same, if it is not compressed */
	uint64_t truth_bytes, truth_digest;
};

struct ptm_capture {
	struct ptm_record_config config;
	char *out, *tmp;                          /* owned */
	PTM_VEC(struct ptm_cap_stream *) streams; /* owned */
	struct ptm_error *err;
	bool made;       /* the temporary directory exists */
	bool committed;  /* ... under its final name */
	uint64_t blocks; /* that streams have digests of */
	struct ptm_images images;
	struct ptm_seen seen;
	struct ptm_cap_doubts doubts;
};

static int no_memory(struct ptm_error *err)
{
	return PTM_FAIL(err, PTM_E_NOMEM, "Cannot write the capture: out of memory");
}

/* The path of @name in the temporary directory; NULL when out of memory. */
static char *path_of(const struct ptm_capture *cap, const char *name)
{
	char *path;

	return asprintf(&path, "%s/%s", cap->tmp, name) < 0 ? NULL : path;
}

char *ptm_capture_temp(const struct ptm_capture *cap, const char *name)
{
	return path_of(cap, name);
}

enum { NAME_SIZE = 64 };

static void stream_file(const struct ptm_cap_stream *stream, char name[NAME_SIZE])
{
	(void)snprintf(name, NAME_SIZE, "streams/tid%" PRIu32 ".pt%s", stream->number,
		       stream->cap->config.compress ? ".zst" : "");
}

static void truth_file(const struct ptm_cap_stream *stream, char name[NAME_SIZE])
{
	(void)snprintf(name, NAME_SIZE, "truth/tid%" PRIu32 ".txt", stream->number);
}

static int make_dir(struct ptm_capture *cap, const char *path)
{
	if (path == NULL)
		return no_memory(cap->err);
	return mkdir(path, 0777) != 0 ? ptm_rec_fail(cap->err, "make directory", path) : 0;
}

static int make_dirs(struct ptm_capture *cap)
{
	static const char *const names[] = {"streams", "truth"};
	char *path;
	int ret;

	PTM_TRY(make_dir(cap, cap->tmp));
	cap->made = true;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		path = path_of(cap, names[i]);
		ret = make_dir(cap, path);
		free(path);
		PTM_TRY(ret);
	}
	path = path_of(cap, "images");
	ptm_images_init(&cap->images, path, cap->err);
	return make_dir(cap, path);
}

static int open_stream(struct ptm_cap_stream *stream)
{
	struct ptm_capture *cap = stream->cap;
	char name[NAME_SIZE];

	stream_file(stream, name);
	stream->path = path_of(cap, name);
	if (stream->path == NULL)
		return no_memory(cap->err);
	if (cap->config.compress) {
		stream->packed = ptm_zst_out_open(stream->path, cap->err);
		return stream->packed != NULL ? 0 : -(int)cap->err->code;
	}
	stream->plain = fopen(stream->path, "wbxe");
	return stream->plain != NULL ? 0 : ptm_rec_fail(cap->err, "create", stream->path);
}

struct ptm_cap_stream *ptm_capture_stream(struct ptm_capture *cap, uint32_t number,
					  const struct ptm_feed *feed)
{
	struct ptm_cap_stream *stream = calloc(1, sizeof(*stream));

	if (stream == NULL || !ptm_vec_push(&cap->streams, stream)) {
		free(stream);
		(void)no_memory(cap->err);
		return NULL;
	}
	stream->cap = cap;
	stream->number = number;
	stream->feed = feed;
	return open_stream(stream) == 0 ? stream : NULL;
}

struct ptm_images *ptm_capture_images(struct ptm_capture *cap)
{
	return &cap->images;
}

struct ptm_capture *ptm_capture_create(const char *out_dir, const struct ptm_record_config *config,
				       struct ptm_error *err)
{
	struct ptm_capture *cap = calloc(1, sizeof(*cap));
	size_t len = strlen(out_dir);
	struct stat sb;

	while (len > 1 && out_dir[len - 1] == '/')
		len--;
	if (cap == NULL || (cap->out = strndup(out_dir, len)) == NULL ||
	    asprintf(&cap->tmp, "%s.tmp-%d", cap->out, (int)getpid()) < 0) {
		(void)no_memory(err);
		goto fail;
	}
	cap->err = err;
	cap->config = *config;
	if (lstat(cap->out, &sb) == 0) {
		(void)PTM_FAIL(err, PTM_E_USAGE, "Cannot write capture \"%s\": it exists already",
			       cap->out);
		goto fail;
	}
	if (make_dirs(cap) == 0)
		return cap;
	ptm_capture_name_it(cap, err);
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
	for (size_t i = 0; i < cap->streams.n; i++) {
		struct ptm_cap_stream *stream = cap->streams.v[i];

		if (stream->plain != NULL)
			(void)fclose(stream->plain);
		ptm_zst_out_abort(stream->packed);
		free(stream->path);
		free(stream->blocks.digests.v);
		free(stream);
	}
	free(cap->streams.v);
	if (cap->made && !cap->committed)
		(void)nftw(cap->tmp, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	ptm_images_fini(&cap->images);
	ptm_seen_fini(&cap->seen);
	free(cap->out);
	free(cap->tmp);
	free(cap);
}

int ptm_capture_write(void *ctx, const uint8_t *bytes, size_t len)
{
	struct ptm_cap_stream *stream = ctx;
	struct ptm_error *err = stream->cap->err;

	if (stream->packed != NULL)
		return ptm_zst_out_write(stream->packed, bytes, len, err);
	return fwrite(bytes, 1, len, stream->plain) == len
		       ? 0
		       : ptm_rec_fail(err, "write the trace", stream->path);
}

int ptm_capture_code(void *ctx, uint64_t address, const uint8_t *bytes, size_t len)
{
	struct ptm_capture *cap = ctx;

	return ptm_seen_code(&cap->seen, address, bytes, len) == 0 ? 0 : no_memory(cap->err);
}

int ptm_capture_mappings(void *ctx, pid_t pid)
{
	return ptm_images_scan(&((struct ptm_capture *)ctx)->images, pid);
}

int ptm_capture_losing(void *ctx, pid_t pid, uint64_t begin, uint64_t end)
{
	return ptm_images_refresh(&((struct ptm_capture *)ctx)->images, pid, begin, end);
}

int ptm_capture_leaving(void *ctx, pid_t pid)
{
	PTM_TRY(ptm_capture_mappings(ctx, pid));
	return ptm_capture_losing(ctx, pid, 0, UINT64_MAX);
}

static int close_file(struct ptm_cap_stream *stream)
{
	struct ptm_zst_out *packed = stream->packed;
	struct ptm_error *err = stream->cap->err;
	FILE *plain = stream->plain;

	stream->packed = NULL;
	stream->plain = NULL;
	if (packed != NULL)
		return ptm_zst_out_finish(packed, err);
	return fclose(plain) == 0 ? 0 : ptm_rec_fail(err, "write the trace", stream->path);
}

uint64_t ptm_capture_block_size(uint64_t bytes, uint64_t others)
{
	const uint64_t half = (BLOCKS_ALL - others) / 2;
	const uint64_t most = half < BLOCKS_STREAM ? half : BLOCKS_STREAM;

	if (bytes == 0)
		return 0;
	for (uint64_t size = BLOCK_MIN; size <= BLOCK_MAX; size *= 2)
		if ((bytes - 1) / size < most)
			return size;
	return 0;
}

int ptm_capture_close(struct ptm_cap_stream *stream)
{
	const bool plain = stream->plain != NULL;
	struct ptm_capture *cap = stream->cap;
	struct stat sb;
	int ret;

	PTM_TRY(close_file(stream));
	if (stat(stream->path, &sb) != 0)
		return ptm_rec_fail(cap->err, "examine", stream->path);
	stream->blocks.size = plain ? ptm_capture_block_size((uint64_t)sb.st_size, cap->blocks) : 0;
	ret = ptm_hash_blocks(stream->path, NULL, stream->blocks.size != 0 ? &stream->blocks : NULL,
			      &stream->digest, &stream->bytes, cap->err);
	cap->blocks += stream->blocks.digests.n;
	return ret;
}

static void print_truth(FILE *f, const struct ptm_feed *feed)
{
	(void)fprintf(f, "instructions %" PRIu64 "\ndigest 0x%016" PRIx64 "\nplaces %zu\n",
		      feed->digest.n, feed->digest.b, feed->truth.n);
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

static int write_truth(struct ptm_capture *cap, struct ptm_cap_stream *stream)
{
	char name[NAME_SIZE], *path;
	int ret = 0;
	bool bad;
	FILE *f;

	truth_file(stream, name);
	path = path_of(cap, name);
	if (path == NULL)
		return no_memory(cap->err);
	f = fopen(path, "wxe");
	if (f == NULL) {
		ret = ptm_rec_fail(cap->err, "create", path);
	} else {
		print_truth(f, stream->feed);
		bad = ferror(f) != 0;
		if (fclose(f) != 0 || bad)
			ret = ptm_rec_fail(cap->err, "write", path);
	}
	if (ret == 0)
		ret = ptm_hash_file(path, NULL, &stream->truth_digest, &stream->truth_bytes,
				    cap->err);
	free(path);
	return ret;
}

static struct ptm_json *json_of_clocks(const struct ptm_record_config *config)
{
	struct ptm_json *clocks = ptm_json_object();
	struct ptm_json *ratio = ptm_json_object();

	if (config->timing >= PTM_TIMING_MTC)
		ptm_json_set_u64(clocks, "mtc_freq", config->mtc_freq);
	ptm_json_set_u64(clocks, "nom_freq", PTM_RECORD_NOM_FREQ);
	ptm_json_set_u64(ratio, "eax", PTM_RECORD_CPUID_15_EAX);
	ptm_json_set_u64(ratio, "ebx", PTM_RECORD_CPUID_15_EBX);
	ptm_json_set(clocks, "cpuid_0x15", ratio);
	return clocks;
}

static struct ptm_json *json_of_map(const struct ptm_images *images, const struct ptm_rec_map *map)
{
	const struct ptm_rec_image *image = &images->images.v[map->image];
	struct ptm_json *json = ptm_json_object();
	char path[sizeof("images/") + 2 * PTM_BUILD_ID_MAX];

	(void)snprintf(path, sizeof(path), "images/%s", image->name);
	ptm_json_set_hex(json, "address", map->begin);
	ptm_json_set_u64(json, "size", map->end - map->begin);
	ptm_json_set_u64(json, "offset", ptm_images_offset(images, map));
	ptm_json_set_str(json, "image", path);
	ptm_json_set_str(json, "path", map->path[0] != '\0' ? map->path : "[anonymous]");
	if (image->build_id[0] != '\0')
		ptm_json_set_str(json, "build_id", image->build_id);
	return json;
}

static struct ptm_json *json_of_process(const struct ptm_capture *cap)
{
	struct ptm_json *process = ptm_json_object();
	struct ptm_json *threads = ptm_json_array();
	struct ptm_json *maps = ptm_json_array();
	const struct ptm_images *images = &cap->images;

	for (size_t i = 0; i < images->maps.n; i++)
		ptm_json_append(maps, json_of_map(images, &images->maps.v[i]));
	for (size_t i = 0; i < cap->streams.n; i++)
		ptm_json_append_u64(threads, cap->streams.v[i]->number);
	ptm_json_set_u64(process, "pid", 1);
	ptm_json_set(process, "threads", threads);
	ptm_json_set(process, "mappings", maps);
	if (cap->doubts.replaced > 0) {
		struct ptm_json *replaced = ptm_json_object();

		ptm_json_set_u64(replaced, "times", cap->doubts.replaced);
		ptm_json_set_hex(replaced, "address", cap->seen.first);
		ptm_json_set(process, "replaced", replaced);
	}
	return process;
}

static struct ptm_json *json_of_ambiguous(const struct ptm_ambiguous *a)
{
	struct ptm_json *json = ptm_json_object();

	ptm_json_set_u64(json, "times", a->times);
	ptm_json_set_u64(json, "offset", a->offset);
	ptm_json_set_u64(json, "instructions", a->n);
	return json;
}

/* NULL, which fails when it is written, when out of memory. */
static struct ptm_json *json_of_blocks(const struct ptm_block_sums *blocks)
{
	const size_t digits = 16;
	char *text = malloc(blocks->digests.n * digits + 1);
	struct ptm_json *json;

	if (text == NULL)
		return NULL;
	for (size_t i = 0; i < blocks->digests.n; i++)
		(void)snprintf(text + i * digits, digits + 1, "%016" PRIx64, blocks->digests.v[i]);
	json = ptm_json_object();
	ptm_json_set_u64(json, "size", blocks->size);
	ptm_json_set_str(json, "xxh3_64", text);
	free(text);
	return json;
}

static struct ptm_json *json_of_stream(const struct ptm_cap_stream *stream)
{
	struct ptm_json *json = ptm_json_object();
	char name[NAME_SIZE];

	(void)snprintf(name, sizeof(name), "tid%" PRIu32, stream->number);
	ptm_json_set_str(json, "name", name);
	ptm_json_set_str(json, "kind", "thread");
	ptm_json_set_u64(json, "pid", 1);
	ptm_json_set_u64(json, "tid", stream->number);
	stream_file(stream, name);
	ptm_json_set_str(json, "file", name);
	ptm_json_set_u64(json, "bytes", stream->bytes);
	ptm_json_set_hex(json, "xxh3_64", stream->digest);
	if (stream->blocks.size != 0)
		ptm_json_set(json, "blocks", json_of_blocks(&stream->blocks));
	if (stream->feed != NULL) {
		truth_file(stream, name);
		ptm_json_set_str(json, "truth", name);
		ptm_json_set_u64(json, "truth_bytes", stream->truth_bytes);
		ptm_json_set_hex(json, "truth_xxh3_64", stream->truth_digest);
		if (stream->feed->ambiguous.times > 0)
			ptm_json_set(json, "ambiguous",
				     json_of_ambiguous(&stream->feed->ambiguous));
	}
	return json;
}

/* The CPU that recorded, for its errata; SDM vol. 2, CPUID. */
static struct ptm_json *json_of_cpu(void)
{
	unsigned a = 0, b = 0, c = 0, d = 0, family, model;
	struct ptm_json *json = ptm_json_object();
	char vendor[13] = "";

	(void)__get_cpuid(0, &a, &b, &c, &d);
	memcpy(vendor, &b, 4);
	memcpy(vendor + 4, &d, 4);
	memcpy(vendor + 8, &c, 4);
	(void)__get_cpuid(1, &a, &b, &c, &d);
	family = (a >> 8 & 0xf) == 0xf ? 0xf + (a >> 20 & 0xff) : a >> 8 & 0xf;
	model = (a >> 4 & 0xf) | (family == 6 || family >= 0xf ? a >> 12 & 0xf0 : 0);
	ptm_json_set_str(json, "vendor", vendor);
	ptm_json_set_u64(json, "family", family);
	ptm_json_set_u64(json, "model", model);
	ptm_json_set_u64(json, "stepping", a & 0xf);
	return json;
}

static struct ptm_json *describe(const struct ptm_capture *cap)
{
	struct ptm_json *json = ptm_json_object();
	struct ptm_json *processes = ptm_json_array();
	struct ptm_json *streams = ptm_json_array();

	ptm_json_set_str(json, "format", "ptmill-capture");
	ptm_json_set_u64(json, "version", 1);
	if (cap->config.backend == PTM_RECORD_PERF)
		ptm_json_set(json, "cpu", json_of_cpu());
	else if (cap->config.timing != PTM_TIMING_NONE)
		ptm_json_set(json, "clocks", json_of_clocks(&cap->config));
	ptm_json_append(processes, json_of_process(cap));
	ptm_json_set(json, "processes", processes);
	for (size_t i = 0; i < cap->streams.n; i++)
		ptm_json_append(streams, json_of_stream(cap->streams.v[i]));
	ptm_json_set(json, "streams", streams);
	return json;
}

static int write_json(struct ptm_capture *cap, const struct ptm_json *json)
{
	char *path = path_of(cap, "capture.json");
	struct ptm_out *out;
	int ret;

	if (path == NULL)
		return no_memory(cap->err);
	out = ptm_out_open(path, cap->err);
	free(path);
	if (out == NULL)
		return -(int)cap->err->code;
	ret = ptm_json_write(json, out, cap->err);
	if (ret == 0)
		return ptm_out_commit(out, cap->err);
	ptm_out_abort(out);
	return ret;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = (*(struct ptm_cap_stream *const *)a)->number;
	uint32_t y = (*(struct ptm_cap_stream *const *)b)->number;

	return (x > y) - (x < y);
}

static __attribute__((format(printf, 2, 3))) void warn(const struct ptm_capture *cap,
						       const char *fmt, ...)
{
	char line[256];
	va_list ap;

	if (cap->config.warn == NULL)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	cap->config.warn(cap->config.warn_ctx, line);
}

/* What this capture cannot tell. */
static int find_doubts(struct ptm_capture *cap)
{
	const struct ptm_cap_stream *first = NULL;
	struct ptm_cap_doubts *d = &cap->doubts;

	PTM_TRY(ptm_seen_compare(&cap->seen, &cap->images));
	d->replaced = cap->seen.times;
	for (size_t i = 0; i < cap->streams.n; i++) {
		const struct ptm_cap_stream *stream = cap->streams.v[i];

		if (stream->feed == NULL || stream->feed->ambiguous.times == 0)
			continue;
		d->ambiguous += stream->feed->ambiguous.times;
		first = first != NULL ? first : stream;
	}
	if (d->replaced > 0)
		warn(cap,
		     "executed code was replaced at its address, %" PRIu64
		     " times, first at 0x%" PRIx64
		     ": the capture has one state of it, and what ran before may decode wrongly",
		     d->replaced, cap->seen.first);
	if (first != NULL)
		warn(cap,
		     "a loop without a conditional branch was left by a signal, %" PRIu64
		     " times, first behind instruction %" PRIu64 " of tid%" PRIu32
		     ": the trace does not show at which turn",
		     d->ambiguous, first->feed->ambiguous.n, first->number);
	return 0;
}

const struct ptm_cap_doubts *ptm_capture_doubts(const struct ptm_capture *cap)
{
	return &cap->doubts;
}

void ptm_capture_name_it(const struct ptm_capture *cap, struct ptm_error *err)
{
	size_t len = strlen(cap->out);

	for (unsigned i = 0; i < err->ncauses; i++) {
		char *at = err->cause[i].text;

		while ((at = strstr(at, cap->out)) != NULL) {
			size_t n = strlen(".tmp-");

			at += len;
			if (strncmp(at, ".tmp-", n) != 0)
				continue;
			while (isdigit((unsigned char)at[n]))
				n++;
			memmove(at, at + n, strlen(at + n) + 1);
		}
	}
}

int ptm_capture_commit(struct ptm_capture *cap)
{
	struct ptm_json *json;
	int ret;

	if (cap->streams.n > 0)
		qsort(cap->streams.v, cap->streams.n, sizeof(struct ptm_cap_stream *), by_number);
	for (size_t i = 0; i < cap->streams.n; i++)
		if (cap->streams.v[i]->feed != NULL)
			PTM_TRY(write_truth(cap, cap->streams.v[i]));
	PTM_TRY(ptm_images_settle(&cap->images));
	PTM_TRY(find_doubts(cap));
	json = describe(cap);
	ret = write_json(cap, json);
	ptm_json_destroy(json);
	PTM_TRY(ret);
	if (rename(cap->tmp, cap->out) != 0)
		return ptm_rec_fail(cap->err, "give the capture its name", cap->out);
	cap->committed = true;
	return 0;
}
