/* SPDX-License-Identifier: Apache-2.0
 *
 * threads.c - a program to be recorded: five threads beside the first.  They hand items through a
 * queue with a mutex and condition variables, and each catches faults of its own: SIGSEGV is
 * answered by siglongjmp, out of a recursion.  What is printed is the same at every run, how the
 * threads take turns is not.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS 4
#define ITEMS   96
#define ROOM    8

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER, fewer = PTHREAD_COND_INITIALIZER;
static uint32_t queue[ROOM];
static unsigned first, filled, finished;
static uint64_t result;

static _Thread_local sigjmp_buf back;
static _Thread_local int faults;
static volatile int *volatile nowhere;

static void on_fault(int signal)
{
	(void)signal;
	siglongjmp(back, 1);
}

__attribute__((noinline)) static int sink_and_fault(int depth)
{
	volatile int below; /* keeps the recursion one */

	if (depth == 0)
		return *nowhere;
	below = sink_and_fault(depth - 1);
	return below + 1;
}

static void fault(int depth)
{
	if (sigsetjmp(back, 1) == 0)
		(void)sink_and_fault(depth);
	else
		faults++;
}

static uint64_t collatz(uint32_t x)
{
	uint64_t n = 0;

	for (uint64_t v = x; v != 1; n++)
		v = v % 2 != 0 ? 3 * v + 1 : v / 2;
	return n;
}

static void *work(void *context)
{
	int *my_faults = context;
	uint64_t sum = 0;

	for (;;) {
		uint32_t item;

		(void)pthread_mutex_lock(&lock);
		while (filled == 0 && !finished)
			(void)pthread_cond_wait(&more, &lock);
		if (filled == 0)
			break;
		item = queue[first++ % ROOM];
		filled--;
		(void)pthread_cond_signal(&fewer);
		(void)pthread_mutex_unlock(&lock);
		for (uint32_t i = 1; i < 40; i++)
			sum += collatz(item * 40 + i);
	}
	result += sum;
	(void)pthread_mutex_unlock(&lock);
	for (int i = 0; i < 5; i++)
		fault(70 + i);
	*my_faults = faults;
	return NULL;
}

static void *feed(void *context)
{
	(void)context;
	for (uint32_t i = 1; i <= ITEMS; i++) {
		(void)pthread_mutex_lock(&lock);
		while (filled == ROOM)
			(void)pthread_cond_wait(&fewer, &lock);
		queue[(first + filled++) % ROOM] = i;
		(void)pthread_cond_signal(&more);
		(void)pthread_mutex_unlock(&lock);
	}
	(void)pthread_mutex_lock(&lock);
	finished = 1;
	(void)pthread_cond_broadcast(&more);
	(void)pthread_mutex_unlock(&lock);
	return NULL;
}

int main(void)
{
	struct sigaction action;
	pthread_t threads[WORKERS + 1];
	int caught[WORKERS] = {0}, all = 0;

	memset(&action, 0, sizeof(action));
	action.sa_handler = on_fault;
	(void)sigaction(SIGSEGV, &action, NULL);
	for (int i = 0; i < WORKERS; i++)
		if (pthread_create(&threads[i], NULL, work, &caught[i]) != 0)
			return 1;
	if (pthread_create(&threads[WORKERS], NULL, feed, NULL) != 0)
		return 1;
	for (int i = 0; i <= WORKERS; i++)
		(void)pthread_join(threads[i], NULL);
	for (int i = 0; i < WORKERS; i++)
		all += caught[i];
	printf("sum %llu, %d faults\n", (unsigned long long)result, all);
	return 5;
}
