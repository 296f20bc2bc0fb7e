/* SPDX-License-Identifier: Apache-2.0
 *
 * event.h - the fields of an event, one by one: for whoever writes them in another form than text.
 */
#ifndef PTM_FLOW_EVENT_H
#define PTM_FLOW_EVENT_H

#include "ptmill/event.h"

enum ptm_field_style {
	PTM_FIELD_DEC,
	PTM_FIELD_HEX,  /* 0x and as many digits as needed */
	PTM_FIELD_ADDR, /* sixteen hexadecimal digits, without 0x */
	PTM_FIELD_WORD  /* a name, whose spaces become dashes */
};

struct ptm_event_field {
	const char *key; /* static storage */
	enum ptm_field_style style;
	uint64_t v;
	const char *word; /* static storage; NULL unless PTM_FIELD_WORD */
};

#define PTM_EVENT_FIELDS 8

/* The fields that an event's kind and flags say it has, in the order of its text.  Returns their
 * number. */
unsigned ptm_event_fields(const struct ptm_event *ev,
			  struct ptm_event_field fields[PTM_EVENT_FIELDS]);

#endif
