/* SPDX-License-Identifier: Apache-2.0
 *
 * symbols.h - names of functions and lines of source for places in mapped files.
 *
 * They are read when first asked for and kept: from the image itself, or, if that was stripped,
 * from the file of debug information with its build-id below /usr/lib/debug.  Nothing is ever
 * fetched from a network.
 */
#ifndef PTM_IMAGE_SYMBOLS_H
#define PTM_IMAGE_SYMBOLS_H

#include "base/error.h"
#include "image/space.h"

#include <stdbool.h>
#include <stdint.h>

struct ptm_symbols;

/* NULL when out of memory.  The images must outlive it.  Threads: one caller. */
struct ptm_symbols *ptm_symbols_create(void);
void ptm_symbols_destroy(struct ptm_symbols *symbols);

struct ptm_symbol {
	const char *name; /* borrowed */
	uint64_t begin;   /* offset in the file */
};

/* The innermost function that has the byte at @offset of @image.  Returns 1 and @symbol; 0 if no
 * symbol tells; -PTM_E_NOMEM. */
int ptm_symbols_find(struct ptm_symbols *symbols, const struct ptm_image *image, uint64_t offset,
		     struct ptm_symbol *symbol, struct ptm_error *err);

/* The line of source of the instruction there: likewise, @file borrowed. */
int ptm_symbols_line(struct ptm_symbols *symbols, const struct ptm_image *image, uint64_t offset,
		     const char **file, unsigned *line, struct ptm_error *err);

#endif
