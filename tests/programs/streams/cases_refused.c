// SPDX-License-Identifier: MIT
/*
 * Cases: calls that put nothing on a stream, since they have nothing to do or the driver refuses them. They hold nobody and wait for nobody.
 */
#include "cases.h"

#include <string.h>

static CUstream a, b;
static void *pinned;
static unsigned char pageable[64];

static void start(void)
{
	a = new_stream('a', CU_STREAM_DEFAULT);
	b = new_stream('b', CU_STREAM_DEFAULT);
	OK(cuMemHostAlloc(&pinned, 4096, 0));
	mix(a);
	step(b, 2);
	OK(cuCtxSynchronize());
}

static CUresult launch(CUfunction function, CUstream stream, unsigned int grid, unsigned int block)
{
	CUdeviceptr own = word + 8;
	uint32_t bytes = 0, salt = 1;
	void *parameters[] = {&own, &own, &bytes, &salt};

	return cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, stream, parameters, NULL);
}

static CUresult launch_structure(CUstream stream)
{
	CUdeviceptr own = word + 8;
	uint32_t bytes = 0, salt = 1;
	void *parameters[] = {&own, &own, &bytes, &salt};
	CUlaunchConfig config = {.gridDimX = 1,
				 .gridDimY = 1,
				 .blockDimX = 1,
				 .blockDimY = 1,
				 .blockDimZ = 1,
				 .hStream = stream};

	return cuLaunchKernelEx(&config, hash_kernel, parameters, NULL);
}

static CUresult copy_no_rows(CUstream stream)
{
	CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			      .srcDevice = word,
			      .srcPitch = 64,
			      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			      .dstDevice = word + 512,
			      .dstPitch = 64,
			      .WidthInBytes = 8};

	return cuMemcpy2DAsync(&copy, stream);
}

#define WAYS_ASYNC 16
#define WAYS       20

static CUresult put_nothing(unsigned int way, CUstream stream)
{
	CUstreamBatchMemOpParams operation = {0};
	CUdeviceptr block = 0;

	switch (way) {
	case 0:
		return cuMemsetD8Async(word + 256, 1, 0, stream);
	case 1:
		return cuMemcpyHtoDAsync(word + 256, pinned, 0, stream);
	case 2:
		return cuMemcpyDtoDAsync(word + 256, word + 512, 0, stream);
	case 3:
		return cuMemcpyDtoHAsync(pageable, word, 0, stream);
	case 4:
		return copy_no_rows(stream);
	case 5:
		return launch(hash_kernel, stream, 0, 1);
	case 6:
		return launch(hash_kernel, stream, 1, 0);
	case 7:
		return launch(NULL, stream, 1, 1);
	case 8:
		return launch_structure(stream);
	case 9:
		return cuEventRecord(NULL, stream);
	case 10:
		return cuStreamWaitEvent(stream, NULL, 0);
	case 11:
		return cuLaunchHostFunc(stream, NULL, NULL);
	case 12:
		return cuStreamAddCallback(stream, NULL, NULL, 0);
	case 13:
		return cuGraphLaunch(NULL, stream);
	case 14:
		return cuMemAllocAsync(&block, 0, stream);
	case 15:
		return cuStreamBatchMemOp(stream, 0, &operation, 0);
	/* Of the legacy stream only. */
	case 16:
		return cuMemcpyHtoD(word + 256, pageable, 0);
	case 17:
		return cuMemcpyDtoH(pageable, word, 0);
	case 18:
		return cuMemsetD8(word + 256, 1, 0);
	default:
		return cuMemcpyPeer(word + 256, context, word, context, 0);
	}
}

/* A blocking stream stands still until the host has seen the end of another one: nothing on the legacy stream puts that behind the first. */
static void nothing_held(unsigned int way, unsigned int ways)
{
	start();
	for (; way < ways; way++) {
		step(NULL, 0);
		close_gate(a, 1);
		SAY(put_nothing(way, way % 2 ? CU_STREAM_LEGACY : NULL));
		step(b, 2);
		SAY(cuStreamSynchronize(b));
		SAY(cuStreamQuery(a));
		open_gate(1);
		step(a, 1);
		step(NULL, 0);
		OK(cuCtxSynchronize());
	}
	say_words();
}

static void nothing_on_legacy(void)
{
	nothing_held(0, WAYS_ASYNC);
}

/* Were the driver to wait in one of these, then the program would hang without us. */
static void nothing_at_once(void)
{
	nothing_held(WAYS_ASYNC, WAYS);
}

/* The legacy stream stands still until the host has seen the end of a blocking one, which has been given nothing since. */
static void nothing_on_blocking(CUstream stream)
{
	start();
	for (unsigned int way = 0; way < WAYS_ASYNC; way++) {
		step(stream, 2);
		close_gate(NULL, 1);
		SAY(put_nothing(way, stream));
		SAY(cuStreamSynchronize(stream));
		SAY(cuStreamQuery(NULL));
		open_gate(1);
		step(stream, 2);
		step(NULL, 0);
		step(stream, 2);
		OK(cuCtxSynchronize());
	}
	say_words();
}

static void nothing_on_a_stream(void)
{
	nothing_on_blocking(new_stream('c', CU_STREAM_DEFAULT));
}

static void nothing_on_own(void)
{
	nothing_on_blocking(CU_STREAM_PER_THREAD);
}

/* Work in front of it and behind it is in order all the same. */
static void nothing_in_between(void)
{
	start();
	for (unsigned int way = 0; way < WAYS; way++) {
		close_gate(NULL, 1);
		step(NULL, 0);
		step(a, 1);
		/* Copies of no bytes are the ones that might wait. */
		SAY(put_nothing(way, NULL));
		step(b, 2);
		step(NULL, 0);
		if (way < WAYS_ASYNC)
			SAY(put_nothing(way, b));
		step(b, 2);
		step(a, 1);
		SAY(cuStreamQuery(b));
		open_gate(1);
		OK(cuCtxSynchronize());
	}
	say_words();
}

/* What only the driver finds wrong: it raises nothing that later work would have to come behind. */
static void refused_launch(void)
{
	start();
	step(a, 1);
	begin();
	SAY(launch(hash_kernel, NULL, 1, 2000));
	SAY(launch(hash_kernel, NULL, 1, 2000));
	step(a, 1);
	SAY(launch(hash_kernel, a, 1, 2000));
	step(a, 1);
	end();
	say_words();
}

/* Behind a turn to the driver's order and back everything is in order, and no stream waits for what came before. */
static void turns_order_all(void)
{
	start();
	step(NULL, 0);
	OK(cuMemcpyDtoH(pageable, word, 8));
	begin();
	SAY(launch(hash_kernel, NULL, 1, 2000));
	step(b, 2);
	end();
	say_words();
}

/* The barrier in front of it stays, though. */
static void refused_launch_holds(void)
{
	start();
	step(NULL, 0);
	close_gate(a, 1);
	SAY(launch(hash_kernel, NULL, 1, 2000));
	step(b, 2);
	SAY(cuStreamSynchronize(b));
	open_gate(1);
	say_words();
}

static void refused_launch_waits(void)
{
	start();
	step(b, 2);
	close_gate(NULL, 1);
	SAY(launch(hash_kernel, b, 1, 2000));
	SAY(cuStreamSynchronize(b));
	open_gate(1);
	say_words();
}

/* The driver takes no batch of copies on the legacy stream. */
static void batch_on_legacy(void)
{
	CUdeviceptr to = word + 256, from = word + 512;
	size_t bytes = 8, index = 0;
	CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};

	start();
	step(NULL, 0);
	SAY(cuMemcpyBatchAsync(&to, &from, &bytes, 1, &attributes, &index, 1, NULL));
	SAY(cuMemcpyBatchAsync(&to, &from, &bytes, 1, &attributes, &index, 1, a));
	step(NULL, 0);
	step(a, 1);
	say_words();
}

static void CUDA_CB call_back(void *data)
{
	SAY(try_step(NULL, 0));
	SAY(try_step(a, 1));
	SAY(try_step(b, 2));
	SAY(cuStreamQuery(NULL));
	SAY(cuStreamSynchronize(NULL));
	SAY(cuMemcpyDtoH(pageable, word, 8));
}

/* A host function that calls the driver is refused, and so would be barriers and waits of ours: order stays as it was. `b` has a long queue, or a short one. */
static void refused_in_host_function(void)
{
	CUstream n;

	start();
	n = new_stream('n', CU_STREAM_NON_BLOCKING);
	for (int i = 0; i < 8; i++) {
		step(a, 1);
		step(NULL, 0);
		close_gate(b, 1);
		for (int k = 0; k < (i % 2 ? 100 : 1); k++)
			step(b, 2);
		step(NULL, 0);
		if (i & 2)
			step(a, 1);
		OK(cuLaunchHostFunc(n, call_back, NULL));
		OK(cuStreamSynchronize(n));
		if (i & 4)
			step(NULL, 0);
		step(a, 1);
		SAY(cuStreamQuery(a));
		step(NULL, 0);
		open_gate(1);
		step(b, 2);
		OK(cuCtxSynchronize());
	}
	say_words();
}

const struct named_case refused_cases[] = {
	{"nothing-on-the-legacy-stream-holds-nobody", nothing_on_legacy},
	{"no-bytes-at-once-hold-nobody", nothing_at_once},
	{"turns-order-all-streams", turns_order_all},
	{"nothing-on-a-blocking-stream-waits-for-nobody", nothing_on_a_stream},
	{"nothing-on-a-threads-own-stream-waits-for-nobody", nothing_on_own},
	{"nothing-in-between-leaves-order", nothing_in_between},
	{"refused-operation-is-none", refused_launch},
	{"refused-operation-on-legacy-holds-nobody", refused_launch_holds},
	{"refused-operation-on-blocking-waits-for-nobody", refused_launch_waits},
	{"batch-on-the-legacy-stream-is-refused", batch_on_legacy},
	{"calls-of-a-host-function-are-refused", refused_in_host_function},
	{NULL, NULL},
};
