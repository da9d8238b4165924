// SPDX-License-Identifier: MIT
/*
 * One rule of the pinned pool at a time: `cases NAME`, run by run.py in mode fix on the simulated driver. A gate kernel holds a stream
 * until the host opens it, so what is in flight at a free is no matter of luck. Exit status 0: the rule holds; 1: it does not, and stderr
 * says what is not so. A rule that is broken may also hang; run.py has a time limit.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../simcuda/kernels.h"
#include "../expect.h"

/* By their names in the driver: headers rename one, or leave it out. */
CUresult cuCtxCreate_v2(CUcontext *, unsigned int, CUdevice);
CUresult cuGLInit(void);
/* Deprecated. */
CUresult detach(CUcontext) __asm__("cuCtxDetach");

#define BYTES 5000

int failures;

static CUcontext context;
static CUfunction gate, spin;
static volatile uint32_t *flag; /* of the gate; never freed */
static CUdeviceptr slot;

static void load(void)
{
	CUmodule module;

	OK(cuModuleLoadData(&module, simcuda_ptx));
	OK(cuModuleGetFunction(&gate, module, "gate"));
	OK(cuModuleGetFunction(&spin, module, "spin"));
	/* Their first launches wait for the context. */
	uint64_t ns = 0;
	void *parameters[] = {&ns};
	OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
	*flag = 1;
	void *flags[] = {&flag};
	OK(cuLaunchKernel(gate, 1, 1, 1, 1, 1, 1, 0, NULL, flags, NULL));
	OK(cuCtxSynchronize());
	*flag = 0;
}

static void close_gate(CUstream stream)
{
	void *parameters[] = {&flag};

	*flag = 0;
	OK(cuLaunchKernel(gate, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

static void run_spin(CUstream stream, uint64_t ns)
{
	void *parameters[] = {&ns};

	OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

static unsigned char *allocate(unsigned char value)
{
	void *block;

	OK(cuMemHostAlloc(&block, BYTES, 0));
	memset(block, value, BYTES);
	return block;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static bool slot_holds(unsigned char value)
{
	unsigned char bytes[BYTES];

	OK(cuMemcpyDtoH(bytes, slot, BYTES));
	for (int i = 0; i < BYTES; i++)
		if (bytes[i] != value)
			return false;
	return true;
}

static CUstream new_stream(unsigned int flags)
{
	CUstream stream;

	OK(cuStreamCreate(&stream, flags));
	return stream;
}

/* A copy out of a block waits behind the gate; the block is freed; the next one must be another, and the copy right. */
static unsigned char *free_behind_gate(CUstream stream)
{
	unsigned char *block = allocate(1), *other;

	close_gate(stream);
	OK(cuMemcpyHtoDAsync(slot, block, BYTES, stream));
	OK(cuMemFreeHost(block));
	for (int i = 0; i < 3; i++) {
		other = allocate(2);
		EXPECT(other != block);
	}
	return block;
}

static bool is_used_again(const unsigned char *block)
{
	return allocate(3) == block;
}

static void in_flight(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	unsigned char *block = free_behind_gate(stream);

	*flag = 1;
	OK(cuStreamSynchronize(stream));
	EXPECT(slot_holds(1));
	EXPECT(is_used_again(block));
}

/* Nothing that the program waits for: an event of ours, or a query, must tell. */
static void asked(void)
{
	CUstream stream = new_stream(CU_STREAM_DEFAULT);
	unsigned char *block = free_behind_gate(stream);
	CUdeviceptr word;
	bool again = false;
	uint32_t i;

	OK(cuMemAlloc(&word, 4));
	*flag = 1;
	for (i = 0; i < 2000 && !again; i++) {
		/* The stream itself is never done. */
		run_spin(stream, 20000000);
		again = is_used_again(block);
		usleep(1000);
	}
	EXPECT(again);
}

static void CUDA_CB hold(void *data)
{
	while (!*flag)
		usleep(100);
}

/* Contexts take events of ours along, more than there is place for. */
static void many_contexts(void)
{
	CUcontext one;
	void *block;

	for (int i = 0; i < 80; i++) {
		OK(cuCtxCreate_v2(&one, 0, 0));
		*flag = 0;
		OK(cuLaunchHostFunc(new_stream(CU_STREAM_NON_BLOCKING), hold, NULL));
		OK(cuMemHostAlloc(&block, BYTES, 0));
		OK(cuMemFreeHost(block));
		OK(cuMemHostAlloc(&block, BYTES, 0));
		*flag = 1;
		OK(cuCtxDestroy(one));
	}
}

/* The stream is of another context than the one that is current when the pool wants to know of it. */
static void elsewhere(bool on_legacy)
{
	CUcontext second;
	CUstream stream;
	unsigned char *block;

	OK(cuDevicePrimaryCtxRetain(&second, 1));
	OK(cuCtxSetCurrent(second));
	load();
	OK(cuMemAlloc(&slot, BYTES));
	stream = on_legacy ? NULL : new_stream(CU_STREAM_NON_BLOCKING);
	OK(cuCtxSetCurrent(context));
	block = allocate(1);
	OK(cuCtxSetCurrent(second));
	close_gate(stream);
	OK(cuMemcpyHtoDAsync(slot, block, BYTES, stream));
	OK(cuCtxSetCurrent(context));
	OK(cuMemFreeHost(block));
	EXPECT(allocate(2) != block);
	EXPECT(allocate(2) != block);
	OK(cuCtxSynchronize());
	EXPECT(allocate(2) != block);
	*flag = 1;
	OK(cuCtxSetCurrent(second));
	OK(cuCtxSynchronize());
	EXPECT(slot_holds(1));
	OK(cuCtxSetCurrent(context));
	EXPECT(is_used_again(block));
}

static void other_context(void)
{
	elsewhere(false);
}

static void other_legacy(void)
{
	elsewhere(true);
}

static void destroyed(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	unsigned char *block = free_behind_gate(stream);

	OK(cuStreamDestroy(stream));
	EXPECT(allocate(2) != block);
	stream = new_stream(CU_STREAM_NON_BLOCKING); /* perhaps the same handle */
	OK(cuStreamSynchronize(stream));
	EXPECT(allocate(2) != block);
	*flag = 1;
	OK(cuCtxSynchronize());
	EXPECT(slot_holds(1));
	EXPECT(is_used_again(block));
}

static pthread_barrier_t barrier;
static unsigned char *shared;

static void *use_own_stream(void *data)
{
	OK(cuCtxSetCurrent(context));
	close_gate(CU_STREAM_PER_THREAD);
	OK(cuMemcpyHtoDAsync(slot, shared, BYTES, CU_STREAM_PER_THREAD));
	pthread_barrier_wait(&barrier);
	if (!data)
		pthread_barrier_wait(&barrier);
	return NULL;
}

/* `data` set: it ends before the block is freed. */
static void per_thread(bool ends)
{
	pthread_t thread;

	shared = allocate(1);
	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&thread, NULL, use_own_stream, ends ? &barrier : NULL);
	pthread_barrier_wait(&barrier);
	if (ends)
		pthread_join(thread, NULL);
	/* This thread's own stream has work, too, and is done. */
	run_spin(CU_STREAM_PER_THREAD, 1000);
	OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	run_spin(CU_STREAM_PER_THREAD, 1000);
	OK(cuMemFreeHost(shared));
	for (int i = 0; i < 20; i++) {
		EXPECT(allocate(2) != shared);
		usleep(1000);
	}
	*flag = 1;
	OK(cuCtxSynchronize());
	EXPECT(slot_holds(1));
	EXPECT(is_used_again(shared));
	if (!ends) {
		pthread_barrier_wait(&barrier);
		pthread_join(thread, NULL);
	}
}

static void other_thread(void)
{
	per_thread(false);
}

static void ended_thread(void)
{
	per_thread(true);
}

/* What the pool asks must not put anything on the legacy stream: other streams would wait for it. */
static void legacy(void)
{
	CUstream a = new_stream(CU_STREAM_DEFAULT), b = new_stream(CU_STREAM_DEFAULT);
	unsigned char *block = allocate(1);

	run_spin(NULL, 20000000);
	OK(cuMemcpyHtoDAsync(slot, block, BYTES, NULL));
	close_gate(a);
	OK(cuMemFreeHost(block));
	EXPECT(allocate(2) != block);
	EXPECT(allocate(2) != block);
	run_spin(b, 1000);
	OK(cuStreamSynchronize(
		b)); /* hangs behind the gate if it is behind a record on the legacy stream */
	*flag = 1;
	OK(cuStreamSynchronize(a));
	EXPECT(slot_holds(1));
	OK(cuCtxSynchronize());
	EXPECT(is_used_again(block));
}

/* A record into a full queue waits for room, which here comes only after the allocation. */
static void full_queue(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	unsigned char *block = allocate(1);

	close_gate(stream);
	OK(cuMemcpyHtoDAsync(slot, block, BYTES, stream));
	for (int i = 0; i < 1022; i++)
		run_spin(stream, 1);
	OK(cuMemFreeHost(block));
	EXPECT(allocate(2) != block);
	*flag = 1;
	OK(cuStreamSynchronize(stream));
	EXPECT(slot_holds(1));
	EXPECT(is_used_again(block));
}

static void *capture(void *data)
{
	CUstreamCaptureMode mode = *(CUstreamCaptureMode *)data;
	CUstream stream;
	CUgraph graph;
	CUresult result;

	OK(cuCtxSetCurrent(context));
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	OK(cuStreamBeginCapture(stream, mode));
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	result = cuStreamEndCapture(stream, &graph);
	/* What another thread does invalidates a global capture only. */
	EXPECT(result == (mode == CU_STREAM_CAPTURE_MODE_GLOBAL
				  ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
				  : CUDA_SUCCESS));
	return NULL;
}

/* From now on a free of this thread has room in what it keeps for itself. */
static void make_room(void)
{
	unsigned char *blocks[4];

	for (int i = 0; i < 4; i++)
		blocks[i] = allocate(1);
	for (int i = 0; i < 4; i++)
		OK(cuMemFreeHost(blocks[i]));
}

static void capturing(void)
{
	CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
				       CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
				       CU_STREAM_CAPTURE_MODE_RELAXED};
	unsigned char *block;
	pthread_t thread;
	void *other;

	pthread_barrier_init(&barrier, NULL, 2);
	make_room();
	for (int i = 0; i < 3; i++) {
		CUresult wanted = modes[i] == CU_STREAM_CAPTURE_MODE_GLOBAL
					  ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
					  : CUDA_SUCCESS;

		block = allocate(1);
		OK(cuMemFreeHost(
			allocate(1))); /* one to serve the allocation below, would it be served */
		pthread_create(&thread, NULL, capture, &modes[i]);
		pthread_barrier_wait(&barrier);
		EXPECT(cuMemHostAlloc(&other, BYTES, 0) == wanted);
		EXPECT(cuMemFreeHost(block) == wanted);
		pthread_barrier_wait(&barrier);
		pthread_join(thread, NULL);
	}
	block = allocate(1);
	OK(cuMemFreeHost(block));
	EXPECT(is_used_again(block)); /* no capture is left over */
}

/* Held blocks of a context that was reset are gone, though its handle comes back. */
static void reset(void)
{
	unsigned char *block = allocate(1), *live = allocate(1), *next;
	CUcontext again;
	unsigned int flags;

	OK(cuMemFreeHost(block));
	OK(cuDevicePrimaryCtxReset(0));
	OK(cuDevicePrimaryCtxRetain(&again, 0));
	OK(cuCtxSetCurrent(again));
	(void)live;
	for (int i = 0; i < 4; i++) {
		next = allocate(2);
		OK(cuMemHostGetFlags(&flags, next));
	}
	OK(cuMemFreeHost(next));
	EXPECT(is_used_again(next));
}

static void forked(void)
{
	unsigned char *block = allocate(1);
	int status = -1;
	pid_t child;
	void *other;

	OK(cuMemFreeHost(block));
	child = fork();
	if (child == 0)
		_exit(cuMemHostAlloc(&other, BYTES, 0) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
	waitpid(child, &status, 0);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	EXPECT(is_used_again(block));
}

static void *churn(void *data)
{
	bool *stop = data;

	OK(cuCtxSetCurrent(context));
	while (!__atomic_load_n(stop, __ATOMIC_RELAXED)) {
		unsigned char *blocks[8];

		for (int i = 0; i < 8; i++)
			blocks[i] = allocate((unsigned char)i);
		for (int i = 0; i < 8; i++) {
			EXPECT(blocks[i][0] == i && blocks[i][BYTES - 1] == i);
			OK(cuMemFreeHost(blocks[i]));
		}
	}
	return NULL;
}

static void threads(void)
{
	pthread_t thread[8];
	bool stop = false;

	for (int round = 0; round < 3; round++) {
		stop = false;
		for (int i = 0; i < 8; i++)
			pthread_create(&thread[i], NULL, churn, &stop);
		usleep(100000);
		__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
		for (int i = 0; i < 8; i++)
			pthread_join(thread[i], NULL);
	}
}

/* The process ends while others allocate and free. */
static void ends(void)
{
	pthread_t thread;
	static bool stop;

	for (int i = 0; i < 4; i++)
		pthread_create(&thread, NULL, churn, &stop);
	usleep(30000);
	fflush(NULL);
	_exit(failures ? 1 : 0);
}

static void no_context(void)
{
	unsigned char *block = allocate(1);
	void *other;

	OK(cuCtxSetCurrent(NULL));
	EXPECT(cuMemFreeHost(block) == CUDA_ERROR_INVALID_CONTEXT);
	EXPECT(cuMemHostAlloc(&other, BYTES, 0) == CUDA_ERROR_INVALID_CONTEXT);
	OK(cuCtxSetCurrent(context));
	EXPECT(block[BYTES - 1] == 1);
	OK(cuMemFreeHost(block));
	EXPECT(cuMemFreeHost(block) == CUDA_ERROR_INVALID_VALUE);
}

static unsigned long long buffer_id(const void *block)
{
	unsigned long long id = 0;

	OK(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, (uintptr_t)block + 100));
	return id;
}

static void buffers(void)
{
	unsigned long long ids[8];
	unsigned char *block = allocate(1);
	CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_BUFFER_ID;
	void *value;

	for (int i = 0; i < 8; i++) {
		ids[i] = buffer_id(block);
		for (int j = 0; j < i; j++)
			EXPECT(ids[i] != ids[j]);
		value = &ids[i];
		OK(cuPointerGetAttributes(1, &attribute, &value, (uintptr_t)block));
		EXPECT(ids[i] == buffer_id(block));
		OK(cuMemFreeHost(block));
		EXPECT(is_used_again(block));
	}
}

/* With SLIPSTREAM_RELAX=strict-free. */
static void strict(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	unsigned char *block = allocate(1);
	uint64_t began;

	run_spin(stream, 50000000);
	began = now_ns();
	OK(cuMemFreeHost(block));
	EXPECT(now_ns() - began > 40000000);
	EXPECT(is_used_again(block));
}

/* Frees go through without the wait, and no call waits instead. */
static void relaxed(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	unsigned char *blocks[200];

	for (int i = 0; i < 200; i++)
		blocks[i] = allocate(1);
	close_gate(stream);
	for (int i = 0; i < 200; i++) {
		OK(cuMemFreeHost(blocks[i])); /* hangs where one waits */
		blocks[i] = allocate(2);
	}
	*flag = 1;
	OK(cuCtxSynchronize());
	for (int i = 0; i < 200; i++)
		OK(cuMemFreeHost(blocks[i]));
}

/* More streams than a list of marks has room for. */
static void many_streams(void)
{
	CUstream streams[100];
	unsigned char *block = allocate(1);

	*flag = 0;
	for (int i = 0; i < 100; i++) {
		void *parameters[] = {&flag};

		streams[i] = new_stream(CU_STREAM_NON_BLOCKING);
		OK(cuLaunchKernel(gate, 1, 1, 1, 1, 1, 1, 0, streams[i], parameters, NULL));
	}
	OK(cuMemcpyHtoDAsync(slot, block, BYTES, streams[99]));
	OK(cuMemFreeHost(block));
	for (int i = 0; i < 5; i++)
		EXPECT(allocate(2) != block);
	*flag = 1;
	OK(cuCtxSynchronize());
	EXPECT(slot_holds(1));
	EXPECT(is_used_again(block));
}

/* Under fault injection: what cannot be had is told, and nothing is used too early. */
static void faults(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	unsigned char *blocks[8] = {0}, *block;
	CUresult result;
	void *at;

	for (int round = 0; round < 12; round++) {
		block = blocks[round % 8];
		if (block) {
			result = cuMemFreeHost(block);
			EXPECT(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY ||
			       result == CUDA_ERROR_UNKNOWN);
			if (result != CUDA_SUCCESS)
				EXPECT(block[0] == round % 8 && block[BYTES - 1] == round % 8);
		}
		blocks[round % 8] = NULL;
		result = cuMemHostAlloc(&at, BYTES, 0);
		EXPECT(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY ||
		       result == CUDA_ERROR_UNKNOWN);
		if (result != CUDA_SUCCESS)
			continue;
		blocks[round % 8] = at;
		memset(at, round % 8, BYTES);
		run_spin(stream, 200000);
		OK(cuMemcpyHtoDAsync(slot, at, BYTES, stream));
		if (round % 4 == 3) {
			/* Behind what is in flight: freed, and another filled at once. */
			OK(cuMemcpyHtoDAsync(slot, at, BYTES, stream));
			if (cuMemFreeHost(at) == CUDA_SUCCESS) {
				blocks[round % 8] = NULL;
				if (cuMemHostAlloc(&at, BYTES, 0) == CUDA_SUCCESS) {
					memset(at, 99, BYTES);
					blocks[round % 8] = at;
				}
			}
			OK(cuStreamSynchronize(stream));
			EXPECT(slot_holds((unsigned char)(round % 8)));
			if (blocks[round % 8])
				memset(blocks[round % 8], round % 8, BYTES);
		}
	}
}

/* A context that has failed fails every call. */
static void broken(void)
{
	unsigned char *block = allocate(1), *other = allocate(1);
	CUdeviceptr nowhere = 64;
	uint32_t value = 1, count = 4;
	void *parameters[] = {&nowhere, &value, &count}, *at;
	CUfunction fill;
	CUmodule module;

	OK(cuMemFreeHost(other));
	OK(cuModuleLoadData(&module, simcuda_ptx));
	OK(cuModuleGetFunction(&fill, module, "fill"));
	OK(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
	EXPECT(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
	EXPECT(cuMemHostAlloc(&at, BYTES, 0) == CUDA_ERROR_ILLEGAL_ADDRESS);
	EXPECT(cuMemFreeHost(block) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

static CUstream late_stream;
static pthread_key_t late_key;

/* The second time it runs, the library has let go of the thread: its calls are not seen. */
static void work_late(void *data)
{
	if (data == &late_key) {
		pthread_setspecific(late_key, &late_stream);
		return;
	}
	run_spin(late_stream, 100000000);
	OK(cuMemcpyHtoDAsync(slot, shared, BYTES, late_stream));
}

static void *end_late(void *data)
{
	OK(cuCtxSetCurrent(context));
	OK(cuCtxSynchronize());
	pthread_setspecific(late_key, &late_key);
	return NULL;
}

static void *end_late_busy(void *data)
{
	OK(cuCtxSetCurrent(context));
	pthread_setspecific(late_key, &late_key);
	return NULL;
}

/* Work that was submitted past the rooms: nothing is given out too early, since nothing is given out any more. */
static void unseen(void)
{
	pthread_t thread;

	shared = allocate(1);
	late_stream = new_stream(CU_STREAM_NON_BLOCKING);
	pthread_key_create(&late_key, work_late);
	pthread_create(&thread, NULL, end_late, NULL);
	pthread_join(thread, NULL);
	OK(cuMemFreeHost(shared));
	allocate(2);
	OK(cuStreamSynchronize(late_stream));
	EXPECT(slot_holds(1));
}

static CUevent late_event;

static void record_late(void *data)
{
	if (data == &late_key)
		pthread_setspecific(late_key, &late_stream);
	else
		OK(cuEventRecord(late_event, late_stream));
}

/* An event that was recorded past the rooms: what it stood for before is not what a wait for it proves. */
static void unseen_record(void)
{
	CUstream busy = new_stream(CU_STREAM_NON_BLOCKING);
	unsigned char *block = allocate(1);
	pthread_t thread;

	late_stream = new_stream(CU_STREAM_NON_BLOCKING);
	OK(cuEventCreate(&late_event, CU_EVENT_DISABLE_TIMING));
	run_spin(busy, 100000000);
	OK(cuMemcpyHtoDAsync(slot, block, BYTES, busy));
	OK(cuEventRecord(late_event, busy));
	pthread_key_create(&late_key, record_late);
	pthread_create(&thread, NULL, end_late_busy, NULL);
	pthread_join(thread, NULL);
	OK(cuEventSynchronize(late_event));
	OK(cuMemFreeHost(block));
	allocate(2);
	OK(cuStreamSynchronize(busy));
	EXPECT(slot_holds(1));
}

/* In no header of ours, so it has no wrapper: what it does is not known. */
static void unseen_function(void)
{
	unsigned char *block = allocate(1);

	EXPECT(cuGLInit() == CUDA_ERROR_NOT_SUPPORTED);
	OK(cuMemFreeHost(block));
	allocate(2);
}

/* A context may end in it, or not. */
static void detached(void)
{
	unsigned char *block = allocate(1);
	CUcontext other;

	OK(cuCtxCreate_v2(&other, 0, 0));
	(void)detach(other);
	OK(cuCtxSetCurrent(context));
	OK(cuMemFreeHost(block));
	allocate(2);
}

static void destroy_late(void *data)
{
	if (data == &late_key)
		pthread_setspecific(late_key, &late_stream);
	else
		OK(cuStreamDestroy(late_stream));
}

/* A stream that was destroyed past the rooms: its handle must not be asked about. */
static void unseen_end(void)
{
	unsigned char *block = allocate(1);
	pthread_t thread;

	late_stream = new_stream(CU_STREAM_NON_BLOCKING);
	run_spin(late_stream, 20000000);
	OK(cuMemcpyHtoDAsync(slot, block, BYTES, late_stream));
	pthread_key_create(&late_key, destroy_late);
	pthread_create(&thread, NULL, end_late_busy, NULL);
	pthread_join(thread, NULL);
	OK(cuMemFreeHost(block));
	allocate(2);
	OK(cuCtxSynchronize());
	EXPECT(slot_holds(1));
}

/* The third allocation of the driver fails once. */
static void purge(void)
{
	unsigned char *block = allocate(1), *second = allocate(1);
	void *larger;

	OK(cuMemFreeHost(block));
	OK(cuMemFreeHost(second));
	OK(cuMemHostAlloc(&larger, 10 * BYTES, 0));
	memset(larger, 5, 10 * BYTES);
}

/* What another context holds is memory of the same machine. */
static void purge_contexts(void)
{
	unsigned char *block = allocate(1), *other;
	CUcontext second;
	void *larger;

	OK(cuMemFreeHost(block));
	OK(cuCtxCreate_v2(&second, 0, 0));
	OK(cuMemHostAlloc((void **)&other, BYTES, 0));
	OK(cuMemFreeHost(other));
	OK(cuCtxSetCurrent(context));
	OK(cuMemHostAlloc(&larger, 10 * BYTES, 0));
	OK(cuCtxSetCurrent(second));
	OK(cuMemHostRegister(malloc(BYTES), BYTES, 0)); /* the context is as it was */
	OK(cuCtxDestroy(second));
}

/* Whatever the driver wants memory for: it has that of the pool. The calls' one and only failures are in run.py. */
static void purge_others(void)
{
	unsigned char *block = allocate(1);
	CUdeviceptr device;

	OK(cuMemFreeHost(block));
	OK(cuMemAlloc(&device, BYTES));
	block = allocate(1);
	OK(cuMemFreeHost(block));
	OK(cuMemHostRegister(malloc(BYTES), BYTES, 0));
}

/* Blocks beyond the limit go back to the driver; their number is an argument. */
static void limit(int count)
{
	void **blocks = calloc((size_t)count, sizeof(*blocks));

	for (int i = 0; i < count; i++)
		OK(cuMemHostAlloc(&blocks[i], 64 << 20, 0));
	for (int i = 0; i < count; i++)
		OK(cuMemFreeHost(blocks[i]));
	free(blocks);
}

/* A freed block is no memory of the driver's, whatever else is wrong at that moment. run.py runs it without the library, too. */
static void freed_statuses(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	unsigned char *block = allocate(1);
	CUgraph made;

	OK(cuMemFreeHost(block));
	EXPECT(cuMemFreeHost(block) == CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemHostUnregister(block) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	EXPECT(cuMemHostUnregister(block + BYTES / 2) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	EXPECT(cuMemHostRegister(block, BYTES, 0) == CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemHostRegister(block + 100, 100, 0) == CUDA_ERROR_INVALID_VALUE);
	OK(cuCtxSetCurrent(NULL));
	EXPECT(cuMemFreeHost(block) == CUDA_ERROR_INVALID_CONTEXT);
	EXPECT(cuMemHostUnregister(block) == CUDA_ERROR_INVALID_CONTEXT);
	EXPECT(cuMemHostRegister(block, BYTES, 0) == CUDA_ERROR_INVALID_CONTEXT);
	OK(cuCtxSetCurrent(context));
	OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	EXPECT(cuMemFreeHost(block) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	EXPECT(cuStreamEndCapture(stream, &made) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	block = allocate(1);
	EXPECT(cuMemHostRegister(block, BYTES, 0) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	EXPECT(cuMemHostUnregister(block) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFreeHost(block));
}

/* A way past us, for all that is known: from here on nothing is used again. */
static void doubt(void)
{
	const CUuuid id = {"simcuda\0test\0\0\0\1"};
	const void *table;

	OK(cuGetExportTable(&table, &id));
}

/* Held blocks go with the next free of the driver in their context: of one that the pool knows, ... */
static void doubted(void)
{
	unsigned char *block = allocate(1), *other = allocate(1);

	OK(cuMemFreeHost(block));
	doubt();
	OK(cuMemFreeHost(other));
	EXPECT(cuMemFreeHost(block) == CUDA_ERROR_INVALID_VALUE);
}

/* ... of one that it does not, ... */
static void doubted_later(void)
{
	OK(cuMemFreeHost(allocate(1)));
	doubt();
	OK(cuMemFreeHost(allocate(1)));
}

/* ... and where the context has been waited for. */
static void doubted_drained(void)
{
	OK(cuMemFreeHost(allocate(1)));
	doubt();
	OK(cuCtxSynchronize());
}

/* Not in another context than the current one, whose handle may name nothing any more. */
static void doubted_elsewhere(void)
{
	CUcontext second;

	OK(cuMemFreeHost(allocate(1)));
	OK(cuCtxCreate_v2(&second, 0, 0));
	doubt();
	OK(cuMemFreeHost(allocate(1)));
	OK(cuCtxSynchronize());
}

/* The context has failed, which no call has told yet. */
static void failed_statuses(void)
{
	CUdeviceptr nowhere = 64, device;
	unsigned char *block = allocate(1);
	uint32_t value = 1, count = 4;
	void *parameters[] = {&nowhere, &value, &count};
	CUfunction fill;
	CUmodule module;

	OK(cuMemAlloc(&device, BYTES));
	OK(cuModuleLoadData(&module, simcuda_ptx));
	OK(cuModuleGetFunction(&fill, module, "fill"));
	OK(cuMemFree(device));
	OK(cuMemFreeHost(block));
	OK(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
	usleep(200000);
	EXPECT(cuMemFreeHost(block) == CUDA_ERROR_ILLEGAL_ADDRESS);
	EXPECT(cuMemFree(device) == CUDA_ERROR_ILLEGAL_ADDRESS);
	EXPECT(cuMemHostUnregister(block) == CUDA_ERROR_ILLEGAL_ADDRESS);
	EXPECT(cuMemHostRegister(block, BYTES, 0) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* ---- blocks that another thread keeps for itself ---- */

static unsigned char *kept[2];

/* Leaves two blocks that were freed with nothing at work, and waits to be let go. */
static void *keep(void *data)
{
	OK(cuCtxSetCurrent(context));
	kept[0] = allocate(1);
	kept[1] = allocate(1);
	OK(cuMemFreeHost(kept[0]));
	OK(cuMemFreeHost(kept[1]));
	if (!data)
		return NULL;
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	return NULL;
}

static pthread_t begin_keeping(bool waits)
{
	pthread_t thread;

	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&thread, NULL, keep, waits ? &barrier : NULL);
	if (waits)
		pthread_barrier_wait(&barrier);
	else
		pthread_join(thread, NULL);
	return thread;
}

static void end_keeping(pthread_t thread)
{
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
}

static bool is_kept(const void *block)
{
	return block == kept[0] || block == kept[1];
}

/* Before the driver pins more, every thread's blocks are looked at. */
static void kept_elsewhere(void)
{
	pthread_t thread = begin_keeping(true);

	EXPECT(is_kept(allocate(2)));
	EXPECT(is_kept(allocate(2)));
	EXPECT(!is_kept(allocate(2)));
	end_keeping(thread);
}

static void kept_by_the_dead(void)
{
	for (int i = 0; i < 20; i++)
		begin_keeping(false);
	EXPECT(is_kept(allocate(2)));
	EXPECT(is_kept(allocate(2)));
}

/* The third allocation of the driver fails once: another thread's blocks go, too. */
static void purge_elsewhere(void)
{
	pthread_t thread = begin_keeping(true);
	void *larger;

	OK(cuMemHostAlloc(&larger, 10 * BYTES, 0));
	memset(larger, 5, 10 * BYTES);
	end_keeping(thread);
}

/* A thread whose own blocks went with their context gets none of them. */
static void *keep_past_the_end(void *data)
{
	unsigned int flags;
	void *block;

	keep(&barrier);
	pthread_barrier_wait(&barrier);
	OK(cuCtxSetCurrent(context));
	for (int i = 0; i < 3; i++) {
		block = allocate(2);
		OK(cuMemHostGetFlags(&flags, block));
		OK(cuMemFreeHost(block));
		EXPECT(is_used_again(block));
	}
	return NULL;
}

/* A block is freed while a copy of another context is to read and write it, and its context ends before that: the free would have waited for the copy. */
static void used_elsewhere_at_the_end(void)
{
	uint64_t ns = 100000000;
	void *parameters[] = {&ns}, *block;
	CUcontext owner;
	CUstream stream;
	unsigned char byte = 0;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuCtxCreate_v2(&owner, 0, 0));
	OK(cuMemHostAlloc(&block, BYTES, CU_MEMHOSTALLOC_PORTABLE));
	memset(block, 0x5a, BYTES);
	OK(cuCtxSetCurrent(context));
	OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
	OK(cuMemcpyHtoDAsync(slot, block, BYTES, stream));
	OK(cuMemcpyDtoHAsync(block, slot, BYTES, stream));
	OK(cuCtxSetCurrent(owner));
	OK(cuMemFreeHost(block));
	OK(cuCtxDestroy(owner));
	OK(cuCtxSetCurrent(context));
	OK(cuStreamSynchronize(stream));
	OK(cuMemcpyDtoH(&byte, slot, 1));
	EXPECT(byte == 0x5a);
}

/* What was freed behind work that has ended since is used by nobody: work of others that begins later holds up no context's end. */
static void end_waits_for_no_more(void)
{
	uint64_t ns = 10000000;
	void *parameters[] = {&ns}, *block;
	CUstream waits, opens;
	CUdeviceptr word;
	CUfunction other_spin;
	CUcontext owner;
	CUmodule module;

	OK(cuStreamCreate(&waits, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&opens, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc(&word, 4));
	OK(cuMemsetD32(word, 0, 1));
	OK(cuCtxSynchronize());
	OK(cuCtxCreate_v2(&owner, 0, 0));
	OK(cuModuleLoadData(&module, simcuda_ptx));
	OK(cuModuleGetFunction(&other_spin, module, "spin"));
	OK(cuMemHostAlloc(&block, BYTES, 0));
	OK(cuLaunchKernel(other_spin, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
	OK(cuMemFreeHost(block));
	OK(cuCtxSynchronize());
	OK(cuCtxSetCurrent(context));
	OK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuCtxSetCurrent(owner));
	OK(cuCtxDestroy(owner));
	OK(cuCtxSetCurrent(context));
	OK(cuMemsetD32Async(word, 1, 1, opens));
	OK(cuStreamSynchronize(waits));
}

static void reset_elsewhere(void)
{
	pthread_t thread;

	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&thread, NULL, keep_past_the_end, NULL);
	pthread_barrier_wait(&barrier);
	OK(cuDevicePrimaryCtxReset(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
}

/* The driver has its say where a block is freed in another context than it was made in. */
static void freed_elsewhere(void)
{
	unsigned char *block;
	CUcontext second;

	OK(cuDevicePrimaryCtxRetain(&second, 1));
	make_room();
	block = allocate(1);
	OK(cuCtxSetCurrent(second));
	OK(cuMemFreeHost(block));
	OK(cuCtxSetCurrent(context));
	EXPECT(allocate(2) != block);
}

static CUstream busy_stream;

/* In a row, so that the last of them are launched with next to no code of ours. */
static void *launch_behind_gate(void *data)
{
	OK(cuCtxSetCurrent(context));
	for (int i = 0; i < 200; i++)
		run_spin(busy_stream, 1);
	OK(cuStreamSynchronize(busy_stream));
	close_gate(busy_stream);
	OK(cuMemcpyHtoDAsync(slot, shared, BYTES, busy_stream));
	for (int i = 0; i < 200; i++)
		run_spin(busy_stream, 1);
	return NULL;
}

/* Work of another thread, submitted a moment ago. */
static void launched_elsewhere(void)
{
	pthread_t thread;

	make_room();
	for (int i = 0; i < 10; i++)
		OK(cuMemFreeHost(allocate(1)));
	shared = allocate(1);
	busy_stream = new_stream(CU_STREAM_NON_BLOCKING);
	pthread_create(&thread, NULL, launch_behind_gate, NULL);
	pthread_join(thread, NULL);
	OK(cuMemFreeHost(shared));
	for (int i = 0; i < 3; i++)
		EXPECT(allocate(2) != shared);
	*flag = 1;
	OK(cuStreamSynchronize(busy_stream));
	EXPECT(slot_holds(1));
}

static int freed_well, freed_badly;

static void *free_shared(void *data)
{
	CUresult result;

	OK(cuCtxSetCurrent(context));
	make_room();
	for (int i = 0; i < 500; i++) {
		if (data)
			shared = allocate(1);
		pthread_barrier_wait(&barrier);
		result = cuMemFreeHost(shared);
		EXPECT(result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE);
		__atomic_fetch_add(result == CUDA_SUCCESS ? &freed_well : &freed_badly, 1,
				   __ATOMIC_RELAXED);
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

/* Of two frees of one block at the same moment one is the program's mistake. */
static void twice(void)
{
	pthread_t thread;

	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&thread, NULL, free_shared, NULL);
	free_shared(&barrier);
	pthread_join(thread, NULL);
	EXPECT(freed_well == 500 && freed_badly == 500);
}

/* With SLIPSTREAM_POOL_AGE=100ms: blocks that nobody uses go back to the driver, a few in each wait of the program for its context. */
static void old(void)
{
	unsigned char *blocks[5];

	for (int i = 0; i < 5; i++)
		blocks[i] = allocate(1);
	for (int i = 0; i < 5; i++)
		OK(cuMemFreeHost(blocks[i]));
	for (int i = 0; i < 40; i++) {
		void *other;

		OK(cuMemHostAlloc(&other, 10 * BYTES, 0));
		OK(cuMemFreeHost(other));
		OK(cuCtxSynchronize());
		usleep(10000);
	}
}

/* With a driver that has no more: refused after a while, since a kernel works, which is waited for once. */
static void refused_once(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	unsigned char *block = allocate(1);
	uint64_t begun;
	void *other;

	close_gate(stream);
	OK(cuMemFreeHost(block));
	begun = now_ns();
	EXPECT(cuMemHostAlloc(&other, 10 * BYTES, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT(now_ns() - begun > 900000000 && now_ns() - begun < 1800000000);
	*flag = 1;
}

/* With SLIPSTREAM_POOL_AGE=20ms: the program waits for its context while another one works. The driver's free would wait for that, too. */
static void old_beside_work(void)
{
	unsigned char *block = allocate(1);
	CUcontext second;
	CUstream stream;

	OK(cuDevicePrimaryCtxRetain(&second, 1));
	OK(cuCtxSetCurrent(second));
	load();
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	OK(cuCtxSetCurrent(context));
	OK(cuMemFreeHost(block));
	OK(cuCtxSynchronize());
	OK(cuCtxSetCurrent(second));
	close_gate(stream);
	OK(cuCtxSetCurrent(context));
	for (int i = 0; i < 10; i++) {
		usleep(20000);
		OK(cuCtxSynchronize()); /* hangs where the block is old, and is freed */
	}
	*flag = 1;
	OK(cuCtxSetCurrent(second));
	OK(cuCtxSynchronize());
	OK(cuCtxSetCurrent(context));
	for (int i = 0; i < 10; i++) {
		usleep(20000);
		OK(cuCtxSynchronize());
	}
}

/* Each is the driver's, from its allocation to its free. */
static void write_combined(void)
{
	const unsigned int flags[] = {CU_MEMHOSTALLOC_WRITECOMBINED,
				      CU_MEMHOSTALLOC_WRITECOMBINED | CU_MEMHOSTALLOC_PORTABLE};
	void *block;

	for (int i = 0; i < 6; i++) {
		OK(cuMemHostAlloc(&block, BYTES, flags[i % 2]));
		OK(cuMemFreeHost(block));
	}
}

/* With SLIPSTREAM_ZERO=full. */
static void zeroed(void)
{
	unsigned char *block = allocate(1);
	void *again;

	for (int i = 0; i < 5; i++) {
		memset(block, 7, BYTES);
		OK(cuMemFreeHost(block));
		OK(cuMemHostAlloc(&again, BYTES - 1, 0));
		EXPECT(again == block);
		for (int j = 0; j < BYTES - 1; j++)
			EXPECT(block[j] == 0);
	}
}

/* Sizes of all magnitudes, allocated and freed at random by some threads. What is live at the end is printed. */
static uint64_t requested;

static void *mix(void *data)
{
	enum { BLOCKS = 60 };
	void *blocks[BLOCKS] = {0};
	size_t bytes[BLOCKS] = {0};
	uint64_t state = (uintptr_t)data;

	OK(cuCtxSetCurrent(context));
	for (int i = 0; i < 3000; i++) {
		int which;

		state = state * 6364136223846793005u + 1442695040888963407u;
		which = (int)(state >> 33) % BLOCKS;
		if (blocks[which])
			OK(cuMemFreeHost(blocks[which]));
		bytes[which] = (size_t)1 << (10 + (state >> 40) % 10);
		bytes[which] += (size_t)(state >> 20) % bytes[which] + 1;
		OK(cuMemHostAlloc(&blocks[which], bytes[which], 0));
	}
	for (int i = 0; i < BLOCKS; i++)
		__atomic_fetch_add(&requested, bytes[i], __ATOMIC_RELAXED);
	return NULL;
}

static void mixed(void)
{
	pthread_t threads[4];

	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, mix, (void *)(i + 1));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	printf("%llu\n", (unsigned long long)requested);
}

/* A flag that only the rewrites use among themselves is none of the driver's. */
static void foreign_flags(void)
{
	void *block;

	OK(cuMemAllocHost(&block, BYTES));
	OK(cuMemFreeHost(block));
	EXPECT(cuMemHostAlloc(&block, BYTES, 1U << 31) == CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemHostAlloc(&block, 10 * BYTES, 1U << 31) == CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemHostAlloc(&block, BYTES, 1U << 30) == CUDA_ERROR_INVALID_VALUE);
}

/* Registers memory of the program's own at the address, and asks about it. */
static void register_at(void *address)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 2 * page;
	void *at = mmap(address, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	CUdeviceptr device, base;
	unsigned int flags;
	size_t size = 0;
	void *host;

	EXPECT(at == address);
	if (at != address)
		return;
	OK(cuMemHostRegister(at, bytes, 0));
	EXPECT(cuMemHostGetFlags(&flags, at) == CUDA_SUCCESS);
	EXPECT(cuMemHostGetDevicePointer(&device, at, 0) == CUDA_SUCCESS);
	EXPECT(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER,
				     (CUdeviceptr)(uintptr_t)at) == CUDA_SUCCESS);
	EXPECT(cuMemGetAddressRange(&base, &size, (CUdeviceptr)(uintptr_t)at) == CUDA_SUCCESS &&
	       size == bytes);
	EXPECT(cuMemHostGetFlags(&flags, (char *)at + bytes - 1) == CUDA_SUCCESS);
	OK(cuMemHostUnregister(at));
	munmap(at, bytes);
}

/* Work that a context took along when it ended unseen is at work no more. */
static void released_busy(void)
{
	unsigned char *block = allocate(1);
	CUcontext again;

	run_spin(new_stream(CU_STREAM_NON_BLOCKING), 1000000);
	run_spin(NULL, 1000000);
	OK(cuMemFreeHost(block));
	OK(cuDevicePrimaryCtxRelease(0));
	OK(cuDevicePrimaryCtxRetain(&again, 0));
	OK(cuCtxSetCurrent(again));
	for (int i = 0; i < 4; i++) {
		block = allocate(2);
		OK(cuMemFreeHost(block));
		EXPECT(is_used_again(block));
	}
}

/* The last release of a primary context ends it, and no call says so. Its memory is gone, held or not, and addresses are others'. */
static void released(void)
{
	unsigned char *block = allocate(1), *live = allocate(1);
	CUcontext again;

	OK(cuMemFreeHost(block));
	OK(cuDevicePrimaryCtxRelease(0));
	OK(cuDevicePrimaryCtxRetain(&again, 0));
	OK(cuCtxSetCurrent(again));
	register_at(block);
	register_at(live);
	block = allocate(2);
	OK(cuMemFreeHost(block));
	EXPECT(is_used_again(block));
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"in-flight", in_flight},
	{"asked", asked},
	{"other-context", other_context},
	{"other-legacy", other_legacy},
	{"broken", broken},
	{"unseen", unseen},
	{"unseen-end", unseen_end},
	{"unseen-record", unseen_record},
	{"unseen-function", unseen_function},
	{"detached", detached},
	{"many-contexts", many_contexts},
	{"destroyed", destroyed},
	{"other-thread", other_thread},
	{"ended-thread", ended_thread},
	{"legacy", legacy},
	{"full-queue", full_queue},
	{"capturing", capturing},
	{"reset", reset},
	{"forked", forked},
	{"threads", threads},
	{"ends", ends},
	{"no-context", no_context},
	{"buffers", buffers},
	{"strict", strict},
	{"relaxed", relaxed},
	{"many-streams", many_streams},
	{"faults", faults},
	{"purge", purge},
	{"kept-elsewhere", kept_elsewhere},
	{"kept-by-the-dead", kept_by_the_dead},
	{"purge-elsewhere", purge_elsewhere},
	{"freed-statuses", freed_statuses},
	{"failed-statuses", failed_statuses},
	{"doubted", doubted},
	{"doubted-later", doubted_later},
	{"doubted-drained", doubted_drained},
	{"doubted-elsewhere", doubted_elsewhere},
	{"purge-contexts", purge_contexts},
	{"purge-others", purge_others},
	{"reset-elsewhere", reset_elsewhere},
	{"used-elsewhere-at-the-end", used_elsewhere_at_the_end},
	{"end-waits-for-no-more", end_waits_for_no_more},
	{"launched-elsewhere", launched_elsewhere},
	{"freed-elsewhere", freed_elsewhere},
	{"twice", twice},
	{"foreign-flags", foreign_flags},
	{"released", released},
	{"released-busy", released_busy},
	{"zeroed", zeroed},
	{"old", old},
	{"old-beside-work", old_beside_work},
	{"write-combined", write_combined},
	{"refused-once", refused_once},
	{"mixed", mixed},
};

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	flag = calloc(1, sizeof(*flag));
	{
		CUdeviceptr word;

		/* Not out of the pool: a kernel waits for it. */
		OK(cuMemAllocManaged(&word, 4, CU_MEM_ATTACH_GLOBAL));
		free((void *)flag);
		flag = (volatile uint32_t *)(uintptr_t)word;
	}
	OK(cuMemAlloc(&slot, BYTES));
	load();
	if (strcmp(argv[1], "limit") == 0)
		limit(argc > 2 ? atoi(argv[2]) : 40);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (strcmp(argv[1], cases[i].name) == 0)
			cases[i].run();
	return failures ? 1 : 0;
}
