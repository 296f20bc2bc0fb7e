/* SPDX-License-Identifier: Apache-2.0
 *
 * file.h - files: random-access input, sequential (also zstd-compressed) input, outputs that appear
 * whole or not at all, read-only mappings of images.
 *
 * Traces are read with pread (a mapped file that shrinks, or a failing network disk, is a SIGBUS);
 * images are mapped.
 */
#ifndef PTM_OS_FILE_H
#define PTM_OS_FILE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* An input file. */
struct ptm_file;

/* Open @path for reading; "-" is standard input.  zstd frames are recognised by their magic number
 * and decompressed on the way; so is a .zst on standard input.  A directory, a missing file, a
 * device that cannot be read is an error with one clear line.  Returns NULL on failure.  Destroy
 * with ptm_file_close(). */
struct ptm_file *ptm_file_open(const char *path, struct ptm_error *err);
void ptm_file_close(struct ptm_file *file);
const char *ptm_file_path(const struct ptm_file *file); /* as given; borrowed until close */

/* True if ptm_file_pread() works and ptm_file_size() is the size (a regular, uncompressed file). */
bool ptm_file_is_seekable(const struct ptm_file *file);

/* Size in bytes, 0 if not known in advance. */
uint64_t ptm_file_size(const struct ptm_file *file);

/* Read up to @len bytes at @offset; short only at the end of the file.  Threads: any number at
 * once. Returns the number of bytes, or -PTM_E_IO. */
int64_t ptm_file_pread(struct ptm_file *file, void *buf, size_t len, uint64_t offset,
		       struct ptm_error *err);

/* Read the next up to @len (decompressed) bytes; short only at the end.  Threads: one caller at a
 * time. */
int64_t ptm_file_read(struct ptm_file *file, void *buf, size_t len, struct ptm_error *err);

/* Read the whole (decompressed) file into memory: *@data, to be freed by the caller, has *@len
 * bytes and a NUL behind them.  More than @limit bytes is -PTM_E_FORMAT.  On failure *@data is
 * NULL. Threads: any. */
int ptm_file_read_all(const char *path, size_t limit, char **data, size_t *len,
		      struct ptm_error *err);

/* Make reads of a stream that wait for data return -PTM_E_CANCELED, now and from now on.  Regular
 * files do not wait. Threads: any. */
void ptm_file_interrupt(struct ptm_file *file);

/* A read-only private mapping of a whole file (images).  An empty file maps to data == NULL, len ==
 * 0. */
struct ptm_map {
	const uint8_t *data;
	size_t len;
};
int ptm_map_open(struct ptm_map *map, const char *path, struct ptm_error *err);
void ptm_map_close(struct ptm_map *map);

/* An output that appears under its name only when complete.  path NULL or "-": standard output.
 * Otherwise data goes to a temporary file beside @path, renamed by ptm_out_commit() and removed by
 * ptm_out_abort(); a path that exists and is not a regular file (/dev/null, a pipe) is written to
 * directly. */
struct ptm_out;
struct ptm_out *ptm_out_open(const char *path, struct ptm_error *err);
int ptm_out_write(struct ptm_out *out, const void *data, size_t len, struct ptm_error *err);
int ptm_out_printf(struct ptm_out *out, struct ptm_error *err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int ptm_out_commit(struct ptm_out *out, struct ptm_error *err); /* flushes, renames, frees */
void ptm_out_abort(struct ptm_out *out);                        /* removes, frees; accepts NULL */

#endif
