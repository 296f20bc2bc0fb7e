/* SPDX-License-Identifier: Apache-2.0
 *
 * hot_code.c - arrays of instructions, conditional branches and ways of indirect ones, each sorted
 * by spot.
 *
 * Runs of code overlap; so the instructions of all runs are appended, and whenever the array has
 * doubled it is sorted, and equal ones become one.
 */
#include "sink/hot_code.h"

#include "base/error.h"
#include "image/code_map.h"

#include <stdlib.h>
#include <string.h>

#define INSNS_MIN (1u << 18)
#define INSNS_MAX (1u << 23) /* different ones: 128 MiB */

/* Where the last instruction was mapped. */
struct where {
	const struct ptm_space *space;
	uint64_t begin, last, spot; /* spot of its first byte */
};

struct index {
	const struct ptm_image *image;
	size_t i;
};

struct making {
	struct ptm_hot_code *code;
	struct index *index; /* of the images, by pointer */
	size_t sorted;       /* instructions, the first ones */
	struct where where;
	struct ptm_error *err;
};

static int no_memory(struct ptm_error *err)
{
	return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory for what was executed most");
}

static int by_image(const void *a, const void *b)
{
	const struct ptm_hot_image *x = (const struct ptm_hot_image *)a;
	const struct ptm_hot_image *y = (const struct ptm_hot_image *)b;
	int order;

	if (x->image != y->image)
		return x->image < y->image ? -1 : 1;
	order = strcmp(x->name, y->name);
	return order != 0 ? order : strcmp(x->path, y->path);
}

static int by_name(const void *a, const void *b)
{
	const struct ptm_hot_image *x = (const struct ptm_hot_image *)a;
	const struct ptm_hot_image *y = (const struct ptm_hot_image *)b;
	int order = strcmp(x->name, y->name);

	return order != 0 ? order : strcmp(x->path, y->path);
}

static int by_pointer(const void *a, const void *b)
{
	const struct index *x = (const struct index *)a, *y = (const struct index *)b;

	return x->image == y->image ? 0 : x->image < y->image ? -1 : 1;
}

static int make_index(struct making *m)
{
	const size_t n = m->code->images.n;

	m->index = (struct index *)calloc(n + 1, sizeof(*m->index));
	if (m->index == NULL)
		return no_memory(m->err);
	for (size_t i = 0; i < n; i++)
		m->index[i] = (struct index){m->code->images.v[i].image, i};
	qsort(m->index, n, sizeof(*m->index), by_pointer);
	return 0;
}

/* The images that are mapped, once each, in an order that the names alone decide. */
static int list_images(struct making *m)
{
	struct ptm_hot_code *code = m->code;
	size_t n = 0;

	for (size_t s = 0; s < ptm_counts_spaces(code->counts); s++) {
		const struct ptm_space *space = ptm_counts_space(code->counts, (unsigned)s);

		for (size_t i = 0; i < ptm_space_count(space); i++) {
			const struct ptm_mapping map = ptm_space_get(space, i);

			if (map.image == NULL)
				continue;
			if (!ptm_vec_push(&code->images,
					  ((struct ptm_hot_image){map.image, map.name, map.path})))
				return no_memory(m->err);
		}
	}
	if (code->images.n == 0)
		return make_index(m);
	qsort(code->images.v, code->images.n, sizeof(*code->images.v), by_image);
	for (size_t i = 0; i < code->images.n; i++)
		if (n == 0 || code->images.v[n - 1].image != code->images.v[i].image)
			code->images.v[n++] = code->images.v[i];
	code->images.n = n;
	qsort(code->images.v, n, sizeof(*code->images.v), by_name);
	if (n >= PTM_SPOT_IMAGES)
		return PTM_FAIL(m->err, PTM_E_NOMEM, "Too many images to count in: %zu", n);
	return make_index(m);
}

/* Find the mapping at @ip.  False: nothing is mapped there. */
static bool find_mapping(struct making *m, const struct ptm_space *space, uint64_t ip)
{
	const size_t at = ptm_space_find(space, ip);
	const struct index *found;
	struct index key;
	struct ptm_mapping map;

	if (at == SIZE_MAX)
		return false;
	map = ptm_space_get(space, at);
	if (map.image == NULL || map.file_offset + (map.end - map.begin) > PTM_SPOT_OFFSETS)
		return false;
	key.image = map.image;
	found = (const struct index *)bsearch(&key, m->index, m->code->images.n, sizeof(key),
					      by_pointer);
	m->where =
		(struct where){space, map.begin, map.end - 1, PTM_SPOT(found->i, map.file_offset)};
	return true;
}

static uint64_t spot_of(struct making *m, const struct ptm_space *space, uint64_t ip)
{
	if ((m->where.space != space || ip < m->where.begin || ip > m->where.last) &&
	    !find_mapping(m, space, ip))
		return PTM_SPOT_NONE;
	return m->where.spot + PTM_SPOT(0, ip - m->where.begin);
}

static int by_insn(const void *a, const void *b)
{
	const struct ptm_hot_insn *x = (const struct ptm_hot_insn *)a;
	const struct ptm_hot_insn *y = (const struct ptm_hot_insn *)b;

	return x->spot == y->spot ? 0 : x->spot < y->spot ? -1 : 1;
}

static int merge_insns(struct making *m)
{
	struct ptm_hot_insn *v = m->code->insns.v;
	size_t n = 0;

	if (m->code->insns.n == 0)
		return 0;
	qsort(v, m->code->insns.n, sizeof(*v), by_insn);
	for (size_t i = 0; i < m->code->insns.n; i++) {
		if (n > 0 && v[n - 1].spot == v[i].spot)
			v[n - 1].times += v[i].times;
		else
			v[n++] = v[i];
	}
	m->code->insns.n = m->sorted = n;
	if (n > INSNS_MAX)
		return PTM_FAIL(m->err, PTM_E_NOMEM,
				"More than %u different instructions: too many to count; give a "
				"part of the trace",
				INSNS_MAX);
	return 0;
}

static int add_insn(struct making *m, uint64_t spot, uint64_t times)
{
	if (m->code->insns.n >= INSNS_MIN && m->code->insns.n / 2 >= m->sorted)
		PTM_TRY(merge_insns(m));
	if (!ptm_vec_push(&m->code->insns, ((struct ptm_hot_insn){spot, times})))
		return no_memory(m->err);
	return 0;
}

static int add_run(struct making *m, const struct ptm_space *space, const struct ptm_count *run)
{
	struct ptm_code_cursor cursor;
	uint64_t ip = run->ip;

	ptm_code_cursor_init(&cursor, space, (enum ptm_mode)run->mode);
	for (uint64_t i = 0; i < run->to; i++) {
		const uint64_t spot = spot_of(m, space, ip);
		struct ptm_insn insn;

		if (spot == PTM_SPOT_NONE && ptm_space_find(space, ip) != SIZE_MAX)
			return PTM_FAIL(
				m->err, PTM_E_FORMAT,
				"Cannot count code at 0x%llx: it lies beyond the first %llu GiB "
				"of its file",
				(unsigned long long)ip,
				(unsigned long long)(PTM_SPOT_OFFSETS >> 30));
		if (spot == PTM_SPOT_NONE || ptm_code_read(&cursor, ip, &insn) <= 0)
			return PTM_FAIL(m->err, PTM_E_BUG,
					"There is no instruction at 0x%llx, which was counted",
					(unsigned long long)ip);
		PTM_TRY(add_insn(
			m, spot | (uint64_t)run->mode << 8 | (uint64_t)insn.len << 4 | insn.klass,
			run->times));
		ip = insn.klass == PTM_INSN_JUMP || insn.klass == PTM_INSN_CALL ? insn.target
										: ip + insn.len;
	}
	return 0;
}

static int add_cond(struct making *m, const struct ptm_space *space, const struct ptm_count *c)
{
	const struct ptm_hot_cond cond = {spot_of(m, space, c->ip), c->to != 0 ? c->times : 0,
					  c->to != 0 ? 0 : c->times};

	return ptm_vec_push(&m->code->conds, cond) ? 0 : no_memory(m->err);
}

static int add_way(struct making *m, const struct ptm_space *space, const struct ptm_count *c)
{
	struct ptm_hot_way way = {.spot = spot_of(m, space, c->ip), .times = c->times};

	way.to = spot_of(m, space, c->to);
	way.unmapped = way.to == PTM_SPOT_NONE;
	if (way.unmapped)
		way.to = c->to;
	return ptm_vec_push(&m->code->ways, way) ? 0 : no_memory(m->err);
}

static int by_cond(const void *a, const void *b)
{
	const struct ptm_hot_cond *x = (const struct ptm_hot_cond *)a;
	const struct ptm_hot_cond *y = (const struct ptm_hot_cond *)b;

	return x->spot == y->spot ? 0 : x->spot < y->spot ? -1 : 1;
}

static void merge_conds(struct ptm_hot_code *code)
{
	struct ptm_hot_cond *v = code->conds.v;
	size_t n = 0;

	if (code->conds.n == 0)
		return;
	qsort(v, code->conds.n, sizeof(*v), by_cond);
	for (size_t i = 0; i < code->conds.n; i++) {
		if (n > 0 && v[n - 1].spot == v[i].spot) {
			v[n - 1].taken += v[i].taken;
			v[n - 1].fall += v[i].fall;
		} else {
			v[n++] = v[i];
		}
	}
	code->conds.n = n;
}

static int by_way(const void *a, const void *b)
{
	const struct ptm_hot_way *x = (const struct ptm_hot_way *)a;
	const struct ptm_hot_way *y = (const struct ptm_hot_way *)b;

	if (x->spot != y->spot)
		return x->spot < y->spot ? -1 : 1;
	if (x->unmapped != y->unmapped)
		return x->unmapped ? 1 : -1;
	return x->to == y->to ? 0 : x->to < y->to ? -1 : 1;
}

static void merge_ways(struct ptm_hot_code *code)
{
	struct ptm_hot_way *v = code->ways.v;
	size_t n = 0;

	if (code->ways.n == 0)
		return;
	qsort(v, code->ways.n, sizeof(*v), by_way);
	for (size_t i = 0; i < code->ways.n; i++) {
		if (n > 0 && by_way(&v[n - 1], &v[i]) == 0)
			v[n - 1].times += v[i].times;
		else
			v[n++] = v[i];
	}
	code->ways.n = n;
}

static int add(struct making *m, const struct ptm_count *count)
{
	const struct ptm_space *space = ptm_counts_space(m->code->counts, count->space);

	switch ((enum ptm_count_kind)count->kind) {
	case PTM_COUNT_RUN:
		return add_run(m, space, count);
	case PTM_COUNT_COND:
		return add_cond(m, space, count);
	case PTM_COUNT_TARGET:
		return add_way(m, space, count);
	}
	return -PTM_E_BUG;
}

int ptm_hot_code_make(struct ptm_hot_code *code, struct ptm_counts *counts, struct ptm_error *err)
{
	struct making m = {.code = code, .err = err};
	const struct ptm_count *v;
	size_t n;
	int status;

	code->counts = counts;
	PTM_TRY(ptm_counts_get(counts, &v, &n, err));
	status = list_images(&m);
	for (size_t i = 0; i < n && status >= 0; i++)
		status = add(&m, &v[i]);
	free(m.index);
	if (status < 0)
		return status;
	merge_conds(code);
	merge_ways(code);
	return merge_insns(&m);
}

void ptm_hot_code_fini(struct ptm_hot_code *code)
{
	free(code->images.v);
	free(code->insns.v);
	free(code->conds.v);
	free(code->ways.v);
}

uint64_t ptm_hot_code_address(const struct ptm_hot_code *code, uint64_t spot)
{
	const struct ptm_image *image = code->images.v[PTM_SPOT_IMAGE(spot)].image;
	uint64_t lowest = UINT64_MAX;

	for (size_t s = 0; s < ptm_counts_spaces(code->counts); s++) {
		const struct ptm_space *space = ptm_counts_space(code->counts, (unsigned)s);

		for (size_t i = 0; i < ptm_space_count(space); i++) {
			const struct ptm_mapping map = ptm_space_get(space, i);
			const uint64_t in = PTM_SPOT_OFFSET(spot) - map.file_offset;

			if (map.image == image && in < map.end - map.begin &&
			    map.begin + in < lowest)
				lowest = map.begin + in;
		}
	}
	return lowest;
}
