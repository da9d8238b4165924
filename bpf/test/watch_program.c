// SPDX-License-Identifier: MIT
/*
 * Makes a known number of driver calls in the way that the first argument names. Status 0, or 3 for a
 * call that gave what it should not.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "waits.h"

static void repeat(int count)
{
	for (int i = 0; i < count; i++)
		cuStreamSynchronize(NULL);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* A million calls, and what one costs. */
static int million(int argc, char **argv)
{
	int count = argc > 2 ? atoi(argv[2]) : 1000000;
	uint64_t begin = now_ns();

	for (int i = 0; i < count; i++)
		cuStreamSynchronize_ptsz(NULL);
	printf("%.1f\n", (double)(now_ns() - begin) / count);
	return 0;
}

static int waits(int argc, char **argv)
{
	static const uintptr_t ways[] = {WAIT_SPIN,  WAIT_YIELD, WAIT_POLL,
					 WAIT_FUTEX, WAIT_IOCTL, WAIT_SLEEP};

	for (int i = 0; i < 20; i++) {
		for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++)
			cuStreamSynchronize((void *)ways[w]);
	}
	return 0;
}

static void *burn(void *stop)
{
	while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED))
		;
	return NULL;
}

/* Two threads that want one processor: a spinning wait loses it to the other. */
static int preempted(int argc, char **argv)
{
	pthread_t other;
	cpu_set_t one;
	int stop = 0;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	if (sched_setaffinity(0, sizeof(one), &one) || pthread_create(&other, NULL, burn, &stop))
		return 3;
	for (int i = 0; i < 100; i++)
		cuStreamSynchronize((void *)WAIT_SPIN);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(other, NULL);
	return 0;
}

static int arguments(int argc, char **argv)
{
	static uint64_t copy_2d[16], copy_3d[25];
	/* Read at run time: the compiler would not let the other type through. */
	int (*volatile wide)(uint64_t, const void *, uint64_t) = (void *)cuMemcpyHtoD;
	char host[16];

	cuStreamSynchronize(NULL);
	cuStreamSynchronize((void *)1);
	cuStreamSynchronize((void *)2);
	cuStreamSynchronize((void *)WAIT_NOT);
	cuStreamSynchronize_ptsz(NULL);
	cuMemcpyHtoD_v2(0x7000, (void *)0x8000, 4096);
	cuMemcpyDtoHAsync_v2((void *)0x9000, 0xa000, 8192, (void *)WAIT_NOT);
	/* The upper halves of the registers are rubbish to a function of 32-bit arguments. */
	wide(0xdead00000000b000, host, 0xdead000000000064);
	cuMemsetD2D32_v2(0xc000, 512, 7, 100, 3);
	cuMemcpyBatchAsync_ptsz((void *)1, (void *)2, (void *)3, 4, (void *)5, (void *)6, 7,
				(void *)8, NULL);
	cuMemcpyBatchAsync_ptsz((void *)1, (void *)2, (void *)3, 4, (void *)5, (void *)6, 7,
				(void *)8, (void *)0x123450);
	/* srcXInBytes, srcY, srcMemoryType, srcHost, srcDevice, srcArray, srcPitch, dst..., Width, Height */
	memcpy(copy_2d,
	       (uint64_t[16]){8, 2, 1, 0x100000, 0, 0, 256, 0, 1, 2, 0, 0x200000, 0, 128, 100, 10},
	       sizeof(copy_2d));
	cuMemcpy2D_v2(copy_2d);
	/* x, y, z, LOD, type, host, device, array, context, pitch, height; the same; width, height, depth */
	memcpy(copy_3d, (uint64_t[25]){4, 0, 1, 0,        2, 0, 0x300000, 0,  0, 64, 8, 0, 0,
				       0, 0, 1, 0x400000, 0, 0, 0,        32, 4, 10, 5, 2},
	       sizeof(copy_3d));
	cuMemcpy3D_v2_ptds(copy_3d);
	cuMemcpy2D_v2((void *)16); /* not readable */
	return 0;
}

static void *thread_calls(void *data)
{
	repeat(3);
	return data;
}

static int threads(int argc, char **argv)
{
	int count = atoi(argv[2]), made = 0;
	pthread_t *thread = calloc((size_t)count, sizeof(*thread));
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 32768);
	for (; made < count; made++) {
		if (pthread_create(&thread[made], &attributes, thread_calls, NULL))
			break;
	}
	for (int i = 0; i < made; i++)
		pthread_join(thread[i], NULL);
	printf("%d\n", made);
	return 0;
}

/* Children, grandchildren, short-lived, executed and killed ones: 7 calls in each of nine. */
static void tree(int depth)
{
	repeat(7);
	for (int i = 0; depth && i < 2; i++) {
		if (!fork()) {
			tree(depth - 1);
			_exit(0);
		}
	}
	while (wait(NULL) > 0)
		;
}

static int forks(int argc, char **argv)
{
	tree(2);
	if (!fork()) {
		execl("/proc/self/exe", argv[0], "calls", "7", (char *)NULL);
		_exit(3);
	}
	wait(NULL);
	if (!fork()) {
		repeat(7);
		kill(getpid(), SIGKILL);
	}
	wait(NULL);
	return 0;
}

static int calls(int argc, char **argv)
{
	repeat(atoi(argv[2]));
	return 0;
}

/* Calls, then becomes another program that calls; `late`: that loads the driver only then. */
static int executes(int argc, char **argv)
{
	repeat(5);
	execv(argv[2], argv + 2);
	return 3;
}

static void *exits(void *data)
{
	cuStreamSynchronize((void *)WAIT_FOREVER);
	return data;
}

static char **program_of_thread;

static void *executes_here(void *data)
{
	usleep(50000);
	repeat(6);
	execv(program_of_thread[0], program_of_thread);
	return data;
}

static void *forever(void *data)
{
	cuStreamSynchronize((void *)WAIT_FOREVER);
	return data;
}

/* The same by a thread, while the others are inside calls: they end there. */
static int executes_by_thread(int argc, char **argv)
{
	pthread_t executing, waiting;

	program_of_thread = argv + 2;
	if (pthread_create(&waiting, NULL, forever, NULL) ||
	    pthread_create(&executing, NULL, executes_here, NULL))
		return 3;
	cuStreamSynchronize((void *)WAIT_FOREVER);
	return 3;
}

/* A thread is inside a call when its process ends. */
static int dies(int argc, char **argv)
{
	pthread_t thread;

	repeat(2);
	if (pthread_create(&thread, NULL, exits, NULL))
		return 3;
	usleep(50000);
	if (argc > 2)
		kill(getpid(), SIGKILL);
	_exit(0);
}

static int jumps(int argc, char **argv)
{
	static jmp_buf back;
	volatile int count = 0;

	watch_test_jump = &back;
	setjmp(back);
	if (count++ < 10)
		cuCtxSynchronize();
	watch_test_jump = NULL;
	cuCtxSynchronize();
	repeat(4);
	return 0;
}

static int deep(int argc, char **argv)
{
	return cuMemFree_v2(20) == 20 && cuMemFree_v2(3) == 3 ? 0 : 3;
}

/* Calls until somebody ends it, and says how many ended wrong. */
static int endless(int argc, char **argv)
{
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		if (cuStreamSynchronize((void *)WAIT_SLEEP) || cuStreamSynchronize_ptsz(NULL))
			return 3;
	}
}

/* Waits for its input to be closed, then calls. */
static int waiting(int argc, char **argv)
{
	char byte;

	printf("ready\n");
	fflush(stdout);
	if (read(0, &byte, 1) < 0)
		return 3;
	repeat(atoi(argv[2]));
	return 0;
}

static void *waits_alone(void *data)
{
	char byte;

	/* Until the first thread has ended. */
	usleep(100000);
	printf("ready\n");
	fflush(stdout);
	if (read(0, &byte, 1) < 0)
		exit(3);
	repeat(*(int *)data);
	exit(0);
}

/* The first thread ends, another goes on and calls. */
static int leaderless(int argc, char **argv)
{
	static int count;
	pthread_t thread;

	count = atoi(argv[2]);
	if (pthread_create(&thread, NULL, waits_alone, &count))
		return 3;
	pthread_exit(NULL);
}

/* The same by the function that has a wrapper. */
static int wrapped(int argc, char **argv)
{
	char byte;

	printf("ready\n");
	fflush(stdout);
	if (read(0, &byte, 1) < 0)
		return 3;
	for (int i = atoi(argv[2]); i > 0; i--)
		cuStreamSynchronize_ptsz(NULL);
	return 0;
}

__attribute__((noinline)) static void inner(void)
{
	cuStreamSynchronize((void *)WAIT_NOT);
	__asm__ volatile("");
}

__attribute__((noinline)) static void outer(void)
{
	inner();
	__asm__ volatile("");
}

static int stack(int argc, char **argv)
{
	outer();
	printf("%p %p\n", (void *)inner, (void *)outer);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(int argc, char **argv);
	} ways[] = {
		{"arguments", arguments},
		{"calls", calls},
		{"deep", deep},
		{"dies", dies},
		{"endless", endless},
		{"executes", executes},
		{"executes-by-thread", executes_by_thread},
		{"leaderless", leaderless},
		{"forks", forks},
		{"jumps", jumps},
		{"million", million},
		{"preempted", preempted},
		{"stack", stack},
		{"threads", threads},
		{"waiting", waiting},
		{"wrapped", wrapped},
		{"waits", waits},
	};

	for (size_t i = 0; argc > 1 && i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (!strcmp(ways[i].name, argv[1]))
			return ways[i].run(argc, argv);
	}
	return 2;
}
