// SPDX-License-Identifier: MIT
/* Cases of what the host hears without asking the driver, and waits for, of blocks that threads hand on, and of writes that are not followed byte by byte. */
#include <pthread.h>
#include <stdint.h>

#include "cases.h"

#define BYTES   4096UL
#define THREADS 4
#define HANDED  3000

static CUstream first, second;
static CUdeviceptr data;

static CUfunction function(const char *name)
{
	CUmodule module;
	CUfunction function;

	OK(cuModuleLoadData(&module, simcuda_ptx));
	OK(cuModuleGetFunction(&function, module, name));
	OK(cuFuncLoad(function));
	return function;
}

static void start(void)
{
	first = new_stream(CU_STREAM_NON_BLOCKING);
	second = new_stream(CU_STREAM_NON_BLOCKING);
	data = on_device(BYTES);
}

static void write_by(CUstream stream)
{
	OK(cuMemsetD8Async(data, 1, BYTES, stream)); /* other */
}

static void fill(CUstream stream, CUdeviceptr memory)
{
	unsigned int value = 7, count = 16;
	void *arguments[] = {&memory, &value, &count};

	OK(cuLaunchKernel(function("fill"), 1, 1, 1, 32, 1, 1, 0, stream, arguments, /* other */
			  NULL));
}

static void until(volatile unsigned int *flag, unsigned int value)
{
	while (*flag != value)
		;
}

/* ---- the host looks at memory ---- */

static void case_value_that_the_host_looks_for(void)
{
	unsigned int *flag = pinned(4);

	start();
	write_by(first);
	OK(cuStreamWriteValue32(first, (CUdeviceptr)(uintptr_t)flag, 1, 0));
	until(flag, 1);
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

static void case_few_bytes_that_the_host_looks_for(void)
{
	unsigned int *flag = pinned(4);
	CUdeviceptr one = on_device(4);

	start();
	OK(cuMemsetD32(one, 1, 1));
	OK(cuCtxSynchronize());
	write_by(first);
	OK(cuMemcpyDtoHAsync(flag, one, 4, first));
	until(flag, 1);
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

static void case_many_bytes_tell_the_host_nothing(void)
{
	CUdeviceptr other = on_device(BYTES);

	start();
	write_by(first);
	OK(cuMemcpyDtoHAsync(pinned(BYTES), other, BYTES, first));
	OK(cuMemsetD8Async(data, 2, BYTES, second)); /* S09 */
}

static void case_kernel_that_tells_the_host(void)
{
	unsigned int *flag = pinned(64);

	start();
	write_by(first);
	fill(first, (CUdeviceptr)(uintptr_t)flag);
	until(flag, 7);
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

static void case_kernel_that_waits_for_a_flag(void)
{
	CUdeviceptr flag = on_device(4);
	void *arguments[] = {&flag};

	start();
	OK(cuMemsetD32(flag, 0, 1));
	OK(cuCtxSynchronize());
	OK(cuLaunchKernel(function("gate"), 1, 1, 1, 1, 1, 1, 0, second, arguments, NULL));
	write_by(first);
	OK(cuMemsetD32Async(flag, 1, 1, first));
	OK(cuMemsetD8Async(data, 2, BYTES, second));
	OK(cuStreamSynchronize(second));
}

static unsigned int is_over;

static void says_so(void *flag)
{
	__atomic_store_n((unsigned int *)flag, 1, __ATOMIC_RELEASE);
}

static void case_graph_that_tells_the_host(void)
{
	CUDA_HOST_NODE_PARAMS node_of = {.fn = says_so, .userData = &is_over};
	CUgraphExec executable;
	CUgraphNode node;
	CUgraph graph;

	start();
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddHostNode(&node, graph, NULL, 0, &node_of));
	OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
	write_by(first);
	OK(cuGraphLaunch(executable, first));
	until(&is_over, 1);
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

static void case_time_that_can_be_taken(void)
{
	CUevent begin, end;
	float ms;

	start();
	OK(cuEventCreate(&begin, 0));
	OK(cuEventCreate(&end, 0));
	OK(cuEventRecord(begin, first));
	write_by(first);
	OK(cuEventRecord(end, first));
	while (cuEventElapsedTime(&ms, begin, end) == CUDA_ERROR_NOT_READY)
		;
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

/* ---- what a wait is for ---- */

static void case_wait_for_a_copy_alone(void)
{
	void *host = pinned(BYTES);

	start();
	for (int i = 0; i < ROUNDS; i++) {
		OK(cuMemcpyDtoHAsync(host, data, BYTES, first)); /* other */
		OK(cuStreamSynchronize(first));                  /* S01 */
	}
}

/* The copy comes behind the kernel of the legacy stream, and so does who waits for it. */
static void case_wait_for_a_copy_behind_the_legacy_stream(void)
{
	CUstream blocking = new_stream(0);
	void *host = pinned(BYTES);

	start();
	for (int i = 0; i < ROUNDS; i++) {
		spin(NULL, BUSY / 10);
		OK(cuMemcpyDtoHAsync(host, data, BYTES, blocking));
		OK(cuStreamSynchronize(blocking));
	}
}

static void case_wait_for_the_order_of_two_streams(void)
{
	start();
	for (int i = 0; i < ROUNDS; i++) {
		write_by(first);
		OK(cuStreamSynchronize(first));              /* S05 */
		OK(cuMemsetD8Async(data, 2, BYTES, second)); /* other */
		OK(cuCtxSynchronize());
	}
}

/* The host waits for three streams by one: it needs what the third has read. */
static void case_wait_for_a_stream_that_stands_for_others(void)
{
	CUstream third = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr other = on_device(BYTES);
	void *host = pinned(BYTES);
	CUevent event;

	start();
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	for (int i = 0; i < ROUNDS; i++) {
		OK(cuMemcpyDtoHAsync(host, other, BYTES, third));
		OK(cuEventRecord(event, third));
		OK(cuStreamWaitEvent(first, event, 0));
		write_by(first);
		OK(cuStreamSynchronize(first));
		OK(cuMemsetD8Async(data, 2, BYTES, second));
		OK(cuStreamSynchronize(second));
	}
}

static void case_wait_for_a_stream_that_stands_for_the_legacy_one(void)
{
	CUstream blocking = new_stream(0);
	CUdeviceptr other = on_device(BYTES);
	void *host = pinned(BYTES);

	start();
	for (int i = 0; i < ROUNDS; i++) {
		OK(cuMemcpyDtoHAsync(host, other, BYTES, NULL));
		write_by(blocking);
		OK(cuStreamSynchronize(blocking));
		OK(cuMemsetD8Async(data, 2, BYTES, second));
		OK(cuStreamSynchronize(second));
	}
}

/* ---- threads ---- */

static void *take_and_give(void *context)
{
	CUdeviceptr block;
	CUstream stream;

	OK(cuCtxSetCurrent(context));
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	for (int i = 0; i < HANDED; i++) {
		OK(cuMemAllocAsync(&block, BYTES, stream));
		OK(cuMemsetD8Async(block, 1, BYTES, stream));
		if (i % 2)
			OK(cuStreamSynchronize(stream));
		OK(cuMemFreeAsync(block, stream));
	}
	OK(cuStreamSynchronize(stream));
	return NULL;
}

/* One has the block of another before that one's free has returned. */
static void case_blocks_that_threads_hand_on(void)
{
	pthread_t threads[THREADS];
	CUcontext context;

	OK(cuCtxGetCurrent(&context));
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, take_and_give, context))
			abort();
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

/* ---- a block that was written to is no first kernel's ---- */

static void kernel_and_copy_read(CUdeviceptr memory)
{
	OK(cuStreamSynchronize(first));
	fill(first, memory);
	OK(cuMemcpyDtoHAsync(pinned(BYTES), memory, BYTES, second));
}

static void case_ninth_address_of_an_earlier_kernel(void)
{
	struct {
		CUdeviceptr memory;
		unsigned int value, count;
		CUdeviceptr more[8];
	} arguments = {.value = 7, .count = 16};
	size_t size = sizeof(arguments);
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &arguments, CU_LAUNCH_PARAM_BUFFER_SIZE,
			 &size, CU_LAUNCH_PARAM_END};

	start();
	arguments.memory = data;
	for (int i = 0; i < 8; i++)
		arguments.more[i] = on_device(BYTES);
	OK(cuLaunchKernel(function("fill"), 1, 1, 1, 32, 1, 1, 0, first, NULL, extra));
	kernel_and_copy_read(arguments.more[7]);
}

/* The first kernel may have written to the block by the table. */
static void case_block_of_a_table(void)
{
	CUdeviceptr table = on_device(64);

	start();
	OK(cuMemcpyHtoD(table, &data, sizeof(data)));
	OK(cuCtxSynchronize());
	fill(first, table);
	kernel_and_copy_read(data);
}

static void case_numbers_are_no_table(void)
{
	const double numbers[] = {1.5};
	CUdeviceptr uploaded = on_device(64);

	start();
	OK(cuMemcpyHtoD(uploaded, numbers, sizeof(numbers)));
	OK(cuCtxSynchronize());
	fill(first, uploaded);
	OK(cuStreamSynchronize(first));
	fill(first, data);
	OK(cuMemcpyDtoHAsync(pinned(BYTES), data, BYTES, second)); /* S09 */
}

static void case_block_that_another_process_writes_to(void)
{
	CUipcMemHandle handle;

	start();
	OK(cuIpcGetMemHandle(&handle, data));
	kernel_and_copy_read(data);
}

static void case_rectangle_between_contexts(void)
{
	CUDA_MEMCPY3D_PEER copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
				   .srcPitch = 64,
				   .srcHeight = BYTES / 64,
				   .dstMemoryType = CU_MEMORYTYPE_DEVICE,
				   .dstPitch = 64,
				   .dstHeight = BYTES / 64,
				   .WidthInBytes = 64,
				   .Height = BYTES / 64,
				   .Depth = 1};

	start();
	OK(cuCtxGetCurrent(&copy.srcContext));
	copy.dstContext = copy.srcContext;
	copy.srcDevice = on_device(BYTES);
	copy.dstDevice = data;
	OK(cuMemcpy3DPeerAsync(&copy, first));
	kernel_and_copy_read(data);
}

const struct check_case cases_host[] = {
	CASE(value_that_the_host_looks_for),
	CASE(few_bytes_that_the_host_looks_for),
	CASE(many_bytes_tell_the_host_nothing),
	CASE(kernel_that_tells_the_host),
	CASE(kernel_that_waits_for_a_flag),
	CASE(graph_that_tells_the_host),
	CASE(time_that_can_be_taken),
	CASE(wait_for_a_copy_alone),
	CASE(wait_for_a_copy_behind_the_legacy_stream),
	CASE(wait_for_the_order_of_two_streams),
	CASE(wait_for_a_stream_that_stands_for_others),
	CASE(wait_for_a_stream_that_stands_for_the_legacy_one),
	CASE(blocks_that_threads_hand_on),
	CASE(ninth_address_of_an_earlier_kernel),
	CASE(block_of_a_table),
	CASE(numbers_are_no_table),
	CASE(block_that_another_process_writes_to),
	CASE(rectangle_between_contexts),
	{NULL, NULL, NULL},
};
