/* SPDX-License-Identifier: Apache-2.0
 *
 * desc_priv.h - what the readers of descriptions share.
 */
#ifndef PTM_INPUT_DESC_PRIV_H
#define PTM_INPUT_DESC_PRIV_H

#include "input/desc.h"
#include "os/json_read.h"

#define PTM_DESC_MAX_BUILD_ID 64 /* bytes; SHA-1 has 20 */

/* The formats; @err must not be NULL.  @dir is the directory of the JSON file, "" for the current
 * one. */
int ptm_lldb_read(struct ptm_desc *desc, const struct ptm_json_doc *doc, const char *dir,
		  struct ptm_error *err);
int ptm_capture_read(struct ptm_desc *desc, const struct ptm_json_doc *doc, const char *dir,
		     struct ptm_error *err);

int ptm_desc_no_memory(const struct ptm_json_at *at, struct ptm_error *err);

/* A member that must not be empty. */
int ptm_desc_get_text(const struct ptm_json_at *at, const char **text, struct ptm_error *err);

/* Numbers of at most 32 bits. */
int ptm_desc_get_u32(const struct ptm_json_at *at, uint32_t *v, struct ptm_error *err);

/* perf's time, an object, under the names that the format has for its three numbers; nothing
 * happens if it is not there. */
struct ptm_desc_time_keys {
	const char *mult, *shift, *zero;
};
int ptm_desc_get_time(const struct ptm_json_at *at, const struct ptm_desc_time_keys *keys,
		      struct ptm_desc_time *time, struct ptm_error *err);

/* @path below @dir, or @path itself if it is absolute; NULL when out of memory. */
char *ptm_desc_join(const char *dir, const char *path);

/* A copy of @text for reports: control characters, which a terminal might obey, become '?'. */
char *ptm_desc_clean(const char *text);

/* Set the build-id to @text in lower case, without its dashes.  Fails at @at if it is no even
 * number of hexadecimal digits, or too long. */
int ptm_desc_set_build_id(struct ptm_desc_map *map, const struct ptm_json_at *at, const char *text,
			  struct ptm_error *err);

void ptm_desc_map_fini(struct ptm_desc_map *map);
void ptm_desc_stream_fini(struct ptm_desc_stream *stream);

/* Ids with the place where each belongs, to find one, or two of the same. */
struct ptm_desc_id {
	uint32_t id;
	size_t index;
};
struct ptm_desc_ids {
	PTM_VEC(struct ptm_desc_id) list;
};
void ptm_desc_ids_sort(struct ptm_desc_ids *ids);
/* After sorting: two of the same (the later of them), or NULL. */
const struct ptm_desc_id *ptm_desc_ids_twice(const struct ptm_desc_ids *ids);
const struct ptm_desc_id *ptm_desc_ids_find(const struct ptm_desc_ids *ids, uint32_t id);

#endif
