/* SPDX-License-Identifier: Apache-2.0
 *
 * damage.c - a small trace, damaged in every simple way, through the public interface.
 *
 * Variants: cut at every byte, rotated at every byte, every single bit flipped.  A process for each
 * would take minutes: a session decodes a batch of them, each as an input of its own.  Each batch
 * is decoded twice, in one piece by one worker and in the smallest segments by three: both reports
 * must be the same bytes.  In them, the byte classes of each stream add up to the size of its
 * variant.
 */
#include <ptmill/ptmill.h>

#include <json-c/json.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BATCH 128
/* Seconds: a batch takes well below one. */
#define BATCH_TIMEOUT 120

struct trace {
	uint8_t *data;
	size_t len;
};

struct run {
	struct trace original;
	const char *image, *scratch;
	size_t sizes[BATCH]; /* of the variants of the batch */
	uint64_t failed;
	uint64_t insns; /* of all variants */
};

enum kind { CUT, ROTATE, FLIP, KINDS };
static const char *const kind_names[KINDS] = {"cut at byte", "rotated at byte", "flipped bit"};

static _Noreturn void die(const char *what, const char *path)
{
	(void)fprintf(stderr, "damage: cannot %s: %s\n", what, path);
	exit(1);
}

static struct trace read_all(const char *path)
{
	struct trace t = {NULL, 0};
	FILE *f = fopen(path, "rb");

	if (f == NULL)
		die("open", path);
	for (size_t n = 1; n > 0; t.len += n) {
		uint8_t *more = realloc(t.data, t.len + 65537);

		if (more == NULL)
			die("allocate memory for", path);
		t.data = more;
		n = fread(t.data + t.len, 1, 65536, f);
	}
	(void)fclose(f);
	t.data[t.len] = 0; /* a report is a string */
	return t;
}

static void write_parts(const char *path, const uint8_t *a, size_t alen, const uint8_t *b,
			size_t blen)
{
	FILE *f = fopen(path, "wb");

	if (f == NULL || fwrite(a, 1, alen, f) != alen || fwrite(b, 1, blen, f) != blen ||
	    fclose(f) != 0)
		die("write", path);
}

static void variant_path(const struct run *run, size_t i, char *path, size_t size)
{
	(void)snprintf(path, size, "%s/variant%03zu", run->scratch, i);
}

/* Write variant @n of a kind as file @slot of the batch. */
static void make_variant(struct run *run, enum kind kind, size_t n, size_t slot)
{
	struct trace *t = &run->original;
	size_t at = kind == FLIP ? n / 8 : n;
	uint8_t bit = (uint8_t)(1U << n % 8);
	char path[4096];

	variant_path(run, slot, path, sizeof(path));
	run->sizes[slot] = kind == CUT ? at : t->len;
	if (kind == FLIP)
		t->data[at] ^= bit;
	if (kind == ROTATE)
		write_parts(path, t->data + at, t->len - at, t->data, at);
	else
		write_parts(path, t->data, run->sizes[slot], t->data, 0);
	if (kind == FLIP)
		t->data[at] ^= bit;
}

static bool say(const struct ptm_error *err, const char *what)
{
	(void)fprintf(stderr, "damage: %s failed: %s (%s)\n", what, ptm_err_name(err->code),
		      err->ncauses > 0 ? err->cause[0].text : "no reason given");
	return false;
}

static bool add_inputs(struct run *run, struct ptm_session *session, size_t n,
		       struct ptm_error *err)
{
	char path[4096];

	for (size_t i = 0; i < n; i++) {
		variant_path(run, i, path, sizeof(path));
		if (ptm_session_add_input(session, path, err) < 0)
			return say(err, path);
	}
	if (ptm_session_add_elf(session, run->image, err) < 0)
		return say(err, run->image);
	return true;
}

/* Decode the batch; the report goes to @out. */
static bool decode(struct run *run, size_t n, unsigned threads, uint64_t segment, const char *out)
{
	struct ptm_config config = {.size = sizeof(config),
				    .threads = threads,
				    .bind = PTM_BIND_NONE,
				    .segment_size = segment};
	struct ptm_error err = {.code = PTM_E_OK};
	struct ptm_run_stats stats;
	struct ptm_session *session = ptm_session_create(&config, &err);
	struct ptm_sink *sink = NULL;
	bool ok = false;

	if (session == NULL)
		return say(&err, "session");
	if (!add_inputs(run, session, n, &err))
		goto out;
	sink = ptm_sink_stat_create(true, out, &err);
	if (sink == NULL)
		goto failed;
	if (ptm_session_run(session, sink, NULL, &stats, &err) < 0)
		goto failed;
	if (ptm_sink_finish(sink, &err) < 0)
		goto failed;
	ok = true;
	goto out;
failed:
	(void)say(&err, "run");
out:
	ptm_sink_destroy(sink);
	ptm_session_destroy(session);
	return ok;
}

/* The byte classes of a stream, but for the figures that are not classes. */
static bool check_stream(struct json_object *stream, size_t size)
{
	static const char *const classes[] = {"decoded",  "head", "padding",
					      "overflow", "lost", "skipped"};
	struct json_object *bytes = json_object_object_get(stream, "bytes");
	uint64_t sum = 0;

	for (unsigned i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
		sum += json_object_get_uint64(json_object_object_get(bytes, classes[i]));
	return sum == size &&
	       json_object_get_uint64(json_object_object_get(bytes, "size")) == size &&
	       json_object_get_boolean(json_object_object_get(bytes, "exact"));
}

static void check_report(struct run *run, enum kind kind, size_t first, size_t n, const char *text)
{
	struct json_object *report = json_tokener_parse(text);
	struct json_object *streams = json_object_object_get(report, "streams");

	if (streams == NULL || json_object_array_length(streams) != n)
		die("find a stream of each variant in", "the report");
	for (size_t i = 0; i < n; i++) {
		struct json_object *stream = json_object_array_get_idx(streams, i);

		run->insns +=
			json_object_get_uint64(json_object_object_get(stream, "instructions"));
		if (check_stream(stream, run->sizes[i]))
			continue;
		run->failed++;
		printf("%s %zu: the classes do not add up to %zu bytes: %s\n", kind_names[kind],
		       first + i, run->sizes[i],
		       json_object_to_json_string(json_object_object_get(stream, "bytes")));
	}
	(void)json_object_put(report);
}

/* Streams of two reports that differ: which variants these are. */
static void say_differences(enum kind kind, size_t first, const char *a, const char *b)
{
	struct json_object *one = json_tokener_parse(a), *two = json_tokener_parse(b);
	struct json_object *left = json_object_object_get(one, "streams");
	struct json_object *right = json_object_object_get(two, "streams");

	for (size_t i = 0; i < json_object_array_length(left); i++) {
		struct json_object *l = json_object_array_get_idx(left, i);
		struct json_object *r = json_object_array_get_idx(right, i);

		if (!json_object_equal(l, r))
			printf("%s %zu: in one piece: %s\nin small segments: %s\n",
			       kind_names[kind], first + i, json_object_to_json_string(l),
			       json_object_to_json_string(r));
	}
	(void)json_object_put(one);
	(void)json_object_put(two);
}

static void do_batch(struct run *run, enum kind kind, size_t first, size_t n)
{
	char whole[4096], small[4096];

	(void)snprintf(whole, sizeof(whole), "%s/whole.json", run->scratch);
	(void)snprintf(small, sizeof(small), "%s/small.json", run->scratch);
	for (size_t i = 0; i < n; i++)
		make_variant(run, kind, first + i, i);
	(void)alarm(BATCH_TIMEOUT);
	if (!decode(run, n, 1, 0, whole) || !decode(run, n, 3, PTM_SEGMENT_SIZE_MIN, small)) {
		printf("%s %zu to %zu: the run failed\n", kind_names[kind], first, first + n - 1);
		exit(1);
	}
	(void)alarm(0);

	struct trace a = read_all(whole), b = read_all(small);

	check_report(run, kind, first, n, (const char *)a.data);
	if (a.len != b.len || memcmp(a.data, b.data, a.len) != 0) {
		run->failed++;
		printf("%s %zu to %zu: the segment size changes the report\n", kind_names[kind],
		       first, first + n - 1);
		say_differences(kind, first, (const char *)a.data, (const char *)b.data);
	}
	free(a.data);
	free(b.data);
}

int main(int argc, char **argv)
{
	struct run run = {.failed = 0};
	size_t total = 0;

	if (argc != 4) {
		(void)fprintf(stderr, "usage: damage TRACE IMAGE SCRATCH\n");
		return 1;
	}
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	run.original = read_all(argv[1]);
	run.image = argv[2];
	run.scratch = argv[3];
	for (enum kind kind = CUT; kind < KINDS; kind++) {
		size_t n = run.original.len * (kind == FLIP ? 8 : 1);

		for (size_t first = 0; first < n; first += BATCH) {
			/* The last line before a crash tells where. */
			(void)fprintf(stderr, "%s %zu ...\n", kind_names[kind], first);
			do_batch(&run, kind, first, n - first < BATCH ? n - first : BATCH);
		}
		total += n;
	}
	free(run.original.data);
	printf("%zu variants, %" PRIu64 " instructions, %" PRIu64 " failures\n", total, run.insns,
	       run.failed);
	return run.failed != 0;
}
