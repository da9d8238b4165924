// SPDX-License-Identifier: MIT
/*
 * Streams that stand still and are let go, where a device has few hardware queues: `gates PATTERN STREAMS`. Streams that share a queue wait for each other, so some
 * patterns hang on a real driver by themselves from some number of streams on; the library's own streams and barriers must not make others hang. tests/gpu/streams.py
 * compares raw and fix. Prints `done` and the order in which words were folded, or `hangs` after SECONDS.
 *
 *	values-in-order, values-reversed	a wait value on each blocking stream, kernels behind it, legacy work behind all; the host writes the words
 *	kernels-in-order, kernels-reversed	the same with kernels that poll, and no legacy work until they are let go
 *	legacy-gate				a wait value on the legacy stream, kernels of all blocking streams behind it; the host writes
 *	chain					each stream's gate is opened by a kernel of the stream before it; legacy work between
 *	loose					as values-reversed, opened by write values on a non-blocking stream
 */
#include <cuda.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../simcuda/kernels.h"
#define EXPECT_END _exit(2)
#include "../expect.h"

#define STREAMS_MAX 128
#define SECONDS     6

static CUcontext context;
static CUfunction hash, gate, fill;
static CUdeviceptr words; /* a word a stream, 0: the legacy stream's */
static volatile uint32_t *flags;
static CUdeviceptr flags_there;
static CUstream streams[STREAMS_MAX], loose;
static unsigned int count;

static void work(CUstream stream, unsigned int index, uint32_t salt)
{
	CUdeviceptr own = words + 8 * (uint64_t)index, read = index ? words : words + 8;
	uint32_t bytes = index ? 8 : 8 * count;
	void *parameters[] = {&own, &read, &bytes, &salt};

	OK(cuLaunchKernel(hash, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

static void wait_value(CUstream stream, unsigned int index)
{
	OK(cuStreamWaitValue32(stream, flags_there + 4 * (uint64_t)index, 1,
			       CU_STREAM_WAIT_VALUE_EQ));
}

static void wait_kernel(CUstream stream, unsigned int index)
{
	CUdeviceptr flag = flags_there + 4 * (uint64_t)index;
	void *parameters[] = {&flag};

	OK(cuLaunchKernel(gate, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

static void open_by_kernel(CUstream stream, unsigned int index)
{
	CUdeviceptr flag = flags_there + 4 * (uint64_t)index;
	uint32_t one = 1, n = 1;
	void *parameters[] = {&flag, &one, &n};

	OK(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

static void prepare(void)
{
	CUmodule module;
	void *host;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadData(&module, simcuda_ptx));
	OK(cuModuleGetFunction(&hash, module, "hash"));
	OK(cuModuleGetFunction(&gate, module, "gate"));
	OK(cuModuleGetFunction(&fill, module, "fill"));
	OK(cuMemAlloc(&words, 8 * (STREAMS_MAX + 1)));
	OK(cuMemsetD8(words, 0, 8 * (STREAMS_MAX + 1)));
	OK(cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
	OK(cuMemHostGetDevicePointer(&flags_there, host, 0));
	flags = host;
	memset(host, 0, 4096);
	for (unsigned int i = 0; i < count; i++)
		OK(cuStreamCreate(&streams[i], CU_STREAM_DEFAULT));
	OK(cuStreamCreate(&loose, CU_STREAM_NON_BLOCKING));
	/* First launches, and both kinds of streams in use. */
	flags[0] = 1;
	wait_kernel(NULL, 0);
	open_by_kernel(NULL, 0);
	work(NULL, 0, 1);
	work(streams[0], 1, 1);
	work(NULL, 0, 1);
	OK(cuCtxSynchronize());
	flags[0] = 0;
}

/* Behind everything, and what the host waits for. */
static void finish(void)
{
	struct timespec pause = {0, 1000000};
	uint64_t found[STREAMS_MAX + 1];
	CUevent end;

	OK(cuEventCreate(&end, CU_EVENT_DISABLE_TIMING));
	work(NULL, 0, 99);
	OK(cuEventRecord(end, NULL));
	for (int i = 0; i < SECONDS * 1000 && cuEventQuery(end) == CUDA_ERROR_NOT_READY; i++)
		nanosleep(&pause, NULL);
	if (cuEventQuery(end) != CUDA_SUCCESS) {
		printf("hangs\n");
		fflush(stdout);
		_exit(1);
	}
	OK(cuMemcpyDtoH(found, words, 8 * (count + 1)));
	for (unsigned int i = 0; i <= count; i++)
		printf("%016llx\n", (unsigned long long)found[i]);
	printf("done\n");
}

/* The host lets them go, from the first or the last. */
static void let_go(bool reversed)
{
	for (unsigned int i = 0; i < count; i++) {
		flags[reversed ? count - 1 - i : i] = 1;
		usleep(200);
	}
}

static void values(bool reversed, bool by_loose)
{
	for (unsigned int round = 0; round < 3; round++) {
		for (unsigned int i = 0; i < count; i++) {
			work(streams[i], i + 1, round);
			wait_value(streams[i], i);
			work(streams[i], i + 1, round);
		}
		work(NULL, 0, round);
		for (unsigned int i = 0; i < count; i++)
			work(streams[i], i + 1, round);
		if (by_loose)
			for (unsigned int i = count; i; i--)
				OK(cuStreamWriteValue32(loose, flags_there + 4 * (uint64_t)(i - 1),
							1, 0));
		else
			let_go(reversed);
		if (round == 2)
			break;
		for (unsigned int i = 0; i < count; i++)
			while (cuStreamQuery(streams[i]) == CUDA_ERROR_NOT_READY)
				usleep(100);
		memset((void *)flags, 0, 4096);
	}
	finish();
}

static void kernels(bool reversed)
{
	for (unsigned int i = 0; i < count; i++) {
		wait_kernel(streams[i], i);
		work(streams[i], i + 1, 3);
	}
	let_go(reversed);
	work(NULL, 0, 3);
	finish();
}

static void legacy_gate(void)
{
	wait_value(NULL, 0);
	work(NULL, 0, 4);
	for (unsigned int i = 0; i < count; i++)
		work(streams[i], i + 1, 4);
	work(NULL, 0, 5);
	usleep(20000);
	flags[0] = 1;
	finish();
}

static void chain(void)
{
	wait_value(streams[0], 0);
	for (unsigned int i = 0; i < count; i++) {
		if (i)
			wait_value(streams[i], i);
		work(streams[i], i + 1, 6);
		if (i + 1 < count)
			open_by_kernel(streams[i], i + 1);
	}
	work(NULL, 0, 6);
	flags[0] = 1;
	finish();
}

/* What a pattern waits for in the middle has no limit of its own. */
static void on_alarm(int number)
{
	static const char text[] = "hangs\n";

	if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0)
		_exit(2);
	_exit(1);
}

int main(int argc, char **argv)
{
	const char *pattern = argc == 3 ? argv[1] : "";

	count = argc == 3 ? (unsigned int)strtoul(argv[2], NULL, 10) : 0;
	if (!count || count > STREAMS_MAX)
		return 2;
	signal(SIGALRM, on_alarm);
	alarm(SECONDS * 3);
	prepare();
	if (strcmp(pattern, "values-in-order") == 0)
		values(false, false);
	else if (strcmp(pattern, "values-reversed") == 0)
		values(true, false);
	else if (strcmp(pattern, "loose") == 0)
		values(true, true);
	else if (strcmp(pattern, "kernels-in-order") == 0)
		kernels(false);
	else if (strcmp(pattern, "kernels-reversed") == 0)
		kernels(true);
	else if (strcmp(pattern, "legacy-gate") == 0)
		legacy_gate();
	else if (strcmp(pattern, "chain") == 0)
		chain();
	else
		return 2;
	return 0;
}
