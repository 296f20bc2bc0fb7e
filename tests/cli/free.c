/* SPDX-License-Identifier: Apache-2.0
 *
 * free.c - a program to be recorded that has no C library: what it executes depends on nothing
 * outside, so that every recorder must see the same.
 *
 * It rewrites its own code, faults in the middle of blocks, repeats string instructions, one of
 * them up to a fault.  Linked without PIE, it always lies at the same addresses.
 */
typedef unsigned long u64;

static long sys(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;

	__asm__ volatile("syscall"
			 : "+a"(nr)
			 : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return nr;
}

__asm__(".globl _start\n_start: and $-16, %rsp\n call run\n mov %eax, %edi\n mov $60, %eax\n "
	"syscall\n"
	"restore: mov $15, %eax\n syscall\n"
	/* In one block: some instructions, a load that may fault (3 bytes), some more. */
	"load: mov %rsi, %rax\n add $3, %rax\n xor $5, %rax\n mov (%rdi), %rcx\n add %rcx, %rax\n"
	" lea 1(%rax), %rax\n ret\n"
	/* A loop whose first instruction faults at the second turn. */
	"turn: mov (%rdi), %rcx\n add %rcx, %rax\n mov %rdx, %rdi\n dec %rsi\n jnz turn\n ret\n");
void _start(void);
void restore(void);
long load(const long *p, long n);
long turn(const long *p, long n, const long *q);

struct action {
	void (*handler)(int, void *, u64 *);
	u64 flags;
	void (*restorer)(void);
	u64 mask;
};

static long faults;

/* Goes on behind the instruction: RIP is the 17th of the registers, which begin 40 bytes in. */
static void skip(int sig, void *info, u64 *uc)
{
	(void)info;
	faults++;
	uc[5 + 16] += sig == 4 ? 2 : 3;
	uc[5 + 14] = 0; /* RCX: the end of a rep, too */
}

/* The same, called by a jump. */
__asm__("other: jmp skip\n");
void other(int sig, void *info, u64 *uc);

static void act(int sig, void (*handler)(int, void *, u64 *), u64 flags)
{
	struct action a = {handler, flags | 0x04000000, restore, 0};

	(void)sys(13, sig, (long)&a, 0, 8, 0, 0);
}

static long self_modifying(void)
{
	/* mov $10, %ecx; 1: mov %ecx, 32(%rip); dec %ecx; jnz 1b; mov 22(%rip), %eax; ret */
	static const unsigned char loop[] = {0xb9, 10,   0, 0,    0,    0x89, 0x0d, 0x20,
					     0,    0,    0, 0xff, 0xc9, 0x75, 0xf6, 0x8b,
					     0x05, 0x16, 0, 0,    0,    0xc3};
	volatile unsigned char *page = (void *)sys(9, 0x10000000, 8192, 7, 0x32, -1, 0);
	long sum = 0;

	for (unsigned i = 0; i < sizeof(loop); i++)
		page[i] = loop[i];
	for (int i = 0; i < 5; i++) {
		page[1] = (unsigned char)(10 + i);
		sum += ((int (*)(void))page)();
	}
	return sum;
}

static void strings(long n)
{
	static char a[512], b[512];
	char *to = b, *from = a;
	long left = n;

	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(left) : : "memory");
	left = n / 8;
	to = b;
	__asm__ volatile("rep stosq" : "+D"(to), "+c"(left) : "a"(7L) : "memory");
	left = n;
	from = b;
	__asm__ volatile("repne scasb" : "+D"(from), "+c"(left) : "a"(1) : "cc", "memory");
}

static long fib(long n)
{
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

int run(void)
{
	static long ok = 4;
	volatile long zero = 0;
	long sum = 0, left;
	char *edge, *to;

	act(11, skip, 4);
	act(4, other, 4);
	act(8, skip, 4);
	sum += self_modifying();
	for (long i = 0; i < 40; i++) {
		sum += load(i % 3 != 0 ? &ok : (long *)16, i);
		sum += turn(&ok, 4, i % 2 != 0 ? &ok : (long *)16);
		strings(i * 11);
		__asm__ volatile("ud2");
		sys(39, 0, 0, 0, 0, 0, 0);
	}
	/* A rep that faults in the middle: the handler goes on 3 bytes behind, at the NOP's end. */
	edge = (void *)sys(9, 0x10010000, 4096, 3, 0x32, -1, 0);
	for (int i = 0; i < 3; i++) {
		left = 5000;
		to = edge + 100 * i;
		__asm__ volatile("rep stosb\n nop" : "+D"(to), "+c"(left) : "a"(0) : "memory");
	}
	__asm__ volatile("xor %%edx, %%edx\n mov $1, %%eax\n idivq %0"
			 :
			 : "r"(zero)
			 : "rax", "rdx", "rcx");
	sum += fib(15);
	return (int)((sum + faults) & 127);
}
