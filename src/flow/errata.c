/* SPDX-License-Identifier: Apache-2.0
 *
 * errata.c - errata by CPU: libipt keeps the list of models.
 */
#include "flow/errata.h"

#include <intel-pt.h>

struct ptm_errata ptm_errata_of(const struct ptm_cpu *cpu)
{
	const struct pt_cpu ipt = {.vendor = pcv_intel,
				   .family = cpu->family,
				   .model = cpu->model,
				   .stepping = cpu->stepping};
	struct pt_errata known = {0};

	/* Of an unknown model none is known. */
	if (cpu->known)
		(void)pt_cpu_errata(&known, &ipt);
	return (struct ptm_errata){.skd010 = known.skd010};
}
