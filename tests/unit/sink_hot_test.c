/* SPDX-License-Identifier: Apache-2.0
 *
 * sink_hot_test.c - lists of what was executed most, from counts worked out by hand: runs that
 * overlap, processes that map the same file elsewhere, equally hot rows, names that are no names.
 */
#include "sink_job.h"

#include "sink/hot.h"

/* The code of sink_job.h in a file of its own name, at @base; beside @other, unless NULL. */
static struct ptm_space *map_at(const struct ptm_space *other, const char *path, uint64_t base)
{
	struct ptm_space *space = ptm_space_create_beside(other);

	assert_non_null(space);
	assert_int_equal(ptm_space_add_raw(space, path, 0, sizeof(code_bytes), base, NULL), 0);
	assert_int_equal(ptm_space_seal(space, NULL), 0);
	return space;
}

static char *code_file(void)
{
	char *path = make_path();
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(code_bytes, 1, sizeof(code_bytes), f), sizeof(code_bytes));
	assert_int_equal(fclose(f), 0);
	return path;
}

static void add(struct ptm_counts *counts, const struct ptm_space *space, enum ptm_count_kind kind,
		uint64_t ip, uint64_t to, uint64_t times)
{
	assert_int_equal(ptm_counts_add(counts, space, kind, PTM_MODE_64, ip, to, times, NULL), 0);
}

static void check_block(const struct ptm_hot *hot, size_t i, uint64_t address, uint64_t length,
			uint64_t times)
{
	const struct ptm_hot_row *row = &hot->blocks.v[i];

	assert_true(i < hot->blocks.n);
	assert_int_equal(row->place.address, address);
	assert_int_equal(row->count, length);
	assert_int_equal(row->times, times);
	assert_int_equal(row->insns, times * length);
}

/* push, mov, xor, jmp 10 times; entered at the xor three times more; the same in a process that
 * has it at 0x7000000, with the ways of a branch.
 *   401000 push   401001 mov   401004 xor   401006 jmp   40100a call   401010 test   401012 je */
static void test_blocks(void **state)
{
	char *path = code_file();
	struct ptm_space *one = map_at(NULL, path, CODE_BASE), *two = map_at(one, path, 0x7000000);
	struct ptm_counts *counts = ptm_counts_create();
	struct ptm_hot hot = {.max = 100};

	(void)state;
	/* Two of the ten were cut behind the mov, and went on there. */
	add(counts, one, PTM_COUNT_RUN, 0x401000, 7, 8);
	add(counts, one, PTM_COUNT_RUN, 0x401000, 2, 2);
	add(counts, one, PTM_COUNT_RUN, 0x401004, 5, 5);
	add(counts, two, PTM_COUNT_RUN, 0x7000010, 2, 100);
	add(counts, one, PTM_COUNT_COND, 0x401012, 1, 4);
	add(counts, one, PTM_COUNT_COND, 0x401012, 0, 9);
	add(counts, two, PTM_COUNT_COND, 0x7000012, 1, 60);
	assert_int_equal(ptm_hot_make(&hot, counts, NULL), 0);
	assert_int_equal(hot.insns, 8 * 7 + 2 * 2 + 5 * 5 + 200);
	assert_int_equal(hot.blocks.n, 4);
	check_block(&hot, 0, 0x401010, 2, 113);
	check_block(&hot, 1, 0x401004, 2, 13);
	check_block(&hot, 2, 0x401000, 2, 10);
	check_block(&hot, 3, 0x40100a, 1, 13);
	assert_int_equal(hot.branches.n, 1);
	assert_int_equal(hot.branches.v[0].place.address, 0x401012);
	assert_int_equal(hot.branches.v[0].times, 73);
	assert_int_equal(hot.branches.v[0].count, 64);
	assert_int_equal(hot.functions.n, 1);
	assert_null(hot.functions.v[0].place.function);
	assert_string_equal(hot.functions.v[0].place.module, path);
	assert_int_equal(hot.functions.v[0].insns, hot.insns);
	ptm_hot_fini(&hot);
	ptm_counts_destroy(counts);
	ptm_space_destroy(one);
	ptm_space_destroy(two);
	assert_int_equal(unlink(path), 0);
	free(path);
}

/* Of rows that are equally hot the first in the code come first, and the list is cut behind them,
 * however many there are. */
static void test_ties(void **state)
{
	static const uint64_t at[] = {0x401024, 0x401022, 0x401014, 0x401009, 0x401008};
	char *path = code_file();
	struct ptm_space *space = map_at(NULL, path, CODE_BASE);
	struct ptm_counts *counts = ptm_counts_create();
	struct ptm_hot hot = {.max = 2};

	(void)state;
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++)
		add(counts, space, PTM_COUNT_RUN, at[i], 1, at[i] == 0x401009 ? 8 : 7);
	for (uint64_t i = 0; i < 1000; i++)
		add(counts, space, PTM_COUNT_TARGET, 0x40100f, 0x500000 + (i * 7 % 1000), 1);
	add(counts, space, PTM_COUNT_TARGET, 0x40100f, 0x401015, 1);
	assert_int_equal(ptm_hot_make(&hot, counts, NULL), 0);
	assert_int_equal(hot.blocks.n, 2);
	check_block(&hot, 0, 0x401009, 1, 8);
	check_block(&hot, 1, 0x401008, 1, 7);
	assert_int_equal(hot.indirect.n, 1);
	assert_int_equal(hot.indirect.v[0].times, 1001);
	assert_int_equal(hot.indirect.v[0].count, 1001);
	assert_int_equal(hot.indirect.v[0].targets.n, 2);
	assert_int_equal(hot.indirect.v[0].targets.v[0].place.address, 0x401015);
	assert_int_equal(hot.indirect.v[0].targets.v[1].place.address, 0x500000);
	assert_null(hot.indirect.v[0].targets.v[1].place.module);
	ptm_hot_fini(&hot);
	ptm_counts_destroy(counts);
	ptm_space_destroy(space);
	assert_int_equal(unlink(path), 0);
	free(path);
}

static char *print(const struct ptm_hot *hot)
{
	char *path = make_path(), *text;
	struct ptm_out *out = ptm_out_open(path, NULL);

	assert_non_null(out);
	assert_int_equal(ptm_hot_print_table(hot, out, NULL), 0);
	assert_int_equal(ptm_out_commit(out, NULL), 0);
	text = read_text(path);
	assert_int_equal(unlink(path), 0);
	free(path);
	return text;
}

/* Names are what images say, and a terminal is not for them to control. */
static void test_names(void **state)
{
	char module[] = "/usr/lib/\x1b[2Jlib\nx", function[] = "f\x07n", file[] = "/src/a\tb.c";
	struct ptm_hot_row row = {
		.place = {.address = 0x1234,
			  .offset = 0x1f,
			  .module = module,
			  .function = function,
			  .file = file,
			  .line = 7},
		.times = 3,
		.insns = 6,
		.count = 2,
	};
	struct ptm_hot hot = {.max = 1, .insns = 12, .blocks = {&row, 1, 1}};
	char *text = print(&hot);

	(void)state;
	assert_non_null(strstr(text, "                6  50.00%              3     2  "
				     "0000000000001234  f?n+0x1f in ?[2Jlib?x at a?b.c:7\n"));
	free(text);
}

/* Nothing was executed. */
static void test_nothing(void **state)
{
	struct ptm_counts *counts = ptm_counts_create();
	struct ptm_hot hot = {.max = 5};
	char *text;

	(void)state;
	assert_int_equal(ptm_hot_make(&hot, counts, NULL), 0);
	assert_int_equal(hot.insns + hot.blocks.n + hot.functions.n + hot.indirect.n, 0);
	text = print(&hot);
	assert_non_null(strstr(text, "hottest functions\n"));
	free(text);
	ptm_hot_fini(&hot);
	ptm_counts_destroy(counts);
}

/* What no engine can have executed is a bug, said and not counted. */
static void test_bug(void **state)
{
	char *path = code_file();
	struct ptm_space *space = map_at(NULL, path, CODE_BASE);
	struct ptm_counts *counts = ptm_counts_create();
	struct ptm_hot hot = {.max = 5};
	struct ptm_error err = {0};

	(void)state;
	add(counts, space, PTM_COUNT_RUN, 0x401022, 2, 1);
	assert_int_equal(ptm_hot_make(&hot, counts, &err), -PTM_E_BUG);
	assert_non_null(strstr(err.cause[0].text, "0x401023"));
	ptm_hot_fini(&hot);
	ptm_counts_destroy(counts);
	ptm_space_destroy(space);
	assert_int_equal(unlink(path), 0);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_blocks), cmocka_unit_test(test_ties),
		cmocka_unit_test(test_names),  cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_bug),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
