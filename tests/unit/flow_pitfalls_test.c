/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_pitfalls_test.c - known faults of PT decoders: every engine is put through the same cases.
 *
 * A case states what the manual says.  Where an engine differs and nothing can be done about it, it
 * stands in tests/known-differences.md with what the engine yields instead.  That list is demanded
 * to the letter: a case that fails and is not in it fails the test, and so does an entry whose case
 * passes, whose text is another, or which no case belongs to.  The file also tells which rows have
 * their test elsewhere; the others must have a case.
 */
#include "flow_pitfalls_code.h"
#include "flow_pitfalls_context.h"
#include "flow_pitfalls_return.h"
#include "flow_pitfalls_sync.h"

#define LIST      PTM_SOURCE_DIR "/tests/known-differences.md"
#define LINES_MAX 128
#define COLUMNS   4
#define COUNT(a)  (sizeof(a) / sizeof((a)[0]))
#define CASES     (COUNT(return_cases) + COUNT(sync_cases) + COUNT(code_cases) + COUNT(context_cases))

static const struct ptm_engine_ops *const engines[] = {&ptm_engine_ipt, &ptm_engine_fast};

/* Every row of the list of pitfalls that is the flow's, or is said to be tested elsewhere. */
static const char *const rows[] = {
	"B01", "B03a", "B03b", "B03c", "B03d", "B04", "B05", "B06", "B08", "B09",
	"B11", "B12",  "B13",  "B14",  "B15",  "B16", "B18", "B20", "B22", "B23",
	"B24", "B26",  "B27",  "B28",  "B44",  "B46", "B47", "B48", "B50", "B51",
	"B52", "B55",  "B56",  "B58",  "B59",  "B61", "B64", "R01", "R02", "R03",
	"R04", "R05",  "R06",  "R07",  "R08",  "R09", "R10", "R11", "R12", "R13"};

/* A line of a table of the list: its columns, without blanks and backticks around them. */
struct line {
	char text[1024];
	const char *column[COLUMNS];
	bool used;
};

static struct line lines[LINES_MAX];
static size_t nlines;

/* One engine put through one case. */
struct run {
	const struct ptm_engine_ops *engine;
	const struct flow_case *c;
};

static char *trim(char *s)
{
	size_t n;

	s += strspn(s, " `");
	n = strlen(s);
	while (n > 0 && strchr(" `\n", s[n - 1]) != NULL)
		s[--n] = '\0';
	return s;
}

static void read_list(void)
{
	FILE *f = fopen(LIST, "r");

	assert_non_null(f);
	while (nlines < LINES_MAX && fgets(lines[nlines].text, sizeof(lines[0].text), f) != NULL) {
		struct line *line = &lines[nlines];
		char *save = NULL, *s = line->text;
		size_t n = 0;

		if (*s != '|' || strncmp(s, "|--", 3) == 0)
			continue;
		for (s = strtok_r(s, "|", &save); s != NULL && n < COLUMNS;
		     s = strtok_r(NULL, "|", &save))
			line->column[n++] = trim(s);
		assert_true(n >= COLUMNS);
		nlines++;
	}
	assert_true(feof(f));
	fclose(f);
}

/* The line whose first columns are these; NULL if there is none. */
static struct line *find_line(const char *first, const char *second)
{
	for (size_t i = 0; i < nlines; i++)
		if (strcmp(lines[i].column[0], first) == 0 &&
		    strcmp(lines[i].column[1], second) == 0)
			return &lines[i];
	return NULL;
}

static void test_case(void **state)
{
	static struct pt_bytes packets;
	static struct flow_text expected;
	static struct flow_out out;
	const struct run *run = (const struct run *)*state;
	struct line *known = find_line(run->engine->name, run->c->name);
	struct flow_env env;

	flow_open(&env, run->engine, run->c);
	flow_packets(&env, &packets, run->c->packets);
	flow_run(&env, &packets, &out);
	flow_close(&env);
	expected = (struct flow_text){.n = 0};
	flow_expand(&expected, run->c->expected);
	if (known == NULL) {
		assert_string_equal(out.text.s, expected.s);
		return;
	}
	known->used = true;
	assert_string_not_equal(out.text.s, expected.s);
	expected = (struct flow_text){.n = 0};
	flow_expand(&expected, known->column[2]);
	assert_string_equal(out.text.s, expected.s);
}

/* Each known difference has a case, and each was seen to be one.  Runs last. */
static void test_list(void **state)
{
	static const char *const other[] = {"engine", "place", "elsewhere", "later", "left"};

	(void)state;
	for (size_t i = 0; i < nlines; i++) {
		bool used = lines[i].used;

		for (size_t k = 0; k < COUNT(other); k++)
			used |= strcmp(lines[i].column[0], other[k]) == 0;
		if (!used)
			fail_msg("no case belongs to the known difference %s of %s",
				 lines[i].column[1], lines[i].column[0]);
	}
}

/* True if the name of the case, up to its dash, has the row. */
static bool has_row(const char *name, const char *row)
{
	size_t n = strlen(row);

	for (; *name != '\0' && *name != '-'; name += *name == '+') {
		size_t len = strcspn(name, "+-");

		if (len == n && memcmp(name, row, n) == 0)
			return true;
		name += len;
	}
	return false;
}

static bool file_has(const char *name, const char *what)
{
	char path[512], text[1024];
	bool found = false;
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", PTM_SOURCE_DIR, name);
	f = fopen(path, "r");
	if (f == NULL)
		return false;
	while (!found && fgets(text, sizeof(text), f) != NULL)
		found = strstr(text, what) != NULL;
	fclose(f);
	return found;
}

/* Each row has a case, or a test elsewhere that is really there, or is said to come later. */
static void test_rows(void **state)
{
	const struct run *runs = (const struct run *)*state;

	for (size_t r = 0; r < COUNT(rows); r++) {
		bool found = find_line("elsewhere", rows[r]) != NULL;

		for (size_t i = 0; i < CASES && !found; i++)
			found = has_row(runs[i].c->name, rows[r]);
		if (!found && find_line("later", rows[r]) == NULL)
			fail_msg("row %s has no test", rows[r]);
	}
	for (size_t i = 0; i < nlines; i++)
		if (strcmp(lines[i].column[0], "elsewhere") == 0 &&
		    !file_has(lines[i].column[2], lines[i].column[3]))
			fail_msg("row %s: %s has no \"%s\"", lines[i].column[1], lines[i].column[2],
				 lines[i].column[3]);
}

static void add(struct run **run, const struct ptm_engine_ops *engine, const struct flow_case *c,
		size_t n)
{
	for (size_t i = 0; i < n; i++)
		*(*run)++ = (struct run){engine, &c[i]};
}

int main(void)
{
	static struct CMUnitTest tests[COUNT(engines) * CASES + 2];
	static struct run runs[COUNT(engines) * CASES];
	static char names[COUNT(engines) * CASES][64];
	struct run *run = runs;

	read_list();
	for (size_t e = 0; e < COUNT(engines); e++) {
		add(&run, engines[e], return_cases, COUNT(return_cases));
		add(&run, engines[e], sync_cases, COUNT(sync_cases));
		add(&run, engines[e], code_cases, COUNT(code_cases));
		add(&run, engines[e], context_cases, COUNT(context_cases));
	}
	for (size_t i = 0; i < COUNT(runs); i++) {
		(void)snprintf(names[i], sizeof(names[i]), "%s: %s", runs[i].engine->name,
			       runs[i].c->name);
		tests[i] = (struct CMUnitTest){names[i], test_case, NULL, NULL, &runs[i]};
	}
	tests[COUNT(runs)] = (struct CMUnitTest)cmocka_unit_test(test_list);
	tests[COUNT(runs) + 1] = (struct CMUnitTest)cmocka_unit_test_prestate(test_rows, runs);
	return cmocka_run_group_tests_name("flow_pitfalls", tests, NULL, NULL);
}
