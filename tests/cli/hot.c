/* SPDX-License-Identifier: Apache-2.0
 *
 * hot.c - a program without C library whose functions are executed as often as the numbers in it
 * say; the test reads those, and asks nm and addr2line for places.
 */
static volatile long sink;

/* A hundred turns, of which each tenth goes through the branch, seven times. */
__attribute__((noinline)) static void often(void)
{
	for (long i = 0; i < 100; i++)
		if (i % 10 == 0)
			sink += i;
}

__attribute__((noinline)) static void one(void)
{
	sink += 1;
}

__attribute__((noinline)) static void two(void)
{
	sink += 2;
}

/* Five times one, four times two. */
static void (*volatile const table[])(void) = {one, two, one, two, one, two, one, two, one};

__attribute__((noreturn)) static void run(void)
{
	for (int i = 0; i < 7; i++)
		often();
	for (int i = 0; i < 9; i++)
		table[i]();
	__asm__ volatile("syscall" : : "a"(60), "D"(0));
	__builtin_unreachable();
}

__attribute__((noreturn)) void _start(void)
{
	__asm__ volatile("and $-16, %rsp");
	run();
}
