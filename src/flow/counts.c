/* SPDX-License-Identifier: Apache-2.0
 *
 * counts.c - a table of counts: a front of what was counted lately, and a log behind it.
 *
 * The front is direct-mapped: what is counted again finds its place there; what loses its place is
 * appended to the log.  When the log has doubled, it is sorted and equal entries become one, so it
 * is never more than twice as long as the number of different ones.
 */
#include "flow/counts.h"

#include "base/vec.h"

#include <stdlib.h>
#include <string.h>

#define FRONT_BITS 17
#define LOG_MIN    (1u << 15) /* entries */

struct ptm_counts {
	struct ptm_count front[1u << FRONT_BITS];
	PTM_VEC(struct ptm_count) log;
	size_t sorted; /* entries of the log, its first, each once and in order */
	PTM_VEC(const struct ptm_space *) spaces;
	size_t space; /* of the last entry that was added */
};

struct ptm_counts *ptm_counts_create(void)
{
	return (struct ptm_counts *)calloc(1, sizeof(struct ptm_counts));
}

void ptm_counts_destroy(struct ptm_counts *counts)
{
	if (counts == NULL)
		return;
	free(counts->log.v);
	free(counts->spaces.v);
	free(counts);
}

static int no_memory(struct ptm_error *err)
{
	return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory for counts of what is executed");
}

static int compare(const struct ptm_count *x, const struct ptm_count *y)
{
	if (x->space != y->space)
		return x->space < y->space ? -1 : 1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->mode != y->mode)
		return x->mode < y->mode ? -1 : 1;
	if (x->ip != y->ip)
		return x->ip < y->ip ? -1 : 1;
	return x->to == y->to ? 0 : x->to < y->to ? -1 : 1;
}

static int by_key(const void *a, const void *b)
{
	return compare((const struct ptm_count *)a, (const struct ptm_count *)b);
}

/* Equal entries become one. */
static int merge(struct ptm_counts *counts, struct ptm_error *err)
{
	struct ptm_count *v = counts->log.v;
	size_t n = 0;

	if (counts->sorted == counts->log.n)
		return 0;
	qsort(v, counts->log.n, sizeof(*v), by_key);
	for (size_t i = 0; i < counts->log.n; i++) {
		if (n > 0 && compare(&v[n - 1], &v[i]) == 0)
			v[n - 1].times += v[i].times;
		else
			v[n++] = v[i];
	}
	counts->log.n = counts->sorted = n;
	if (n > PTM_COUNTS_MAX)
		return PTM_FAIL(err, PTM_E_NOMEM,
				"More than %u different runs of code and targets of branches: too "
				"many to count; give a part of the trace",
				PTM_COUNTS_MAX);
	return 0;
}

static int append(struct ptm_counts *counts, const struct ptm_count *count, struct ptm_error *err)
{
	if (counts->log.n >= LOG_MIN && counts->log.n / 2 >= counts->sorted)
		PTM_TRY(merge(counts, err));
	return ptm_vec_push(&counts->log, *count) ? 0 : no_memory(err);
}

/* The number of @space. */
static int enter_space(struct ptm_counts *counts, const struct ptm_space *space,
		       struct ptm_error *err)
{
	if (counts->spaces.n > 0 && counts->spaces.v[counts->space] == space)
		return 0;
	for (size_t i = 0; i < counts->spaces.n; i++) {
		if (counts->spaces.v[i] == space) {
			counts->space = i;
			return 0;
		}
	}
	if (counts->spaces.n > UINT16_MAX)
		return PTM_FAIL(err, PTM_E_NOMEM, "Too many address spaces to count in: %zu",
				counts->spaces.n);
	if (!ptm_vec_push(&counts->spaces, space))
		return no_memory(err);
	counts->space = counts->spaces.n - 1;
	return 0;
}

int ptm_counts_add(struct ptm_counts *counts, const struct ptm_space *space,
		   enum ptm_count_kind kind, enum ptm_mode mode, uint64_t ip, uint64_t to,
		   uint64_t times, struct ptm_error *err)
{
	const uint64_t hash = (ip ^ to << 20 ^ (uint64_t)kind << 62) * 0x9e3779b97f4a7c15;
	struct ptm_count *front = &counts->front[hash >> (64 - FRONT_BITS)];

	PTM_TRY(enter_space(counts, space, err));
	if (front->ip != ip || front->to != to || front->kind != kind || front->mode != mode ||
	    front->space != counts->space) {
		if (front->times > 0)
			PTM_TRY(append(counts, front, err));
		*front = (struct ptm_count){
			ip, to, 0, (uint16_t)counts->space, (uint8_t)mode, (uint8_t)kind};
	}
	front->times += times;
	return 0;
}

/* What is in the front goes to the log. */
static int empty_front(struct ptm_counts *counts, struct ptm_error *err)
{
	for (size_t i = 0; i < sizeof(counts->front) / sizeof(counts->front[0]); i++) {
		struct ptm_count *front = &counts->front[i];

		if (front->times > 0)
			PTM_TRY(append(counts, front, err));
		front->times = 0;
	}
	return 0;
}

int ptm_counts_get(struct ptm_counts *counts, const struct ptm_count **v, size_t *n,
		   struct ptm_error *err)
{
	PTM_TRY(empty_front(counts, err));
	PTM_TRY(merge(counts, err));
	*v = counts->log.v;
	*n = counts->log.n;
	return 0;
}

int ptm_counts_sum(struct ptm_counts *sum, struct ptm_counts *part, struct ptm_error *err)
{
	const struct ptm_count *v;
	size_t n;

	PTM_TRY(ptm_counts_get(part, &v, &n, err));
	for (size_t i = 0; i < n; i++) {
		struct ptm_count count = v[i];

		PTM_TRY(enter_space(sum, ptm_counts_space(part, count.space), err));
		count.space = (uint16_t)sum->space;
		PTM_TRY(append(sum, &count, err));
	}
	return 0;
}

size_t ptm_counts_spaces(const struct ptm_counts *counts)
{
	return counts->spaces.n;
}

const struct ptm_space *ptm_counts_space(const struct ptm_counts *counts, unsigned space)
{
	return counts->spaces.v[space];
}
