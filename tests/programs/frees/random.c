// SPDX-License-Identifier: MIT
/*
 * A random program that allocates and frees device memory while the device works with it: copies and kernels that read or write a block are
 * left in flight when it is freed, and new blocks are filled at once. What it reads and every status go to stdout, addresses do not: the
 * same seed must print the same with and without mode fix (run.py), on the simulated driver whatever its own seed.
 *
 *	random SEED STEPS THREADS [large]	large: blocks of sizes that soon fill a small device
 *
 * A block that an old operation still reads from or writes into when it is given out again shows: in the slot of device memory that the
 * copy filled, or in the block's own pattern at its free. With one thread it also makes mistakes (double, inner, foreign frees), ends
 * contexts, captures, asks for the free memory and exports blocks; with more, each thread has blocks and streams of its own, and takes
 * other threads' freed blocks.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../simcuda/kernels.h"

#define CONTEXTS 2
#define STREAMS  5
#define BLOCKS   12
#define SLOT     20480
#define LARGEST  196608
#define THREADS  16

/* On a real device each context reaches its own memory only (tests/programs/safety/anywhere.h); simulated contexts reach all. */
#ifndef REACHABLE
#define REACHABLE(t, block) true
#endif

CUresult cuCtxCreate_v2(CUcontext *, unsigned int, CUdevice);

static struct world {
	CUcontext context;
	CUmodule module;
	CUfunction copy, fill, spin;
} worlds[CONTEXTS];

struct block {
	CUdeviceptr at;
	size_t bytes;
	uint32_t value;
	int context;  /* it was made in */
	bool written; /* by the device, perhaps at this moment: not read any more */
	bool read;    /* the same: not written any more, but in `stream` of `user` */
	CUstream stream;
	int user;
};

static bool large;

struct thread {
	uint64_t state;
	unsigned int number, steps;
	bool alone, capturing;
	int current;
	CUstream stream[CONTEXTS][STREAMS], painter[CONTEXTS];
	CUdeviceptr slot[CONTEXTS][STREAMS];
	struct block block[BLOCKS];
	uint32_t values;
	char *log;
	size_t log_size;
	FILE *out;
};

#define CHECK(call)                                                                                \
	do {                                                                                       \
		CUresult result_ = (call);                                                         \
		if (result_ != CUDA_SUCCESS) {                                                     \
			fprintf(stderr, "random: %s: %d\n", #call, (int)result_);                  \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static uint64_t next(struct thread *t)
{
	uint64_t z = t->state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static unsigned int below(struct thread *t, unsigned int bound)
{
	return (unsigned int)(next(t) % bound);
}

static uint64_t hash(const unsigned char *bytes, size_t size)
{
	uint64_t value = 14695981039346656037u;

	for (size_t i = 0; i < size; i++)
		value = (value ^ bytes[i]) * 1099511628211u;
	return value;
}

static void tell(struct thread *t, const char *what, CUresult result)
{
	fprintf(t->out, "%s %d\n", what, (int)result);
}

static unsigned char pattern(const struct block *block, size_t i)
{
	return (unsigned char)(block->value * 131 + i * 7);
}

/* On a stream of its own, so that nothing of the program's is waited for or ordered. */
static void paint(struct thread *t, struct block *block)
{
	unsigned char bytes[LARGEST];

	for (size_t i = 0; i < block->bytes; i++)
		bytes[i] = pattern(block, i);
	CHECK(cuMemcpyHtoDAsync(block->at, bytes, block->bytes, t->painter[t->current]));
	CHECK(cuStreamSynchronize(t->painter[t->current]));
}

static bool is_painted(struct thread *t, const struct block *block)
{
	unsigned char bytes[LARGEST];

	CHECK(cuMemcpyDtoHAsync(bytes, block->at, block->bytes, t->painter[t->current]));
	for (size_t i = 0; i < block->bytes; i++)
		if (bytes[i] != pattern(block, i))
			return false;
	return true;
}

static struct block *a_block(struct thread *t)
{
	struct block *block = &t->block[below(t, BLOCKS)];

	return block->at && REACHABLE(t, block) ? block : NULL;
}

static void allocate(struct thread *t)
{
	/* The classes of these are what the driver takes for them, so that cuMemGetInfo says the same. */
	static const size_t sizes[2][5] = {{48, 1000, 4096, 4500, 16384},
					   {4500, 65536, 131072, LARGEST, LARGEST}};
	struct block *block = &t->block[below(t, BLOCKS)];
	CUdeviceptr at = 0;
	CUresult result;

	if (block->at)
		return;
	block->bytes = sizes[large][below(t, 5)];
	result = cuMemAlloc(&at, block->bytes);
	tell(t, "alloc", result);
	if (result != CUDA_SUCCESS)
		return;
	block->at = at;
	block->value = ++t->values;
	block->context = t->current;
	block->written = t->capturing; /* then it cannot be painted */
	block->read = false;
	if (!t->capturing)
		paint(t, block);
}

static void release(struct thread *t, struct block *block)
{
	CUdeviceptr at = block->at, base;
	unsigned char handle[sizeof(CUipcMemHandle)];
	CUresult result;
	size_t size;

	if (!block->written && !t->capturing)
		fprintf(t->out, "painted %d\n", is_painted(t, block));
	if (t->alone && below(t, 8) == 0) {
		tell(t, "inner", cuMemFree(block->at + 16));
		tell(t, "foreign", cuMemFree((uintptr_t)t));
		tell(t, "none", cuMemFree(0));
		tell(t, "as host", cuMemFreeHost((void *)(uintptr_t)block->at));
	}
	if (t->alone && below(t, 16) == 0)
		tell(t, "export", cuIpcGetMemHandle((CUipcMemHandle *)handle, at));
	if (t->alone && below(t, 8) == 0)
		tell(t, "async", cuMemFreeAsync(at, NULL));
	result = cuMemFree(at);
	tell(t, "free", result);
	if (result == CUDA_SUCCESS)
		block->at = 0;
	if (result == CUDA_SUCCESS && t->alone && below(t, 8) == 0) {
		tell(t, "again", cuMemFree(at));
		tell(t, "async again", cuMemFreeAsync(at, NULL));
		tell(t, "range of freed", cuMemGetAddressRange(&base, &size, at));
		tell(t, "export of freed", cuIpcGetMemHandle((CUipcMemHandle *)handle, at));
	}
}

static void look_at(struct thread *t, const struct block *block)
{
	CUdeviceptr base = 0;
	unsigned int type = 0;
	size_t size = 0, range = 0, total = 0;
	CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_RANGE_SIZE,
					    CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
	void *values[] = {&range, &type};
	size_t inside = below(t, (unsigned int)block->bytes);
	CUresult result;

	result = cuMemGetAddressRange(&base, &size, block->at + inside);
	fprintf(t->out, "range %d %d %zu\n", (int)result, base == block->at, size);
	size = 0;
	result = cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, block->at + inside);
	fprintf(t->out, "size %d %zu\n", (int)result, size);
	result = cuPointerGetAttributes(2, attributes, values, block->at);
	fprintf(t->out, "attributes %d %zu %u\n", (int)result, range, type);
	if (t->alone) {
		size = 0;
		result = cuMemGetInfo(&size, &total);
		fprintf(t->out, "info %d %zu %zu\n", (int)result, size, total);
	}
}

/* Work on a block that is left in flight. */
static void work(struct thread *t, struct block *block)
{
	unsigned int s = below(t, STREAMS), value = below(t, 1000),
		     count = (unsigned int)(block->bytes / 4);
	CUstream stream = t->stream[t->current][s];
	CUdeviceptr slot = t->slot[t->current][s], at = block->at;
	uint64_t bytes = block->bytes < SLOT ? block->bytes : SLOT;
	void *copy[] = {&slot, &at, &bytes}, *fill[] = {&at, &value, &count};

	unsigned int way = below(t, 4);

	bool same = block->stream == stream && block->user == t->current;

	/* No two streams may race for a block: that is the program's to see to. */
	if (way < 2 ? block->written : block->read && !same)
		return;
	if (way < 2) {
		block->stream = block->read && !same ? (CUstream)-1 : stream;
		block->read = true;
		block->user = t->current;
	}
	switch (way) {
	case 0:
		tell(t, "in", cuMemcpyDtoDAsync(slot, at, bytes, stream));
		break;
	case 1:
		tell(t, "kernel in",
		     cuLaunchKernel(worlds[t->current].copy, 1, 1, 1, 1, 1, 1, 0, stream, copy,
				    NULL));
		break;
	case 2:
		block->written = true;
		tell(t, "out", cuMemcpyDtoDAsync(at, slot, bytes, stream));
		break;
	default:
		block->written = true;
		tell(t, "kernel out",
		     cuLaunchKernel(worlds[t->current].fill, 1, 1, 1, 1, 1, 1, 0, stream, fill,
				    NULL));
	}
}

static void read_slot(struct thread *t, int context, unsigned int s)
{
	unsigned char bytes[SLOT];

	CHECK(cuStreamSynchronize(t->stream[context][s]));
	CHECK(cuMemcpyDtoH(bytes, t->slot[context][s], SLOT));
	fprintf(t->out, "slot %d %u %016llx\n", context, s, (unsigned long long)hash(bytes, SLOT));
}

static void make_streams(struct thread *t, int context)
{
	t->stream[context][0] = NULL;
	CHECK(cuStreamCreate(&t->stream[context][1], CU_STREAM_DEFAULT));
	CHECK(cuStreamCreate(&t->stream[context][2], CU_STREAM_NON_BLOCKING));
	t->stream[context][3] = CU_STREAM_PER_THREAD;
	CHECK(cuStreamCreate(&t->stream[context][4], CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&t->painter[context], CU_STREAM_NON_BLOCKING));
	for (int s = 0; s < STREAMS; s++) {
		CHECK(cuMemAlloc(&t->slot[context][s], SLOT));
		CHECK(cuMemsetD8(t->slot[context][s], 0, SLOT));
	}
	CHECK(cuCtxSynchronize());
}

static void make_world(int context)
{
	struct world *world = &worlds[context];

	if (context == 0)
		CHECK(cuDevicePrimaryCtxRetain(&world->context, 0));
	else
		CHECK(cuCtxCreate_v2(&world->context, 0,
				     0)); /* cuMemFree waits for its device only */
	CHECK(cuCtxSetCurrent(world->context));
	CHECK(cuModuleLoadData(&world->module, simcuda_ptx));
	CHECK(cuModuleGetFunction(&world->copy, world->module, "copy"));
	CHECK(cuModuleGetFunction(&world->fill, world->module, "fill"));
	CHECK(cuModuleGetFunction(&world->spin, world->module, "spin"));
}

/* The context and all that was made in it goes; a new one takes its place. */
static void end_context(struct thread *t, int context)
{
	CUresult result;

	/* Nobody may be using its blocks. */
	for (int i = 0; i < CONTEXTS; i++) {
		CHECK(cuCtxSetCurrent(worlds[i].context));
		CHECK(cuCtxSynchronize());
	}
	for (int i = 0; i < BLOCKS; i++)
		if (t->block[i].at && t->block[i].context == context)
			t->block[i].at = 0;
	result = context ? cuCtxDestroy(worlds[context].context) : cuDevicePrimaryCtxReset(0);
	tell(t, "end", result);
	if (context == 0)
		cuDevicePrimaryCtxRelease(0);
	make_world(context);
	make_streams(t, context);
	CHECK(cuCtxSetCurrent(worlds[t->current].context));
}

static void capture(struct thread *t)
{
	CUstream stream = t->stream[t->current][2 + 2 * below(t, 2)];
	CUstreamCaptureMode mode = (CUstreamCaptureMode)below(t, 3);
	struct block *block;
	CUgraph graph = NULL;

	tell(t, "begin", cuStreamBeginCapture(stream, mode));
	t->capturing = true;
	allocate(t);
	block = a_block(t);
	if (block)
		release(t, block);
	allocate(t);
	tell(t, "end", cuStreamEndCapture(stream, &graph));
	t->capturing = false;
	if (graph)
		cuGraphDestroy(graph);
}

static void step(struct thread *t)
{
	unsigned int s = below(t, STREAMS), choice = below(t, 100);
	struct block *block = a_block(t);
	uint64_t ns = below(t, 30000);
	void *spin[] = {&ns};

	if (choice < 30) {
		allocate(t);
	} else if (choice < 55 && block) {
		work(t, block);
	} else if (choice < 60) {
		tell(t, "spin",
		     cuLaunchKernel(worlds[t->current].spin, 1, 1, 1, 1, 1, 1, 0,
				    t->stream[t->current][s], spin, NULL));
	} else if (choice < 82 && block) {
		release(t, block);
	} else if (choice < 86 && block) {
		look_at(t, block);
	} else if (choice < 88) {
		tell(t, "synchronize", cuStreamSynchronize(t->stream[t->current][s]));
	} else if (choice < 89) {
		tell(t, "synchronize all", cuCtxSynchronize());
	} else if (choice < 92) {
		t->current = (int)below(t, CONTEXTS);
		CHECK(cuCtxSetCurrent(worlds[t->current].context));
	} else if (choice < 95) {
		read_slot(t, t->current, s);
	} else if (choice < 97) {
		for (int i = 0; i < BLOCKS; i++)
			if (t->block[i].stream == t->stream[t->current][4])
				t->block[i].stream = (CUstream)-1; /* its handle may come back */
		if (large) /* there is no memory for many slots */
			CHECK(cuStreamSynchronize(t->stream[t->current][4]));
		CHECK(cuStreamDestroy(t->stream[t->current][4]));
		CHECK(cuStreamCreate(&t->stream[t->current][4], CU_STREAM_NON_BLOCKING));
		if (large)
			return;
		/* Its slot is still written by the old one. */
		CHECK(cuMemAlloc(&t->slot[t->current][4], SLOT));
		CHECK(cuMemsetD8(t->slot[t->current][4], 0, SLOT));
		CHECK(cuStreamSynchronize(NULL));
	} else if (choice < 98 && t->alone) {
		capture(t);
	} else if (choice < 99 && t->alone && below(t, 4) == 0) {
		end_context(t, (int)below(t, CONTEXTS));
	}
}

static void *run(void *data)
{
	struct thread *t = data;

	t->out = open_memstream(&t->log, &t->log_size);
	for (int i = 0; i < CONTEXTS; i++) {
		CHECK(cuCtxSetCurrent(worlds[i].context));
		make_streams(t, i);
	}
	t->current = CONTEXTS - 1;
	for (unsigned int i = 0; i < t->steps; i++)
		step(t);
	for (int i = 0; i < BLOCKS; i++) {
		if (!t->block[i].at)
			continue;
		if (!REACHABLE(t, &t->block[i])) {
			t->current = t->block[i].context;
			CHECK(cuCtxSetCurrent(worlds[t->current].context));
		}
		release(t, &t->block[i]);
	}
	for (int i = 0; i < CONTEXTS; i++) {
		CHECK(cuCtxSetCurrent(worlds[i].context));
		for (unsigned int s = 0; s < STREAMS; s++)
			read_slot(t, i, s);
	}
	fclose(t->out);
	return NULL;
}

int main(int argc, char **argv)
{
	static struct thread threads[THREADS];
	pthread_t handles[THREADS];
	int count = argc == 4 || argc == 5 ? atoi(argv[3]) : 0;

	if (count < 1 || count > THREADS) {
		fprintf(stderr, "usage: random SEED STEPS THREADS [large]\n");
		return 2;
	}
	large = argc == 5;
	CHECK(cuInit(0));
	for (int i = 0; i < CONTEXTS; i++)
		make_world(i);
	for (int i = 0; i < count; i++) {
		threads[i] = (struct thread){
			.state = strtoull(argv[1], NULL, 0) * 1000003 + (uint64_t)i,
			.number = (unsigned int)i,
			.steps = (unsigned int)atoi(argv[2]),
			.alone = count == 1,
		};
		if (count == 1)
			run(&threads[i]);
		else
			pthread_create(&handles[i], NULL, run, &threads[i]);
	}
	for (int i = 0; count > 1 && i < count; i++)
		pthread_join(handles[i], NULL);
	for (int i = 0; i < count; i++) {
		printf("thread %d\n", i);
		fwrite(threads[i].log, 1, threads[i].log_size, stdout);
	}
	return 0;
}
