/* SPDX-License-Identifier: Apache-2.0
 *
 * pages.h - what is known of each page of a program's memory: a table by address.
 */
#ifndef PTM_RECORD_PAGES_H
#define PTM_RECORD_PAGES_H

#include <stddef.h>
#include <stdint.h>

#define PTM_REC_PAGE 4096

/* The first member of what a table holds. */
struct ptm_page {
	uint64_t address; /* of its first byte */
};

/* Zero-initialise. */
struct ptm_pages {
	struct ptm_page **table; /* slots, NULL where one is free; the pages are owned */
	size_t slots, n;
};

void ptm_pages_fini(struct ptm_pages *pages);

/* The page at @address, or NULL. */
void *ptm_pages_find(const struct ptm_pages *pages, uint64_t address);

/* The same, made of @size bytes if there is none: zeros behind its address.  NULL when out of
 * memory. */
void *ptm_pages_make(struct ptm_pages *pages, uint64_t address, size_t size);

/* All of them by address, in an array to be freed; NULL when out of memory. */
struct ptm_page **ptm_pages_sorted(const struct ptm_pages *pages);

#endif
