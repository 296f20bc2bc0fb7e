/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
 *
 * api.h - what we use of QEMU's plugin interface, version 1 (QEMU 7.x): distributions do not ship
 * its header.  Names, types and values are the interface; QEMU resolves them when it loads us.
 */
#ifndef PTM_RECORD_QEMU_API_H
#define PTM_RECORD_QEMU_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QEMU_API_VERSION 1

typedef uint64_t qemu_plugin_id_t;

struct qemu_plugin_tb;
struct qemu_plugin_insn;

/* Given to qemu_plugin_install(); what follows is not used. */
struct qemu_info_head {
	const char *target_name;
	struct {
		int min, cur;
	} version;
	bool system_emulation;
};

enum { QEMU_CB_NO_REGS = 0 };

typedef void (*qemu_tb_trans_fn)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*qemu_exec_fn)(unsigned cpu, void *data);
typedef void (*qemu_syscall_fn)(qemu_plugin_id_t id, unsigned cpu, int64_t nr, uint64_t a1,
				uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6,
				uint64_t a7, uint64_t a8);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, qemu_tb_trans_fn fn);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, qemu_exec_fn fn, int flags,
					  void *data);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t id, qemu_syscall_fn fn);

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *insn);

#endif
