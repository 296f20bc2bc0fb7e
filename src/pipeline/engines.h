/* SPDX-License-Identifier: Apache-2.0
 *
 * engines.h - which engine a configuration means.
 */
#ifndef PTM_PIPELINE_ENGINES_H
#define PTM_PIPELINE_ENGINES_H

#include "flow/engine.h"
#include "ptmill/session.h"

/* NULL: there is no such engine. */
const struct ptm_engine_ops *ptm_engine_of(enum ptm_engine_kind kind);

#endif
