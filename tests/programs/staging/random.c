// SPDX-License-Identifier: MIT
/*
 * A random program that copies between pageable memory and the device in all forms, with kernels, memsets, events and host functions around.
 * What it reads at each return and every status go to stdout: the same seed must print the same with and without mode fix (run.py), on
 * the simulated driver whatever its own seed.
 *
 *	random SEED STEPS THREADS
 *
 * Each thread has streams, blocks and buffers of its own, and never races for a byte: each block belongs to one stream, a source is
 * overwritten at once after its copy, a host function writes a buffer that only a copy behind it reads. A copy that reads its source too
 * late, or too early, or lies elsewhere in its stream, shows in the bytes. With one thread it also makes mistakes, captures, and
 * ends contexts.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../simcuda/kernels.h"

#define STREAMS 5
#define SPACE   ((size_t)700000) /* of a block and of a buffer */
#define BUFFERS 4
#define THREADS 16

CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuMemcpyDtoH_v2_ptds(void *to, CUdeviceptr from, size_t bytes);

static CUcontext context;
static CUfunction copy_kernel, fill_kernel, spin_kernel;

/* Written by a host function, and read by a copy behind it only. */
struct written {
	unsigned char *at;
	unsigned int value;
};

struct thread {
	uint64_t state;
	unsigned int steps;
	bool alone;
	CUstream stream[STREAMS];
	CUdeviceptr block[STREAMS], shadow[STREAMS]; /* of that stream only */
	bool pooled[STREAMS];
	unsigned char *buffer[BUFFERS];
	struct written written[STREAMS];
	CUevent event;
	unsigned int values;
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

	for (size_t i = 0; i < size; i += 1 + i % 5)
		value = (value ^ bytes[i]) * 1099511628211u;
	return value;
}

static void paint(unsigned char *at, size_t bytes, unsigned int value)
{
	for (size_t i = 0; i < bytes; i++)
		at[i] = (unsigned char)(value * 131 + i * 7 + (i >> 8));
}

static void tell(struct thread *t, const char *what, unsigned int s, CUresult result)
{
	fprintf(t->out, "%s %u %d\n", what, s, (int)result);
}

static size_t some_bytes(struct thread *t)
{
	static const size_t sizes[] = {1, 4096, 65536, 130000, 131072, 262144, 300001, 699000};

	return sizes[below(t, 8)];
}

/* Synchronous forms are for the stream that they work on: 0 is the legacy one, 3 the thread's own. */
static void to_device(struct thread *t, unsigned int s)
{
	unsigned char *from = t->buffer[below(t, BUFFERS)];
	size_t bytes = some_bytes(t), offset = below(t, 1000);
	CUdeviceptr to = t->block[s] + offset;
	CUresult result;

	paint(from, bytes, ++t->values);
	switch (s) {
	case 0:
		result = below(t, 2) ? cuMemcpyHtoD(to, from, bytes)
				     : cuMemcpy(to, (uintptr_t)from, bytes);
		break;
	case 3:
		result = below(t, 2) ? cuMemcpyHtoD_v2_ptds(to, from, bytes)
				     : cuMemcpyHtoDAsync(to, from, bytes, t->stream[s]);
		break;
	default:
		result = below(t, 2) ? cuMemcpyHtoDAsync(to, from, bytes, t->stream[s])
				     : cuMemcpyAsync(to, (uintptr_t)from, bytes, t->stream[s]);
	}
	tell(t, "to", s, result);
	/* It may be reused. */
	memset(from, (int)t->values, bytes);
}

static void from_device(struct thread *t, unsigned int s)
{
	unsigned char *to = t->buffer[below(t, BUFFERS)];
	size_t bytes = some_bytes(t), offset = below(t, 1000);
	CUdeviceptr from = t->block[s] + offset;
	CUresult result;

	memset(to, 0, bytes);
	switch (s) {
	case 0:
		result = below(t, 2) ? cuMemcpyDtoH(to, from, bytes)
				     : cuMemcpy((uintptr_t)to, from, bytes);
		break;
	case 3:
		result = below(t, 2) ? cuMemcpyDtoH_v2_ptds(to, from, bytes)
				     : cuMemcpyDtoHAsync(to, from, bytes, t->stream[s]);
		break;
	default:
		result = below(t, 2) ? cuMemcpyDtoHAsync(to, from, bytes, t->stream[s])
				     : cuMemcpyAsync((uintptr_t)to, from, bytes, t->stream[s]);
	}
	tell(t, "from", s, result);
	if (result == CUDA_SUCCESS)
		fprintf(t->out, "read %016llx\n", (unsigned long long)hash(to, bytes));
}

/* A plane or a box, with gaps. */
static void described(struct thread *t, unsigned int s, bool to)
{
	size_t width = 1 + below(t, 900), height = 1 + below(t, 150), depth = 1 + below(t, 3);
	unsigned char *host = t->buffer[below(t, BUFFERS)];
	CUDA_MEMCPY3D copy = {
		.srcMemoryType = to ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
		.srcHost = host,
		.srcDevice = t->block[s],
		.srcPitch = width + below(t, 2) * 50,
		.srcHeight = height + below(t, 2) * 3,
		.dstMemoryType = to ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
		.dstHost = host,
		.dstDevice = t->block[s],
		.dstPitch = width + below(t, 2) * 60,
		.dstHeight = height + below(t, 2) * 2,
		.WidthInBytes = width,
		.Height = height,
		.Depth = depth,
	};
	CUDA_MEMCPY2D plane = {
		.srcMemoryType = copy.srcMemoryType,
		.srcHost = host,
		.srcDevice = t->block[s],
		.srcPitch = copy.srcPitch,
		.dstMemoryType = copy.dstMemoryType,
		.dstHost = host,
		.dstDevice = t->block[s],
		.dstPitch = copy.dstPitch,
		.WidthInBytes = width,
		.Height = height * depth,
	};
	bool flat = below(t, 2);
	CUresult result;

	if (to)
		paint(host, SPACE, ++t->values);
	else
		memset(host, 0, SPACE);
	if (t->alone && below(t, 12) == 0)
		plane.srcPitch = width - 1;
	if (s == 0)
		result = flat ? below(t, 2) ? cuMemcpy2D(&plane) : cuMemcpy2DUnaligned(&plane)
			      : cuMemcpy3D(&copy);
	else
		result = flat ? cuMemcpy2DAsync(&plane, t->stream[s])
			      : cuMemcpy3DAsync(&copy, t->stream[s]);
	tell(t, flat ? "plane" : "box", s, result);
	if (to)
		memset(host, (int)t->values, SPACE);
	else if (result == CUDA_SUCCESS)
		fprintf(t->out, "read %016llx\n", (unsigned long long)hash(host, SPACE));
}

static void kernel(struct thread *t, unsigned int s)
{
	uint32_t value = ++t->values, count = (uint32_t)(1 + below(t, SPACE / 4));
	uint64_t ns = below(t, 200000), bytes = SPACE;
	void *fill[] = {&t->block[s], &value, &count},
	     *copy[] = {&t->shadow[s], &t->block[s], &bytes},
	     *back[] = {&t->block[s], &t->shadow[s], &bytes}, *spin[] = {&ns};

	switch (below(t, 5)) {
	case 0:
		tell(t, "fill", s,
		     cuLaunchKernel(fill_kernel, 1, 1, 1, 1, 1, 1, 0, t->stream[s], fill, NULL));
		break;
	case 1:
		tell(t, "copy", s,
		     cuLaunchKernel(copy_kernel, 1, 1, 1, 1, 1, 1, 0, t->stream[s], copy, NULL));
		break;
	case 2:
		tell(t, "back", s,
		     cuLaunchKernel(copy_kernel, 1, 1, 1, 1, 1, 1, 0, t->stream[s], back, NULL));
		break;
	case 3:
		tell(t, "set", s,
		     cuMemsetD8Async(t->block[s] + below(t, 1000), (unsigned char)value, count,
				     t->stream[s]));
		break;
	default:
		tell(t, "spin", s,
		     cuLaunchKernel(spin_kernel, 1, 1, 1, 1, 1, 1, 0, t->stream[s], spin, NULL));
	}
}

static void CUDA_CB write_source(void *data)
{
	struct written *written = data;

	paint(written->at, SPACE, written->value);
}

/* The copy must see what the host function wrote: a synchronous one waits for it by its promise, if the stream is a blocking one. */
static void host_function(struct thread *t, unsigned int s)
{
	struct written *written = &t->written[s];
	size_t bytes = some_bytes(t);

	/* Non-blocking streams are not waited for; the reader must be of the same context's legacy order. */
	if (s == 2 || s == 4)
		return;
	CHECK(cuStreamSynchronize(t->stream[s]));
	written->value = ++t->values;
	kernel(t, s);
	tell(t, "host", s, cuLaunchHostFunc(t->stream[s], write_source, written));
	if (s == 3 && below(t, 2))
		tell(t, "to", s, cuMemcpyHtoD_v2_ptds(t->block[s], written->at, bytes));
	else
		tell(t, "to", 0, cuMemcpyHtoD(t->block[0], written->at, bytes));
}

/* Work of one stream behind another's, by an event. */
static void join(struct thread *t, unsigned int s)
{
	unsigned int other = below(t, STREAMS);
	uint64_t bytes = SPACE;
	void *copy[] = {&t->shadow[s], &t->block[other], &bytes};

	if (other == s)
		return;
	CHECK(cuEventRecord(t->event, t->stream[other]));
	CHECK(cuStreamWaitEvent(t->stream[s], t->event, 0));
	tell(t, "join", s,
	     cuLaunchKernel(copy_kernel, 1, 1, 1, 1, 1, 1, 0, t->stream[s], copy, NULL));
	/* What comes next on the other one waits until it is read. */
	CHECK(cuEventRecord(t->event, t->stream[s]));
	CHECK(cuStreamWaitEvent(t->stream[other], t->event, 0));
}

static void mistake(struct thread *t, unsigned int s)
{
	unsigned char *host = t->buffer[0];

	switch (below(t, 6)) {
	case 0:
		tell(t, "past", s,
		     cuMemcpyHtoDAsync(t->block[s] + 1000, host, SPACE + 1000, t->stream[s]));
		break;
	case 1:
		tell(t, "past", s, cuMemcpyDtoH(host, t->block[0] + 2000, SPACE));
		break;
	case 2:
		tell(t, "none", s, cuMemcpyHtoD(0, host, SPACE));
		break;
	case 3:
		tell(t, "null", s, cuMemcpyDtoHAsync(NULL, t->block[s], SPACE, t->stream[s]));
		break;
	case 4:
		tell(t, "nothing", s, cuMemcpyHtoD(t->block[s], host, 0));
		break;
	default:
		tell(t, "host", s, cuMemcpyHtoD((uintptr_t)host + 1, host, 300000));
	}
}

static void capture(struct thread *t)
{
	unsigned int s = 2 + 2 * below(t, 2);
	unsigned char *host = t->buffer[0];
	CUgraphExec exec = NULL;
	CUgraph graph = NULL;
	CUresult result;

	tell(t, "begin", s, cuStreamBeginCapture(t->stream[s], (CUstreamCaptureMode)below(t, 3)));
	paint(host, SPACE, ++t->values);
	tell(t, "to", s, cuMemcpyHtoDAsync(t->block[s], host, 300000, t->stream[s]));
	tell(t, "unsafe", s, below(t, 2) ? cuMemcpyHtoD(t->block[0], host, 300000) : CUDA_SUCCESS);
	result = cuStreamEndCapture(t->stream[s], &graph);
	tell(t, "end", s, result);
	if (result != CUDA_SUCCESS)
		return;
	CHECK(cuGraphInstantiate(&exec, graph, 0));
	paint(host, SPACE, ++t->values);
	tell(t, "graph", s, cuGraphLaunch(exec, t->stream[s]));
	CHECK(cuStreamSynchronize(t->stream[s]));
	cuGraphExecDestroy(exec);
	cuGraphDestroy(graph);
}

/* A buffer that is registered for a while: its copies are the driver's. */
static void registered(struct thread *t, unsigned int s)
{
	unsigned char *host = t->buffer[BUFFERS - 1];

	for (unsigned int i = 0; i < STREAMS; i++)
		CHECK(cuStreamSynchronize(t->stream[i]));
	tell(t, "register", s, cuMemHostRegister(host, SPACE / 2 / 4096 * 4096, 0));
	paint(host, SPACE, ++t->values);
	tell(t, "to", s, cuMemcpyHtoDAsync(t->block[s], host, 300000, t->stream[s]));
	tell(t, "mixed", s,
	     cuMemcpyHtoDAsync(t->block[s] + 1000, host + 1000, SPACE - 1000, t->stream[s]));
	CHECK(cuStreamSynchronize(t->stream[s]));
	tell(t, "unregister", s, cuMemHostUnregister(host));
}

static CUdeviceptr new_block(struct thread *t, unsigned int s, bool *ret_pooled)
{
	CUdeviceptr block;

	*ret_pooled = s && below(t, 2);
	if (*ret_pooled)
		CHECK(cuMemAllocAsync(&block, 2 * SPACE, t->stream[s]));
	else
		CHECK(cuMemAlloc(&block, 2 * SPACE));
	CHECK(cuMemsetD8Async(block, 0, 2 * SPACE, t->stream[s]));
	return block;
}

static void renew(struct thread *t, unsigned int s)
{
	if (t->pooled[s])
		CHECK(cuMemFreeAsync(t->block[s], t->stream[s]));
	else
		CHECK(cuMemFree(t->block[s]));
	t->block[s] = new_block(t, s, &t->pooled[s]);
}

static void step(struct thread *t)
{
	unsigned int s = below(t, STREAMS), choice = below(t, 100);

	if (choice < 28)
		to_device(t, s);
	else if (choice < 46)
		from_device(t, s);
	else if (choice < 56)
		described(t, s, below(t, 2));
	else if (choice < 78)
		kernel(t, s);
	else if (choice < 84)
		host_function(t, s);
	else if (choice < 90)
		join(t, s);
	else if (choice < 92)
		tell(t, "synchronize", s, cuStreamSynchronize(t->stream[s]));
	else if (choice < 94)
		renew(t, s);
	else if (choice < 96 && t->alone)
		mistake(t, s);
	else if (choice < 98)
		registered(t, s);
	else if (t->alone)
		capture(t);
}

static void make(struct thread *t)
{
	bool pooled;

	t->stream[0] = NULL;
	CHECK(cuStreamCreate(&t->stream[1], CU_STREAM_DEFAULT));
	CHECK(cuStreamCreate(&t->stream[2], CU_STREAM_NON_BLOCKING));
	t->stream[3] = CU_STREAM_PER_THREAD;
	CHECK(cuStreamCreate(&t->stream[4], CU_STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&t->event, CU_EVENT_DISABLE_TIMING));
	for (unsigned int s = 0; s < STREAMS; s++) {
		t->block[s] = new_block(t, s, &t->pooled[s]);
		t->shadow[s] = new_block(t, s, &pooled);
		t->written[s].at = malloc(SPACE);
	}
	/* With room for what mistakes name: the driver may look at the source first. */
	for (unsigned int i = 0; i < BUFFERS; i++)
		t->buffer[i] = aligned_alloc(4096, (SPACE + 8192) / 4096 * 4096);
}

static void *run(void *data)
{
	struct thread *t = data;

	t->out = open_memstream(&t->log, &t->log_size);
	CHECK(cuCtxSetCurrent(context));
	make(t);
	for (unsigned int i = 0; i < t->steps; i++)
		step(t);
	CHECK(cuCtxSynchronize());
	for (unsigned int s = 0; s < STREAMS; s++) {
		CUdeviceptr all[] = {t->block[s], t->shadow[s]};

		for (unsigned int i = 0; i < 2; i++) {
			CHECK(cuMemcpyDtoHAsync(t->buffer[0], all[i], SPACE, t->stream[s]));
			fprintf(t->out, "at last %u %u %016llx\n", s, i,
				(unsigned long long)hash(t->buffer[0], SPACE));
		}
	}
	fclose(t->out);
	return NULL;
}

int main(int argc, char **argv)
{
	static struct thread threads[THREADS];
	pthread_t handles[THREADS];
	int count = argc == 4 ? atoi(argv[3]) : 0;
	CUmodule module;

	if (count < 1 || count > THREADS) {
		fprintf(stderr, "usage: random SEED STEPS THREADS\n");
		return 2;
	}
	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, simcuda_ptx));
	CHECK(cuModuleGetFunction(&copy_kernel, module, "copy"));
	CHECK(cuModuleGetFunction(&fill_kernel, module, "fill"));
	CHECK(cuModuleGetFunction(&spin_kernel, module, "spin"));
	for (int i = 0; i < count; i++) {
		threads[i] = (struct thread){
			.state = strtoull(argv[1], NULL, 0) * 1000003 + (uint64_t)i,
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
