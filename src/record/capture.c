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

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STREAM     "tid1"
#define TRUTH_FILE "truth/" STREAM ".txt"

struct ptm_capture {
	struct ptm_record_config config;
	char *out, *tmp;   /* owned */
	char *stream_path; /* owned */
	/* One of these is open until the commit. */
	FILE *plain;
	struct ptm_zst_out *packed;
	struct ptm_error *err;
	bool made;      /* the temporary directory exists */
	bool committed; /* ... under its final name */
	struct ptm_images images;
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

static const char *stream_file(const struct ptm_capture *cap)
{
	return cap->config.compress ? "streams/" STREAM ".pt.zst" : "streams/" STREAM ".pt";
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

static int open_stream(struct ptm_capture *cap)
{
	cap->stream_path = path_of(cap, stream_file(cap));
	if (cap->stream_path == NULL)
		return no_memory(cap->err);
	if (cap->config.compress) {
		cap->packed = ptm_zst_out_open(cap->stream_path, cap->err);
		return cap->packed != NULL ? 0 : -(int)cap->err->code;
	}
	cap->plain = fopen(cap->stream_path, "wbxe");
	return cap->plain != NULL ? 0 : ptm_rec_fail(cap->err, "create", cap->stream_path);
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
	if (make_dirs(cap) == 0 && open_stream(cap) == 0)
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
	if (cap->plain != NULL)
		(void)fclose(cap->plain);
	ptm_zst_out_abort(cap->packed);
	if (cap->made && !cap->committed)
		(void)nftw(cap->tmp, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	ptm_images_fini(&cap->images);
	free(cap->stream_path);
	free(cap->out);
	free(cap->tmp);
	free(cap);
}

int ptm_capture_write(void *ctx, const uint8_t *bytes, size_t len)
{
	struct ptm_capture *cap = ctx;

	if (cap->packed != NULL)
		return ptm_zst_out_write(cap->packed, bytes, len, cap->err);
	return fwrite(bytes, 1, len, cap->plain) == len
		       ? 0
		       : ptm_rec_fail(cap->err, "write the trace", cap->stream_path);
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

static int close_stream(struct ptm_capture *cap)
{
	struct ptm_zst_out *packed = cap->packed;
	FILE *plain = cap->plain;

	cap->packed = NULL;
	cap->plain = NULL;
	if (packed != NULL)
		return ptm_zst_out_finish(packed, cap->err);
	return fclose(plain) == 0 ? 0 : ptm_rec_fail(cap->err, "write the trace", cap->stream_path);
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

static int write_truth(struct ptm_capture *cap, const struct ptm_feed *feed)
{
	char *path = path_of(cap, TRUTH_FILE);
	int ret = 0;
	bool bad;
	FILE *f;

	if (path == NULL)
		return no_memory(cap->err);
	f = fopen(path, "wxe");
	if (f == NULL) {
		ret = ptm_rec_fail(cap->err, "create", path);
	} else {
		print_truth(f, feed);
		bad = ferror(f) != 0;
		if (fclose(f) != 0 || bad)
			ret = ptm_rec_fail(cap->err, "write", path);
	}
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

static struct ptm_json *json_of_process(const struct ptm_images *images)
{
	struct ptm_json *process = ptm_json_object();
	struct ptm_json *threads = ptm_json_array();
	struct ptm_json *maps = ptm_json_array();

	for (size_t i = 0; i < images->maps.n; i++)
		ptm_json_append(maps, json_of_map(images, &images->maps.v[i]));
	ptm_json_append_u64(threads, 1);
	ptm_json_set_u64(process, "pid", 1);
	ptm_json_set(process, "threads", threads);
	ptm_json_set(process, "mappings", maps);
	return process;
}

static struct ptm_json *json_of_stream(const struct ptm_capture *cap, uint64_t bytes,
				       uint64_t digest)
{
	struct ptm_json *stream = ptm_json_object();

	ptm_json_set_str(stream, "name", STREAM);
	ptm_json_set_str(stream, "kind", "thread");
	ptm_json_set_u64(stream, "pid", 1);
	ptm_json_set_u64(stream, "tid", 1);
	ptm_json_set_str(stream, "file", stream_file(cap));
	ptm_json_set_u64(stream, "bytes", bytes);
	ptm_json_set_hex(stream, "xxh3_64", digest);
	ptm_json_set_str(stream, "truth", TRUTH_FILE);
	return stream;
}

static struct ptm_json *describe(const struct ptm_capture *cap, uint64_t bytes, uint64_t digest)
{
	struct ptm_json *json = ptm_json_object();
	struct ptm_json *processes = ptm_json_array();
	struct ptm_json *streams = ptm_json_array();

	ptm_json_set_str(json, "format", "ptmill-capture");
	ptm_json_set_u64(json, "version", 1);
	if (cap->config.timing != PTM_TIMING_NONE)
		ptm_json_set(json, "clocks", json_of_clocks(&cap->config));
	ptm_json_append(processes, json_of_process(&cap->images));
	ptm_json_set(json, "processes", processes);
	ptm_json_append(streams, json_of_stream(cap, bytes, digest));
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

int ptm_capture_commit(struct ptm_capture *cap, const struct ptm_feed *feed)
{
	uint64_t bytes, digest;
	struct ptm_json *json;
	int ret;

	PTM_TRY(close_stream(cap));
	PTM_TRY(ptm_hash_file(cap->stream_path, &digest, &bytes, cap->err));
	PTM_TRY(write_truth(cap, feed));
	PTM_TRY(ptm_images_settle(&cap->images));
	json = describe(cap, bytes, digest);
	ret = write_json(cap, json);
	ptm_json_destroy(json);
	PTM_TRY(ret);
	if (rename(cap->tmp, cap->out) != 0)
		return ptm_rec_fail(cap->err, "give the capture its name", cap->out);
	cap->committed = true;
	return 0;
}
