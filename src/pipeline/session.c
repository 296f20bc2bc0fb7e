/* SPDX-License-Identifier: Apache-2.0
 *
 * session.c - the public session: inputs, images, options.
 */
#include "pipeline/session.h"

#include "pipeline/engines.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int check_config(const struct ptm_config *config, struct ptm_error *err)
{
	if (config->size != sizeof(*config))
		return PTM_FAIL(err, PTM_E_USAGE, "Bad config: size=%zu", config->size);
	if (ptm_engine_of(config->engine) == NULL)
		return PTM_FAIL(err, PTM_E_USAGE, "Unknown engine: %d", (int)config->engine);
	if (config->segment_size != 0 && (config->segment_size < PTM_SEGMENT_SIZE_MIN ||
					  config->segment_size > PTM_SEGMENT_SIZE_MAX))
		return PTM_FAIL(err, PTM_E_USAGE, "Bad segment size: %" PRIu64 " is not in %u..%u",
				config->segment_size, PTM_SEGMENT_SIZE_MIN, PTM_SEGMENT_SIZE_MAX);
	if (config->resync != PTM_RESYNC_IP && config->resync != PTM_RESYNC_PSB)
		return PTM_FAIL(err, PTM_E_USAGE, "Unknown place to resync: %d",
				(int)config->resync);
	if (config->cache_limit != 0 && config->cache_limit < PTM_CACHE_LIMIT_MIN)
		return PTM_FAIL(err, PTM_E_USAGE,
				"Bad cache limit: %" PRIu64 " is less than %" PRIu64,
				config->cache_limit, PTM_CACHE_LIMIT_MIN);
	return 0;
}

struct ptm_session *ptm_session_create(const struct ptm_config *config, struct ptm_error *err)
{
	struct ptm_plan_config plan = {.size = sizeof(plan)};
	struct ptm_session *session;

	if (check_config(config, err) < 0)
		return NULL;
	session = (struct ptm_session *)calloc(1, sizeof(*session));
	if (session == NULL) {
		(void)PTM_FAIL(err, PTM_E_NOMEM, "Out of memory");
		return NULL;
	}
	session->config = *config;
	if (config->cache_limit == 0)
		session->config.cache_limit = PTM_CACHE_LIMIT_DEFAULT;
	(void)pthread_mutex_init(&session->lock, NULL);
	atomic_init(&session->cancel, false);
	plan.threads = config->threads;
	plan.bind = config->bind;
	session->plan = ptm_plan_create(&plan, err);
	session->sources = ptm_sources_create();
	session->space = ptm_space_create();
	if (session->plan == NULL || session->sources == NULL || session->space == NULL) {
		if (session->plan != NULL)
			(void)PTM_FAIL(err, PTM_E_NOMEM, "Out of memory");
		ptm_session_destroy(session);
		return NULL;
	}
	return session;
}

void ptm_session_destroy(struct ptm_session *session)
{
	if (session == NULL)
		return;
	ptm_plan_destroy(session->plan);
	ptm_sources_destroy(session->sources);
	ptm_space_destroy(session->space);
	for (size_t i = 0; i < session->spaces.n; i++)
		ptm_space_destroy(session->spaces.v[i].space);
	for (size_t i = 0; i < session->streams.n; i++)
		free(session->streams.v[i].images.entries.v);
	ptm_session_free_descs(session);
	for (size_t i = 0; i < session->paths.n; i++)
		free(session->paths.v[i]);
	free(session->paths.v);
	free(session->spaces.v);
	free(session->streams.v);
	free(session->described.v);
	(void)pthread_mutex_destroy(&session->lock);
	free(session);
}

int ptm_session_add_input(struct ptm_session *session, const char *path, struct ptm_error *err)
{
	enum ptm_desc_kind kind = ptm_desc_probe(path);

	if (kind != PTM_DESC_NONE)
		return ptm_session_add_described(session, path, kind, err);
	session->has_plain = true;
	PTM_TRY(ptm_sources_add(session->sources, path, err));
	while (session->streams.n < ptm_sources_count(session->sources)) {
		struct ptm_stream_context stream = {.images = {.first = session->space},
						    .cpu = session->config.cpu,
						    .timing = session->config.timing,
						    .assume = session->config.assume};

		if (!ptm_vec_push(&session->streams, stream) ||
		    !ptm_vec_push(&session->described, NULL))
			return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory");
	}
	return 0;
}

/* A whole string as a number; 0x is hexadecimal. */
static bool parse_u64(const char *text, uint64_t *value)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*value = strtoull(text, &end, text[0] == '0' && (text[1] | 0x20) == 'x' ? 16 : 10);
	return errno == 0 && *end == '\0';
}

int ptm_session_add_elf(struct ptm_session *session, const char *spec, struct ptm_error *err)
{
	char *path = strdup(spec);
	char *colon;
	uint64_t base = 0;
	bool has_base;
	int status;

	if (path == NULL)
		return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory");
	/* A colon that no number follows is part of the path. */
	colon = strrchr(path, ':');
	has_base = colon != NULL && parse_u64(colon + 1, &base);
	if (has_base)
		*colon = '\0';
	status = ptm_space_add_elf(session->space, path, has_base, base, err);
	free(path);
	return status;
}

/* FILE[:FROM[-TO]]:BASE in place.  Returns false if it is not of this form. */
static bool parse_raw(char *spec, uint64_t *from, uint64_t *to, uint64_t *base)
{
	char *colon = strrchr(spec, ':');
	char *dash;

	*from = 0;
	*to = UINT64_MAX;
	if (colon == NULL || colon == spec || !parse_u64(colon + 1, base))
		return false;
	*colon = '\0';
	colon = strrchr(spec, ':');
	if (colon == NULL || colon == spec)
		return true;
	dash = strchr(colon, '-');
	if (dash != NULL)
		*dash = '\0';
	if (!parse_u64(colon + 1, from) || (dash != NULL && !parse_u64(dash + 1, to))) {
		if (dash != NULL)
			*dash = '-';
		return true; /* a colon in the path */
	}
	*colon = '\0';
	return *from < *to;
}

int ptm_session_add_raw(struct ptm_session *session, const char *spec, struct ptm_error *err)
{
	char *path = strdup(spec);
	uint64_t from, to, base;
	int status;

	if (path == NULL)
		return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory");
	if (parse_raw(path, &from, &to, &base))
		status = ptm_space_add_raw(session->space, path, from, to, base, err);
	else
		status = PTM_FAIL(err, PTM_E_USAGE, "%s: not of the form FILE[:FROM[-TO]]:BASE",
				  spec);
	free(path);
	return status;
}

int ptm_session_add_maps(struct ptm_session *session, const char *path, const char *sysroot,
			 struct ptm_error *err)
{
	char *copy = strdup(path);

	if (copy == NULL || !ptm_vec_push(&session->paths, copy)) {
		free(copy);
		return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory");
	}
	return ptm_space_add_maps(session->space, path, sysroot, err);
}

void ptm_session_cancel(struct ptm_session *session)
{
	atomic_store_explicit(&session->cancel, true, memory_order_relaxed);
	(void)pthread_mutex_lock(&session->lock);
	if (session->ring != NULL) {
		ptm_ring_cancel(session->ring);
		ptm_sources_interrupt(session->sources);
	}
	(void)pthread_mutex_unlock(&session->lock);
}

const struct ptm_plan *ptm_session_plan(const struct ptm_session *session)
{
	return session->plan;
}

size_t ptm_session_streams(const struct ptm_session *session)
{
	return ptm_sources_count(session->sources);
}

struct ptm_stream_info ptm_session_stream(const struct ptm_session *session, size_t i)
{
	const struct ptm_source *source = ptm_sources_get(session->sources, i);
	const struct ptm_desc_stream *described = session->described.v[i];

	return (struct ptm_stream_info){.name = ptm_source_name(source),
					.path = ptm_source_path(source),
					.truth = described != NULL ? described->truth : NULL,
					.bytes = ptm_source_size(source),
					.seekable = ptm_source_is_seekable(source)};
}

int ptm_session_seal(struct ptm_session *session, struct ptm_error *err)
{
	if (session->sealed)
		return 0;
	session->sealed = true;
	/* What options name is mapped into every process. */
	for (size_t i = 0; i < session->spaces.n; i++) {
		PTM_TRY(ptm_space_overlay(session->spaces.v[i].space, session->space, err));
		PTM_TRY(ptm_space_seal(session->spaces.v[i].space, err));
	}
	return ptm_space_seal(session->space, err);
}

/* The spaces whose images are listed, in order: that of the options if a stream lies in it, then
 * the processes'. */
static const struct ptm_space *listed_space(const struct ptm_session *session, size_t k,
					    uint32_t *pid)
{
	*pid = 0;
	if (session->spaces.n == 0 || session->has_plain)
		k--;
	if (k == SIZE_MAX)
		return session->space;
	if (k >= session->spaces.n)
		return NULL;
	*pid = session->spaces.v[k].pid;
	return session->spaces.v[k].space;
}

size_t ptm_session_images(const struct ptm_session *session)
{
	const struct ptm_space *space;
	uint32_t pid;
	size_t n = 0;

	for (size_t k = 0; (space = listed_space(session, k, &pid)) != NULL; k++)
		n += ptm_space_count(space);
	return n;
}

size_t ptm_session_image_index(const struct ptm_session *session, const struct ptm_space *space,
			       size_t i)
{
	const struct ptm_space *other;
	uint32_t pid;

	for (size_t k = 0; (other = listed_space(session, k, &pid)) != NULL && other != space; k++)
		i += ptm_space_count(other);
	return i;
}

struct ptm_image_info ptm_session_image(const struct ptm_session *session, size_t i)
{
	const struct ptm_space *space;
	struct ptm_mapping m;
	uint32_t pid = 0;
	size_t k = 0;

	for (; i >= ptm_space_count(space = listed_space(session, k, &pid)); k++)
		i -= ptm_space_count(space);
	m = ptm_space_get(space, i);
	return (struct ptm_image_info){.begin = m.begin,
				       .end = m.end,
				       .file_offset = m.file_offset,
				       .path = m.path,
				       .build_id = m.build_id,
				       .wanted_id = m.wanted_id,
				       .pid = pid,
				       .found = m.data != NULL};
}

/* Is the file @path one of those that are read? */
static bool is_same(const char *path, const struct stat *st)
{
	struct stat other;

	return path != NULL && stat(path, &other) == 0 && other.st_dev == st->st_dev &&
	       other.st_ino == st->st_ino;
}

bool ptm_session_reads(const struct ptm_session *session, const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return false;
	for (size_t i = 0; i < ptm_sources_count(session->sources); i++) {
		if (is_same(ptm_source_path(ptm_sources_get(session->sources, i)), &st))
			return true;
	}
	for (size_t i = 0; i < session->paths.n; i++) {
		if (is_same(session->paths.v[i], &st))
			return true;
	}
	for (size_t i = 0; i < session->descs.n; i++) {
		if (is_same(session->descs.v[i]->path, &st))
			return true;
	}
	return ptm_space_has_file(session->space, st.st_dev, st.st_ino);
}
