/* SPDX-License-Identifier: Apache-2.0
 *
 * t10_program.c - a small program to be recorded with every option of the recorder.
 *
 * Conditional branches, calls through a table, a jump table, recursion deeper than the 64 entries
 * of the return stack, returns that no call made, a repeated string instruction, system calls; with
 * one argument also PTWRITE, with two many more turns.  It needs no C library and is no PIE, so
 * that it is the same everywhere.
 */
typedef unsigned long u64;

#define TURNS 60
#define MANY  2000

static u64 state = 1;
static volatile u64 sink;
static char bytes[300];

static u64 next(void)
{
	state = state * 6364136223846793005ul + 1442695040888963407ul;
	return state >> 33;
}

static long sys(long nr, long a)
{
	__asm__ volatile("syscall" : "+a"(nr) : "D"(a) : "rcx", "r11", "memory");
	return nr;
}

__attribute__((noinline)) static u64 deep(u64 n)
{
	u64 below = n > 0 ? deep(n - 1) : 0;

	return below * 3 + (n & 1 ? n : sink);
}

__attribute__((noinline)) static u64 twice(u64 n)
{
	return n * 2 + (n > sink);
}

__attribute__((noinline)) static u64 chosen(u64 n)
{
	switch (n % 7) {
	case 0:
		return sink += 5;
	case 1:
		return n ^ sink;
	case 2:
		return twice(n);
	case 3:
		return n << 3;
	case 4:
		return deep(n % 5);
	case 5:
		return ~n;
	default:
		return n / 3;
	}
}

/* Returns to its own code: push and ret, a call whose return address is thrown away, a call to the
 * next instruction. */
__attribute__((noinline)) static void odd_returns(void)
{
	__asm__ volatile("lea 1f(%%rip), %%rax\n push %%rax\n ret\n"
			 "1: call 2f\n"
			 "2: pop %%rax\n"
			 "call 3f\n nop\n"
			 "3: add $8, %%rsp\n"
			 :
			 :
			 : "rax", "memory");
}

static void fill(void)
{
	char *to = bytes;
	u64 n = sizeof(bytes);

	__asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(7) : "memory");
}

static u64 (*const table[])(u64) = {deep, twice, chosen, chosen};

__attribute__((used)) static int run(long argc)
{
	const u64 turns = argc > 2 ? MANY : TURNS;

	for (u64 i = 0; i < turns; i++) {
		u64 n = next();

		sink += table[n % 4](n % 4 == 0 ? n % 90 : n);
		if (i % 16 == 3)
			odd_returns();
		if (i % 16 == 5)
			fill();
		if (i % 16 == 7)
			(void)sys(39, 0);
		if (argc == 2)
			__asm__ volatile(".byte 0xf3, 0x48, 0x0f, 0xae, 0xe0" : : "a"(n));
	}
	return (int)(sys(39, 0) < 0);
}

__asm__(".globl _start\n_start: mov (%rsp), %rdi\n and $-16, %rsp\n call run\n mov %eax, %edi\n"
	" mov $60, %eax\n syscall\n");
