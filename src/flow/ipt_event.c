/* SPDX-License-Identifier: Apache-2.0
 *
 * ipt_event.c - libipt's events and errors in our terms.
 */
#include "flow/ipt_event.h"

#include <intel-pt.h>

static void set_ip(struct ptm_event *ev, uint64_t ip)
{
	ev->ip = ip;
	ev->flags |= PTM_EVF_HAS_IP;
}

static void set_to(struct ptm_event *ev, const struct pt_event *from, uint64_t to)
{
	if (from->ip_suppressed)
		return;
	ev->to = to;
	ev->flags |= PTM_EVF_HAS_TO;
}

static uint16_t mode_bits(enum pt_exec_mode mode)
{
	switch (mode) {
	case ptem_16bit:
		return 16;
	case ptem_32bit:
		return 32;
	case ptem_64bit:
	case ptem_unknown:
		break;
	}
	return 64;
}

/* Events of the flow: where tracing starts, stops and jumps. */
static bool flow_event(const struct pt_event *from, struct ptm_event *ev)
{
	switch (from->type) {
	case ptev_enabled:
		ev->kind = from->variant.enabled.resumed ? PTM_EV_RESUMED : PTM_EV_ENABLED;
		set_ip(ev, from->variant.enabled.ip);
		return true;
	case ptev_disabled:
		ev->kind = PTM_EV_DISABLED;
		set_to(ev, from, from->variant.disabled.ip);
		return true;
	case ptev_async_disabled:
		ev->kind = PTM_EV_ASYNC_DISABLED;
		set_ip(ev, from->variant.async_disabled.at);
		set_to(ev, from, from->variant.async_disabled.ip);
		return true;
	case ptev_async_branch:
		ev->kind = PTM_EV_ASYNC_BRANCH;
		set_ip(ev, from->variant.async_branch.from);
		set_to(ev, from, from->variant.async_branch.to);
		return true;
	case ptev_overflow:
		ev->kind = PTM_EV_OVERFLOW;
		if (!from->ip_suppressed)
			set_ip(ev, from->variant.overflow.ip);
		return true;
	case ptev_stop:
		ev->kind = PTM_EV_STOP;
		return true;
	default:
		return false;
	}
}

/* Events of the context: address space, mode, transaction. */
static bool context_event(const struct pt_event *from, struct ptm_event *ev)
{
	switch (from->type) {
	case ptev_paging:
		ev->kind = PTM_EV_PAGING;
		ev->value = from->variant.paging.cr3;
		ev->arg = (uint16_t)from->variant.paging.non_root;
		return true;
	case ptev_async_paging:
		ev->kind = PTM_EV_ASYNC_PAGING;
		ev->value = from->variant.async_paging.cr3;
		ev->arg = (uint16_t)from->variant.async_paging.non_root;
		set_ip(ev, from->variant.async_paging.ip);
		return true;
	case ptev_vmcs:
		ev->kind = PTM_EV_VMCS;
		ev->value = from->variant.vmcs.base;
		return true;
	case ptev_async_vmcs:
		ev->kind = PTM_EV_ASYNC_VMCS;
		ev->value = from->variant.async_vmcs.base;
		set_ip(ev, from->variant.async_vmcs.ip);
		return true;
	case ptev_exec_mode:
		ev->kind = PTM_EV_EXEC_MODE;
		ev->arg = mode_bits(from->variant.exec_mode.mode);
		set_ip(ev, from->variant.exec_mode.ip);
		return true;
	case ptev_tsx:
		ev->kind = PTM_EV_TSX;
		ev->arg =
			(uint16_t)(from->variant.tsx.speculative | from->variant.tsx.aborted << 1);
		if (!from->ip_suppressed)
			set_ip(ev, from->variant.tsx.ip);
		return true;
	default:
		return false;
	}
}

/* Events of power, software and frequency. */
static bool other_event(const struct pt_event *from, struct ptm_event *ev)
{
	switch (from->type) {
	case ptev_exstop:
		ev->kind = PTM_EV_EXSTOP;
		if (!from->ip_suppressed)
			set_ip(ev, from->variant.exstop.ip);
		return true;
	case ptev_mwait:
		ev->kind = PTM_EV_MWAIT;
		ev->value = from->variant.mwait.hints | (uint64_t)from->variant.mwait.ext << 32;
		if (!from->ip_suppressed)
			set_ip(ev, from->variant.mwait.ip);
		return true;
	case ptev_pwre:
		ev->kind = PTM_EV_PWRE;
		ev->value = from->variant.pwre.state | (uint64_t)from->variant.pwre.sub_state << 8 |
			    (uint64_t)from->variant.pwre.hw << 16;
		return true;
	case ptev_pwrx:
		ev->kind = PTM_EV_PWRX;
		ev->value = from->variant.pwrx.last | (uint64_t)from->variant.pwrx.deepest << 8 |
			    (uint64_t)from->variant.pwrx.interrupt << 16 |
			    (uint64_t)from->variant.pwrx.store << 17 |
			    (uint64_t)from->variant.pwrx.autonomous << 18;
		return true;
	case ptev_ptwrite:
		ev->kind = PTM_EV_PTWRITE;
		ev->value = from->variant.ptwrite.payload;
		ev->arg = from->variant.ptwrite.size;
		if (!from->ip_suppressed)
			set_ip(ev, from->variant.ptwrite.ip);
		return true;
	case ptev_cbr:
		ev->kind = PTM_EV_CBR;
		ev->arg = from->variant.cbr.ratio;
		return true;
	case ptev_mnt:
		ev->kind = PTM_EV_MNT;
		ev->value = from->variant.mnt.payload;
		return true;
	default:
		return false;
	}
}

bool ptm_ipt_event(const struct pt_event *from, struct ptm_event *to)
{
	*to = (struct ptm_event){0};
	if (from->status_update)
		return false;
	if (from->has_tsc) {
		to->tsc = from->tsc;
		to->flags |= PTM_EVF_HAS_TSC;
	}
	return flow_event(from, to) || context_event(from, to) || other_event(from, to);
}

enum ptm_gap ptm_ipt_gap(int errcode)
{
	switch (errcode) {
	case pte_nomap:
		return PTM_GAP_NO_IMAGE;
	case pte_bad_insn:
		return PTM_GAP_BAD_INSN;
	case pte_bad_opc:
	case pte_bad_packet:
		return PTM_GAP_BAD_PACKET;
	case pte_bad_retcomp:
	case pte_retstack_empty:
		return PTM_GAP_RETCOMP;
	case pte_bad_config:
	case pte_nosync:
		return PTM_GAP_CONFIG;
	default:
		return PTM_GAP_MISMATCH;
	}
}
