// SPDX-License-Identifier: MIT
/*
 * Signal handlers that allocate and free pinned memory, and interrupt a thread that does the same: `signals`, on signals_driver.c, run by
 * run.py. No call fails, and no block is had by both. Prints how often each function was called, which the shim must have counted.
 */
#include <cuda.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES   2000
#define SIGNALS 400

static void *volatile mine[2];
static volatile sig_atomic_t wrong, signalled;
static volatile long pairs; /* of both */
static int stop;

static void check(int condition)
{
	if (!condition)
		wrong = 1;
}

static void on_signal(int number)
{
	void *block = NULL;

	check(cuMemHostAlloc(&block, BYTES, 0) == CUDA_SUCCESS);
	check(block != mine[0] && block != mine[1]);
	memset(block, 0xff, BYTES);
	check(cuMemFreeHost(block) == CUDA_SUCCESS);
	pairs++;
	signalled++;
}

static void *send_signals(void *data)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		pthread_kill(*(pthread_t *)data, SIGUSR1);
		usleep(100);
	}
	return NULL;
}

static int is_filled(const unsigned char *block, unsigned char value)
{
	for (int i = 0; i < BYTES; i++)
		if (block[i] != value)
			return 0;
	return 1;
}

static void one(void)
{
	void *block;

	for (int i = 0; i < 2; i++) {
		block = NULL;
		check(cuMemHostAlloc(&block, BYTES, 0) == CUDA_SUCCESS);
		mine[i] = block;
		memset(block, i + 1, BYTES);
	}
	for (int i = 0; i < 2; i++) {
		check(is_filled(mine[i], (unsigned char)(i + 1)));
		block = mine[i];
		mine[i] = NULL; /* while it is freed it may already be the handler's */
		check(cuMemFreeHost(block) == CUDA_SUCCESS);
	}
}

int main(void)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	pthread_t thread, self = pthread_self();
	long own = 0;

	check(cuInit(0) == CUDA_SUCCESS);
	sigaction(SIGUSR1, &action, NULL);
	for (; own < 1000; own++)
		one();
	pthread_create(&thread, NULL, send_signals, &self);
	for (; signalled < SIGNALS; own++)
		one();
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	printf("%ld\n", pairs + 2 * own);
	return wrong;
}
