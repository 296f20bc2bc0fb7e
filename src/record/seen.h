/* SPDX-License-Identifier: Apache-2.0
 *
 * seen.h - which bytes were executed at which address: tells when code was replaced, which a
 * capture cannot say.
 */
#ifndef PTM_RECORD_SEEN_H
#define PTM_RECORD_SEEN_H

#include "record/images.h"
#include "record/pages.h"

struct ptm_seen {
	struct ptm_pages pages;
	uint64_t times; /* how often something else was executed, or is kept, at a known address */
	uint64_t first; /* the first of these addresses */
};

void ptm_seen_fini(struct ptm_seen *seen);

/* The @len bytes at @address are executed.  Returns 0 or -PTM_E_NOMEM. */
int ptm_seen_code(struct ptm_seen *seen, uint64_t address, const uint8_t *bytes, size_t len);

/* Compare with what @images, settled, have at these addresses.  Returns 0 or -PTM_E_*. */
int ptm_seen_compare(struct ptm_seen *seen, const struct ptm_images *images);

#endif
