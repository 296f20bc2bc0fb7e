/* SPDX-License-Identifier: Apache-2.0
 *
 * hot_code.h - counts of runs to counts of single instructions, by image and offset.
 */
#ifndef PTM_SINK_HOT_CODE_H
#define PTM_SINK_HOT_CODE_H

#include "base/vec.h"
#include "flow/counts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A place in the code as one number, in order of image and offset: 16 bits index of the image, 38
 * bits offset in its file, 2 bits mode, 4 bits length and 4 bits class of the instruction there (0
 * where these do not matter).  So code that is entered in the middle of an instruction is told
 * apart. */
#define PTM_SPOT_IMAGES       UINT16_MAX
#define PTM_SPOT_OFFSETS      (UINT64_C(1) << 38)
#define PTM_SPOT(image, off)  ((uint64_t)(image) << 48 | (off) << 10)
#define PTM_SPOT_PLACE(spot)  ((spot) & ~UINT64_C(0x3ff)) /* the first two alone */
#define PTM_SPOT_IMAGE(spot)  ((size_t)((spot) >> 48))
#define PTM_SPOT_OFFSET(spot) ((spot) >> 10 & (PTM_SPOT_OFFSETS - 1))
#define PTM_SPOT_MODE(spot)   ((unsigned)((spot) >> 8 & 3))
#define PTM_SPOT_LEN(spot)    ((unsigned)((spot) >> 4 & 15))
#define PTM_SPOT_CLASS(spot)  ((unsigned)((spot)&15))
#define PTM_SPOT_NONE         UINT64_MAX /* nothing is mapped there */

struct ptm_hot_image {
	const struct ptm_image *image;
	const char *name, *path;
};

struct ptm_hot_insn {
	uint64_t spot, times;
};

/* Both ways of a conditional branch. */
struct ptm_hot_cond {
	uint64_t spot, taken, fall;
};

struct ptm_hot_way {
	uint64_t spot; /* of the branch */
	uint64_t to;   /* spot; without an image: address */
	uint64_t times;
	bool unmapped;
};

/* Everything in order of spots, each once. */
struct ptm_hot_code {
	const struct ptm_counts *counts;
	PTM_VEC(struct ptm_hot_image) images; /* by name; what is borrowed is of the spaces */
	PTM_VEC(struct ptm_hot_insn) insns;
	PTM_VEC(struct ptm_hot_cond) conds;
	PTM_VEC(struct ptm_hot_way) ways;
};

int ptm_hot_code_make(struct ptm_hot_code *code, struct ptm_counts *counts, struct ptm_error *err);
void ptm_hot_code_fini(struct ptm_hot_code *code);

/* The lowest address at which a spot is mapped. */
uint64_t ptm_hot_code_address(const struct ptm_hot_code *code, uint64_t spot);

#endif
