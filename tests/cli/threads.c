/* SPDX-License-Identifier: Apache-2.0
 *
 * threads.c - a program to be recorded: threads that end and begin, a 16-byte compare-exchange, an
 * alarm that finds loops and rep instructions at any place, and is answered by siglongjmp, too.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long total;
static struct {
	_Alignas(16) long v[2];
} wide;
static volatile sig_atomic_t alarms;
static sigjmp_buf back;

static int compare(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

static void *work(void *arg)
{
	unsigned seed = (unsigned)(size_t)arg;
	int v[500];

	for (int round = 0; round < 3; round++) {
		long low = 0, high = 0;

		for (int i = 0; i < 500; i++) {
			seed = seed * 1103515245 + 12345;
			v[i] = (int)(seed >> 8);
		}
		qsort(v, 500, sizeof(v[0]), compare);
		__asm__ volatile("lock cmpxchg16b %0"
				 : "+m"(wide), "+a"(low), "+d"(high)
				 : "b"(0L), "c"(0L)
				 : "cc");
		(void)pthread_mutex_lock(&lock);
		total += v[250] & 0xff;
		(void)pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static void on_alarm(int sig)
{
	(void)sig;
	alarms++;
	if (alarms % 4 == 0)
		siglongjmp(back, 1);
}

static void wait_for_alarms(void)
{
	struct itimerval it = {{0, 2000}, {0, 2000}};
	static char buf[100];

	(void)signal(SIGALRM, on_alarm);
	(void)setitimer(ITIMER_REAL, &it, NULL);
	(void)sigsetjmp(back, 1);
	while (alarms < 40) {
		size_t n = sizeof(buf);
		char *to = buf;

		__asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(0) : "memory");
	}
	it = (struct itimerval){0};
	(void)setitimer(ITIMER_REAL, &it, NULL);
}

int main(void)
{
	pthread_t threads[5];

	for (size_t round = 0; round < 3; round++) {
		for (size_t i = 0; i < 5; i++)
			if (pthread_create(&threads[i], NULL, work, (void *)(5 * round + i)) != 0)
				return 1;
		for (size_t i = 0; i < 5; i++)
			(void)pthread_join(threads[i], NULL);
	}
	wait_for_alarms();
	printf("%ld\n", total);
	return 5;
}
