/* SPDX-License-Identifier: Apache-2.0
 *
 * perf_source.c - the AUX buffers of a perf.data file as streams.
 *
 * Each AUX buffer (idx) is a stream; its AUXTRACE records are the pieces.  Where the buffer's own
 * offset jumps, data was lost in between: a new stream begins, for nothing may be decoded across
 * it.
 */
#include "input/source_priv.h"

#include "fmt/perf_aux.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More AUX buffers than any machine has CPUs: such a file is not sound. */
#define BUFFERS_MAX 16384

/* The stream of one buffer that is being collected. */
struct buffer {
	uint32_t idx, cpu, tid;
	bool twin;     /* another buffer is of the same CPU or thread: names need the idx */
	uint64_t next; /* AUX offset that continues it */
	unsigned part;
	struct ptm_source *source;
};

struct buffers {
	PTM_VEC(struct buffer) list;
};

/* The buffer of a record, made at its first one. */
static int find_buffer(struct buffers *buffers, const struct ptm_perf_aux *aux,
		       struct buffer **found, struct ptm_error *err)
{
	struct buffer b = {.idx = aux->idx, .cpu = aux->cpu, .tid = aux->tid};

	for (size_t i = 0; i < buffers->list.n; i++) {
		struct buffer *other = &buffers->list.v[i];

		*found = other;
		if (other->idx == aux->idx)
			return 0;
		b.twin |= other->cpu == aux->cpu && other->tid == aux->tid;
	}
	if (buffers->list.n == BUFFERS_MAX)
		return PTM_FAIL(err, PTM_E_FORMAT, "More than %d AUX buffers", BUFFERS_MAX);
	if (!ptm_vec_push(&buffers->list, b))
		return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory");
	*found = &buffers->list.v[buffers->list.n - 1];
	return 0;
}

static struct ptm_source *new_part(struct ptm_sources *sources, struct ptm_file *file,
				   struct buffer *b)
{
	char who[32], twin[16] = "", part[16] = "";
	struct ptm_source *source;
	char *name;

	if (b->cpu != UINT32_MAX)
		(void)snprintf(who, sizeof(who), "cpu%u", b->cpu);
	else if (b->tid != UINT32_MAX)
		(void)snprintf(who, sizeof(who), "tid%u", b->tid);
	else
		(void)snprintf(who, sizeof(who), "%u", b->idx);
	if (b->twin)
		(void)snprintf(twin, sizeof(twin), "#%u", b->idx);
	if (b->part > 0)
		(void)snprintf(part, sizeof(part), ".%u", b->part);
	b->part++;
	if (asprintf(&name, "%s:%s%s%s", ptm_file_path(file), who, twin, part) < 0)
		return NULL;
	source = ptm_sources_new(sources, file, name);
	free(name);
	return source;
}

static int add_piece(struct ptm_sources *sources, struct ptm_file *file, struct buffers *buffers,
		     const struct ptm_perf_aux *aux, struct ptm_error *err)
{
	struct ptm_piece piece = {.file_offset = aux->file_offset, .size = aux->size};
	struct buffer *b = NULL;

	PTM_TRY(find_buffer(buffers, aux, &b, err));
	if (aux->size == 0 && aux->missing == 0)
		return 0;
	if (b->source == NULL || b->next != aux->aux_offset) {
		b->source = new_part(sources, file, b);
		if (b->source == NULL)
			return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory");
	}
	piece.offset = b->source->size;
	if (!ptm_vec_push(&b->source->pieces, piece))
		return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory");
	b->source->size += aux->size;
	b->source->missing = aux->missing;
	b->next = aux->aux_offset + aux->size;
	return 0;
}

static int walk(struct ptm_sources *sources, struct ptm_file *file, const struct ptm_map *map,
		struct buffers *buffers, struct ptm_error *err)
{
	struct ptm_perf_walk w;
	struct ptm_perf_aux aux;
	int status;

	PTM_TRY(ptm_perf_walk_init(&w, map->data, map->len, err));
	while ((status = ptm_perf_walk_next(&w, &aux, err)) > 0) {
		PTM_TRY(add_piece(sources, file, buffers, &aux, err));
	}
	if (status < 0)
		return status;
	if (buffers->list.n == 0)
		return PTM_FAIL(err, PTM_E_FORMAT,
				"No Intel PT data: the file has no AUXTRACE record (record with -e "
				"intel_pt//)");
	return 0;
}

int ptm_sources_add_perf(struct ptm_sources *sources, struct ptm_file *file, struct ptm_error *err)
{
	const char *path = ptm_file_path(file);
	struct buffers buffers = {0};
	struct ptm_map map;
	/* Standard input that is a file. */
	int status = ptm_map_open(&map, strcmp(path, "-") == 0 ? "/proc/self/fd/0" : path, err);

	if (status < 0)
		return status;
	status = walk(sources, file, &map, &buffers, err);
	if (status < 0)
		(void)ptm_error_add(err, __func__, "%s", path);
	free(buffers.list.v);
	ptm_map_close(&map);
	return status;
}
