/* SPDX-License-Identifier: Apache-2.0
 *
 * sink_compare_test.c - two engines side by side: one of them lies about one thing.
 *
 * Where the difference must be found follows from what the recorder noted (the truth of
 * datasets/sig: how many instructions precede each PSB) and from a listing of the trace: the liar
 * lies about an address that the listing has once.
 */
#include "sink_job.h"

#include "sink/compare.h"
#include "sink/items.h"

#include <inttypes.h>

#define CAPTURE PTM_SOURCE_DIR "/datasets/sig"

enum lie {
	NONE,
	OTHER_INSN,      /* the instruction at `lie_ip` is another one */
	OTHER_EVENT,     /* an asynchronous event at `lie_ip` goes elsewhere */
	LATE_EVENT,      /* it comes an instruction late */
	LOST_INSN,       /* the instruction at `lie_ip` is missing */
	OTHER_NO_STEPS,  /* OTHER_INSN, but only if nobody asks for steps */
	OTHER_SOMETIMES, /* OTHER_INSN, but only in segments of more than `small` bytes */
};
static enum lie lie;
static uint64_t lie_ip, other_ip;
static const size_t small = 16384;

struct liar {
	struct ptm_engine base;
	struct ptm_engine *inner;
	struct ptm_items items;
	struct ptm_emit *emit; /* of the inner engine */
	struct ptm_emit *out;
	struct ptm_event held;
	bool is_held, has_steps, is_large;
};

static bool is_lie_about_insn(const struct liar *liar, uint64_t ip)
{
	return ip == lie_ip && (lie == OTHER_INSN || lie == LOST_INSN ||
				(lie == OTHER_NO_STEPS && !liar->has_steps) ||
				(lie == OTHER_SOMETIMES && liar->is_large));
}

static int put_insn(struct liar *liar, const struct ptm_item *item, struct ptm_error *err)
{
	struct ptm_insn insn;
	bool is_lie = is_lie_about_insn(liar, item->ip);

	if (is_lie)
		liar->out->open = false;
	if (!(is_lie && lie == LOST_INSN)) {
		uint64_t ip = is_lie ? other_ip : item->ip;

		assert_true(ptm_code_insn(item->space, ip, item->mode, &insn) > 0);
		PTM_TRY(ptm_emit_space(liar->out, item->space, err));
		PTM_TRY(ptm_emit_insn(liar->out, ip, item->mode, insn.klass, err));
	}
	if (is_lie)
		liar->out->open = false;
	if (!liar->is_held)
		return 0;
	liar->is_held = false;
	return ptm_emit_event(liar->out, &liar->held, err);
}

static int relay(void *ctx, const struct ptm_item *item, struct ptm_error *err)
{
	struct liar *liar = ctx;
	struct ptm_event ev = item->event;

	if (!item->is_event)
		return put_insn(liar, item, err);
	if (ev.kind == PTM_EV_ASYNC_DISABLED && ev.ip == lie_ip) {
		if (lie == OTHER_EVENT) {
			ev.flags |= PTM_EVF_HAS_TO;
			ev.to = other_ip;
		}
		if (lie == LATE_EVENT) {
			liar->held = ev;
			liar->is_held = true;
			return 0;
		}
	}
	return ptm_emit_event(liar->out, &ev, err);
}

static int liar_decode(struct ptm_engine *engine, const struct ptm_segment *seg,
		       struct ptm_emit *emit, struct ptm_error *err)
{
	struct liar *liar = (struct liar *)engine;

	liar->out = emit;
	liar->is_large = seg->len > small;
	liar->items.fn = relay;
	liar->items.ctx = liar;
	ptm_emit_init(liar->emit, ptm_items_batch, &liar->items);
	PTM_TRY(liar->inner->ops->decode(liar->inner, seg, liar->emit, err));
	PTM_TRY(ptm_emit_flush(emit, err));
	emit->tally = liar->emit->tally;
	return 0;
}

static void liar_destroy(struct ptm_engine *engine)
{
	struct liar *liar = (struct liar *)engine;

	liar->inner->ops->destroy(liar->inner);
	ptm_code_destroy(liar->items.code);
	free(liar->emit);
	free(liar);
}

static struct ptm_engine *liar_create(const struct ptm_engine_options *options,
				      struct ptm_error *err);

static const struct ptm_engine_ops liar_ops = {
	.name = "liar", .create = liar_create, .destroy = liar_destroy, .decode = liar_decode};

static struct ptm_engine *liar_create(const struct ptm_engine_options *options,
				      struct ptm_error *err)
{
	const struct ptm_engine_options with_steps = {.want = PTM_WANT_STEPS};
	struct liar *liar = calloc(1, sizeof(*liar));

	assert_non_null(liar);
	liar->base.ops = &liar_ops;
	liar->has_steps = (options->want & PTM_WANT_STEPS) != 0;
	liar->inner = ptm_engine_ipt.create(&with_steps, err);
	liar->items.code = ptm_code_create(1 << 20, NULL);
	liar->emit = malloc(sizeof(*liar->emit));
	assert_true(liar->inner != NULL && liar->items.code != NULL && liar->emit != NULL);
	return &liar->base;
}

/* The trace as it is listed, and where its frames begin. */
static struct {
	uint64_t *ips; /* of the instructions */
	size_t n;
	size_t *async; /* asynchronous events: instructions that precede them */
	uint64_t *async_ip;
	size_t nasync;
	struct {
		uint64_t offset, n;
	} psb[64];
	size_t npsbs;
} seen;

static char *slurp(const char *path)
{
	char *data;
	size_t len;

	assert_int_equal(ptm_file_read_all(path, 64 << 20, &data, &len, NULL), 0);
	return data;
}

static void run(struct ptm_sink *sink, unsigned threads, uint64_t segment_size)
{
	struct ptm_config config = {
		.size = sizeof(config), .threads = threads, .segment_size = segment_size};
	struct ptm_error err = {.code = PTM_E_OK};
	struct ptm_session *session = ptm_session_create(&config, &err);
	struct ptm_run_stats stats;

	assert_non_null(sink);
	assert_non_null(session);
	assert_int_equal(ptm_session_add_input(session, CAPTURE, &err), 0);
	assert_int_equal(ptm_session_run(session, sink, NULL, &stats, &err), 0);
	assert_int_equal(ptm_sink_finish(sink, &err), 0);
	ptm_session_destroy(session);
}

static void read_listing(void)
{
	const struct ptm_text_config config = {.size = sizeof(config), .no_disasm = true};
	char *path = make_path();
	struct ptm_sink *sink = ptm_sink_text_create(&config, path, NULL);
	char *text, *save = NULL;
	uint64_t ip;

	run(sink, 1, 0);
	ptm_sink_destroy(sink);
	text = slurp(path);
	seen.ips = calloc(1 << 18, sizeof(*seen.ips));
	seen.async = calloc(1 << 10, sizeof(*seen.async));
	seen.async_ip = calloc(1 << 10, sizeof(*seen.async_ip));
	assert_true(seen.ips != NULL && seen.async != NULL && seen.async_ip != NULL);
	for (char *s = strtok_r(text, "\n", &save); s != NULL; s = strtok_r(NULL, "\n", &save)) {
		if (s[0] != '[') {
			assert_true(seen.n < 1 << 18);
			seen.ips[seen.n++] = strtoull(s, NULL, 16);
		} else if (sscanf(s, "[async disabled ip=%" SCNx64, &ip) == 1) {
			assert_true(seen.nasync < 1 << 10);
			seen.async[seen.nasync] = seen.n;
			seen.async_ip[seen.nasync++] = ip;
		}
	}
	assert_int_equal(unlink(path), 0);
	free(text);
	free(path);
}

static int read_trace(void **state)
{
	char *text = slurp(CAPTURE "/truth/tid1.txt");
	char *save = NULL;

	(void)state;
	for (char *s = strtok_r(text, "\n", &save); s != NULL; s = strtok_r(NULL, "\n", &save)) {
		if (sscanf(s, "psb %" SCNu64 " %" SCNu64, &seen.psb[seen.npsbs].offset,
			   &seen.psb[seen.npsbs].n) == 2) {
			seen.npsbs++;
			assert_true(seen.npsbs < 64);
		}
	}
	free(text);
	read_listing();
	other_ip = seen.ips[0];
	return seen.npsbs > 30 && seen.n > 200000 && seen.nasync > 4 ? 0 : -1;
}

static int free_trace(void **state)
{
	(void)state;
	free(seen.ips);
	free(seen.async);
	free(seen.async_ip);
	return 0;
}

/* The frame that holds the instruction with this index. */
static size_t frame_of(uint64_t index)
{
	size_t i = 0;

	while (i + 1 < seen.npsbs && seen.psb[i + 1].n <= index)
		i++;
	return i;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* An instruction in the middle of a frame whose address comes once in the trace. */
static size_t find_rare(void)
{
	uint64_t *sorted = calloc(seen.n, sizeof(*sorted));
	size_t at = 0;

	assert_non_null(sorted);
	memcpy(sorted, seen.ips, seen.n * sizeof(*sorted));
	qsort(sorted, seen.n, sizeof(*sorted), by_value);
	for (size_t i = 3000; i < seen.n && at == 0; i++) {
		const uint64_t *hit =
			bsearch(&seen.ips[i], sorted, seen.n, sizeof(*sorted), by_value);
		size_t k = (size_t)(hit - sorted);

		if (sorted[k - 1] != seen.ips[i] && (k + 1 == seen.n || hit[1] != seen.ips[i]) &&
		    frame_of(i - 6) == frame_of(i + 6))
			at = i;
	}
	free(sorted);
	assert_true(at > 0);
	return at;
}

static char *compare(unsigned threads, uint64_t segment_size, size_t wrong)
{
	char *path = make_path();
	struct ptm_sink *sink = ptm_compare_create(&liar_ops, &ptm_engine_ipt, 0, path, NULL);
	char *text;

	run(sink, threads, segment_size);
	assert_int_equal(ptm_sink_verify_wrong(sink), wrong);
	ptm_sink_destroy(sink);
	text = slurp(path);
	assert_int_equal(unlink(path), 0);
	free(path);
	return text;
}

/* The report begins with @expected, for any number of workers and any segment size. */
static void check(const char *expected, size_t wrong)
{
	static const uint64_t sizes[] = {0, 64, 5000};

	for (unsigned i = 0; i < 3; i++) {
		char *text = compare(i + 1, sizes[i], wrong);
		char *all = i == 0 ? NULL : compare(1, 0, wrong);

		if (strlen(text) > strlen(expected))
			text[strlen(expected)] = '\0';
		assert_string_equal(text, expected);
		if (all != NULL)
			assert_memory_equal(all, text, strlen(text));
		free(all);
		free(text);
	}
}

static void test_same(void **state)
{
	char expected[256];

	(void)state;
	lie = NONE;
	(void)sprintf(expected,
		      "stream " CAPTURE ":tid1 same by liar and libipt: instructions %zu ", seen.n);
	check(expected, 0);
}

/* The line on the stream, and the place of the difference. */
static int put_head(char *p, size_t frames, const char *kinds, const char *what, size_t frame,
		    uint64_t behind, const char *items)
{
	return sprintf(p,
		       "stream " CAPTURE ":tid1 differs by liar and libipt: %zu of %zu frames: %s\n"
		       "  first difference %s:\n"
		       "  frame at offset 0x%" PRIx64 ", behind %" PRIu64 " %s of it:\n    liar:\n",
		       frames, seen.npsbs, kinds, what, seen.psb[frame].offset, behind, items);
}

static void test_other_insn(void **state)
{
	size_t at = find_rare(), frame = frame_of(at);
	char expected[512], line[64];
	char *text, *p;

	(void)state;
	lie = OTHER_INSN;
	lie_ip = seen.ips[at];
	(void)put_head(expected, 1, "1 in instructions, 0 in events alone", "in instructions",
		       frame, at - seen.psb[frame].n, "instructions");
	check(expected, 1);
	text = compare(1, 0, 1);
	/* Both contexts: what precedes and follows is the same, but for the one instruction. */
	(void)sprintf(line, "    > %016" PRIx64 "  ", other_ip);
	p = strstr(text, line);
	assert_non_null(p);
	p = strstr(p, "    libipt:\n");
	assert_non_null(p);
	(void)sprintf(line, "    > %016" PRIx64 "  ", lie_ip);
	assert_non_null(strstr(p, line));
	for (size_t i = at - 2; i <= at + 2; i++) {
		(void)sprintf(line, "    %s %016" PRIx64 "  ", i == at ? ">" : " ", seen.ips[i]);
		assert_non_null(strstr(p, line));
	}
	free(text);
}

/* The instruction before the lie is the last that both have. */
static void test_lost_insn(void **state)
{
	size_t at = find_rare(), frame = frame_of(at);
	char expected[512], line[64];
	char *text, *p;

	(void)state;
	lie = LOST_INSN;
	lie_ip = seen.ips[at];
	(void)put_head(expected, 1, "1 in instructions, 0 in events alone", "in instructions",
		       frame, at - seen.psb[frame].n, "instructions");
	check(expected, 1);
	text = compare(1, 0, 1);
	(void)sprintf(line, "    > %016" PRIx64 "  ", seen.ips[at + 1]);
	p = strstr(text, line);
	assert_non_null(p);
	assert_true(p < strstr(text, "    libipt:\n"));
	(void)sprintf(line, "    > %016" PRIx64 "  ", seen.ips[at]);
	assert_non_null(strstr(p, line));
	free(text);
}

/* Frames with an event at `lie_ip`, and the first such event. */
static size_t frames_with_event(size_t *first)
{
	size_t n = 0, last = SIZE_MAX;

	*first = SIZE_MAX;
	for (size_t i = 0; i < seen.nasync; i++) {
		size_t frame;

		if (seen.async_ip[i] != lie_ip)
			continue;
		frame = frame_of(seen.async[i]);
		/* So that the truth tells which frame it is in. */
		assert_true(seen.async[i] > seen.psb[frame].n);
		if (*first == SIZE_MAX)
			*first = i;
		n += frame != last;
		last = frame;
	}
	return n;
}

static void test_events(void **state)
{
	static const enum lie lies[] = {OTHER_EVENT, LATE_EVENT};
	char kinds[64], line[96];
	size_t first, frames, behind;

	(void)state;
	lie_ip = seen.async_ip[0];
	frames = frames_with_event(&first);
	assert_true(frames > 0);
	(void)sprintf(kinds, "0 in instructions, %zu in events alone", frames);
	for (unsigned i = 0; i < 2; i++) {
		char expected[512];
		char *text, *p;

		lie = lies[i];
		(void)sprintf(expected,
			      "stream " CAPTURE ":tid1 differs by liar and libipt: %zu of %zu "
			      "frames: %s\n  first difference in events alone:\n"
			      "  frame at offset 0x%" PRIx64 ", behind ",
			      frames, seen.npsbs, kinds,
			      seen.psb[frame_of(seen.async[first])].offset);
		check(expected, 1);
		text = compare(1, 0, 1);
		/* Behind the instructions, and some events. */
		behind = strtoull(text + strlen(expected), NULL, 10);
		assert_true(behind >= seen.async[first] - seen.psb[frame_of(seen.async[first])].n);
		p = strstr(text, "    libipt:\n");
		assert_non_null(p);
		(void)sprintf(line, "    > [async disabled ip=%016" PRIx64 "] near offset 0x",
			      lie_ip);
		assert_non_null(strstr(p, line));
		/* The other engine has another one, or none, in its place. */
		assert_true(strstr(text, "    > ") < p);
		(void)sprintf(line,
			      "    > [async disabled ip=%016" PRIx64 " to=%016" PRIx64
			      "] near offset 0x",
			      lie_ip, other_ip);
		if (lie == OTHER_EVENT)
			assert_true(strncmp(strstr(text, "    > "), line, strlen(line)) == 0);
		else
			assert_true(strncmp(strstr(text, "    > "), line, 12) != 0);
		free(text);
	}
}

static void test_no_steps(void **state)
{
	size_t at = find_rare();
	char expected[512];

	(void)state;
	lie = OTHER_NO_STEPS;
	lie_ip = seen.ips[at];
	(void)sprintf(expected,
		      "stream " CAPTURE ":tid1 differs by liar and libipt: 1 of %zu frames: "
		      "0 in instructions, 0 in events alone, 1 by liar without steps\n"
		      "  first difference between asking for steps and not asking:\n"
		      "  frame at offset 0x%" PRIx64 ":\n    liar with steps: instructions ",
		      seen.npsbs, seen.psb[frame_of(at)].offset);
	check(expected, 1);
}

/* An engine whose frames depend on what it decoded before is found out, too. */
static void test_whole_segment(void **state)
{
	char expected[512];
	char *text;

	(void)state;
	lie = OTHER_SOMETIMES;
	lie_ip = seen.ips[find_rare()];
	(void)sprintf(expected,
		      "stream " CAPTURE ":tid1 differs by liar and libipt: 0 of %zu frames: "
		      "0 in instructions, 0 in events alone\n"
		      "  segments that differ although none of their frames does: 1\n",
		      seen.npsbs);
	text = compare(2, 1 << 20, 1);
	assert_string_equal(text, expected);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same),      cmocka_unit_test(test_other_insn),
		cmocka_unit_test(test_lost_insn), cmocka_unit_test(test_events),
		cmocka_unit_test(test_no_steps),  cmocka_unit_test(test_whole_segment),
	};

	return cmocka_run_group_tests(tests, read_trace, free_trace);
}
