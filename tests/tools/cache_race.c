/* SPDX-License-Identifier: Apache-2.0
 *
 * cache_race.c - many engines on one small code cache.
 *
 *   cache_race race LIMIT N INPUT...  each of eight threads decodes N segments of captures in
 * random order, in address spaces made for the occasion; each must yield what it does alone
 *   cache_race late INPUT             planted misuse: a walk goes on in a generation that was freed
 *                                     while it was off line; sanitizers have to report
 *   cache_race late-good INPUT        the same, but starting afresh, as engines do
 *
 * LIMIT: bytes of the cache, small enough to be full again and again.
 */
#include "flow/cache.h"
#include "flow/engine.h"
#include "flow/walk.h"
#include "os/rcu.h"
#include "os/thread.h"
#include "pipeline/session.h"
#include "pipeline/split.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 8
#define SEGMENT 8192u

struct piece {
	struct ptm_job job;
	struct ptm_segbuf buf;
	const struct ptm_stream_context *stream;
	struct ptm_digest expected;
	uint64_t gaps;
};

static PTM_VEC(struct piece) pieces;
static PTM_VEC(struct ptm_session *) sessions;
static struct ptm_cache *cache;

static void die(const char *what, const struct ptm_error *err)
{
	(void)fprintf(stderr, "cache_race: %s%s%s\n", what, err != NULL ? ": " : "",
		      err != NULL ? err->cause[0].text : "");
	exit(1);
}

/* ---- segments ---- */

static void load(const char *path)
{
	const struct ptm_config config = {.size = sizeof(config), .threads = 1};
	struct ptm_error err = {0};
	struct ptm_session *session = ptm_session_create(&config, &err);
	struct ptm_split *split;
	int more;

	if (session == NULL || ptm_session_add_input(session, path, &err) < 0 ||
	    ptm_session_seal(session, &err) < 0)
		die(path, &err);
	split = ptm_split_create(session->sources, SEGMENT, false, &session->cancel, &err);
	if (split == NULL || !ptm_vec_push(&sessions, session))
		die(path, NULL);
	do {
		struct piece piece = {0};

		more = ptm_split_claim(split, &piece.job, &piece.buf, &err);
		if (more > 0 && ptm_split_load(split, &piece.job, &piece.buf, &err) < 0)
			more = -1;
		piece.stream = &session->streams.v[piece.job.stream];
		if (more > 0 && piece.job.seg.len > 0 && !ptm_vec_push(&pieces, piece))
			more = -1;
	} while (more > 0);
	if (more < 0)
		die(path, &err);
	ptm_split_destroy(split);
}

static void unload(void)
{
	for (size_t i = 0; i < pieces.n; i++)
		ptm_segbuf_fini(&pieces.v[i].buf);
	for (size_t i = 0; i < sessions.n; i++)
		ptm_session_destroy(sessions.v[i]);
	free(pieces.v);
	free(sessions.v);
}

static int pass(void *ctx, const struct ptm_batch *batch, struct ptm_error *err)
{
	(void)ctx;
	(void)batch;
	(void)err;
	return 0;
}

static uint64_t gaps_of(const struct ptm_tally *tally)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < PTM_GAP_KINDS; i++)
		sum += tally->gaps[i];
	return sum;
}

static void decode(struct ptm_engine *engine, const struct piece *piece,
		   const struct ptm_stream_context *stream, struct ptm_emit *emit)
{
	struct ptm_segment seg = piece->job.seg;
	struct ptm_error err = {0};

	seg.stream = stream;
	ptm_emit_init(emit, pass, NULL);
	if (engine->ops->decode(engine, &seg, emit, &err) < 0)
		die("decode", &err);
}

static struct ptm_engine *make_engine(const struct ptm_engine_ops *ops, struct ptm_cache *shared)
{
	const struct ptm_engine_options options = {.cache = shared, .resync = PTM_RESYNC_PSB};
	struct ptm_error err = {0};
	struct ptm_engine *engine = ops->create(&options, &err);

	if (engine == NULL)
		die("engine", &err);
	return engine;
}

/* What each segment is, alone. */
static void expect(struct ptm_emit *emit)
{
	struct ptm_engine *engine = make_engine(&ptm_engine_fast, NULL);

	for (size_t i = 0; i < pieces.n; i++) {
		decode(engine, &pieces.v[i], pieces.v[i].stream, emit);
		pieces.v[i].expected = emit->digest;
		pieces.v[i].gaps = gaps_of(&emit->tally);
	}
	engine->ops->destroy(engine);
}

/* A space with the mappings of @space, and files of its own. */
static struct ptm_space *space_like(const struct ptm_space *space)
{
	struct ptm_space *copy = ptm_space_create();
	struct ptm_error err = {0};

	for (size_t i = 0; copy != NULL && i < ptm_space_count(space); i++) {
		struct ptm_mapping m = ptm_space_get(space, i);

		if (ptm_space_add_file(copy, m.path, m.begin, m.end - m.begin, m.file_offset, "",
				       &err) < 0)
			die("space", &err);
	}
	if (copy == NULL || ptm_space_seal(copy, &err) < 0)
		die("space", &err);
	return copy;
}

/* ---- the race ---- */

struct worker {
	pthread_t thread;
	unsigned index, todo;
	uint64_t bad, done;
};

static void *work(void *arg)
{
	struct worker *w = (struct worker *)arg;
	struct ptm_engine *engine = make_engine(&ptm_engine_fast, cache);
	struct ptm_emit *emit = (struct ptm_emit *)malloc(sizeof(*emit));
	uint64_t random = w->index + 1;

	if (emit == NULL)
		die("memory", NULL);
	for (uint64_t i = 0; i < w->todo; i++) {
		const struct piece *piece;
		struct ptm_stream_context stream;
		struct ptm_space *space;

		random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
		piece = &pieces.v[(random >> 33) % pieces.n];
		stream = *piece->stream;
		space = space_like(piece->stream->images.first);
		stream.images.first = space;
		decode(engine, piece, &stream, emit);
		ptm_space_destroy(space);
		w->bad += emit->digest.n != piece->expected.n ||
			  emit->digest.b != piece->expected.b ||
			  gaps_of(&emit->tally) != piece->gaps;
		w->done++;
	}
	free(emit);
	engine->ops->destroy(engine);
	return NULL;
}

static int race(unsigned todo)
{
	struct worker workers[THREADS] = {0};
	struct ptm_error err = {0};
	uint64_t bad = 0, done = 0, turns;

	for (unsigned i = 0; i < THREADS; i++) {
		workers[i].index = i;
		workers[i].todo = todo;
		if (ptm_thread_start(&workers[i].thread, "race", work, &workers[i], &err) < 0)
			die("thread", &err);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		(void)pthread_join(workers[i].thread, NULL);
		bad += workers[i].bad;
		done += workers[i].done;
	}
	turns = ptm_cache_stats(cache).generations;
	(void)printf("segments=%zu decoded=%llu bad=%llu generations=%llu\n", pieces.n,
		     (unsigned long long)done, (unsigned long long)bad, (unsigned long long)turns);
	return bad == 0 && done > 0 && turns > 2 ? 0 : 1;
}

/* ---- the planted misuse ---- */

static int late(bool good, struct ptm_emit *emit)
{
	const struct ptm_space *space = pieces.v[0].stream->images.first;
	const uint64_t ip = ptm_space_get(space, 0).begin;
	struct ptm_walk *w = (struct ptm_walk *)malloc(sizeof(*w));
	struct ptm_error err = {0};
	unsigned klass;
	uint64_t next;

	if (w == NULL)
		return 2;
	ptm_walk_init(w, cache);
	ptm_emit_init(emit, pass, NULL);
	ptm_rcu_register();
	ptm_walk_reset(w, emit, &err);
	if (ptm_walk_space(w, space) < 0 || ptm_walk_goto(w, ip) < 0 ||
	    ptm_cache_turn(cache, w->gen, &err) < 0)
		die("walk", &err);
	ptm_rcu_offline();
	ptm_rcu_barrier();
	ptm_rcu_online();
	if (good) {
		w->gen = NULL;
		ptm_walk_reset(w, emit, &err);
		if (ptm_walk_space(w, space) < 0 || ptm_walk_goto(w, ip) < 0)
			die("walk", &err);
	}
	(void)ptm_walk_end(w, &klass, &next);
	ptm_rcu_unregister();
	free(w);
	(void)printf("done\n");
	return 0;
}

int main(int argc, char **argv)
{
	struct ptm_emit *emit = (struct ptm_emit *)malloc(sizeof(*emit));
	const bool is_race = argc > 1 && strcmp(argv[1], "race") == 0;
	int status;

	if (emit == NULL || argc < (is_race ? 5 : 3))
		return 2;
	for (int i = is_race ? 4 : 2; i < argc; i++)
		load(argv[i]);
	if (pieces.n == 0)
		die("no segments", NULL);
	cache = ptm_cache_create(is_race ? strtoull(argv[2], NULL, 10) : 1 << 20, NULL);
	if (cache == NULL)
		return 2;
	if (is_race) {
		expect(emit);
		status = race((unsigned)strtoul(argv[3], NULL, 10));
	} else {
		status = late(strcmp(argv[1], "late-good") == 0, emit);
	}
	ptm_rcu_barrier();
	ptm_cache_destroy(cache);
	unload();
	free(emit);
	return status;
}
