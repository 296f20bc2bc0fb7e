/* SPDX-License-Identifier: Apache-2.0
 *
 * errata.h - what the CPU that made a trace gets wrong (the specification updates of its family).
 */
#ifndef PTM_FLOW_ERRATA_H
#define PTM_FLOW_ERRATA_H

#include "ptmill/session.h"

#include <stdbool.h>

struct ptm_errata {
	bool skd010; /* "Intel PT FUP May be Dropped After OVF" */
};

struct ptm_errata ptm_errata_of(const struct ptm_cpu *cpu);

#endif
