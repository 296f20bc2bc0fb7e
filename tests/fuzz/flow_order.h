/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_order.h - packets of a damaged frame in an order that no CPU writes.
 */
#ifndef PTM_FUZZ_FLOW_ORDER_H
#define PTM_FUZZ_FLOW_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True if the packets of the frame data[0..len), which begins with a PSB, stand in an order that
 * the SDM rules out, or that the recorder never writes: a FUP that belongs to nothing, a packet
 * whose FUP is not there, a change of enablement that is none, PSB+ with other packets.  What to
 * make of them is anybody's choice. */
bool flow_is_out_of_order(const uint8_t *data, size_t len);

#endif
