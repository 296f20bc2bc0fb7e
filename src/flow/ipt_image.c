/* SPDX-License-Identifier: Apache-2.0
 *
 * ipt_image.c - our address spaces as libipt's images.
 *
 * libipt maps the files by itself, through its section cache: fetching an instruction by its memory
 * callback costs half as much again as decoding it.  The callback stays for what libipt can not
 * open.
 */
#include "flow/ipt_image.h"

#include <intel-pt.h>
#include <stdlib.h>

/* Bytes of images that stay mapped. */
#define SECTIONS_MAX (UINT64_C(1) << 30)

static int read_space(uint8_t *buffer, size_t size, const struct pt_asid *asid, uint64_t ip,
		      void *context)
{
	size_t n = ptm_space_read((const struct ptm_space *)context, ip, buffer, size);

	(void)asid;
	return n > 0 ? (int)n : -pte_nomap;
}

static void add_mapping(struct ptm_ipt_images *images, struct pt_image *image,
			const struct ptm_mapping *m)
{
	int isid;

	if (m->data == NULL)
		return;
	isid = pt_iscache_add_file(images->sections, m->path, m->file_offset, m->end - m->begin,
				   m->begin);
	if (isid > 0)
		(void)pt_image_add_cached(image, images->sections, isid, NULL);
}

static struct pt_image *make_image(struct ptm_ipt_images *images, const struct ptm_space *space)
{
	struct pt_image *image = pt_image_alloc("ptmill");

	if (image == NULL)
		return NULL;
	if (pt_image_set_callback(image, read_space, (void *)(uintptr_t)space) < 0) {
		pt_image_free(image);
		return NULL;
	}
	for (size_t i = 0; i < ptm_space_count(space); i++) {
		struct ptm_mapping m = ptm_space_get(space, i);

		add_mapping(images, image, &m);
	}
	return image;
}

struct pt_image *ptm_ipt_image_get(struct ptm_ipt_images *images, const struct ptm_space *space)
{
	struct ptm_ipt_image made = {.space = space};

	for (size_t i = 0; i < images->images.n; i++) {
		if (images->images.v[i].space == space)
			return images->images.v[i].image;
	}
	if (images->sections == NULL) {
		images->sections = pt_iscache_alloc("ptmill");
		if (images->sections == NULL)
			return NULL;
		(void)pt_iscache_set_limit(images->sections, SECTIONS_MAX);
	}
	made.image = make_image(images, space);
	if (made.image == NULL || !ptm_vec_push(&images->images, made)) {
		pt_image_free(made.image);
		return NULL;
	}
	return made.image;
}

void ptm_ipt_images_fini(struct ptm_ipt_images *images)
{
	for (size_t i = 0; i < images->images.n; i++)
		pt_image_free(images->images.v[i].image);
	free(images->images.v);
	pt_iscache_free(images->sections);
}
