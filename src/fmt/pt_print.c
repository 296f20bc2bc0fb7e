/* SPDX-License-Identifier: Apache-2.0
 *
 * pt_print.c - packets as text, one line each: the name in twelve columns, then the payload.
 *
 * The names are those of the field (ptdump, ptxed); a packet without payload ends behind its name.
 */
#include "fmt/pt_packet.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NAME_WIDTH 12

static const char *const names[PTM_PKT_KINDS] = {
	[PTM_PKT_PAD] = "pad",           [PTM_PKT_PSB] = "psb",
	[PTM_PKT_PSBEND] = "psbend",     [PTM_PKT_TNT8] = "tnt.8",
	[PTM_PKT_TNT64] = "tnt.64",      [PTM_PKT_TIP] = "tip",
	[PTM_PKT_TIP_PGE] = "tip.pge",   [PTM_PKT_TIP_PGD] = "tip.pgd",
	[PTM_PKT_FUP] = "fup",           [PTM_PKT_MODE_EXEC] = "mode.exec",
	[PTM_PKT_MODE_TSX] = "mode.tsx", [PTM_PKT_PIP] = "pip",
	[PTM_PKT_VMCS] = "vmcs",         [PTM_PKT_TSC] = "tsc",
	[PTM_PKT_TMA] = "tma",           [PTM_PKT_MTC] = "mtc",
	[PTM_PKT_CYC] = "cyc",           [PTM_PKT_CBR] = "cbr",
	[PTM_PKT_OVF] = "ovf",           [PTM_PKT_STOP] = "stop",
	[PTM_PKT_MNT] = "mnt",           [PTM_PKT_PTW] = "ptw",
	[PTM_PKT_EXSTOP] = "exstop",     [PTM_PKT_MWAIT] = "mwait",
	[PTM_PKT_PWRE] = "pwre",         [PTM_PKT_PWRX] = "pwrx",
	[PTM_PKT_BBP] = "bbp",           [PTM_PKT_BIP] = "bip",
	[PTM_PKT_BEP] = "bep",           [PTM_PKT_CFE] = "cfe",
	[PTM_PKT_EVD] = "evd",           [PTM_PKT_TRIG] = "trig",
};

/* Control-flow events; the numbers that the SDM leaves out have no name. */
static const char *const cfe_names[32] = {
	[1] = "intr",   [2] = "iret",    [3] = "smi",     [4] = "rsm",         [5] = "sipi",
	[6] = "init",   [7] = "vmentry", [8] = "vmexit",  [9] = "vmexit_intr", [10] = "shutdown",
	[12] = "uintr", [13] = "uiret",  [14] = "swintr", [15] = "syscall",
};

static const char *const evd_names[] = {"cr2", "vmxq", "vmxr"};

struct text {
	char *buf;
	size_t size;
	size_t len;
};

/* Append; what does not fit is cut off. */
static void put(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void put(struct text *t, const char *fmt, ...)
{
	size_t room = t->size - t->len;
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(t->buf + t->len, room, fmt, ap);
	va_end(ap);
	if (n > 0)
		t->len += (size_t)n < room ? (size_t)n : room - 1;
}

/* Oldest branch first: ! taken, . not taken. */
static void put_tnt(struct text *t, const struct ptm_pkt *pkt)
{
	for (unsigned i = pkt->n; i-- > 0;)
		put(t, "%c", (pkt->payload >> i & 1) != 0 ? '!' : '.');
}

static void put_exec(struct text *t, unsigned bits)
{
	const char *const size[4] = {"16-bit", "64-bit", "32-bit", "reserved"};

	put(t, "%s%s", size[bits & 3], (bits & 4) != 0 ? ", if" : "");
}

static void put_tsx(struct text *t, unsigned bits)
{
	const char *const state[4] = {"commit", "intx", "abort", "intx, abort"};

	put(t, "%s", state[bits & 3]);
}

static void put_event(struct text *t, const struct ptm_pkt *pkt)
{
	const char *name = NULL;

	if (pkt->kind == PTM_PKT_CFE) {
		name = pkt->type < 32 ? cfe_names[pkt->type] : NULL;
		put(t, "%u %s, vector %u", pkt->type, name != NULL ? name : "?", pkt->aux);
	} else {
		name = pkt->type < 3 ? evd_names[pkt->type] : NULL;
		put(t, "%u %s: %016" PRIx64, pkt->type, name != NULL ? name : "?", pkt->payload);
	}
}

static void put_time(struct text *t, const struct ptm_pkt *pkt)
{
	if (pkt->kind == PTM_PKT_TMA)
		put(t, "%" PRIx64 ", %x", pkt->payload, pkt->aux);
	else if (pkt->kind == PTM_PKT_CBR)
		put(t, "%" PRIu64, pkt->payload);
	else
		put(t, "%" PRIx64, pkt->payload);
}

static void put_power(struct text *t, const struct ptm_pkt *pkt)
{
	if (pkt->kind == PTM_PKT_MWAIT)
		put(t, "%08" PRIx64 ", %02x", pkt->payload, pkt->type);
	else if (pkt->kind == PTM_PKT_PWRE)
		put(t, "c%u.%u%s", pkt->type >> 4, pkt->type & 15, pkt->aux != 0 ? ", hw" : "");
	else
		put(t, "last c%u, deepest c%u, wake %x", pkt->type & 15, pkt->type >> 4, pkt->aux);
}

static void put_trig(struct text *t, const struct ptm_pkt *pkt)
{
	put(t, "%02x, trbv %02" PRIx64, pkt->type, pkt->payload);
	if ((pkt->type & 0x40) != 0)
		put(t, ", icnt %u", pkt->aux);
}

static void put_payload(struct text *t, const struct ptm_pkt *pkt)
{
	switch (pkt->kind) {
	case PTM_PKT_TNT8:
	case PTM_PKT_TNT64:
		put_tnt(t, pkt);
		break;
	case PTM_PKT_TIP:
	case PTM_PKT_TIP_PGE:
	case PTM_PKT_TIP_PGD:
	case PTM_PKT_FUP:
		if (pkt->has_ip)
			put(t, "%x: %016" PRIx64, pkt->ipbytes, pkt->ip);
		else
			put(t, "%x: ????????????????", pkt->ipbytes);
		break;
	case PTM_PKT_MODE_EXEC:
		put_exec(t, pkt->type);
		break;
	case PTM_PKT_MODE_TSX:
		put_tsx(t, pkt->type);
		break;
	case PTM_PKT_PIP:
		put(t, "%" PRIx64 "%s", pkt->payload, pkt->type != 0 ? ", nr" : "");
		break;
	case PTM_PKT_VMCS:
	case PTM_PKT_MNT:
		put(t, "%" PRIx64, pkt->payload);
		break;
	case PTM_PKT_PTW:
		put(t, "%x: %0*" PRIx64, pkt->n == 8, pkt->n * 2, pkt->payload);
		break;
	case PTM_PKT_MWAIT:
	case PTM_PKT_PWRE:
	case PTM_PKT_PWRX:
		put_power(t, pkt);
		break;
	case PTM_PKT_BBP:
		put(t, "type %u, %u-byte items", pkt->type, pkt->n);
		break;
	case PTM_PKT_BIP:
		put(t, "id %u: %0*" PRIx64, pkt->type, pkt->n * 2, pkt->payload);
		break;
	case PTM_PKT_CFE:
	case PTM_PKT_EVD:
		put_event(t, pkt);
		break;
	case PTM_PKT_TRIG:
		put_trig(t, pkt);
		break;
	default:
		if (ptm_pkt_is_time(pkt->kind))
			put_time(t, pkt);
		break;
	}
	if (pkt->fup_follows)
		put(t, "%s",
		    pkt->kind == PTM_PKT_BEP || pkt->kind == PTM_PKT_EXSTOP ? "ip" : ", ip");
}

const char *ptm_pkt_name(unsigned kind)
{
	return kind < PTM_PKT_KINDS ? names[kind] : "unknown";
}

size_t ptm_pkt_format(const struct ptm_pkt *pkt, char *buf, size_t size)
{
	struct text t = {.buf = buf, .size = size};

	if (size == 0)
		return 0;
	put(&t, "%-*s", NAME_WIDTH, ptm_pkt_name(pkt->kind));
	put_payload(&t, pkt);
	while (t.len > 0 && buf[t.len - 1] == ' ')
		t.len--;
	buf[t.len] = '\0';
	return t.len;
}
