/* SPDX-License-Identifier: Apache-2.0
 *
 * ipt_image.h - our address spaces as libipt's images.  Private to the libipt engine.
 */
#ifndef PTM_FLOW_IPT_IMAGE_H
#define PTM_FLOW_IPT_IMAGE_H

#include "base/vec.h"
#include "image/space.h"

struct pt_image;
struct pt_image_section_cache;

struct ptm_ipt_image {
	const struct ptm_space *space; /* borrowed */
	struct pt_image *image;        /* owned */
};

/* One a worker; zero-initialise. */
struct ptm_ipt_images {
	struct pt_image_section_cache *sections; /* owned: keeps files mapped from frame to frame */
	PTM_VEC(struct ptm_ipt_image) images;
};

/* libipt's image of @space, made at the first call; NULL when out of memory. */
struct pt_image *ptm_ipt_image_get(struct ptm_ipt_images *images, const struct ptm_space *space);
void ptm_ipt_images_fini(struct ptm_ipt_images *images);

#endif
