/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu.c - the CPUs whose errata are known.
 */
#include "flow/engine.h"

/* Models of family 6 with Intel PT whose specification updates libipt 2.0.5 or we have looked at.
 */
static const uint8_t known_models[] = {
	0x3d, 0x47, 0x4f, 0x56,                   /* Broadwell */
	0x4e, 0x5e, 0x55,                         /* Skylake, also Cascade Lake and Cooper Lake */
	0x8e, 0x9e, 0xa5, 0xa6,                   /* Kaby Lake to Comet Lake */
	0x66,                                     /* Cannon Lake */
	0x6a, 0x6c, 0x7d, 0x7e,                   /* Ice Lake */
	0x8c, 0x8d, 0xa7,                         /* Tiger Lake, Rocket Lake */
	0x97, 0x9a, 0xbe,                         /* Alder Lake */
	0x5c, 0x5f, 0x7a, 0x86, 0x8a, 0x96, 0x9c, /* Goldmont to Tremont */
	0x8f,                                     /* Sapphire Rapids */
};

const char *ptm_engine_cpu_warning(const struct ptm_cpu *cpu)
{
	if (!cpu->known)
		return NULL;
	for (size_t i = 0; cpu->family == 6 && i < sizeof(known_models); i++) {
		if (known_models[i] == cpu->model)
			return NULL;
	}
	return "unknown CPU model: no errata are applied but those of every CPU";
}
