/* SPDX-License-Identifier: Apache-2.0
 *
 * database.c - a program to be recorded: SQLite in memory.  Tables and indexes are filled from a
 * recursion, then joined, grouped, changed; one statement fails, one transaction is taken back.
 */
#include <sqlite3.h>
#include <stdio.h>

static const char *const statements[] = {
	"CREATE TABLE item(id INTEGER PRIMARY KEY, grp INTEGER, name TEXT)",
	"WITH RECURSIVE r(i, s) AS (VALUES(1, 12345) UNION ALL"
	" SELECT i + 1, (s * 16807) % 2147483647 FROM r WHERE i < 400)"
	" INSERT INTO item SELECT i, s % 17, 'n' || (s % 9973) FROM r",
	"CREATE INDEX by_group ON item(grp, name)",
	"SELECT grp, count(*), max(name) FROM item GROUP BY grp ORDER BY 2 DESC, 1 LIMIT 5",
	"SELECT count(*) FROM item a JOIN item b ON a.grp = b.grp AND a.name < b.name",
	"INSERT INTO item VALUES(1, 1, 'there is one')",
	"BEGIN",
	"DELETE FROM item WHERE name LIKE '%7%'",
	"SELECT count(*) FROM item",
	"ROLLBACK",
	"UPDATE item SET name = upper(substr(name, 2)) WHERE grp IN (SELECT id FROM item WHERE id "
	"< 9)",
	"SELECT group_concat(name, '-') FROM (SELECT name FROM item ORDER BY name DESC LIMIT 6)",
	"PRAGMA integrity_check",
};

static int print_row(void *context, int n, char **values, char **names)
{
	(void)context;
	(void)names;
	for (int i = 0; i < n; i++)
		printf("%s%s", values[i] != NULL ? values[i] : "NULL", i + 1 < n ? "|" : "\n");
	return 0;
}

int main(void)
{
	sqlite3 *db;

	if (sqlite3_open(":memory:", &db) != SQLITE_OK)
		return 1;
	for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++) {
		char *trouble = NULL;

		if (sqlite3_exec(db, statements[i], print_row, NULL, &trouble) != SQLITE_OK)
			printf("error: %s\n", trouble);
		sqlite3_free(trouble);
	}
	return sqlite3_close(db) == SQLITE_OK ? 0 : 1;
}
