/* SPDX-License-Identifier: Apache-2.0
 *
 * engines.c - the table of engines.
 */
#include "pipeline/engines.h"

static const struct ptm_engine_ops *const engines[] = {
	[PTM_ENGINE_FAST] = &ptm_engine_fast,
	[PTM_ENGINE_LIBIPT] = &ptm_engine_ipt,
};

const struct ptm_engine_ops *ptm_engine_of(enum ptm_engine_kind kind)
{
	return (size_t)kind < sizeof(engines) / sizeof(engines[0]) ? engines[kind] : NULL;
}
