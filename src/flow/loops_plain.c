/* SPDX-License-Identifier: Apache-2.0
 *
 * loops_plain.c - the loops of the fast path for any CPU.
 */
#define PTM_LOOPS ptm_loops_plain
#include "flow/loops_body.h"
