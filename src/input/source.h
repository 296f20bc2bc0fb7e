/* SPDX-License-Identifier: Apache-2.0
 *
 * source.h - streams of trace bytes, wherever they lie.
 *
 * An input file holds one stream (raw trace, also zstd-compressed or on standard input) or several
 * (perf.data: one a CPU or thread).  A stream is a sequence of bytes with offsets from 0; it lies
 * in pieces of the file.  A stream that lies in a regular, uncompressed file can be read anywhere
 * by any thread; others are read once, from front to back.
 */
#ifndef PTM_INPUT_SOURCE_H
#define PTM_INPUT_SOURCE_H

#include "base/error.h"
#include "os/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ptm_source;

/* All streams of a number of inputs; owns them and their files. */
struct ptm_sources;

struct ptm_sources *ptm_sources_create(void);
void ptm_sources_destroy(struct ptm_sources *sources);

/* Open an input and add its streams.  Standard input ("-") can be added once. */
int ptm_sources_add(struct ptm_sources *sources, const char *path, struct ptm_error *err);

/* Add the raw trace @path as a stream called @name. */
int ptm_sources_add_as(struct ptm_sources *sources, const char *path, const char *name,
		       struct ptm_error *err);

size_t ptm_sources_count(const struct ptm_sources *sources);
struct ptm_source *ptm_sources_get(const struct ptm_sources *sources, size_t i); /* borrowed */

const char *
ptm_source_name(const struct ptm_source *source); /* unique among the streams of a run; borrowed */
const char *ptm_source_path(const struct ptm_source *source);
bool ptm_source_is_seekable(const struct ptm_source *source);
uint64_t ptm_source_size(const struct ptm_source *source); /* bytes; 0 if not known in advance */

/* What the blocks of a stream must be, if that is known: of its @bytes bytes.  Borrowed.  Nothing
 * is kept for a source that cannot be read anywhere, or of another size. */
void ptm_source_set_blocks(struct ptm_source *source, const struct ptm_block_sums *blocks,
			   uint64_t bytes);
const struct ptm_block_sums *ptm_source_blocks(const struct ptm_source *source); /* or NULL */

/* Bytes that the container promises behind the end of the stream, but that are not there. */
uint64_t ptm_source_missing(const struct ptm_source *source);

/* Read up to @len bytes at @offset of a seekable source; short only at its end.  Threads: any
 * number at once. */
int64_t ptm_source_pread(struct ptm_source *source, void *buf, size_t len, uint64_t offset,
			 struct ptm_error *err);

/* Read the next up to @len bytes; short only at the end.  Threads: one at a time. */
int64_t ptm_source_read(struct ptm_source *source, void *buf, size_t len, struct ptm_error *err);

/* Make reads that wait for data (of pipes) return -PTM_E_CANCELED.  Threads: any. */
void ptm_sources_interrupt(const struct ptm_sources *sources);

#endif
