/* SPDX-License-Identifier: MIT */
/*
 * For the tests of completion futures: a driver with two devices, streams that stand still until
 * the host lets them go, seeds, time. Header only, C and C++.
 *
 * A gate is a word of pinned memory and a wait for it on a stream: what is submitted behind it
 * cannot be over before gate_open().
 */
#ifndef TESTS_FUTURE_SUPPORT_H
#define TESTS_FUTURE_SUPPORT_H

#include <slipstream/future.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../simcuda/kernels.h"

#define MS 1000000u
/* Longer than anything here takes on a busy machine: what takes longer hangs. */
#define LONG (20000ull * MS)

#define OK(call)                                                                                   \
	do {                                                                                       \
		CUresult ok_ = (call);                                                             \
		if (ok_ != CUDA_SUCCESS) {                                                         \
			fprintf(stderr, "%s:%d: %s gave %d\n", __FILE__, __LINE__, #call,          \
				(int)ok_);                                                         \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);    \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

struct gate {
	unsigned int *word; /* host */
	CUdeviceptr address;
};

static __inline__ __attribute__((__unused__)) CUcontext start_driver(int device)
{
	CUcontext context;
	CUdevice handle;

	OK(cuInit(0));
	OK(cuDeviceGet(&handle, device));
	OK(cuDevicePrimaryCtxRetain(&context, handle));
	OK(cuCtxSetCurrent(context));
	return context;
}

static __inline__ __attribute__((__unused__)) CUstream new_stream(void)
{
	CUstream stream;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

static __inline__ __attribute__((__unused__)) CUfunction find_kernel(const char *name)
{
	CUfunction function;
	CUmodule module;

	OK(cuModuleLoadData(&module, simcuda_ptx));
	OK(cuModuleGetFunction(&function, module, name));
	OK(cuFuncLoad(function));
	return function;
}

/* Pinned memory that all contexts reach; zero. */
static __inline__ __attribute__((__unused__)) unsigned int *new_words(size_t count)
{
	void *words;

	OK(cuMemHostAlloc(&words, count * sizeof(unsigned int),
			  CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
	memset(words, 0, count * sizeof(unsigned int));
	return (unsigned int *)words;
}

static __inline__ __attribute__((__unused__)) struct gate new_gate(void)
{
	struct gate gate;

	gate.word = new_words(1);
	OK(cuMemHostGetDevicePointer(&gate.address, gate.word, 0));
	return gate;
}

static __inline__ __attribute__((__unused__)) void gate_close(struct gate gate, CUstream stream)
{
	__atomic_store_n(gate.word, 0, __ATOMIC_RELEASE);
	OK(cuStreamWaitValue32(stream, gate.address, 1, CU_STREAM_WAIT_VALUE_EQ));
}

static __inline__ __attribute__((__unused__)) void gate_open(struct gate gate)
{
	__atomic_store_n(gate.word, 1, __ATOMIC_RELEASE);
}

static __inline__ __attribute__((__unused__)) struct slipstream_future *
new_future(CUstream stream, enum slipstream_future_mode mode)
{
	struct slipstream_future *future;

	OK(slipstream_future_create(&future, stream, mode));
	return future;
}

static __inline__ __attribute__((__unused__)) void pause_ns(uint64_t ns)
{
	struct timespec time = slipstream_future_timespec_(ns);

	(void)nanosleep(&time, NULL);
}

/* FUTURE_SEED, else a new one; printed, so that a failure can be repeated. */
static __inline__ __attribute__((__unused__)) uint64_t test_seed(const char *what)
{
	const char *text = getenv("FUTURE_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0)
			     : slipstream_future_now_() ^ ((uint64_t)getpid() << 40);

	printf("%s: FUTURE_SEED=%llu\n", what, (unsigned long long)seed);
	fflush(stdout);
	return seed;
}

/* xorshift64*, one state a thread. */
static __inline__ __attribute__((__unused__)) uint64_t random_below(uint64_t *state, uint64_t limit)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return (*state * 2685821657736338717ull >> 20) % limit;
}

#endif
