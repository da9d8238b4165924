// SPDX-License-Identifier: MIT
/*
 * Calls of all kinds, for who listens to the probes of the preloaded library (run.py).
 *
 *	program [rounds=N] [threads=N] [fork] [late] [paused] [held]
 *
 * Each round makes launches, copies, waits, frees beside work, pinned pairs, getters. `threads`: so many at once. `fork`: a child does the rounds, too, before the parent has used the driver. `late`: a child
 * that is forked behind it calls in vain. `held`: plain launches wait for another thread's free, with SIMCUDA_DRAIN_LOCK. `paused`: after one round it prints
 * its process id, and goes on when a line comes; the same after the rounds. Ends with 1 where a call fails or errno is not what it was.
 */
#include <cuda.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../simcuda/kernels.h"

#define BYTES       ((size_t)1 << 20)
#define SPIN_NS     UINT64_C(300000)
#define THREADS_MAX 16
#define OWN_ERRNO   4711

CUresult cuCtxCreate_v2(CUcontext *, unsigned int, CUdevice);

static CUcontext context;
static CUfunction spin;

static void check(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS && errno == OWN_ERRNO)
		return;
	fprintf(stderr, "program: %s: %d, errno %d\n", what, (int)result, errno);
	_exit(1);
}

#define CHECK(call)                                                                                \
	do {                                                                                       \
		errno = OWN_ERRNO;                                                                 \
		check((call), #call);                                                              \
	} while (0)

static void launch(CUstream stream, uint64_t ns)
{
	void *parameters[] = {&ns};

	CHECK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

static void round_of(CUstream stream, unsigned char *host)
{
	CUdeviceptr memory, more;
	size_t left, all;
	void *pinned;
	int device;

	CHECK(cuCtxGetDevice(&device));
	CHECK(cuMemAlloc(&memory, BYTES));
	CHECK(cuMemAlloc(&more, BYTES));
	CHECK(cuMemHostAlloc(&pinned, 65536, 0));
	CHECK(cuMemcpyHtoD(memory, host, BYTES));
	for (int i = 0; i < 8; i++)
		launch(stream, 1000);
	launch(NULL, SPIN_NS);
	CHECK(cuMemcpyHtoDAsync(memory, host, BYTES, stream));
	CHECK(cuMemcpyDtoH(host, memory, BYTES)); /* waits for the kernel */
	launch(stream, SPIN_NS);
	CHECK(cuMemFreeHost(pinned)); /* waits, or parks */
	launch(stream, SPIN_NS);
	CHECK(cuMemFree(more)); /* the same */
	CHECK(cuStreamSynchronize(stream));
	for (int i = 0; i < 4; i++) {
		CHECK(cuMemHostAlloc(&pinned, 8192, 0));
		CHECK(cuMemFreeHost(pinned));
	}
	CHECK(cuMemcpyDtoHAsync(host, memory, BYTES, NULL));
	CHECK(cuMemFree(memory));
	CHECK(cuMemGetInfo(&left, &all));
	CHECK(cuCtxSynchronize());
}

struct rounds {
	int count;
	bool is_thread;
};

static void *do_rounds(void *data)
{
	const struct rounds *rounds = data;
	unsigned char *host = malloc(BYTES);
	CUstream stream;

	memset(host, 1, BYTES);
	if (rounds->is_thread)
		CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
	for (int i = 0; i < rounds->count; i++)
		round_of(stream, host);
	CHECK(cuStreamDestroy(stream));
	free(host);
	return NULL;
}

static void in_threads(int threads, int count)
{
	struct rounds rounds = {.count = count, .is_thread = true};
	pthread_t thread[THREADS_MAX];

	for (int i = 0; i < threads; i++)
		pthread_create(&thread[i], NULL, do_rounds, &rounds);
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
}

/* Frees memory beside work of its own, until nobody launches any more. */
static void *hold_launches(void *data)
{
	CUdeviceptr memory;
	CUstream stream;

	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	while (!__atomic_load_n((bool *)data, __ATOMIC_RELAXED)) {
		CHECK(cuMemAlloc(&memory, BYTES));
		launch(stream, 20 * SPIN_NS);
		CHECK(cuMemFree(memory));
	}
	CHECK(cuStreamDestroy(stream));
	return NULL;
}

static void launch_while_held(void)
{
	bool over = false;
	pthread_t thread;
	CUstream stream;

	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	launch(stream, 1000);
	pthread_create(&thread, NULL, hold_launches, &over);
	/* Apart from each other: each is timed, and plain. */
	for (int i = 0; i < 60; i++) {
		usleep(1000);
		launch(stream, 1000);
	}
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuStreamDestroy(stream));
}

static void start(void)
{
	CUmodule module;
	CUdevice device;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuCtxCreate_v2(&context, 0, device));
	CHECK(cuModuleLoadData(&module, simcuda_ptx));
	CHECK(cuModuleGetFunction(&spin, module, "spin"));
}

/* The driver refuses a child that is forked behind cuInit. */
static void call_in_vain(void)
{
	pid_t child = fork();

	if (!child) {
		for (int i = 0; i < 3; i++)
			(void)cuCtxSynchronize();
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static void pause_here(void)
{
	char line[16];

	printf("%d\n", (int)getpid());
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		_exit(1);
}

int main(int argc, char **argv)
{
	struct rounds once = {.count = 1}, rounds = {.count = 4};
	int threads = 0, status = 0;
	bool forks = false, late = false, paused = false, held = false;
	pid_t child = -1;

	for (int i = 1; i < argc; i++) {
		sscanf(argv[i], "rounds=%d", &rounds.count);
		sscanf(argv[i], "threads=%d", &threads);
		forks |= !strcmp(argv[i], "fork");
		late |= !strcmp(argv[i], "late");
		paused |= !strcmp(argv[i], "paused");
		held |= !strcmp(argv[i], "held");
	}
	if (forks)
		child = fork();
	start();
	if (paused) {
		do_rounds(&once);
		if (forks && child > 0)
			waitpid(child, &status, 0);
		pause_here();
	}
	if (late)
		call_in_vain();
	if (held)
		launch_while_held();
	if (threads)
		in_threads(threads, rounds.count);
	do_rounds(threads ? &once
			  : &rounds); /* behind the threads: what they leave is counted then */
	if (paused)
		pause_here();
	if (forks && child > 0 && !paused)
		waitpid(child, &status, 0);
	return status != 0;
}
