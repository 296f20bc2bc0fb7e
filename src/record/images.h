/* SPDX-License-Identifier: Apache-2.0
 *
 * images.h - the code of a recorded process: its executable mappings, and copies of what they hold.
 */
#ifndef PTM_RECORD_IMAGES_H
#define PTM_RECORD_IMAGES_H

#include "base/error.h"
#include "base/vec.h"
#include "image/build_id.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A file in the directory of images. */
struct ptm_rec_image {
	char *source; /* owned; the file that was copied; NULL: dumped from memory */
	char *name;   /* owned; final once settled */
	char build_id[2 * PTM_BUILD_ID_MAX + 1]; /* once settled; "": none */
	uint64_t digest;                         /* once settled */
	bool used;                               /* once settled: a mapping needs it */
};

struct ptm_rec_map {
	uint64_t begin, end;
	uint64_t offset; /* in the mapped file */
	char *path;      /* owned; as /proc/PID/maps has it: a file, "[vdso]", "" */
	size_t image;    /* index */
	bool live;       /* it was there at the last scan */
};

#define PTM_REC_CHUNK (1 << 16)

struct ptm_images {
	char *dir; /* owned */
	struct ptm_error *err;
	PTM_VEC(struct ptm_rec_image) images;
	PTM_VEC(struct ptm_rec_map) maps; /* in the order in which they appeared, until settled */
	uint8_t chunk[PTM_REC_CHUNK];
};

/* Set @err from errno: cannot @what @path. */
int ptm_rec_fail(struct ptm_error *err, const char *what, const char *path);

/* Keep images in directory @dir, which exists; takes the string. */
void ptm_images_init(struct ptm_images *images, char *dir, struct ptm_error *err);
void ptm_images_fini(struct ptm_images *images);

/* Take over the executable mappings of stopped process @pid: their files, and as it is now the
 * memory that has none (vdso, generated code) or is not what its file says.  Returns 0 or -PTM_E_*.
 */
int ptm_images_scan(struct ptm_images *images, pid_t pid);

/* The mappings that overlap the addresses @begin to @end, exclusive, are about to vanish or to
 * change: copy their memory again where no file holds it.  Returns 0 or -PTM_E_*. */
int ptm_images_refresh(struct ptm_images *images, pid_t pid, uint64_t begin, uint64_t end);

/* The addresses @begin to @end, exclusive, are file @path from @offset on.  Returns 0 and the index
 * of its image, 1 if there is no such regular file, or -PTM_E_*. */
int ptm_images_add_file(struct ptm_images *images, const char *path, uint64_t begin, uint64_t end,
			uint64_t offset, size_t *image);

/* The memory at @begin is these @len bytes.  Returns 0 or -PTM_E_*. */
int ptm_images_add_memory(struct ptm_images *images, uint64_t begin, const uint8_t *bytes,
			  size_t len);

/* Where image @i lies, before it is settled; to be freed.  NULL when out of memory. */
char *ptm_images_path(const struct ptm_images *images, size_t i);

/* Give each image its name - build-id, or digest - and remove what nobody needs; order the mappings
 * so that a later one hides what it overlaps of an earlier one.  Returns 0 or -PTM_E_*. */
int ptm_images_settle(struct ptm_images *images);

/* Where the first byte of @map lies in its image. */
uint64_t ptm_images_offset(const struct ptm_images *images, const struct ptm_rec_map *map);

#endif
