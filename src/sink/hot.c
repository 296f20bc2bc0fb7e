/* SPDX-License-Identifier: Apache-2.0
 *
 * hot.c - the lists of what was executed most.
 *
 * Everything is found in one pass over sorted arrays (sink/hot_code.h).  A list keeps its hottest
 * entries: it is sorted and cut when it has twice as many as it may have, so it is small, whatever
 * was executed.  Equally hot ones are in order of their place.  Names are looked up at the end, for
 * what is left.
 */
#include "sink/hot.h"

#include "base/error.h"
#include "image/symbols.h"
#include "sink/hot_code.h"

#include <stdlib.h>
#include <string.h>

/* A candidate for a list. */
struct entry {
	uint64_t heat, spot, times, insns, count;
	uint64_t inside;   /* function: spot of its first instruction that was executed */
	size_t way, nways; /* of the array of ways */
	bool unmapped;     /* `spot` is an address */
};

struct list {
	PTM_VEC(struct entry) entries;
	size_t max;
};

/* A function while its instructions are added up. */
struct function {
	uint64_t spot; /* of its begin; of the image's begin if no symbol tells */
	uint64_t inside;
	uint64_t insns, entries;
	bool named;
};

struct making {
	struct ptm_hot *hot;
	struct ptm_hot_code code;
	struct ptm_symbols *symbols;
	PTM_VEC(struct function) functions;
	struct ptm_error *err;
};

static int no_memory(struct ptm_error *err)
{
	return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory for what was executed most");
}

static int by_heat(const void *a, const void *b)
{
	const struct entry *x = (const struct entry *)a, *y = (const struct entry *)b;

	if (x->heat != y->heat)
		return x->heat > y->heat ? -1 : 1;
	if (x->unmapped != y->unmapped)
		return x->unmapped ? 1 : -1;
	return x->spot == y->spot ? 0 : x->spot < y->spot ? -1 : 1;
}

static void cut(struct list *list)
{
	if (list->entries.n > 0)
		qsort(list->entries.v, list->entries.n, sizeof(*list->entries.v), by_heat);
	if (list->entries.n > list->max)
		list->entries.n = list->max;
}

static int enter(struct making *m, struct list *list, const struct entry *entry)
{
	if (list->entries.n / 2 > list->max)
		cut(list);
	return ptm_vec_push(&list->entries, *entry) ? 0 : no_memory(m->err);
}

/* The instruction behind number @i in memory, if @i is no branch, it was executed as often, and no
 * block has it yet (in front of it may lie two, one in the middle of the other); else @i. */
static size_t follow(const struct ptm_hot_code *code, const uint8_t *taken, size_t i)
{
	const struct ptm_hot_insn *v = code->insns.v;
	const uint64_t next =
		PTM_SPOT_PLACE(v[i].spot) + PTM_SPOT(0, (uint64_t)PTM_SPOT_LEN(v[i].spot));

	if (PTM_SPOT_CLASS(v[i].spot) != PTM_INSN_OTHER)
		return i;
	for (size_t k = i + 1; k < code->insns.n && PTM_SPOT_PLACE(v[k].spot) <= next; k++)
		if (PTM_SPOT_PLACE(v[k].spot) == next &&
		    PTM_SPOT_MODE(v[k].spot) == PTM_SPOT_MODE(v[i].spot))
			return v[k].times == v[i].times && !taken[k] ? k : i;
	return i;
}

static int list_blocks(struct making *m, struct list *list)
{
	const struct ptm_hot_code *code = &m->code;
	uint8_t *taken = (uint8_t *)calloc(code->insns.n + 1, 1);
	int status = taken != NULL ? 0 : no_memory(m->err);

	for (size_t i = 0; i < code->insns.n && status >= 0; i++) {
		const struct ptm_hot_insn *first = &code->insns.v[i];
		struct entry entry = {.spot = first->spot, .times = first->times};
		size_t k, next = i;

		if (taken[i])
			continue;
		do {
			k = next;
			taken[k] = 1;
			entry.count++;
			next = follow(code, taken, k);
		} while (next != k);
		entry.heat = entry.insns = entry.times * entry.count;
		status = enter(m, list, &entry);
	}
	free(taken);
	return status;
}

static int by_function(const void *a, const void *b)
{
	const struct function *x = (const struct function *)a, *y = (const struct function *)b;

	if (x->named != y->named)
		return x->named ? -1 : 1;
	return x->spot == y->spot ? 0 : x->spot < y->spot ? -1 : 1;
}

/* Parts of one function: the first one that was executed comes first. */
static int by_part(const void *a, const void *b)
{
	const struct function *x = (const struct function *)a, *y = (const struct function *)b;
	const int order = by_function(a, b);

	if (order != 0)
		return order;
	return x->inside == y->inside ? 0 : x->inside < y->inside ? -1 : 1;
}

/* Add an instruction to the function that it lies in. */
static int add_to_function(struct making *m, const struct ptm_hot_insn *insn)
{
	const size_t image = PTM_SPOT_IMAGE(insn->spot);
	struct function *f = m->functions.n > 0 ? &m->functions.v[m->functions.n - 1] : NULL;
	struct function key = {.spot = PTM_SPOT(image, 0)};
	struct ptm_symbol symbol;
	int found = ptm_symbols_find(m->symbols, m->code.images.v[image].image,
				     PTM_SPOT_OFFSET(insn->spot), &symbol, m->err);

	if (found < 0)
		return found;
	/* What a file says of itself may be wrong. */
	key.named = found > 0 && symbol.begin < PTM_SPOT_OFFSETS;
	if (key.named)
		key.spot = PTM_SPOT(image, symbol.begin);
	if (f == NULL || by_function(f, &key) != 0) {
		key.inside = insn->spot;
		if (!ptm_vec_push(&m->functions, key))
			return no_memory(m->err);
		f = &m->functions.v[m->functions.n - 1];
	}
	f->insns += insn->times;
	if (key.named && PTM_SPOT_PLACE(insn->spot) == key.spot)
		f->entries += insn->times;
	m->hot->insns += insn->times;
	return 0;
}

static int list_functions(struct making *m, struct list *list)
{
	struct function *v;

	for (size_t i = 0; i < m->code.insns.n; i++)
		PTM_TRY(add_to_function(m, &m->code.insns.v[i]));
	v = m->functions.v;
	if (m->functions.n > 0)
		qsort(v, m->functions.n, sizeof(*v), by_part);
	for (size_t i = 0; i < m->functions.n; i++) {
		struct entry entry = {
			.spot = v[i].spot, .inside = v[i].inside, .count = v[i].named};

		/* One function may lie inside another. */
		for (;; i++) {
			entry.insns += v[i].insns;
			entry.times += v[i].entries;
			if (i + 1 == m->functions.n || by_function(&v[i], &v[i + 1]) != 0)
				break;
		}
		entry.heat = entry.insns;
		PTM_TRY(enter(m, list, &entry));
	}
	return 0;
}

static int list_branches(struct making *m, struct list *list)
{
	for (size_t i = 0; i < m->code.conds.n; i++) {
		const struct ptm_hot_cond *cond = &m->code.conds.v[i];
		const struct entry entry = {.heat = cond->taken + cond->fall,
					    .spot = cond->spot,
					    .times = cond->taken + cond->fall,
					    .count = cond->taken};

		PTM_TRY(enter(m, list, &entry));
	}
	return 0;
}

static int list_indirect(struct making *m, struct list *list)
{
	const struct ptm_hot_way *v = m->code.ways.v;

	for (size_t i = 0, end; i < m->code.ways.n; i = end) {
		struct entry entry = {.spot = v[i].spot, .way = i};

		for (end = i; end < m->code.ways.n && v[end].spot == v[i].spot; end++)
			entry.times += v[end].times;
		entry.heat = entry.times;
		entry.count = entry.nways = end - i;
		PTM_TRY(enter(m, list, &entry));
	}
	return 0;
}

static char *copy(const char *text, bool *ok)
{
	char *copied = strdup(text);

	*ok &= copied != NULL;
	return copied;
}

/* All that is known of a place. */
static int describe(struct making *m, const struct entry *entry, struct ptm_hot_place *place)
{
	const struct ptm_hot_image *image;
	uint64_t spot = entry->spot;
	struct ptm_symbol symbol;
	const char *file;
	bool ok = true;
	int found;

	if (entry->unmapped) {
		place->address = entry->spot;
		return 0;
	}
	image = &m->code.images.v[PTM_SPOT_IMAGE(spot)];
	place->address = ptm_hot_code_address(&m->code, spot);
	if (place->address == UINT64_MAX) {
		/* A function whose begin is not mapped. */
		spot = entry->inside;
		place->address = ptm_hot_code_address(&m->code, spot);
	}
	place->offset = PTM_SPOT_OFFSET(spot);
	place->module = copy(image->name, &ok);
	found = ptm_symbols_find(m->symbols, image->image, place->offset, &symbol, m->err);
	if (found < 0)
		return found;
	if (found > 0)
		place->function = copy(symbol.name, &ok);
	found = ptm_symbols_line(m->symbols, image->image, place->offset, &file, &place->line,
				 m->err);
	if (found < 0)
		return found;
	if (found > 0)
		place->file = copy(file, &ok);
	if (place->function != NULL)
		place->offset -= symbol.begin;
	return ok ? 0 : no_memory(m->err);
}

static void free_place(struct ptm_hot_place *place)
{
	free(place->module);
	free(place->function);
	free(place->file);
}

/* The hottest targets of the branch of @entry. */
static int add_targets(struct making *m, const struct entry *entry, struct ptm_hot_row *row)
{
	struct list list = {.max = m->hot->max};
	int status = 0;

	for (size_t i = 0; i < entry->nways && status >= 0; i++) {
		const struct ptm_hot_way *way = &m->code.ways.v[entry->way + i];
		const struct entry target = {.heat = way->times,
					     .spot = way->to,
					     .times = way->times,
					     .unmapped = way->unmapped};

		status = enter(m, &list, &target);
	}
	cut(&list);
	for (size_t i = 0; i < list.entries.n && status >= 0; i++) {
		const struct ptm_hot_target target = {.times = list.entries.v[i].times};

		status = ptm_vec_push(&row->targets, target) ? 0 : no_memory(m->err);
		if (status >= 0)
			status = describe(m, &list.entries.v[i], &row->targets.v[i].place);
	}
	free(list.entries.v);
	return status;
}

/* The rows of a list, described. */
static int make_rows(struct making *m, struct list *list, ptm_hot_rows *rows)
{
	cut(list);
	for (size_t i = 0; i < list->entries.n; i++) {
		const struct entry *entry = &list->entries.v[i];
		const struct ptm_hot_row row = {
			.times = entry->times, .insns = entry->insns, .count = entry->count};

		if (!ptm_vec_push(rows, row))
			return no_memory(m->err);
		PTM_TRY(describe(m, entry, &rows->v[i].place));
		PTM_TRY(add_targets(m, entry, &rows->v[i]));
	}
	return 0;
}

/* A file's code that no symbol tells begins nowhere, and no line is of it. */
static void strip_nameless(ptm_hot_rows *functions)
{
	for (size_t i = 0; i < functions->n; i++) {
		struct ptm_hot_row *row = &functions->v[i];

		if (row->count > 0)
			continue;
		free(row->place.function);
		free(row->place.file);
		row->place = (struct ptm_hot_place){.module = row->place.module};
	}
}

static int make_list(struct making *m, ptm_hot_rows *rows,
		     int (*fill)(struct making *m, struct list *list))
{
	struct list list = {.max = m->hot->max};
	int status = fill(m, &list);

	if (status >= 0)
		status = make_rows(m, &list, rows);
	free(list.entries.v);
	return status;
}

int ptm_hot_make(struct ptm_hot *hot, struct ptm_counts *counts, struct ptm_error *err)
{
	struct making m = {.hot = hot, .symbols = ptm_symbols_create(), .err = err};
	int status = m.symbols != NULL ? ptm_hot_code_make(&m.code, counts, err) : no_memory(err);

	if (status >= 0)
		status = make_list(&m, &hot->functions, list_functions);
	if (status >= 0)
		status = make_list(&m, &hot->blocks, list_blocks);
	if (status >= 0)
		status = make_list(&m, &hot->branches, list_branches);
	if (status >= 0)
		status = make_list(&m, &hot->indirect, list_indirect);
	strip_nameless(&hot->functions);
	ptm_symbols_destroy(m.symbols);
	ptm_hot_code_fini(&m.code);
	free(m.functions.v);
	return status;
}

static void free_rows(ptm_hot_rows *rows)
{
	for (size_t i = 0; i < rows->n; i++) {
		struct ptm_hot_row *row = &rows->v[i];

		for (size_t k = 0; k < row->targets.n; k++)
			free_place(&row->targets.v[k].place);
		free(row->targets.v);
		free_place(&row->place);
	}
	free(rows->v);
}

void ptm_hot_fini(struct ptm_hot *hot)
{
	free_rows(&hot->functions);
	free_rows(&hot->blocks);
	free_rows(&hot->branches);
	free_rows(&hot->indirect);
}
