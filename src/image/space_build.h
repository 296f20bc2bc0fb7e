/* SPDX-License-Identifier: Apache-2.0
 *
 * space_build.h - what the readers of image formats (elf.c, maps.c, raw.c) put into a space.
 */
#ifndef PTM_IMAGE_SPACE_BUILD_H
#define PTM_IMAGE_SPACE_BUILD_H

#include "image/build_id.h"
#include "image/space.h"
#include "os/file.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

/* Held around whatever asks libelf or libdw. */
extern pthread_mutex_t ptm_elf_lock;

/* The ELF file that is mapped, for libelf, which does not write to it; NULL if it is none.  Owned
 * by the caller, who has the lock. */
struct Elf *ptm_elf_open(const struct ptm_map *map);

/* A mapped file, shared by all its names and uses. */
struct ptm_image {
	dev_t dev;
	ino_t ino;
	char *path; /* by which it was opened */
	struct ptm_map map;
	_Atomic uint8_t *cells; /* of its code (image/code_map.h), one a byte; NULL: none */
	char build_id[2 * PTM_BUILD_ID_MAX + 1]; /* hex, "" if none */
	pthread_mutex_t lock;                    /* of the next, which any thread fills */
	void *pieces; /* tree of the digests of its parts that somebody asked for (space.c) */
};

/* A name under which an image was asked for. */
struct ptm_image_name {
	char *path;
	char *wanted_id;         /* the build-id that a description states, NULL if none does */
	char *recorded;          /* path on the recorded machine, NULL if no description tells */
	struct ptm_image *image; /* NULL: missing */
};

/* Store the image of the file @path at @name; it is mapped on first use.  -PTM_E_* if it cannot be
 * had. */
int ptm_space_open(struct ptm_space *space, const char *path, const struct ptm_image_name **name,
		   struct ptm_error *err);

/* Put @len bytes at @file_offset of an image, which must be there, at @begin; nothing for @len 0.
 */
int ptm_space_map(struct ptm_space *space, const struct ptm_image_name *name, uint64_t begin,
		  uint64_t len, uint64_t file_offset, struct ptm_error *err);

/* Record @len bytes at @begin whose image, called @path, is missing. */
int ptm_space_map_missing(struct ptm_space *space, const char *path, uint64_t begin, uint64_t len,
			  uint64_t file_offset, struct ptm_error *err);

/* The image called @path is wanted with this build-id ("": any). */
int ptm_space_expect(struct ptm_space *space, const char *path, const char *build_id,
		     struct ptm_error *err);

#endif
