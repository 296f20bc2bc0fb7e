/* SPDX-License-Identifier: Apache-2.0
 *
 * event.c - names of events, gaps and byte classes, and an event as a line of text.
 *
 * An event's text is its name, then the fields that its kind has, in a fixed order: what the kind
 * carries, `ip`, `to`, `tsc`.  Addresses and values that are addresses have sixteen digits and no
 * 0x, as everywhere in the text output.
 */
#include "ptmill/event.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static const char *const event_names[] = {
	[PTM_EV_ENABLED] = "enabled",
	[PTM_EV_RESUMED] = "resumed",
	[PTM_EV_DISABLED] = "disabled",
	[PTM_EV_ASYNC_DISABLED] = "async disabled",
	[PTM_EV_ASYNC_BRANCH] = "async branch",
	[PTM_EV_PAGING] = "paging",
	[PTM_EV_ASYNC_PAGING] = "async paging",
	[PTM_EV_OVERFLOW] = "overflow",
	[PTM_EV_EXEC_MODE] = "exec mode",
	[PTM_EV_TSX] = "tsx",
	[PTM_EV_STOP] = "stop",
	[PTM_EV_VMCS] = "vmcs",
	[PTM_EV_ASYNC_VMCS] = "async vmcs",
	[PTM_EV_EXSTOP] = "exstop",
	[PTM_EV_MWAIT] = "mwait",
	[PTM_EV_PWRE] = "pwre",
	[PTM_EV_PWRX] = "pwrx",
	[PTM_EV_PTWRITE] = "ptwrite",
	[PTM_EV_CBR] = "cbr",
	[PTM_EV_MNT] = "mnt",
	[PTM_EV_GAP] = "gap",
};

static const char *const gap_names[PTM_GAP_KINDS] = {
	[PTM_GAP_BAD_PACKET] = "bad packet",   [PTM_GAP_TRUNCATED] = "truncated",
	[PTM_GAP_UNSUPPORTED] = "unsupported", [PTM_GAP_NO_IMAGE] = "no image",
	[PTM_GAP_BAD_INSN] = "bad insn",       [PTM_GAP_MISMATCH] = "mismatch",
	[PTM_GAP_RETCOMP] = "retcomp",         [PTM_GAP_SEAM] = "seam",
	[PTM_GAP_RUNAWAY] = "runaway",         [PTM_GAP_TOO_LONG] = "too long",
	[PTM_GAP_NO_SYNC] = "no sync",         [PTM_GAP_CONFIG] = "config",
};

static const char *const byte_class_names[PTM_BYTES_CLASSES] = {
	[PTM_BYTES_DECODED] = "decoded", [PTM_BYTES_HEAD] = "head",
	[PTM_BYTES_PADDING] = "padding", [PTM_BYTES_OVERFLOW] = "overflow",
	[PTM_BYTES_LOST] = "lost",       [PTM_BYTES_SKIPPED] = "skipped",
};

static const char *name_of(const char *const *names, size_t n, unsigned i)
{
	return i < n && names[i] != NULL ? names[i] : "unknown";
}

#define NAME_OF(names, i) name_of((names), sizeof(names) / sizeof((names)[0]), (i))

const char *ptm_event_name(unsigned kind)
{
	return NAME_OF(event_names, kind);
}

const char *ptm_gap_name(unsigned gap)
{
	return NAME_OF(gap_names, gap);
}

const char *ptm_byte_class_name(unsigned byte_class)
{
	return NAME_OF(byte_class_names, byte_class);
}

struct text {
	char *buf;
	unsigned size; /* at least 1 */
	unsigned len;
};

/* Append; what does not fit is cut off. */
static void put(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void put(struct text *t, const char *fmt, ...)
{
	unsigned room = t->size - t->len;
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(t->buf + t->len, room, fmt, ap);
	va_end(ap);
	if (n > 0)
		t->len += (unsigned)n < room ? (unsigned)n : room - 1;
}

/* The class is one word of the line: spaces become dashes. */
static void put_gap(struct text *t, const struct ptm_event *ev)
{
	put(t, " class=");
	for (const char *s = ptm_gap_name(ev->arg); *s != '\0'; s++)
		put(t, "%c", *s == ' ' ? '-' : *s);
	put(t, " offset=0x%" PRIx64 " bytes=%" PRIu64, ev->offset, ev->value);
}

/* What the kind carries. */
static void put_payload(struct text *t, const struct ptm_event *ev)
{
	unsigned b0 = ev->value & 0xff, b1 = ev->value >> 8 & 0xff, b2 = ev->value >> 16 & 0xff;

	switch (ev->kind) {
	case PTM_EV_PAGING:
	case PTM_EV_ASYNC_PAGING:
		put(t, " cr3=%016" PRIx64 " nr=%u", ev->value, ev->arg);
		break;
	case PTM_EV_EXEC_MODE:
		put(t, " bits=%u", ev->arg);
		break;
	case PTM_EV_TSX:
		put(t, " intx=%u abort=%u", ev->arg & 1u, ev->arg >> 1 & 1u);
		break;
	case PTM_EV_VMCS:
	case PTM_EV_ASYNC_VMCS:
		put(t, " base=%016" PRIx64, ev->value);
		break;
	case PTM_EV_MWAIT:
		put(t, " hints=0x%" PRIx32 " ext=0x%" PRIx32, (uint32_t)ev->value,
		    (uint32_t)(ev->value >> 32));
		break;
	case PTM_EV_PWRE:
		put(t, " state=%u sub=%u hw=%u", b0, b1, b2);
		break;
	case PTM_EV_PWRX:
		put(t, " last=%u deepest=%u wake=0x%x", b0, b1, b2);
		break;
	case PTM_EV_PTWRITE:
		put(t, " value=0x%" PRIx64 " bytes=%u", ev->value, ev->arg);
		break;
	case PTM_EV_CBR:
		put(t, " ratio=%u", ev->arg);
		break;
	case PTM_EV_MNT:
		put(t, " value=0x%" PRIx64, ev->value);
		break;
	case PTM_EV_GAP:
		put_gap(t, ev);
		break;
	default:
		break;
	}
}

unsigned ptm_event_format(const struct ptm_event *ev, char *buf, unsigned size)
{
	struct text t = {.buf = buf, .size = size};

	if (size == 0)
		return 0;
	put(&t, "[%s", ptm_event_name(ev->kind));
	put_payload(&t, ev);
	if (ev->flags & PTM_EVF_HAS_IP)
		put(&t, " ip=%016" PRIx64, ev->ip);
	if (ev->flags & PTM_EVF_HAS_TO)
		put(&t, " to=%016" PRIx64, ev->to);
	if (ev->flags & PTM_EVF_HAS_TSC)
		put(&t, " tsc=0x%" PRIx64, ev->tsc);
	put(&t, "]");
	return t.len;
}
