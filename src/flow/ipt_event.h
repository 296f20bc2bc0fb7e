/* SPDX-License-Identifier: Apache-2.0
 *
 * ipt_event.h - libipt's events in our terms.  Private to the libipt engine.
 */
#ifndef PTM_FLOW_IPT_EVENT_H
#define PTM_FLOW_IPT_EVENT_H

#include "ptmill/event.h"

#include <stdbool.h>

struct pt_event;

/* Translate.  Returns false for events that say nothing new: the status updates of a PSB+, ticks.
 */
bool ptm_ipt_event(const struct pt_event *from, struct ptm_event *to);

/* The class of a gap for a (positive) libipt error code. */
enum ptm_gap ptm_ipt_gap(int errcode);

#endif
