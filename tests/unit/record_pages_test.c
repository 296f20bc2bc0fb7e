/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of pages: many of them, in an order that is not theirs.
 */
#include "record/pages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

enum { N = 5000 };

struct item {
	struct ptm_page page;
	uint64_t value;
};

/* Multiplication by an odd number goes through all pages below 2^64, each once. */
static uint64_t address_of(uint64_t i)
{
	return i * UINT64_C(0x9e3779b97f4a7c15) * PTM_REC_PAGE;
}

static void test_pages(void **state)
{
	struct ptm_pages pages = {.n = 0};
	struct ptm_page **sorted;

	(void)state;
	assert_null(ptm_pages_find(&pages, 0));
	for (uint64_t i = 0; i < N; i++) {
		struct item *item = ptm_pages_make(&pages, address_of(i), sizeof(*item));

		assert_non_null(item);
		assert_int_equal(item->value, 0);
		item->value = i + 1;
	}
	assert_int_equal(pages.n, N);
	for (uint64_t i = 0; i < N; i++) {
		struct item *item = ptm_pages_find(&pages, address_of(i));

		assert_non_null(item);
		assert_int_equal(item->page.address, address_of(i));
		assert_int_equal(item->value, i + 1);
		assert_ptr_equal(ptm_pages_make(&pages, address_of(i), sizeof(*item)), item);
	}
	assert_null(ptm_pages_find(&pages, address_of(N)));
	assert_int_equal(pages.n, N);
	sorted = ptm_pages_sorted(&pages);
	assert_non_null(sorted);
	for (size_t i = 1; i < N; i++)
		assert_true(sorted[i - 1]->address < sorted[i]->address);
	free(sorted);
	ptm_pages_fini(&pages);
	assert_null(ptm_pages_find(&pages, address_of(0)));
}

static void test_none(void **state)
{
	struct ptm_pages pages = {.n = 0};
	struct ptm_page **sorted = ptm_pages_sorted(&pages);

	(void)state;
	assert_non_null(sorted);
	free(sorted);
	ptm_pages_fini(&pages);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_pages),
					   cmocka_unit_test(test_none)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
