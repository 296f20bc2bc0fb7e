/* SPDX-License-Identifier: Apache-2.0
 *
 * step.c - the back end that single-steps a program by ptrace.
 *
 * The state between two stops is the IP of the next instruction and whether the sink was told that
 * packets are on.  ON is told late, with the first instruction that really executes: only then is
 * it known that the kernel did not go on elsewhere (a signal handler, a restarted system call).  A
 * stop at the same IP after an instruction that falls through is an iteration of a rep instruction,
 * which has not retired.  Decoded instructions are kept in a direct-mapped table by IP; their bytes
 * are read again each time, for the program may have written there.
 *
 * Known limits: the instruction behind a MOV SS or POP SS is not seen (the CPU holds back the
 * trap); a program's own handler of SIGTRAP is lost once a step falls where SIGTRAP is blocked (the
 * kernel forces the default then).
 */
#include "record/step.h"

#include "record/entry.h"
#include "record/operand.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TABLE_BITS = 14, PAGE = 4096, NO_EVENT = 0, INSN_MAX = 15 };

struct slot {
	uint64_t ip;
	struct ptm_insn insn; /* len 0: empty */
	uint8_t entry;        /* enum ptm_entry */
	bool told;            /* the sink knows these bytes */
	uint8_t code[INSN_MAX];
};

/* A PTWRITE that we execute. */
struct ptwrite {
	uint64_t value;
	unsigned bytes; /* 0: none */
};

struct stepper {
	pid_t pid;
	const struct ptm_flow_sink *sink;
	struct ptm_error *err;
	uint64_t ip;
	bool on;          /* the sink was told ON */
	bool at_handler;  /* the next stop is at the entry of a handler, nothing executed */
	bool may_restart; /* the system call that ended at ip restarts unless a handler runs */
	int signal;       /* to deliver with the next step */
	const struct ptm_record_config *config; /* borrowed */
	bool passed_on;
	int exit_code;
	struct slot table[1 << TABLE_BITS];
};

static int tell(struct stepper *st, enum ptm_flow_kind kind, uint64_t next,
		const struct ptm_insn *insn)
{
	struct ptm_flow_event ev = {.kind = kind, .ip = st->ip, .next = next, .insn = insn};

	return st->sink->event(st->sink->ctx, &ev);
}

static int tell_on(struct stepper *st)
{
	if (st->on)
		return 0;
	st->on = true;
	return tell(st, PTM_FLOW_ON, st->ip, NULL);
}

/* Packets go off at the current instruction, which did not retire. */
static int tell_interrupt(struct stepper *st)
{
	if (!st->on)
		return 0;
	st->on = false;
	return tell(st, PTM_FLOW_INTERRUPT, st->ip, NULL);
}

static size_t read_code(pid_t pid, uint64_t ip, uint8_t buf[INSN_MAX])
{
	size_t first = PAGE - (size_t)(ip % PAGE);
	struct iovec local = {buf, INSN_MAX};
	struct iovec remote[2];
	ssize_t n;

	if (first > INSN_MAX)
		first = INSN_MAX;
	/* A transfer is cut between its parts only: one a page. */
	remote[0] = (struct iovec){(void *)(uintptr_t)ip, first};
	remote[1] = (struct iovec){(void *)(uintptr_t)(ip + first), INSN_MAX - first};
	n = process_vm_readv(pid, &local, 1, remote, first < INSN_MAX ? 2 : 1, 0);
	return n < 0 ? 0 : (size_t)n;
}

/* The instruction at st->ip; an unreadable or invalid one has length 0 and is going to fault. */
static struct slot *look_up(struct stepper *st)
{
	uint64_t ip = st->ip;
	struct slot *slot = &st->table[(ip ^ ip >> TABLE_BITS) % (1 << TABLE_BITS)];
	uint8_t code[INSN_MAX] = {0};
	size_t n = read_code(st->pid, ip, code);

	if (slot->ip == ip && slot->insn.len != 0 && slot->insn.len <= n &&
	    memcmp(slot->code, code, slot->insn.len) == 0)
		return slot;
	memset(slot, 0, sizeof(*slot));
	slot->ip = ip;
	memcpy(slot->code, code, n);
	if (ptm_insn_decode(code, n, ip, PTM_MODE_64, &slot->insn) <= 0)
		memset(&slot->insn, 0, sizeof(slot->insn));
	else
		slot->entry = (uint8_t)ptm_entry_of(&slot->insn, code);
	return slot;
}

static int refused(struct stepper *st, const char *what)
{
	return PTM_FAIL(st->err, PTM_E_SYSTEM,
			"Cannot trace the program: %s: %s (ptrace may be forbidden here)", what,
			strerror(errno));
}

/* A decimal or hexadecimal field of /proc/PID/status; 0 if it cannot be read. */
static uint64_t status_field(pid_t pid, const char *name, int base)
{
	char path[64], line[256];
	size_t len = strlen(name);
	uint64_t value = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	if (f == NULL)
		return 0;
	while (fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, name, len) == 0 && line[len] == ':')
			value = strtoull(line + len + 1, NULL, base);
	(void)fclose(f);
	return value;
}

static bool has_handler(pid_t pid, int sig)
{
	return sig > 0 && sig <= 64 && (status_field(pid, "SigCgt", 16) >> (sig - 1) & 1) != 0;
}

/* The program stops for signal @sig. */
static int on_signal(struct stepper *st, int sig)
{
	st->signal = sig;
	st->at_handler = has_handler(st->pid, sig);
	return tell_interrupt(st);
}

/* The system call at st->ip may take code away. */
static int before_syscall(struct stepper *st)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, st->pid, NULL, &regs) != 0)
		return 0; /* it is being killed */
	switch (regs.rax) {
	case SYS_mmap:
		if ((regs.r10 & MAP_FIXED) == 0)
			return 0;
		break;
	case SYS_munmap:
	case SYS_mremap:
	case SYS_mprotect:
	case SYS_pkey_mprotect:
		break;
	default:
		return 0;
	}
	if (regs.rsi > UINT64_MAX - PAGE - regs.rdi)
		return 0; /* refused by the kernel */
	return st->sink->losing(st->sink->ctx, st->pid, regs.rdi, regs.rdi + regs.rsi);
}

/* A system call has returned: executable mappings may be new, and it may be about to restart. */
static int after_syscall(struct stepper *st, const struct user_regs_struct *regs)
{
	long nr = (long)regs->orig_rax;
	long result = (long)regs->rax;
	bool exec = (regs->rdx & PROT_EXEC) != 0;

	/* ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK: only a tracer sees
	 * them. */
	st->may_restart = nr >= 0 && ((result <= -512 && result >= -514) || result == -516);
	if (!((nr == SYS_mmap || nr == SYS_mprotect || nr == SYS_pkey_mprotect) && exec) &&
	    nr != SYS_mremap && nr != SYS_shmat)
		return 0;
	return st->sink->mappings(st->sink->ctx, st->pid);
}

/* The operand of a PTWRITE at st->ip, if such are to be recorded.  One that cannot be read is left
 * to the CPU. */
static int read_ptwrite(struct stepper *st, const struct slot *slot, struct ptwrite *ptw)
{
	struct user_regs_struct regs;
	struct ptm_operand operand;
	struct iovec local, remote;

	*ptw = (struct ptwrite){0};
	if (slot->insn.binds != PTM_BINDS_PTWRITE || st->config->ptwrite == PTM_PTWRITE_OFF)
		return 0;
	if (ptrace(PTRACE_GETREGS, st->pid, NULL, &regs) != 0)
		return 0; /* it is being killed */
	if (!ptm_ptwrite_operand(slot->code, slot->insn.len, &regs, &operand))
		return PTM_FAIL(st->err, PTM_E_SYSTEM,
				"Cannot read the operand of PTWRITE at 0x%" PRIx64, st->ip);
	local = (struct iovec){&operand.value, operand.bytes};
	remote = (struct iovec){(void *)(uintptr_t)operand.address, operand.bytes};
	if (operand.in_memory &&
	    process_vm_readv(st->pid, &local, 1, &remote, 1, 0) != (ssize_t)operand.bytes)
		return 0;
	*ptw = (struct ptwrite){operand.value, operand.bytes};
	return 0;
}

/* The PTWRITE of @slot at st->ip retired. */
static int tell_ptwrite(struct stepper *st, const struct slot *slot, const struct ptwrite *ptw)
{
	struct ptm_flow_event ev = {PTM_FLOW_PTWRITE, st->ip,     st->ip + slot->insn.len,
				    &slot->insn,      ptw->value, ptw->bytes};

	st->ip = ev.next;
	return st->sink->event(st->sink->ctx, &ev);
}

/* What is about to be told of was executed. */
static int tell_code(struct stepper *st, struct slot *slot)
{
	if (slot->told)
		return 0;
	slot->told = true;
	return st->sink->code(st->sink->ctx, slot->ip, slot->code, slot->insn.len);
}

/* Execute the PTWRITE of @slot in place of the CPU, which may not know it. */
static int do_ptwrite(struct stepper *st, struct slot *slot, const struct ptwrite *ptw)
{
	struct user_regs_struct regs;
	int ret = tell_code(st, slot);

	if (ret == 0)
		ret = tell_on(st);
	if (ret != 0)
		return ret;
	if (ptrace(PTRACE_GETREGS, st->pid, NULL, &regs) != 0)
		return refused(st, "PTRACE_GETREGS");
	regs.rip += slot->insn.len;
	if (ptrace(PTRACE_SETREGS, st->pid, NULL, &regs) != 0)
		return refused(st, "PTRACE_SETREGS");
	return tell_ptwrite(st, slot, ptw);
}

/* The instruction of @slot at st->ip retired or trapped; the next one is at regs->rip. */
static int on_retired(struct stepper *st, struct slot *slot, const struct ptwrite *ptw,
		      const struct user_regs_struct *regs)
{
	const struct ptm_insn *insn = &slot->insn;
	int ret = tell_code(st, slot);

	if (ret == 0)
		ret = tell_on(st);
	if (ret != 0)
		return ret;
	if (insn->len == 0)
		return PTM_FAIL(st->err, PTM_E_SYSTEM,
				"Cannot decode the instruction at 0x%" PRIx64
				" that the program executed",
				st->ip);
	if (insn->klass == PTM_INSN_OTHER && regs->rip == st->ip)
		return 0;
	if (ptw->bytes != 0 && regs->rip == st->ip + insn->len)
		return tell_ptwrite(st, slot, ptw);
	if (slot->entry == PTM_ENTRY_SYSCALL) {
		st->on = false;
		ret = tell(st, PTM_FLOW_OFF, regs->rip, insn);
		st->ip = regs->rip;
		return ret != 0 ? ret : after_syscall(st, regs);
	}
	if (slot->entry == PTM_ENTRY_TRAP) {
		ret = tell_interrupt(st);
		/* INT n is a system call of 32-bit code; the others are the debugger's traps: the
		 * program's own. */
		if (regs->rip == st->ip + insn->len && insn->len == 1)
			(void)on_signal(st, SIGTRAP);
	} else if (insn->klass == PTM_INSN_OTHER && regs->rip != st->ip + insn->len) {
		return PTM_FAIL(st->err, PTM_E_SYSTEM,
				"Cannot follow the program: the instruction at 0x%" PRIx64
				" went to 0x%" PRIx64,
				st->ip, (uint64_t)regs->rip);
	} else {
		ret = tell(st, PTM_FLOW_INSN, regs->rip, insn);
	}
	st->ip = regs->rip;
	return ret;
}

/* A process that the program started runs on unobserved; a thread cannot. */
static int on_child(struct stepper *st)
{
	unsigned long child;

	if (ptrace(PTRACE_GETEVENTMSG, st->pid, NULL, &child) != 0)
		return refused(st, "PTRACE_GETEVENTMSG");
	if ((pid_t)status_field((pid_t)child, "Tgid", 10) == st->pid)
		return PTM_FAIL(st->err, PTM_E_SYSTEM,
				"Cannot record a program with threads by single steps: it has just "
				"started its second one");
	if (waitpid((pid_t)child, NULL, __WALL) < 0 ||
	    ptrace(PTRACE_DETACH, (pid_t)child, NULL, NULL) != 0)
		return refused(st, "letting its child go");
	return 0;
}

/* The program ends, either inside the system call that asks for it or by a signal. */
static int on_exit_stop(struct stepper *st, const struct slot *slot)
{
	unsigned long status = 0;
	int ret;

	(void)ptrace(PTRACE_GETEVENTMSG, st->pid, NULL, &status);
	if (slot->entry == PTM_ENTRY_SYSCALL && WIFEXITED((int)status)) {
		ret = tell_on(st);
		if (ret >= 0)
			ret = tell(st, PTM_FLOW_OFF, st->ip, &slot->insn);
		st->on = false;
	} else {
		ret = tell_interrupt(st);
	}
	return ret < 0 ? ret : st->sink->leaving(st->sink->ctx, st->pid);
}

static int on_event(struct stepper *st, int event, const struct slot *slot)
{
	switch (event) {
	case PTRACE_EVENT_FORK:
	case PTRACE_EVENT_VFORK:
	case PTRACE_EVENT_CLONE:
		return on_child(st);
	case PTRACE_EVENT_EXEC:
		return PTM_FAIL(st->err, PTM_E_SYSTEM,
				"Cannot record a program that replaces itself by exec: record the "
				"last one directly");
	case PTRACE_EVENT_EXIT:
		return on_exit_stop(st, slot);
	default:
		return 0;
	}
}

static void pass_on(struct stepper *st)
{
	const volatile int *from = st->config->pass_on;
	int sig = from != NULL && !st->passed_on ? *from : 0;

	/* kill() takes a process of -1 as everybody. */
	if (sig == 0 || st->pid <= 0)
		return;
	st->passed_on = true;
	(void)kill(st->pid, sig);
}

/* Returns 1 when the program has ended, 0 when it stands stopped again. */
static int wait_for_stop(struct stepper *st, int *status)
{
	pid_t pid;

	do {
		pass_on(st);
		pid = waitpid(st->pid, status, __WALL);
	} while (pid < 0 && errno == EINTR);
	if (pid < 0)
		return refused(st, "waitpid");
	if (WIFSTOPPED(*status))
		return 0;
	st->exit_code = WIFEXITED(*status) ? WEXITSTATUS(*status) : 128 + WTERMSIG(*status);
	st->pid = -1;
	return 1;
}

/* The program stands stopped by signal @sig, not by the step over @slot. */
static int on_other_stop(struct stepper *st, struct slot *slot, const struct ptwrite *ptw,
			 const struct user_regs_struct *regs, int sig)
{
	int ret = 0;

	/* Nothing was executed, unless the signal found the program behind a system call. */
	if (!st->may_restart && slot->entry == PTM_ENTRY_SYSCALL &&
	    regs->rip == st->ip + slot->insn.len)
		ret = on_retired(st, slot, ptw, regs);
	else
		st->ip = regs->rip;
	/* The next step does what this CPU does not know. */
	if (sig == SIGILL && ptw->bytes != 0 && regs->rip == slot->ip)
		return ret;
	return ret < 0 ? ret : on_signal(st, sig);
}

/* One step.  Returns 0, 1 if enough is recorded, 2 if the program has ended, or -PTM_E_*. */
static int step(struct stepper *st)
{
	struct slot *slot;
	struct user_regs_struct regs;
	struct ptwrite ptw;
	int status, ret, sig = st->signal;

	if (st->may_restart && !st->at_handler)
		st->ip -= 2; /* both SYSCALL and SYSENTER */
	slot = look_up(st);
	if (slot->entry == PTM_ENTRY_SYSCALL)
		PTM_TRY(before_syscall(st));
	PTM_TRY(read_ptwrite(st, slot, &ptw));
	if (ptw.bytes != 0 && sig == 0 && !st->at_handler)
		return do_ptwrite(st, slot, &ptw);
	if (ptrace(PTRACE_SINGLESTEP, st->pid, NULL, (void *)(intptr_t)sig) != 0 && errno != ESRCH)
		return refused(st, "PTRACE_SINGLESTEP");
	PTM_TRY(ret = wait_for_stop(st, &status));
	if (ret > 0)
		return 2;
	if (status >> 16 != NO_EVENT) {
		ret = on_event(st, status >> 16, slot);
		st->signal = 0;
		/* The system call is still under way. */
		if (st->may_restart && !st->at_handler)
			st->ip += 2;
		return ret;
	}
	st->signal = 0;
	if (ptrace(PTRACE_GETREGS, st->pid, NULL, &regs) != 0)
		return refused(st, "PTRACE_GETREGS");
	if (WSTOPSIG(status) != SIGTRAP)
		return on_other_stop(st, slot, &ptw, &regs, WSTOPSIG(status));
	st->may_restart = false;
	if (st->at_handler) {
		st->at_handler = false;
		st->ip = regs.rip;
		return 0;
	}
	return on_retired(st, slot, &ptw, &regs);
}

static _Noreturn void run_child(const char *path, char *const argv[], int fd)
{
	int e;

	/* Equal addresses at every run are welcome, not needed: containers may forbid it. */
	(void)personality((unsigned long)personality(0xffffffff) | ADDR_NO_RANDOMIZE);
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0)
		execv(path, argv);
	e = errno;
	(void)!write(fd, &e, sizeof(e));
	_exit(127);
}

/* Start the program; it stands behind its exec. */
static int start(struct stepper *st, const char *path, char *const argv[])
{
	int status, fds[2], e = 0;
	ssize_t n;

	if (pipe2(fds, O_CLOEXEC) != 0)
		return refused(st, "pipe");
	st->pid = fork();
	if (st->pid < 0) {
		(void)close(fds[0]);
		(void)close(fds[1]);
		return refused(st, "fork");
	}
	if (st->pid == 0)
		run_child(path, argv, fds[1]);
	(void)close(fds[1]);
	n = read(fds[0], &e, sizeof(e));
	(void)close(fds[0]);
	if (n == (ssize_t)sizeof(e)) {
		(void)waitpid(st->pid, &status, 0);
		st->pid = -1;
		errno = e;
		if (e == EPERM)
			return refused(st, "PTRACE_TRACEME");
		return PTM_FAIL(st->err, PTM_E_NOINPUT, "Cannot execute \"%s\": %s", argv[0],
				strerror(e));
	}
	return 0;
}

static int prepare(struct stepper *st)
{
	const unsigned long options = PTRACE_O_EXITKILL | PTRACE_O_TRACEEXIT | PTRACE_O_TRACEEXEC |
				      PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
				      PTRACE_O_TRACECLONE;
	struct user_regs_struct regs;
	int status, ret;

	PTM_TRY(ret = wait_for_stop(st, &status));
	if (ret > 0)
		return PTM_FAIL(st->err, PTM_E_SYSTEM,
				"Cannot trace the program: it ended before its first instruction");
	if (ptrace(PTRACE_SETOPTIONS, st->pid, NULL, options) != 0 ||
	    ptrace(PTRACE_GETREGS, st->pid, NULL, &regs) != 0)
		return refused(st, "PTRACE_SETOPTIONS");
	if (regs.cs != 0x33)
		return PTM_FAIL(st->err, PTM_E_SYSTEM, "Cannot record a 32-bit program");
	st->ip = regs.rip;
	return st->sink->mappings(st->sink->ctx, st->pid);
}

/* Enough is recorded: let the program run on alone, to its end. */
static int let_go(struct stepper *st)
{
	int status, ret = tell_interrupt(st);

	PTM_TRY(ret);
	PTM_TRY(st->sink->leaving(st->sink->ctx, st->pid));
	if (ptrace(PTRACE_DETACH, st->pid, NULL, (void *)(intptr_t)st->signal) != 0)
		return refused(st, "PTRACE_DETACH");
	while ((ret = wait_for_stop(st, &status)) == 0)
		;
	return ret < 0 ? ret : 0;
}

int ptm_step_run(const char *path, char *const argv[], const struct ptm_record_config *config,
		 const struct ptm_flow_sink *sink, int *exit_code, struct ptm_error *err)
{
	struct stepper *st = calloc(1, sizeof(*st));
	int ret;

	if (st == NULL)
		return PTM_FAIL(err, PTM_E_NOMEM, "Cannot record: out of memory");
	st->sink = sink;
	st->config = config;
	st->err = err;
	st->pid = -1;
	ret = start(st, path, argv);
	if (ret == 0)
		ret = prepare(st);
	while (ret == 0)
		ret = step(st);
	if (ret == 1)
		ret = let_go(st);
	if (st->pid > 0) {
		(void)kill(st->pid, SIGKILL);
		(void)waitpid(st->pid, NULL, __WALL);
	}
	*exit_code = st->exit_code;
	free(st);
	return ret < 0 ? ret : 0;
}
