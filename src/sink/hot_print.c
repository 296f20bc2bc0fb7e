/* SPDX-License-Identifier: Apache-2.0
 *
 * hot_print.c - what was executed most, as tables and as JSON.
 *
 * Names come from the images: in tables, what is no printable character of theirs becomes `?'.
 */
#include "sink/hot.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NAME_MAX 200 /* bytes of a name in a table */
#define WAYS_MAX 4   /* targets of a branch in a table */

static double percent(uint64_t part, uint64_t whole)
{
	return whole > 0 ? 100.0 * (double)part / (double)whole : 0.0;
}

/* A name that may stand in a line. */
static int put_name(struct ptm_out *out, const char *name, struct ptm_error *err)
{
	char text[NAME_MAX + 1];
	size_t n = 0;

	for (; name[n] != '\0' && n < NAME_MAX; n++)
		text[n] = (unsigned char)name[n] < ' ' || name[n] == 0x7f ? '?' : name[n];
	text[n] = '\0';
	return ptm_out_write(out, text, n, err);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

/* What is known of a place: `function+0x1f in module at file.c:12`. */
static int put_what(struct ptm_out *out, const struct ptm_hot_place *place, struct ptm_error *err)
{
	if (place->module == NULL)
		return ptm_out_printf(out, err, "not mapped");
	if (place->function != NULL) {
		PTM_TRY(put_name(out, place->function, err));
		if (place->offset > 0)
			PTM_TRY(ptm_out_printf(out, err, "+0x%" PRIx64, place->offset));
		PTM_TRY(ptm_out_printf(out, err, " in "));
	}
	PTM_TRY(put_name(out, base_name(place->module), err));
	if (place->function == NULL)
		PTM_TRY(ptm_out_printf(out, err, "+0x%" PRIx64, place->offset));
	if (place->file == NULL)
		return 0;
	PTM_TRY(ptm_out_printf(out, err, " at "));
	PTM_TRY(put_name(out, base_name(place->file), err));
	return ptm_out_printf(out, err, ":%u", place->line);
}

static int put_place(struct ptm_out *out, const struct ptm_hot_place *place, struct ptm_error *err)
{
	PTM_TRY(ptm_out_printf(out, err, "  %016" PRIx64 "  ", place->address));
	PTM_TRY(put_what(out, place, err));
	return ptm_out_printf(out, err, "\n");
}

static int put_functions(const struct ptm_hot *hot, struct ptm_out *out, struct ptm_error *err)
{
	PTM_TRY(ptm_out_printf(out, err, "hottest functions\n%17s%8s%15s  %-18s%s\n",
			       "instructions", "share", "entries", "address", "function"));
	for (size_t i = 0; i < hot->functions.n; i++) {
		const struct ptm_hot_row *row = &hot->functions.v[i];

		PTM_TRY(ptm_out_printf(out, err, "%17" PRIu64 "%7.2f%%", row->insns,
				       percent(row->insns, hot->insns)));
		if (row->place.function != NULL) {
			PTM_TRY(ptm_out_printf(out, err, "%15" PRIu64, row->times));
			PTM_TRY(put_place(out, &row->place, err));
		} else {
			PTM_TRY(ptm_out_printf(out, err, "%15s  %-16s  without a symbol in ", "-",
					       "-"));
			PTM_TRY(put_name(out, base_name(row->place.module), err));
			PTM_TRY(ptm_out_printf(out, err, "\n"));
		}
	}
	return 0;
}

static int put_blocks(const struct ptm_hot *hot, struct ptm_out *out, struct ptm_error *err)
{
	PTM_TRY(ptm_out_printf(out, err, "hottest blocks\n%17s%8s%15s%6s  %-18s%s\n",
			       "instructions", "share", "executions", "long", "address", "place"));
	for (size_t i = 0; i < hot->blocks.n; i++) {
		const struct ptm_hot_row *row = &hot->blocks.v[i];

		PTM_TRY(ptm_out_printf(out, err, "%17" PRIu64 "%7.2f%%%15" PRIu64 "%6" PRIu64,
				       row->insns, percent(row->insns, hot->insns), row->times,
				       row->count));
		PTM_TRY(put_place(out, &row->place, err));
	}
	return 0;
}

static int put_branches(const struct ptm_hot *hot, struct ptm_out *out, struct ptm_error *err)
{
	PTM_TRY(ptm_out_printf(out, err, "hottest conditional branches\n%17s%15s%15s%8s  %-18s%s\n",
			       "executions", "taken", "not taken", "taken", "address", "place"));
	for (size_t i = 0; i < hot->branches.n; i++) {
		const struct ptm_hot_row *row = &hot->branches.v[i];

		PTM_TRY(ptm_out_printf(out, err, "%17" PRIu64 "%15" PRIu64 "%15" PRIu64 "%7.2f%%",
				       row->times, row->count, row->times - row->count,
				       percent(row->count, row->times)));
		PTM_TRY(put_place(out, &row->place, err));
	}
	return 0;
}

static int put_indirect(const struct ptm_hot *hot, struct ptm_out *out, struct ptm_error *err)
{
	PTM_TRY(ptm_out_printf(
		out, err,
		"hottest indirect branches, returns and far transfers\n%17s%15s  %-18s%s\n",
		"executions", "targets", "address", "place"));
	for (size_t i = 0; i < hot->indirect.n; i++) {
		const struct ptm_hot_row *row = &hot->indirect.v[i];

		PTM_TRY(ptm_out_printf(out, err, "%17" PRIu64 "%15" PRIu64, row->times,
				       row->count));
		PTM_TRY(put_place(out, &row->place, err));
		for (size_t k = 0; k < row->targets.n && k < WAYS_MAX; k++) {
			const struct ptm_hot_target *target = &row->targets.v[k];

			PTM_TRY(ptm_out_printf(out, err, "%17s%15" PRIu64 "%7.2f%% to", "",
					       target->times, percent(target->times, row->times)));
			PTM_TRY(put_place(out, &target->place, err));
		}
	}
	return 0;
}

int ptm_hot_print_table(const struct ptm_hot *hot, struct ptm_out *out, struct ptm_error *err)
{
	PTM_TRY(put_functions(hot, out, err));
	PTM_TRY(put_blocks(hot, out, err));
	PTM_TRY(put_branches(hot, out, err));
	return put_indirect(hot, out, err);
}

static void json_place(struct ptm_json *j, const struct ptm_hot_place *place)
{
	ptm_json_set_hex(j, "address", place->address);
	if (place->module == NULL)
		return;
	ptm_json_set_str(j, "module", place->module);
	if (place->function != NULL)
		ptm_json_set_str(j, "function", place->function);
	ptm_json_set_u64(j, "offset", place->offset);
	if (place->file == NULL)
		return;
	ptm_json_set_str(j, "file", place->file);
	ptm_json_set_u64(j, "line", place->line);
}

static struct ptm_json *json_functions(const struct ptm_hot *hot)
{
	struct ptm_json *rows = ptm_json_array();

	for (size_t i = 0; i < hot->functions.n; i++) {
		const struct ptm_hot_row *row = &hot->functions.v[i];
		struct ptm_json *j = ptm_json_object();

		ptm_json_set_u64(j, "instructions", row->insns);
		if (row->place.function != NULL) {
			ptm_json_set_u64(j, "entries", row->times);
			json_place(j, &row->place);
		} else {
			ptm_json_set_str(j, "module", row->place.module);
		}
		ptm_json_append(rows, j);
	}
	return rows;
}

static struct ptm_json *json_blocks(const struct ptm_hot *hot)
{
	struct ptm_json *rows = ptm_json_array();

	for (size_t i = 0; i < hot->blocks.n; i++) {
		const struct ptm_hot_row *row = &hot->blocks.v[i];
		struct ptm_json *j = ptm_json_object();

		ptm_json_set_u64(j, "executions", row->times);
		ptm_json_set_u64(j, "length", row->count);
		ptm_json_set_u64(j, "instructions", row->insns);
		json_place(j, &row->place);
		ptm_json_append(rows, j);
	}
	return rows;
}

static struct ptm_json *json_branches(const struct ptm_hot *hot)
{
	struct ptm_json *rows = ptm_json_array();

	for (size_t i = 0; i < hot->branches.n; i++) {
		const struct ptm_hot_row *row = &hot->branches.v[i];
		struct ptm_json *j = ptm_json_object();

		ptm_json_set_u64(j, "taken", row->count);
		ptm_json_set_u64(j, "not_taken", row->times - row->count);
		json_place(j, &row->place);
		ptm_json_append(rows, j);
	}
	return rows;
}

static struct ptm_json *json_indirect(const struct ptm_hot *hot)
{
	struct ptm_json *rows = ptm_json_array();

	for (size_t i = 0; i < hot->indirect.n; i++) {
		const struct ptm_hot_row *row = &hot->indirect.v[i];
		struct ptm_json *j = ptm_json_object(), *targets = ptm_json_array();

		ptm_json_set_u64(j, "executions", row->times);
		ptm_json_set_u64(j, "different_targets", row->count);
		json_place(j, &row->place);
		for (size_t k = 0; k < row->targets.n; k++) {
			struct ptm_json *target = ptm_json_object();

			ptm_json_set_u64(target, "times", row->targets.v[k].times);
			json_place(target, &row->targets.v[k].place);
			ptm_json_append(targets, target);
		}
		ptm_json_set(j, "targets", targets);
		ptm_json_append(rows, j);
	}
	return rows;
}

struct ptm_json *ptm_hot_json(const struct ptm_hot *hot)
{
	struct ptm_json *j = ptm_json_object();

	ptm_json_set_u64(j, "instructions", hot->insns);
	ptm_json_set(j, "functions", json_functions(hot));
	ptm_json_set(j, "blocks", json_blocks(hot));
	ptm_json_set(j, "branches", json_branches(hot));
	ptm_json_set(j, "indirect", json_indirect(hot));
	return j;
}
