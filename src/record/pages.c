/* SPDX-License-Identifier: Apache-2.0
 *
 * pages.c - pages by address: a hash table with open addressing, at most half full.
 */
#include "record/pages.h"

#include <stdbool.h>
#include <stdlib.h>

enum { TABLE_MIN = 256 };

void ptm_pages_fini(struct ptm_pages *pages)
{
	for (size_t i = 0; i < pages->slots; i++)
		free(pages->table[i]);
	free(pages->table);
	*pages = (struct ptm_pages){.n = 0};
}

static struct ptm_page **place_of(struct ptm_page **table, size_t slots, uint64_t address)
{
	size_t i = (address / PTM_REC_PAGE * UINT64_C(0x9e3779b97f4a7c15) >> 32) % slots;

	while (table[i] != NULL && table[i]->address != address)
		i = (i + 1) % slots;
	return &table[i];
}

static bool grow(struct ptm_pages *pages)
{
	size_t slots = pages->slots > 0 ? 2 * pages->slots : TABLE_MIN;
	struct ptm_page **table;

	if (pages->n < pages->slots / 2)
		return true;
	table = calloc(slots, sizeof(struct ptm_page *));
	if (table == NULL)
		return false;
	for (size_t i = 0; i < pages->slots; i++)
		if (pages->table[i] != NULL)
			*place_of(table, slots, pages->table[i]->address) = pages->table[i];
	free(pages->table);
	pages->table = table;
	pages->slots = slots;
	return true;
}

void *ptm_pages_find(const struct ptm_pages *pages, uint64_t address)
{
	return pages->n == 0 ? NULL : *place_of(pages->table, pages->slots, address);
}

void *ptm_pages_make(struct ptm_pages *pages, uint64_t address, size_t size)
{
	struct ptm_page **place;

	if (!grow(pages))
		return NULL;
	place = place_of(pages->table, pages->slots, address);
	if (*place == NULL) {
		*place = calloc(1, size);
		if (*place == NULL)
			return NULL;
		(*place)->address = address;
		pages->n++;
	}
	return *place;
}

static int by_address(const void *a, const void *b)
{
	uint64_t x = (*(struct ptm_page *const *)a)->address;
	uint64_t y = (*(struct ptm_page *const *)b)->address;

	return (x > y) - (x < y);
}

struct ptm_page **ptm_pages_sorted(const struct ptm_pages *pages)
{
	struct ptm_page **sorted = calloc(pages->n + 1, sizeof(struct ptm_page *));
	size_t n = 0;

	if (sorted == NULL)
		return NULL;
	for (size_t i = 0; i < pages->slots; i++)
		if (pages->table[i] != NULL)
			sorted[n++] = pages->table[i];
	qsort(sorted, n, sizeof(struct ptm_page *), by_address);
	return sorted;
}
