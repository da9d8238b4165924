// SPDX-License-Identifier: MIT
/*
 * What a pair of allocating and freeing pinned memory costs: `pinned THREADS BYTES MILLISECONDS`, started by pinned.py with and without
 * the shim. Each thread keeps to one size and has one block at a time, as a program that allocates in its loop does. Prints one line:
 * median, least and greatest of the bursts, in ns a pair and thread, and pairs a second of all threads together.
 */
#include <cuda.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define THREADS_MAX 64
#define BURSTS_MAX  100000

static CUresult (*allocate)(void **, size_t, unsigned int);
static CUresult (*release)(void *);
static CUresult (*set_current)(CUcontext);
static CUcontext context;
static size_t bytes;
static uint64_t run_ns;
static pthread_barrier_t barrier;

struct worker {
	pthread_t thread;
	double *burst; /* ns a pair */
	int bursts;
	uint64_t pairs, took_ns;
};

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static void check(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "pinned: %s: %d\n", what, (int)result);
	exit(1);
}

static void pair(void)
{
	volatile unsigned char *block;
	void *at;

	check(allocate(&at, bytes, 0), "cuMemHostAlloc");
	block = at;
	block[0] = 1;
	check(release(at), "cuMemFreeHost");
}

static void *work(void *data)
{
	struct worker *worker = data;
	uint64_t began, left, begin, burst = 1;

	check(set_current(context), "cuCtxSetCurrent");
	pair();
	/* A burst of about 100 us, so that the clock costs nothing. */
	begin = now();
	pair();
	left = now() - begin;
	burst = left < 100000 ? 100000 / (left + 1) + 1 : 1;
	pthread_barrier_wait(&barrier);
	began = now();
	do {
		begin = now();
		for (uint64_t i = 0; i < burst; i++)
			pair();
		left = now();
		worker->burst[worker->bursts++] = (double)(left - begin) / (double)burst;
		worker->pairs += burst;
	} while (left - began < run_ns && worker->bursts < BURSTS_MAX);
	worker->took_ns = left - began;
	return NULL;
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return a < b ? -1 : a > b;
}

static void *need(void *library, const char *name)
{
	void *symbol = dlsym(library, name);

	if (!symbol) {
		fprintf(stderr, "pinned: %s\n", dlerror());
		exit(1);
	}
	return symbol;
}

int main(int argc, char **argv)
{
	static struct worker workers[THREADS_MAX];
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	CUresult (*init)(unsigned int), (*retain)(CUcontext *, CUdevice);
	int threads = argc == 4 ? atoi(argv[1]) : 0, count = 0;
	double rate = 0, *all;

	if (!library || threads < 1 || threads > THREADS_MAX) {
		fprintf(stderr, library ? "usage: pinned THREADS BYTES MILLISECONDS\n"
					: "pinned: no libcuda.so.1\n");
		return 77;
	}
	*(void **)&init = need(library, "cuInit");
	*(void **)&retain = need(library, "cuDevicePrimaryCtxRetain");
	*(void **)&set_current = need(library, "cuCtxSetCurrent");
	*(void **)&allocate = need(library, "cuMemHostAlloc");
	*(void **)&release = need(library, "cuMemFreeHost");
	bytes = strtoull(argv[2], NULL, 0);
	run_ns = strtoull(argv[3], NULL, 0) * 1000000;
	check(init(0), "cuInit");
	check(retain(&context, 0), "cuDevicePrimaryCtxRetain");
	pthread_barrier_init(&barrier, NULL, (unsigned int)threads);
	for (int i = 0; i < threads; i++) {
		workers[i].burst = calloc(BURSTS_MAX, sizeof(double));
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	all = calloc((size_t)threads * BURSTS_MAX, sizeof(double));
	for (int i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		for (int j = 0; j < workers[i].bursts; j++)
			all[count++] = workers[i].burst[j];
		rate += (double)workers[i].pairs * 1e9 / (double)workers[i].took_ns;
	}
	qsort(all, (size_t)count, sizeof(double), compare);
	printf("%.1f %.1f %.1f %.0f\n", all[count / 2], all[0], all[count - 1], rate);
	return 0;
}
