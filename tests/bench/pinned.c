// SPDX-License-Identifier: MIT
/*
 * What a pair of allocating and freeing pinned memory costs: `pinned HOW THREADS BYTES MILLISECONDS`, started by pinned.py with and without
 * the shim. HOW:
 *	hot	each thread keeps to one size and has one block at a time, as a program that allocates in its loop does
 *	busy	the same while another thread keeps the device at work, with kernels of 5 ms one after the other that nobody here asks for
 *	mix	each thread has up to MIX_BLOCKS blocks of random sizes up to BYTES, of all magnitudes
 * Prints one line: median, least and greatest of the bursts, in ns a pair and thread; pairs a second of all threads together; bytes that
 * the threads had asked for and not freed at their ends.
 */
#include <cuda.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../tools/kernels/kernels.h"

#define THREADS_MAX 64
#define BURSTS_MAX  100000
#define KERNEL_NS   UINT64_C(5000000)
#define MIX_BLOCKS  48

#define FUNCTIONS(F)                                                                               \
	F(init, "cuInit", (unsigned int))                                                          \
	F(retain, "cuDevicePrimaryCtxRetain", (CUcontext *, CUdevice))                             \
	F(set_current, "cuCtxSetCurrent", (CUcontext))                                             \
	F(synchronize, "cuCtxSynchronize", (void))                                                 \
	F(load_module, "cuModuleLoadData", (CUmodule *, const void *))                             \
	F(get_function, "cuModuleGetFunction", (CUfunction *, CUmodule, const char *))             \
	F(create_stream, "cuStreamCreate", (CUstream *, unsigned int))                             \
	F(wait_stream, "cuStreamSynchronize", (CUstream))                                          \
	F(launch_kernel, "cuLaunchKernel",                                                         \
	  (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,       \
	   CUstream, void **, void **))                                                            \
	F(allocate, "cuMemHostAlloc", (void **, size_t, unsigned int))                             \
	F(release, "cuMemFreeHost", (void *))

#define DECLARE(name, symbol, parameters) static CUresult(*name) parameters;
FUNCTIONS(DECLARE)

static CUcontext context;
static CUfunction spin;
static CUstream elsewhere;
static bool busy, mixed, stop;
static size_t bytes;
static uint64_t run_ns;
static pthread_barrier_t barrier;

struct worker {
	pthread_t thread;
	uint64_t random_state, live_bytes;
	void *blocks[MIX_BLOCKS];
	size_t sizes[MIX_BLOCKS];
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

static uint64_t draw(struct worker *worker)
{
	worker->random_state = worker->random_state * 6364136223846793005u + 1442695040888963407u;
	return worker->random_state >> 32;
}

/* Of all magnitudes from 4 KiB on, each as often. */
static size_t draw_size(struct worker *worker)
{
	size_t size = 4096;

	while (size < bytes && draw(worker) & 7)
		size *= 2;
	size += draw(worker) % size;
	return size < bytes ? size : bytes;
}

static void pair(struct worker *worker)
{
	unsigned int slot = mixed ? (unsigned int)draw(worker) % MIX_BLOCKS : 0;
	size_t size = mixed ? draw_size(worker) : bytes;
	volatile unsigned char *block;
	void *at;

	if (mixed && worker->blocks[slot])
		check(release(worker->blocks[slot]), "cuMemFreeHost");
	check(allocate(&at, size, 0), "cuMemHostAlloc");
	block = at;
	block[0] = 1;
	if (!mixed) {
		check(release(at), "cuMemFreeHost");
		return;
	}
	worker->live_bytes += size - worker->sizes[slot];
	worker->blocks[slot] = at;
	worker->sizes[slot] = size;
}

static void launch(void)
{
	uint64_t ns = KERNEL_NS;
	void *parameters[] = {&ns};

	check(launch_kernel(spin, 1, 1, 1, 1, 1, 1, 0, elsewhere, parameters, NULL),
	      "cuLaunchKernel");
}

/* Two kernels ahead, so that the device never pauses. */
static void *work_elsewhere(void *data)
{
	check(set_current(context), "cuCtxSetCurrent");
	launch();
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		launch();
		nanosleep(&(struct timespec){.tv_nsec = KERNEL_NS}, NULL);
	}
	check(wait_stream(elsewhere), "cuStreamSynchronize");
	return NULL;
}

static void *work(void *data)
{
	struct worker *worker = data;
	uint64_t began, left, begin, burst = 1;

	check(set_current(context), "cuCtxSetCurrent");
	/* Until each block of a mix was there for a while, the driver has to make them. */
	for (int i = 0; i < (mixed ? 10 * MIX_BLOCKS : 1); i++)
		pair(worker);
	/* A burst of about 100 us, so that the clock costs nothing. */
	begin = now();
	pair(worker);
	left = now() - begin;
	burst = left < 100000 ? 100000 / (left + 1) + 1 : 1;
	pthread_barrier_wait(&barrier);
	began = now();
	do {
		begin = now();
		for (uint64_t i = 0; i < burst; i++)
			pair(worker);
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

static void set_up(void *library)
{
	CUmodule module;

#define FIND(name, symbol, parameters) *(void **)&name = need(library, symbol);
	FUNCTIONS(FIND)
	check(init(0), "cuInit");
	check(retain(&context, 0), "cuDevicePrimaryCtxRetain");
	check(set_current(context), "cuCtxSetCurrent");
	if (!busy)
		return;
	check(load_module(&module, KERNELS_SPIN), "cuModuleLoadData");
	check(get_function(&spin, module, "spin"), "cuModuleGetFunction");
	check(create_stream(&elsewhere, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	/* The first launch waits for the device. */
	launch();
	check(synchronize(), "cuCtxSynchronize");
}

int main(int argc, char **argv)
{
	static struct worker workers[THREADS_MAX];
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	int threads = argc == 5 ? atoi(argv[2]) : 0, count = 0;
	uint64_t live = 0;
	double rate = 0, *all;
	pthread_t other;

	if (!library || threads < 1 || threads > THREADS_MAX) {
		fprintf(stderr, library ? "usage: pinned hot|busy|mix THREADS BYTES MILLISECONDS\n"
					: "pinned: no libcuda.so.1\n");
		return 77;
	}
	busy = strcmp(argv[1], "busy") == 0;
	mixed = strcmp(argv[1], "mix") == 0;
	bytes = strtoull(argv[3], NULL, 0);
	run_ns = strtoull(argv[4], NULL, 0) * 1000000;
	set_up(library);
	if (busy)
		pthread_create(&other, NULL, work_elsewhere, NULL);
	pthread_barrier_init(&barrier, NULL, (unsigned int)threads);
	for (int i = 0; i < threads; i++) {
		workers[i].burst = calloc(BURSTS_MAX, sizeof(double));
		workers[i].random_state = (uint64_t)i + 1;
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	all = calloc((size_t)threads * BURSTS_MAX, sizeof(double));
	for (int i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		for (int j = 0; j < workers[i].bursts; j++)
			all[count++] = workers[i].burst[j];
		rate += (double)workers[i].pairs * 1e9 / (double)workers[i].took_ns;
		live += workers[i].live_bytes;
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	if (busy)
		pthread_join(other, NULL);
	qsort(all, (size_t)count, sizeof(double), compare);
	printf("%.1f %.1f %.1f %.0f %llu\n", all[count / 2], all[0], all[count - 1], rate,
	       (unsigned long long)live);
	return 0;
}
