/* SPDX-License-Identifier: Apache-2.0
 *
 * space.h - an address space: which bytes are mapped where.
 *
 * A space is built once by one thread, then only read, by any number of threads.  It owns the
 * images it maps (one mapping of a file, however often it is used).  A later mapping hides an
 * earlier one where they overlap.
 */
#ifndef PTM_IMAGE_SPACE_H
#define PTM_IMAGE_SPACE_H

#include "base/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ptm_space;
struct ptm_image; /* a mapped file, shared by the spaces of a run */

struct ptm_space *ptm_space_create(void);

/* A space that shares the mapped files of @other: for many processes with the same images.  NULL
 * when out of memory. */
struct ptm_space *ptm_space_create_beside(const struct ptm_space *other);
void ptm_space_destroy(struct ptm_space *space);

/* --elf FILE[:BASE]: the executable (PF_X) segments of an ELF file of any class, at their own
 * addresses, or moved so that the lowest PT_LOAD segment lies at @base (page-rounded), if
 * @has_base.  x86 only; an ELF without executable segments, or of another machine, is PTM_E_FORMAT.
 */
int ptm_space_add_elf(struct ptm_space *space, const char *path, bool has_base, uint64_t base,
		      struct ptm_error *err);

/* --raw FILE[:FROM[-TO]]:BASE: bytes FROM to TO (exclusive; UINT64_MAX: the end of the file) of a
 * file at BASE. */
int ptm_space_add_raw(struct ptm_space *space, const char *path, uint64_t from, uint64_t to,
		      uint64_t base, struct ptm_error *err);

/* --maps FILE: a file in the format of /proc/PID/maps; every executable mapping with a path is
 * looked up below
 * @sysroot (NULL: "/").  Special mappings ([vdso], [vsyscall], anonymous) and files that are
 * missing are counted, not fatal.  A line that is not of the format is PTM_E_FORMAT and names the
 * line. */
int ptm_space_add_maps(struct ptm_space *space, const char *path, const char *sysroot,
		       struct ptm_error *err);

/* Bytes of a file at @begin, as a capture states them; and the executable segments of an ELF file
 * with the lowest PT_LOAD at @base, as LLDB's bundles do.  A file that is not there is recorded as
 * missing (of a module only the first page is: its size is not known).  @build_id: the one that is
 * wanted, "" if any. */
int ptm_space_add_file(struct ptm_space *space, const char *path, uint64_t begin, uint64_t len,
		       uint64_t file_offset, const char *build_id, struct ptm_error *err);
int ptm_space_add_module(struct ptm_space *space, const char *path, uint64_t base,
			 const char *build_id, struct ptm_error *err);

/* The image @path was called @name where it was recorded.  The first name counts. */
int ptm_space_name(struct ptm_space *space, const char *path, const char *name,
		   struct ptm_error *err);

/* One executable range, for reports.  `file_offset` is where its first byte lies in the file. */
struct ptm_mapping {
	uint64_t begin, end; /* linear addresses, end exclusive (0: the range ends at 2^64) */
	uint64_t file_offset;
	const char *path;      /* borrowed from the space */
	const char *build_id;  /* hex, "" if none; borrowed */
	const char *wanted_id; /* what a description states it should be, "" if it does not */
	const char *name;    /* path on the recorded machine, if a description tells; else `path` */
	const uint8_t *data; /* NULL: the image is missing */
	const struct ptm_image *image; /* likewise */
};

/* Mappings in order of address, without overlaps (what was hidden is cut away).  A missing image
 * hides nothing: an image given for the same addresses by another option takes its place, in any
 * order.  After seal. */
size_t ptm_space_count(const struct ptm_space *space);
struct ptm_mapping ptm_space_get(const struct ptm_space *space, size_t i);

/* Map into @space all that was mapped into @over so far, which must share its files; it hides what
 * is there. */
int ptm_space_overlay(struct ptm_space *space, const struct ptm_space *over, struct ptm_error *err);

/* Finish building: sort, cut overlaps.  Called once before the space is read. */
int ptm_space_seal(struct ptm_space *space, struct ptm_error *err);

/* What is mapped where, by content: spaces of equal identity hold the same code at the same
 * addresses.  Reads what is mapped, unless a space that shares its files has read it.  Threads: any
 * number at once, after seal. */
void ptm_space_identity(const struct ptm_space *space, uint64_t id[2]);

/* Is the file @dev, @ino mapped by this space, or by one that shares its files? */
bool ptm_space_has_file(const struct ptm_space *space, dev_t dev, ino_t ino);

/* Index of the mapping that holds @ip, missing or not; SIZE_MAX if there is none.  Threads: any
 * number at once, after seal. */
size_t ptm_space_find(const struct ptm_space *space, uint64_t ip);

/* The bytes from @ip to the end of its mapping: returns a borrowed pointer and stores the number of
 * contiguous bytes at @avail; NULL if nothing is mapped there.  Threads: any number at once, after
 * seal. */
const uint8_t *ptm_space_at(const struct ptm_space *space, uint64_t ip, size_t *avail);

/* The mapping that holds @ip, of a file with cells (image/code_map.h): returns how many bytes it
 * has, and stores where it begins, its bytes and their cells.  0 if nothing is mapped there, or
 * there are no cells.  Threads: any number at once, after seal. */
uint64_t ptm_space_cells(const struct ptm_space *space, uint64_t ip, uint64_t *begin,
			 const uint8_t **bytes, _Atomic uint8_t **cells);

/* Copy up to @len bytes from @ip on, across adjacent mappings.  Returns the number copied. */
size_t ptm_space_read(const struct ptm_space *space, uint64_t ip, void *buf, size_t len);

#endif
