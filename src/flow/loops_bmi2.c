/* SPDX-License-Identifier: Apache-2.0
 *
 * loops_bmi2.c - the loops of the fast path for x86-64 CPUs with BMI1, BMI2, LZCNT and POPCNT; the
 * build compiles this file for those.
 */
#define PTM_LOOPS ptm_loops_bmi2
#include "flow/loops_body.h"
