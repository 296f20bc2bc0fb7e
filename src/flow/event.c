/* SPDX-License-Identifier: Apache-2.0
 *
 * event.c - names of events, gaps and byte classes, and an event as a line of text.
 *
 * An event's text is its name, then the fields that its kind has, in a fixed order: what the kind
 * carries, `ip`, `to`, `tsc`.  Addresses and values that are addresses have sixteen digits and no
 * 0x, as everywhere in the text output.
 */
#include "flow/event.h"

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
	[PTM_EV_CFE] = "cfe",
	[PTM_EV_EVD] = "evd",
	[PTM_EV_BLOCK_BEGIN] = "block begin",
	[PTM_EV_BLOCK_ITEM] = "block item",
	[PTM_EV_BLOCK_END] = "block end",
	[PTM_EV_TRIGGER] = "trigger",
	[PTM_EV_IFLAG] = "iflag",
	[PTM_EV_TARGET] = "target",
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

struct list {
	struct ptm_event_field *fields;
	unsigned n; /* at most PTM_EVENT_FIELDS: three of a kind, ip, to, tsc */
};

static void add(struct list *l, const char *key, enum ptm_field_style style, uint64_t v)
{
	l->fields[l->n++] = (struct ptm_event_field){key, style, v, NULL};
}

static void add_gap(struct list *l, const struct ptm_event *ev)
{
	l->fields[l->n++] =
		(struct ptm_event_field){"class", PTM_FIELD_WORD, 0, ptm_gap_name(ev->arg)};
	add(l, "offset", PTM_FIELD_HEX, ev->offset);
	add(l, "bytes", PTM_FIELD_DEC, ev->value);
}

/* What Event Trace, PEBS via PT and triggers carry. */
static void add_trace(struct list *l, const struct ptm_event *ev)
{
	switch (ev->kind) {
	case PTM_EV_CFE:
		add(l, "type", PTM_FIELD_DEC, ev->arg);
		add(l, "vector", PTM_FIELD_DEC, ev->value);
		break;
	case PTM_EV_EVD:
		add(l, "type", PTM_FIELD_DEC, ev->arg);
		add(l, "value", PTM_FIELD_HEX, ev->value);
		break;
	case PTM_EV_BLOCK_BEGIN:
		add(l, "type", PTM_FIELD_DEC, ev->arg);
		add(l, "bytes", PTM_FIELD_DEC, ev->value);
		break;
	case PTM_EV_BLOCK_ITEM:
		add(l, "id", PTM_FIELD_DEC, ev->arg);
		add(l, "value", PTM_FIELD_HEX, ev->value);
		break;
	case PTM_EV_TRIGGER:
		add(l, "flags", PTM_FIELD_HEX, ev->arg);
		add(l, "triggers", PTM_FIELD_HEX, ev->value & 0xff);
		add(l, "insns", PTM_FIELD_DEC, ev->value >> 8);
		break;
	default:
		break;
	}
}

/* What the kind carries. */
static void add_payload(struct list *l, const struct ptm_event *ev)
{
	unsigned b0 = ev->value & 0xff, b1 = ev->value >> 8 & 0xff, b2 = ev->value >> 16 & 0xff;

	switch (ev->kind) {
	case PTM_EV_PAGING:
	case PTM_EV_ASYNC_PAGING:
		add(l, "cr3", PTM_FIELD_ADDR, ev->value);
		add(l, "nr", PTM_FIELD_DEC, ev->arg);
		break;
	case PTM_EV_EXEC_MODE:
		add(l, "bits", PTM_FIELD_DEC, ev->arg);
		break;
	case PTM_EV_TSX:
		add(l, "intx", PTM_FIELD_DEC, ev->arg & 1u);
		add(l, "abort", PTM_FIELD_DEC, ev->arg >> 1 & 1u);
		break;
	case PTM_EV_VMCS:
	case PTM_EV_ASYNC_VMCS:
		add(l, "base", PTM_FIELD_ADDR, ev->value);
		break;
	case PTM_EV_MWAIT:
		add(l, "hints", PTM_FIELD_HEX, (uint32_t)ev->value);
		add(l, "ext", PTM_FIELD_HEX, ev->value >> 32);
		break;
	case PTM_EV_PWRE:
		add(l, "state", PTM_FIELD_DEC, b0);
		add(l, "sub", PTM_FIELD_DEC, b1);
		add(l, "hw", PTM_FIELD_DEC, b2);
		break;
	case PTM_EV_PWRX:
		add(l, "last", PTM_FIELD_DEC, b0);
		add(l, "deepest", PTM_FIELD_DEC, b1);
		add(l, "wake", PTM_FIELD_HEX, b2);
		break;
	case PTM_EV_PTWRITE:
		add(l, "value", PTM_FIELD_HEX, ev->value);
		add(l, "bytes", PTM_FIELD_DEC, ev->arg);
		break;
	case PTM_EV_CBR:
		add(l, "ratio", PTM_FIELD_DEC, ev->arg);
		break;
	case PTM_EV_MNT:
		add(l, "value", PTM_FIELD_HEX, ev->value);
		break;
	case PTM_EV_IFLAG:
		add(l, "if", PTM_FIELD_DEC, ev->arg);
		break;
	case PTM_EV_GAP:
		add_gap(l, ev);
		break;
	default:
		add_trace(l, ev);
		break;
	}
}

unsigned ptm_event_fields(const struct ptm_event *ev,
			  struct ptm_event_field fields[PTM_EVENT_FIELDS])
{
	struct list l = {.fields = fields};

	add_payload(&l, ev);
	if (ev->flags & PTM_EVF_HAS_IP)
		add(&l, "ip", PTM_FIELD_ADDR, ev->ip);
	if (ev->flags & PTM_EVF_HAS_TO)
		add(&l, "to", PTM_FIELD_ADDR, ev->to);
	if (ev->flags & PTM_EVF_HAS_TSC)
		add(&l, "tsc", PTM_FIELD_HEX, ev->tsc);
	return l.n;
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

static void put_field(struct text *t, const struct ptm_event_field *f)
{
	switch (f->style) {
	case PTM_FIELD_DEC:
		put(t, " %s=%" PRIu64, f->key, f->v);
		break;
	case PTM_FIELD_HEX:
		put(t, " %s=0x%" PRIx64, f->key, f->v);
		break;
	case PTM_FIELD_ADDR:
		put(t, " %s=%016" PRIx64, f->key, f->v);
		break;
	case PTM_FIELD_WORD:
		put(t, " %s=", f->key);
		for (const char *s = f->word; *s != '\0'; s++)
			put(t, "%c", *s == ' ' ? '-' : *s);
		break;
	}
}

unsigned ptm_event_format(const struct ptm_event *ev, char *buf, unsigned size)
{
	struct ptm_event_field fields[PTM_EVENT_FIELDS];
	unsigned n = ptm_event_fields(ev, fields);
	struct text t = {.buf = buf, .size = size};

	if (size == 0)
		return 0;
	put(&t, "[%s", ptm_event_name(ev->kind));
	for (unsigned i = 0; i < n; i++)
		put_field(&t, &fields[i]);
	put(&t, "]");
	return t.len;
}
