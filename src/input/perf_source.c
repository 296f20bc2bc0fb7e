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

/* The stream of one buffer that is being collected. */
struct buffer {
	uint32_t idx;
	uint64_t next; /* AUX offset that continues it */
	unsigned part;
	struct ptm_source *source;
};

struct buffers {
	PTM_VEC(struct buffer) list;
};

static struct buffer *find_buffer(struct buffers *buffers, uint32_t idx)
{
	for (size_t i = 0; i < buffers->list.n; i++) {
		if (buffers->list.v[i].idx == idx)
			return &buffers->list.v[i];
	}
	if (!ptm_vec_push(&buffers->list, ((struct buffer){.idx = idx})))
		return NULL;
	return &buffers->list.v[buffers->list.n - 1];
}

static struct ptm_source *new_part(struct ptm_sources *sources, struct ptm_file *file,
				   struct buffer *b, const struct ptm_perf_aux *aux)
{
	char name[4200], part[16] = "";

	if (b->part > 0)
		(void)snprintf(part, sizeof(part), ".%u", b->part);
	b->part++;
	if (aux->cpu != UINT32_MAX)
		(void)snprintf(name, sizeof(name), "%s:cpu%u%s", ptm_file_path(file), aux->cpu,
			       part);
	else if (aux->tid != UINT32_MAX)
		(void)snprintf(name, sizeof(name), "%s:tid%u%s", ptm_file_path(file), aux->tid,
			       part);
	else
		(void)snprintf(name, sizeof(name), "%s:%u%s", ptm_file_path(file), aux->idx, part);
	return ptm_sources_new(sources, file, name);
}

static int add_piece(struct ptm_sources *sources, struct ptm_file *file, struct buffers *buffers,
		     const struct ptm_perf_aux *aux)
{
	struct buffer *b = find_buffer(buffers, aux->idx);
	struct ptm_piece piece = {.file_offset = aux->file_offset, .size = aux->size};

	if (b == NULL)
		return -PTM_E_NOMEM;
	if (aux->size == 0)
		return 0;
	if (b->source == NULL || b->next != aux->aux_offset) {
		b->source = new_part(sources, file, b, aux);
		if (b->source == NULL)
			return -PTM_E_NOMEM;
	}
	piece.offset = b->source->size;
	if (!ptm_vec_push(&b->source->pieces, piece))
		return -PTM_E_NOMEM;
	b->source->size += aux->size;
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
		if (add_piece(sources, file, buffers, &aux) < 0)
			return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory");
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
	int status = ptm_map_open(&map, path, err);

	if (status < 0)
		return status;
	status = walk(sources, file, &map, &buffers, err);
	if (status < 0)
		(void)ptm_error_add(err, __func__, "%s", path);
	free(buffers.list.v);
	ptm_map_close(&map);
	return status;
}
