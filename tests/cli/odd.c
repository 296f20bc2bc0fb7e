/* SPDX-License-Identifier: Apache-2.0
 *
 * odd.c - a program to be recorded that does what recorders find hard, by its first argument.
 *
 * write: PTWRITE in several forms.  again: other code at an address that was executed.  still: the
 * same code once more.  loop: a loop of direct jumps, which SIGALRM ends.
 */
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

static uint64_t memory[4] = {0x1111222233334444, 0x5555666677778888, 0x99990000aaaabbbb,
			     0xccccdddd12345678};

static int write_some(void)
{
	register uint64_t r9 __asm__("r9") = 0xdeadbeefcafef00d;
	uint64_t rax = 1;

	for (int i = 0; i < 3; i++) {
		rax = rax * 3 + 1;
		__asm__ volatile(".byte 0xf3, 0x48, 0x0f, 0xae, 0xe0" : : "a"(rax)); /* rax */
	}
	__asm__ volatile(".byte 0xf3, 0x49, 0x0f, 0xae, 0xe1\n" /* r9 */
			 ".byte 0xf3, 0x41, 0x0f, 0xae, 0xe1"   /* r9d */
			 :
			 : "r"(r9));
	__asm__ volatile(".byte 0xf3, 0x48, 0x0f, 0xae, 0x26\n"     /* qword [rsi] */
			 ".byte 0xf3, 0x0f, 0xae, 0x64, 0xce, 0x08" /* dword [rsi+rcx*8+8] */
			 :
			 : "S"(memory), "c"(1UL), "m"(memory));
	return 0;
}

static int run_twice(int change)
{
	/* mov eax, 5; ret, then: xor eax, eax; ret */
	static const uint8_t first[] = {0xb8, 5, 0, 0, 0, 0xc3}, second[] = {0x31, 0xc0, 0xc3};
	uint8_t *at = mmap((void *)0x10000000, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	int (*call)(void), sum;

	if (at == MAP_FAILED)
		return 1;
	memcpy(at + 0x40, first, sizeof(first));
	at += 0x40;
	memcpy(&call, &at, sizeof(call));
	sum = call();
	memcpy(at, change ? second : first, change ? sizeof(second) : sizeof(first));
	sum += call();
	return sum == (change ? 5 : 10) ? 0 : 2;
}

static void end(int sig)
{
	_exit(sig == SIGALRM ? 0 : 1);
}

static int loop(void)
{
	struct itimerval soon = {.it_value = {.tv_usec = 100000}};

	(void)signal(SIGALRM, end);
	(void)setitimer(ITIMER_REAL, &soon, NULL);
	__asm__ volatile("1: nop\n jmp 2f\n 3: nop\n jmp 1b\n 2: nop\n jmp 3b");
	return 1;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "write") == 0)
		return write_some();
	if (strcmp(what, "again") == 0)
		return run_twice(1);
	if (strcmp(what, "still") == 0)
		return run_twice(0);
	return strcmp(what, "loop") == 0 ? loop() : 64;
}
