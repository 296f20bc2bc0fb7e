/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_damage.h - damages a trace: bits, bytes, packets.
 */
#ifndef PTM_FUZZ_FLOW_DAMAGE_H
#define PTM_FUZZ_FLOW_DAMAGE_H

#include "flow_exec.h"

/* Replace the trace of @truth by a damaged one; the rest of it is no truth any more. */
void flow_damage(struct flow_truth *truth, const struct flow_prog *prog, struct flow_rand *r);

#endif
