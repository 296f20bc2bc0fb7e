/* SPDX-License-Identifier: Apache-2.0
 *
 * describe.c - streams and address spaces of a bundle or a capture.
 *
 * Each process gets a space of its own, with the kernel's images in it.  A trace of a thread lies
 * in its process; a trace of a CPU follows the context switches, through a space with nothing but
 * the kernel while a process runs that the description does not list.
 */
#include "pipeline/session.h"

#include "input/desc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kernel mappings times processes: far beyond any machine, far below what hurts. */
#define MAPPINGS_MAX ((size_t)4 << 20)

static struct ptm_space *new_space(struct ptm_session *session, uint32_t pid)
{
	struct ptm_process_space process = {ptm_space_create_beside(session->space), pid};

	if (process.space != NULL && !ptm_vec_push(&session->spaces, process)) {
		ptm_space_destroy(process.space);
		return NULL;
	}
	return process.space;
}

static int add_map(struct ptm_space *space, const struct ptm_desc_map *map, struct ptm_error *err)
{
	if (map->name[0] != '\0')
		PTM_TRY(ptm_space_name(space, map->path, map->name, err));
	if (map->whole_elf)
		return ptm_space_add_module(space, map->path, map->address, map->build_id, err);
	return ptm_space_add_file(space, map->path, map->address, map->size, map->file_offset,
				  map->build_id, err);
}

/* A space with the images of @process (NULL: none) and those of @kernel (NULL: none). */
static int make_space(struct ptm_session *session, const struct ptm_desc_process *process,
		      const struct ptm_space *kernel, struct ptm_error *err)
{
	struct ptm_space *space = new_space(session, process != NULL ? process->pid : 0);

	if (space == NULL)
		return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory");
	if (kernel != NULL)
		PTM_TRY(ptm_space_overlay(space, kernel, err));
	for (size_t i = 0; process != NULL && i < process->maps.n; i++)
		PTM_TRY(add_map(space, &process->maps.v[i], err));
	return 0;
}

static int make_kernel(struct ptm_space *kernel, const struct ptm_desc *desc, struct ptm_error *err)
{
	if (desc->kernel.n * (desc->processes.n + 1) > MAPPINGS_MAX)
		return PTM_FAIL(err, PTM_E_FORMAT,
				"%s: too many mappings: %zu of the kernel in each of %zu processes",
				desc->path, desc->kernel.n, desc->processes.n);
	for (size_t i = 0; i < desc->kernel.n; i++)
		PTM_TRY(add_map(kernel, &desc->kernel.v[i], err));
	return 0;
}

static size_t find_process(const struct ptm_desc *desc, uint32_t pid)
{
	for (size_t i = 0; i < desc->processes.n; i++) {
		if (desc->processes.v[i].pid == pid)
			return i;
	}
	return desc->processes.n;
}

/* The spaces of this description: one a process, then the one for everybody else. */
struct spaces {
	const struct ptm_process_space *v; /* borrowed from the session */
	size_t others;                     /* index of the last one */
};

static int add_timeline(struct ptm_timeline *images, const struct ptm_desc *desc,
			const struct ptm_desc_stream *stream, const struct spaces *spaces,
			struct ptm_error *err)
{
	/* Until the first switch it is not known who runs; with one process it is the best guess.
	 */
	images->first = spaces->v[desc->processes.n == 1 ? 0 : spaces->others].space;
	for (size_t i = 0; i < stream->switches.n; i++) {
		const struct ptm_desc_switch *sw = &stream->switches.v[i];
		size_t process = sw->in ? find_process(desc, sw->pid) : desc->processes.n;
		struct ptm_timeline_entry entry = {sw->tsc, spaces->v[process].space};

		if (!ptm_vec_push(&images->entries, entry))
			return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory");
	}
	return 0;
}

static struct ptm_cpu choose_cpu(const struct ptm_session *session, const struct ptm_desc *desc)
{
	if (session->config.cpu.known || !desc->has_cpu)
		return session->config.cpu;
	return (struct ptm_cpu){true, desc->family, desc->model, desc->stepping};
}

/* Options win over the description. */
static struct ptm_timing choose_timing(const struct ptm_session *session,
				       const struct ptm_desc *desc)
{
	struct ptm_timing timing = session->config.timing;

	if (timing.mtc_freq == 0)
		timing.mtc_freq = desc->mtc_freq;
	if (timing.nom_freq == 0)
		timing.nom_freq = desc->nom_freq;
	if (timing.cpuid_0x15_eax == 0)
		timing.cpuid_0x15_eax = desc->cpuid_0x15_eax;
	if (timing.cpuid_0x15_ebx == 0)
		timing.cpuid_0x15_ebx = desc->cpuid_0x15_ebx;
	return timing;
}

static int add_stream(struct ptm_session *session, const char *input, const struct ptm_desc *desc,
		      const struct ptm_desc_stream *stream, const struct spaces *spaces,
		      struct ptm_error *err)
{
	struct ptm_stream_context context = {.cpu = choose_cpu(session, desc),
					     .timing = choose_timing(session, desc),
					     .assume = session->config.assume};
	char *name;
	int status;

	if (asprintf(&name, "%s:%s", input, stream->name) < 0)
		return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory");
	status = ptm_sources_add_as(session->sources, stream->path, name, err);
	free(name);
	PTM_TRY(status);
	ptm_source_set_blocks(
		ptm_sources_get(session->sources, ptm_sources_count(session->sources) - 1),
		&stream->blocks, stream->sum.bytes);
	if (!ptm_vec_push(&session->streams, context) || !ptm_vec_push(&session->described, stream))
		return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory");
	if (stream->process != PTM_DESC_NO_PROCESS) {
		session->streams.v[session->streams.n - 1].images.first =
			spaces->v[stream->process].space;
		return 0;
	}
	return add_timeline(&session->streams.v[session->streams.n - 1].images, desc, stream,
			    spaces, err);
}

static int make_spaces(struct ptm_session *session, const struct ptm_desc *desc,
		       struct ptm_error *err)
{
	struct ptm_space *kernel = ptm_space_create_beside(session->space);
	int status;

	if (kernel == NULL)
		return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory");
	status = make_kernel(kernel, desc, err);
	for (size_t i = 0; status >= 0 && i < desc->processes.n; i++)
		status = make_space(session, &desc->processes.v[i], kernel, err);
	if (status >= 0)
		status = make_space(session, NULL, kernel, err);
	ptm_space_destroy(kernel);
	return status;
}

static int add_all(struct ptm_session *session, const char *input, const struct ptm_desc *desc,
		   struct ptm_error *err)
{
	size_t first = session->spaces.n;
	struct spaces spaces;

	PTM_TRY(make_spaces(session, desc, err));
	spaces.v = session->spaces.v + first;
	spaces.others = desc->processes.n;
	for (size_t i = 0; i < desc->streams.n; i++)
		PTM_TRY(add_stream(session, input, desc, &desc->streams.v[i], &spaces, err));
	return 0;
}

int ptm_session_add_described(struct ptm_session *session, const char *path,
			      enum ptm_desc_kind kind, struct ptm_error *err)
{
	struct ptm_desc *desc;
	int status;

	for (size_t i = 0; i < session->descs.n; i++) {
		if (strcmp(session->descs.v[i]->path, path) == 0)
			return PTM_FAIL(err, PTM_E_USAGE, "%s: named twice", path);
	}
	desc = (struct ptm_desc *)calloc(1, sizeof(*desc));

	if (desc == NULL || !ptm_vec_push(&session->descs, desc)) {
		free(desc);
		return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory");
	}
	status = ptm_desc_read(desc, path, kind, err);
	return status < 0 ? status : add_all(session, path, desc, err);
}

/* Do the workers compare the blocks of stream @i as they read them? */
static bool has_blocks(const struct ptm_session *session, size_t i)
{
	return session->described.v[i]->blocks.size != 0 &&
	       ptm_source_is_seekable(ptm_sources_get(session->sources, i));
}

int ptm_session_check_streams(const struct ptm_session *session, struct ptm_error *err)
{
	/* First what takes no time. */
	for (size_t i = 0; i < session->described.n; i++) {
		const struct ptm_desc_stream *stream = session->described.v[i];

		if (stream != NULL && has_blocks(session, i))
			PTM_TRY(ptm_desc_check_size(
				stream->path, &stream->sum,
				ptm_source_size(ptm_sources_get(session->sources, i)), err));
	}
	for (size_t i = 0; i < session->described.n; i++) {
		const struct ptm_desc_stream *stream = session->described.v[i];

		if (stream != NULL && !has_blocks(session, i))
			PTM_TRY(ptm_desc_check(stream->path, &stream->sum, &session->cancel, err));
	}
	return 0;
}

int ptm_session_check_truth(const struct ptm_session *session, size_t i, struct ptm_error *err)
{
	const struct ptm_desc_stream *stream = session->described.v[i];

	return ptm_desc_check(stream->truth, &stream->truth_sum, &session->cancel, err);
}

void ptm_session_free_descs(struct ptm_session *session)
{
	for (size_t i = 0; i < session->descs.n; i++) {
		ptm_desc_fini(session->descs.v[i]);
		free(session->descs.v[i]);
	}
	free(session->descs.v);
}
