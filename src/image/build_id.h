/* SPDX-License-Identifier: Apache-2.0
 *
 * build_id.h - the build-id of an ELF file.
 */
#ifndef PTM_IMAGE_BUILD_ID_H
#define PTM_IMAGE_BUILD_ID_H

#include "os/file.h"

#define PTM_BUILD_ID_MAX 64 /* bytes; SHA-1 has 20 */

/* Hex build-id of an ELF file in memory, "" if it is none or has none.  Threads: any number at
 * once. */
void ptm_elf_build_id(const struct ptm_map *map, char out[2 * PTM_BUILD_ID_MAX + 1]);

#endif
