/* SPDX-License-Identifier: Apache-2.0
 *
 * source_priv.h - what the files of this room share.
 */
#ifndef PTM_INPUT_SOURCE_PRIV_H
#define PTM_INPUT_SOURCE_PRIV_H

#include "base/vec.h"
#include "input/source.h"
#include "os/file.h"

/* Bytes [offset, offset + size) of the stream lie at file_offset. */
struct ptm_piece {
	uint64_t offset;
	uint64_t file_offset;
	uint64_t size;
};

struct ptm_source {
	char *name;                       /* owned */
	struct ptm_file *file;            /* borrowed from the sources */
	PTM_VEC(struct ptm_piece) pieces; /* in order, without holes; none: the whole file */
	uint64_t size;
	uint64_t missing;                    /* bytes that should follow, but the file ends */
	const struct ptm_block_sums *blocks; /* borrowed; NULL: not known */
};

/* The start of @file, which may be a perf.data file. */
#define PTM_PERF_MAGIC "PERFILE2"

/* Add a stream called @name (copied) of @file.  NULL when out of memory. */
struct ptm_source *ptm_sources_new(struct ptm_sources *sources, struct ptm_file *file,
				   const char *name);

/* The AUX buffers of a perf.data file, one stream each. */
int ptm_sources_add_perf(struct ptm_sources *sources, struct ptm_file *file, struct ptm_error *err);

#endif
