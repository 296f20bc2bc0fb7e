/* SPDX-License-Identifier: Apache-2.0
 *
 * sig.c - a program to be recorded: asynchronous events and string instructions.
 *
 * Signals sent to itself, faults (a bad access, a division by zero, an invalid instruction)
 * answered by going on behind the instruction or by siglongjmp, a child process,
 * system calls, rep instructions, a call to the next instruction, a return that no call made.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static sigjmp_buf back;
static volatile sig_atomic_t counts[65];

static void count(int sig)
{
	counts[sig]++;
	if (sig == SIGUSR1 && counts[sig] % 3 == 0)
		(void)raise(SIGUSR2);
}

static void jump(int sig)
{
	counts[sig]++;
	siglongjmp(back, sig);
}

/* UD2 has two bytes. */
static void skip(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	(void)info;
	counts[sig]++;
	uc->uc_mcontext.gregs[REG_RIP] += 2;
}

static void copy(void *to, const void *from, size_t n)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

static size_t length(const char *s)
{
	size_t n = SIZE_MAX;

	__asm__ volatile("repne scasb" : "+D"(s), "+c"(n) : "a"(0) : "memory", "cc");
	return SIZE_MAX - n - 1;
}

static uintptr_t here(void)
{
	uintptr_t ip;

	__asm__ volatile("call 1f\n1: pop %0" : "=r"(ip));
	return ip;
}

/* A return to a target that was pushed: no call names it. */
static int odd_return(int n)
{
	int r;

	__asm__ volatile("lea 2f(%%rip), %%rax\n"
			 "sub $128, %%rsp\n" /* below the red zone */
			 "push %%rax\n"
			 "lea (%1,%1), %0\n"
			 "ret\n"
			 "2: add $128, %%rsp\n"
			 : "=&r"(r)
			 : "r"(n)
			 : "rax", "cc");
	return r;
}

static int work(int n)
{
	return n < 2 ? n : work(n - 1) + odd_return(work(n - 2));
}

static void faults(void)
{
	volatile int zero = 0;
	int *volatile nowhere = NULL;

	if (sigsetjmp(back, 1) == 0)
		*nowhere = 1;
	if (sigsetjmp(back, 1) == 0)
		zero = 1 / zero;
	__asm__ volatile("ud2");
}

int main(void)
{
	static const int counted[] = {SIGUSR1, SIGUSR2, SIGCHLD};
	struct sigaction sa = {.sa_sigaction = skip, .sa_flags = SA_SIGINFO};
	char a[400], b[400];
	int total = 0, status = 0;

	for (int i = 0; i < 3; i++)
		(void)signal(counted[i], count);
	(void)signal(SIGSEGV, jump);
	(void)signal(SIGFPE, jump);
	(void)sigaction(SIGILL, &sa, NULL);
	memset(a, 'x', sizeof(a) - 1);
	a[sizeof(a) - 1] = '\0';
	for (int i = 0; i < 60; i++) {
		struct timespec ts = {0, 1000};

		(void)raise(SIGUSR1);
		copy(b, a, (size_t)(400 - i));
		b[399 - i] = '\0';
		total += (int)length(b) + work(10);
		if (i % 8 == 0)
			(void)nanosleep(&ts, NULL);
		if (i % 10 == 0)
			faults();
	}
	if (fork() == 0)
		_exit(7);
	(void)wait(&status);
	printf("total %d, child %d, here %d\n", total, WEXITSTATUS(status), here() != 0);
	for (int i = 1; i < 65; i++)
		if (counts[i] != 0)
			printf("signal %d: %d\n", i, counts[i]);
	return 3;
}
