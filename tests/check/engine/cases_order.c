// SPDX-License-Identifier: MIT
/* Cases of L03, S09 and L16: two streams and one block, with each edge that orders them, and without. */
#include <pthread.h>
#include <stdint.h>

#include "cases.h"

#define BYTES 4096UL

static CUfunction unloaded(const char *name)
{
	CUmodule module;
	CUfunction function;

	OK(cuModuleLoadData(&module, simcuda_ptx));
	OK(cuModuleGetFunction(&function, module, name));
	return function;
}

static CUfunction function(const char *name)
{
	CUfunction function = unloaded(name);

	OK(cuFuncLoad(function));
	return function;
}

/* Streams and a block; the first writes to it. */
static CUstream first, second;
static CUdeviceptr data;

static void start(unsigned int first_flags, unsigned int second_flags)
{
	first = new_stream(first_flags);
	second = new_stream(second_flags);
	data = on_device(BYTES);
}

static void write_by(CUstream stream)
{
	OK(cuMemsetD8Async(data, 1, BYTES, stream)); /* other */
}

static void both(void)
{
	start(CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
}

static CUevent event_of(CUstream stream)
{
	CUevent event;

	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(cuEventRecord(event, stream));
	return event;
}

/* One line, so that its mark is in it. */
#define LAUNCH(name, stream, arguments, extra)                                                     \
	OK(cuLaunchKernel(function(name), 1, 1, 1, 32, 1, 1, 0, stream, arguments, extra))

static void fill(CUstream stream, CUdeviceptr memory)
{
	unsigned int value = 7, count = 16;
	void *arguments[] = {&memory, &value, &count};

	LAUNCH("fill", stream, arguments, NULL); /* other */
}

/* ---- two writes ---- */

static void case_two_writes(void)
{
	both();
	write_by(first);
	OK(cuMemsetD8Async(data, 2, BYTES, second)); /* S09 */
}

static void case_two_reads(void)
{
	void *left = pinned(BYTES), *right = pinned(BYTES);

	both();
	write_by(first);
	OK(cuStreamSynchronize(first));
	OK(cuMemcpyDtoHAsync(left, data, BYTES, first));
	OK(cuMemcpyDtoHAsync(right, data, BYTES, second));
}

static void case_write_behind_read(void)
{
	void *left = pinned(BYTES);

	both();
	OK(cuMemcpyDtoHAsync(left, data, BYTES, first)); /* other */
	OK(cuMemsetD8Async(data, 2, BYTES, second));     /* S09 */
}

static void case_other_part(void)
{
	both();
	OK(cuMemsetD8Async(data, 1, BYTES / 2, first));
	OK(cuMemsetD8Async(data + BYTES / 2, 2, BYTES / 2, second));
}

static void case_one_byte_in_common(void)
{
	both();
	OK(cuMemsetD8Async(data, 1, BYTES / 2 + 1, first));          /* other */
	OK(cuMemsetD8Async(data + BYTES / 2, 2, BYTES / 2, second)); /* S09 */
}

static void case_same_stream(void)
{
	both();
	write_by(first);
	OK(cuMemsetD8Async(data, 2, BYTES, first));
}

static void case_event_between(void)
{
	both();
	write_by(first);
	OK(cuStreamWaitEvent(second, event_of(first), 0));
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

static void case_event_before_the_write(void)
{
	CUevent event;

	both();
	event = event_of(first);
	write_by(first);
	OK(cuStreamWaitEvent(second, event, 0));
	OK(cuMemsetD8Async(data, 2, BYTES, second)); /* S09 */
}

static void case_event_never_recorded(void)
{
	CUevent event;

	both();
	write_by(first);
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(cuStreamWaitEvent(second, event, 0));
	OK(cuMemsetD8Async(data, 2, BYTES, second)); /* S09 */
}

static void case_event_of_an_unrelated_stream(void)
{
	CUstream third;

	both();
	third = new_stream(CU_STREAM_NON_BLOCKING);
	write_by(first);
	OK(cuMemsetD8Async(on_device(BYTES), 1, BYTES, third));
	OK(cuStreamWaitEvent(second, event_of(third), 0));
	OK(cuMemsetD8Async(data, 2, BYTES, second)); /* S09 */
}

static void case_event_destroyed_behind_its_wait(void)
{
	CUevent event;

	both();
	write_by(first);
	event = event_of(first);
	OK(cuStreamWaitEvent(second, event, 0));
	OK(cuEventDestroy(event));
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

static void case_event_of_a_third_stream(void)
{
	CUstream third;

	both();
	third = new_stream(CU_STREAM_NON_BLOCKING);
	write_by(first);
	OK(cuStreamWaitEvent(third, event_of(first), 0));
	OK(cuStreamWaitEvent(second, event_of(third), 0));
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

static void case_foreign_event(void)
{
	CUipcEventHandle handle;
	CUevent event;

	both();
	write_by(first);
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
	OK(cuIpcGetEventHandle(&handle, event));
	OK(cuStreamWaitEvent(second, event, 0));
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

static void case_foreign_event_and_the_host(void)
{
	CUstream third = new_stream(CU_STREAM_NON_BLOCKING);
	CUipcEventHandle handle;
	CUevent event;

	both();
	write_by(first);
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
	OK(cuIpcGetEventHandle(&handle, event));
	OK(cuStreamWaitEvent(second, event, 0));
	/* What the other process waited for may be work that came behind the wait. */
	OK(cuMemsetD8Async(data, 1, BYTES, first));
	OK(cuStreamSynchronize(second));
	OK(cuMemsetD8Async(data, 2, BYTES, third));
}

/* ---- what the host knows ---- */

static void case_stream_synchronize(void)
{
	both();
	write_by(first);
	OK(cuStreamSynchronize(first));
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

static void case_wrong_stream_synchronize(void)
{
	both();
	write_by(first);
	OK(cuStreamSynchronize(second));
	OK(cuMemsetD8Async(data, 2, BYTES, second)); /* S09 */
}

static void case_event_synchronize(void)
{
	both();
	write_by(first);
	OK(cuEventSynchronize(event_of(first)));
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

static void case_context_synchronize(void)
{
	both();
	write_by(first);
	OK(cuCtxSynchronize());
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

static void case_query_says_done(void)
{
	both();
	write_by(first);
	while (cuStreamQuery(first) != CUDA_SUCCESS)
		;
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

static void case_event_query_says_done(void)
{
	CUevent event;

	both();
	write_by(first);
	event = event_of(first);
	while (cuEventQuery(event) != CUDA_SUCCESS)
		;
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

static void case_query_says_not_ready(void)
{
	both();
	spin(first, BUSY);
	write_by(first);
	if (cuStreamQuery(first) == CUDA_SUCCESS)
		abort();
	OK(cuMemsetD8Async(data, 2, BYTES, second)); /* S09 */
}

/* A launch that finds the queue nearly full has waited for room, if for anything. */
static void case_long_queue(void)
{
	CUdeviceptr other = on_device(BYTES);

	both();
	spin(first, 100 * BUSY);
	for (int i = 0; i < 1010; i++)
		OK(cuMemsetD8Async(other, 1, BYTES, first));
	write_by(first);
	OK(cuMemsetD8Async(data, 2, BYTES, second)); /* S09 */
	OK(cuStreamSynchronize(first));
}

static void case_free_drains(void)
{
	CUdeviceptr other = on_device(BYTES);

	both();
	write_by(first);
	OK(cuMemFree(other));
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

static void *synchronize(void *context)
{
	OK(cuCtxSetCurrent(context));
	OK(cuStreamSynchronize(first));
	return NULL;
}

static void case_other_thread_synchronizes(void)
{
	CUcontext context;
	pthread_t thread;

	both();
	write_by(first);
	OK(cuCtxGetCurrent(&context));
	if (pthread_create(&thread, NULL, synchronize, context))
		abort();
	pthread_join(thread, NULL);
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

static void nothing(void *data_of_function)
{
	(void)data_of_function;
}

static void case_host_function_behind_the_write(void)
{
	both();
	write_by(first);
	OK(cuLaunchHostFunc(first, nothing, NULL));
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

static void case_write_behind_a_host_function(void)
{
	both();
	write_by(first);
	OK(cuLaunchHostFunc(second, nothing, NULL));
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

static void case_value_between(void)
{
	CUdeviceptr flag = on_device(4);

	both();
	write_by(first);
	OK(cuStreamWriteValue32(first, flag, 1, 0));
	OK(cuStreamWaitValue32(second, flag, 1, 0));
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

static void case_value_between_and_the_host(void)
{
	CUdeviceptr flag = on_device(4);
	CUstream third;

	both();
	third = new_stream(CU_STREAM_NON_BLOCKING);
	write_by(first);
	OK(cuStreamWriteValue32(first, flag, 1, 0));
	OK(cuStreamWaitValue32(second, flag, 1, 0));
	OK(cuStreamSynchronize(second));
	OK(cuMemsetD8Async(data, 2, BYTES, third));
}

static void case_value_written_later(void)
{
	CUdeviceptr flag = on_device(4);
	CUstream third;

	both();
	third = new_stream(CU_STREAM_NON_BLOCKING);
	OK(cuMemsetD32(flag, 0, 1));
	OK(cuCtxSynchronize());
	OK(cuStreamWaitValue32(second, flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
	OK(cuStreamWaitEvent(third, event_of(second), 0));
	OK(cuMemsetD8Async(data, 2, BYTES, third));
	OK(cuMemsetD8Async(data, 1, BYTES, first));
	OK(cuStreamWriteValue32(first, flag, 1, 0));
	OK(cuStreamSynchronize(third));
}

/* ---- legacy order ---- */

static void case_legacy_and_non_blocking(void)
{
	start(CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
	write_by(NULL);
	OK(cuMemsetD8Async(data, 2, BYTES, second)); /* L03 */
}

static void case_non_blocking_and_legacy(void)
{
	both();
	write_by(first);
	OK(cuMemsetD8Async(data, 2, BYTES, NULL)); /* L03 */
}

static void case_legacy_then_blocking(void)
{
	start(0, 0);
	write_by(NULL);
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

static void case_blocking_then_legacy(void)
{
	start(0, 0);
	write_by(first);
	OK(cuMemsetD8Async(data, 2, BYTES, NULL));
}

static void case_blocking_by_legacy(void)
{
	CUdeviceptr other = on_device(BYTES);

	start(0, 0);
	write_by(first);
	OK(cuMemsetD8Async(other, 2, BYTES, NULL));
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

static void case_two_blocking(void)
{
	start(0, 0);
	write_by(first);
	OK(cuMemsetD8Async(data, 2, BYTES, second)); /* S09 */
}

static void case_per_thread_and_legacy(void)
{
	start(0, 0);
	write_by(CU_STREAM_PER_THREAD);
	OK(cuMemsetD8Async(data, 2, BYTES, CU_STREAM_LEGACY));
}

static void case_legacy_synchronize_covers_blocking(void)
{
	start(0, CU_STREAM_NON_BLOCKING);
	write_by(first);
	OK(cuStreamSynchronize(NULL));
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

/* ---- synchronous copies ---- */

static void case_pageable_upload(void)
{
	char bytes[BYTES] = {0};

	both();
	OK(cuMemcpyHtoD(data, bytes, BYTES));        /* other */
	OK(cuMemsetD8Async(data, 2, BYTES, second)); /* L03 */
}

static void case_pinned_upload(void)
{
	both();
	OK(cuMemcpyHtoD(data, pinned(BYTES), BYTES));
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

static void case_upload_of_sync_memops(void)
{
	char bytes[BYTES] = {0};
	unsigned int on = 1;

	both();
	OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, data));
	OK(cuMemcpyHtoD(data, bytes, BYTES));
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

static void case_pageable_upload_waits_for_what_was_before(void)
{
	char bytes[BYTES] = {0};
	CUdeviceptr other = on_device(BYTES);

	start(0, CU_STREAM_NON_BLOCKING);
	write_by(first);
	OK(cuMemcpyHtoD(other, bytes, BYTES));
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

static void case_copy_inside_the_device(void)
{
	CUdeviceptr other = on_device(BYTES);

	both();
	OK(cuMemcpyDtoD(data, other, BYTES));        /* other */
	OK(cuMemsetD8Async(data, 2, BYTES, second)); /* L03 */
}

static void case_read_back_waits(void)
{
	char bytes[BYTES];

	start(0, CU_STREAM_NON_BLOCKING);
	write_by(first);
	OK(cuMemcpyDtoH(bytes, data, BYTES));
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

static void case_asynchronous_read_back_to_pageable_waits(void)
{
	char bytes[BYTES];

	both();
	OK(cuMemcpyDtoHAsync(bytes, data, BYTES, first));
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

static void case_no_bytes(void)
{
	both();
	write_by(first);
	OK(cuMemsetD8Async(data, 2, 0, second));
}

static void case_pinned_memory_of_two_copies(void)
{
	void *host = pinned(BYTES);
	CUdeviceptr other = on_device(BYTES);

	both();
	OK(cuMemcpyDtoHAsync(host, data, BYTES, first));   /* other */
	OK(cuMemcpyHtoDAsync(other, host, BYTES, second)); /* S09 */
}

/* ---- two devices ---- */

/* The first device writes to memory of the host; the second one, whose context is current then, has a stream and a block. */
static void *written_by_the_first_device(void)
{
	CUdeviceptr source = on_device(BYTES);
	CUcontext context;
	CUdevice device;
	void *host;

	OK(cuMemHostAlloc(&host, BYTES, CU_MEMHOSTALLOC_PORTABLE));
	first = new_stream(CU_STREAM_NON_BLOCKING);
	OK(cuMemcpyDtoHAsync(host, source, BYTES, first)); /* other */
	OK(cuDeviceGet(&device, 1));
	OK(cuDevicePrimaryCtxRetain(&context, device));
	OK(cuCtxSetCurrent(context));
	second = new_stream(CU_STREAM_NON_BLOCKING);
	data = on_device(BYTES);
	return host;
}

static void case_two_devices(void)
{
	void *host = written_by_the_first_device();

	OK(cuMemcpyHtoDAsync(data, host, BYTES, second)); /* S07 */
}

static void case_two_devices_with_a_wait(void)
{
	void *host = written_by_the_first_device();

	OK(cuStreamSynchronize(first));
	OK(cuMemcpyHtoDAsync(data, host, BYTES, second));
}

/* ---- rectangles ---- */

static void copy_column(size_t column, CUstream stream)
{
	CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			      .srcDevice = on_device(BYTES),
			      .srcPitch = 64,
			      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			      .dstDevice = data,
			      .dstXInBytes = column * 32,
			      .dstPitch = 64,
			      .WidthInBytes = 32,
			      .Height = BYTES / 64};

	OK(cuMemcpy2DAsync(&copy, stream)); /* other */
}

static void case_columns_side_by_side(void)
{
	both();
	copy_column(0, first);
	copy_column(1, second);
}

static void case_columns_and_a_write(void)
{
	both();
	copy_column(0, first);
	OK(cuMemsetD8Async(data, 2, BYTES, second)); /* S09 */
}

static void case_rows_of_a_memset(void)
{
	both();
	OK(cuMemsetD2D8Async(data, 64, 1, 32, BYTES / 64, first));
	OK(cuMemsetD2D8Async(data + 32, 64, 1, 32, BYTES / 64, second));
}

/* ---- kernels ---- */

static void case_kernel_behind_a_write(void)
{
	unsigned int value = 7, count = 16;
	void *arguments[] = {&data, &value, &count};

	both();
	write_by(first);
	LAUNCH("fill", second, arguments, NULL); /* S09 */
}

/* It waits for the device while it is loaded, this time. */
static void case_first_launch(void)
{
	CUfunction late = unloaded("spin");
	unsigned long ns = 1000;
	void *arguments[] = {&ns};

	both();
	write_by(first);
	OK(cuLaunchKernel(late, 1, 1, 1, 1, 1, 1, 0, second, arguments, NULL));
	OK(cuMemsetD8Async(data, 2, BYTES, second)); /* S09 */
}

static void case_write_behind_a_kernel(void)
{
	both();
	fill(first, data);
	OK(cuMemsetD8Async(data, 2, BYTES, second)); /* S09 */
}

static void case_read_behind_the_first_kernel(void)
{
	both();
	fill(first, data);
	OK(cuMemcpyDtoHAsync(pinned(BYTES), data, BYTES, second)); /* S09 */
}

static void case_read_beside_a_later_kernel(void)
{
	both();
	fill(first, data);
	OK(cuStreamSynchronize(first));
	fill(first, data);
	OK(cuMemcpyDtoHAsync(pinned(BYTES), data, BYTES, second));
}

static void case_read_beside_a_kernel_behind_a_write(void)
{
	both();
	write_by(first);
	OK(cuStreamSynchronize(first));
	fill(first, data);
	OK(cuMemcpyDtoHAsync(pinned(BYTES), data, BYTES, second));
}

static void case_two_kernels(void)
{
	both();
	fill(first, data);
	fill(second, data);
}

/* A block in two parts: the kernel is told of one by its address, or by the block's and a number. */
static void case_kernel_beside_the_other_half(void)
{
	both();
	fill(first, data);
	OK(cuMemcpyHtoDAsync(data + BYTES / 2, pinned(BYTES / 2), BYTES / 2, second));
}

static void case_kernel_of_a_block_and_a_number(void)
{
	both();
	fill(first, data);
	OK(cuMemcpyHtoDAsync(data, pinned(BYTES / 2), BYTES / 2, second));
}

static void case_kernel_behind_a_copy_of_its_half(void)
{
	both();
	OK(cuMemcpyHtoDAsync(data, pinned(BYTES / 2), BYTES / 2, second));
	fill(first, data + BYTES / 2 + 64);
}

static void case_flag_of_a_kernel(void)
{
	CUdeviceptr flag = on_device(4);
	void *arguments[] = {&flag}, *one = pinned(4);

	memset(one, 1, 4);
	both();
	OK(cuMemsetD32Async(flag, 0, 1, first));
	LAUNCH("gate", first, arguments, NULL);
	OK(cuMemcpyHtoDAsync(flag, one, 4, second));
	OK(cuStreamSynchronize(first));
}

static void case_parameters_in_one_piece(void)
{
	struct {
		CUdeviceptr memory;
		unsigned int value, count;
	} arguments;
	size_t size = sizeof(arguments);
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &arguments, CU_LAUNCH_PARAM_BUFFER_SIZE,
			 &size, CU_LAUNCH_PARAM_END};

	both();
	write_by(first);
	arguments.memory = data;
	arguments.value = 7;
	arguments.count = 16;
	LAUNCH("fill", second, NULL, extra); /* S09 */
}

/* ---- blocks and streams that come again ---- */

static void case_block_that_comes_again(void)
{
	both();
	OK(cuMemAllocAsync(&data, BYTES, first));
	write_by(first);
	OK(cuMemFreeAsync(data, first));
	OK(cuMemAllocAsync(&data, BYTES, second));
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

static void case_stream_that_comes_again(void)
{
	both();
	write_by(first);
	OK(cuStreamDestroy(first));
	first = new_stream(CU_STREAM_NON_BLOCKING);
	OK(cuMemsetD8Async(data, 2, BYTES, first)); /* S09 */
}

/* The work of a stream that was destroyed is ordered as it was, whatever stream comes next. */
static void case_blocking_stream_that_is_gone(void)
{
	start(0, CU_STREAM_NON_BLOCKING);
	write_by(first);
	OK(cuStreamDestroy(first));
	first = new_stream(CU_STREAM_NON_BLOCKING);
	OK(cuMemsetD8Async(on_device(BYTES), 2, BYTES, first));
	OK(cuMemsetD8Async(data, 2, BYTES, NULL));
}

/* A stream that is done gives its place to one of another kind. */
static void case_stream_of_another_kind_in_its_place(void)
{
	both();
	write_by(first);
	OK(cuCtxSynchronize());
	OK(cuStreamDestroy(first));
	first = new_stream(0);
	write_by(NULL);
	OK(cuMemsetD8Async(data, 2, BYTES, first));
}

static void case_many_streams_one_after_the_other(void)
{
	data = on_device(BYTES);
	for (unsigned int i = 0; i < 300; i++) {
		first = new_stream(i & 1 ? CU_STREAM_NON_BLOCKING : 0);
		for (int k = 0; k < 3; k++)
			OK(cuMemsetD8Async(data, 1, BYTES, first));
		OK(cuStreamSynchronize(first));
		OK(cuStreamDestroy(first));
	}
	both();
	write_by(second);
	OK(cuMemsetD8Async(data, 2, BYTES, first)); /* S09 */
}

/* ---- graphs and captures ---- */

static void case_captured_writes(void)
{
	CUgraph graph;

	both();
	write_by(first);
	OK(cuStreamBeginCapture(second, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemsetD8Async(data, 2, BYTES, second));
	OK(cuStreamEndCapture(second, &graph));
	OK(cuGraphDestroy(graph));
}

static void case_stream_drawn_into_a_capture(void)
{
	CUstream third = new_stream(CU_STREAM_NON_BLOCKING);
	CUgraph graph;

	both();
	write_by(first);
	OK(cuStreamBeginCapture(second, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuStreamWaitEvent(third, event_of(second), 0));
	OK(cuMemsetD8Async(data, 2, BYTES, third));
	OK(cuStreamWaitEvent(second, event_of(third), 0));
	OK(cuStreamEndCapture(second, &graph));
	OK(cuGraphDestroy(graph));
}

static void case_write_behind_a_graph(void)
{
	CUgraph graph;
	CUgraphExec executable;

	both();
	write_by(first);
	OK(cuStreamBeginCapture(second, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuStreamEndCapture(second, &graph));
	OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
	OK(cuGraphLaunch(executable, second));
	OK(cuMemsetD8Async(data, 2, BYTES, second));
}

/* ---- L16 ---- */

static void pool_block(void)
{
	both();
	OK(cuMemAllocAsync(&data, BYTES, first));
	OK(cuStreamSynchronize(first));
}

static void case_free_beside_a_write(void)
{
	pool_block();
	write_by(first);
	OK(cuMemFreeAsync(data, second)); /* L16 */
}

static void case_free_beside_a_kernel(void)
{
	pool_block();
	fill(first, data + 64);
	OK(cuMemFreeAsync(data, second)); /* L16 */
}

static void case_free_on_the_legacy_stream(void)
{
	pool_block();
	write_by(first);
	OK(cuMemFreeAsync(data, NULL)); /* L16 */
}

static void case_free_on_its_stream(void)
{
	pool_block();
	write_by(first);
	OK(cuMemFreeAsync(data, first));
}

static void case_free_behind_an_event(void)
{
	pool_block();
	write_by(first);
	OK(cuStreamWaitEvent(second, event_of(first), 0));
	OK(cuMemFreeAsync(data, second));
}

static void case_free_behind_a_wait(void)
{
	pool_block();
	write_by(first);
	OK(cuStreamSynchronize(first));
	OK(cuMemFreeAsync(data, second));
}

static void case_free_behind_a_host_function(void)
{
	pool_block();
	write_by(first);
	OK(cuLaunchHostFunc(second, nothing, NULL));
	OK(cuMemFreeAsync(data, second));
}

static void case_free_of_a_neighbour(void)
{
	CUdeviceptr other;

	pool_block();
	OK(cuMemAllocAsync(&other, BYTES, second));
	OK(cuStreamSynchronize(second));
	write_by(first);
	OK(cuMemFreeAsync(other, second));
}

const struct check_case cases_order[] = {
	CASE(two_writes),
	CASE(two_reads),
	CASE(write_behind_read),
	CASE(other_part),
	CASE(one_byte_in_common),
	CASE(same_stream),
	CASE(event_between),
	CASE(event_before_the_write),
	CASE(event_never_recorded),
	CASE(event_of_an_unrelated_stream),
	CASE(event_destroyed_behind_its_wait),
	CASE(event_of_a_third_stream),
	CASE(foreign_event),
	CASE(foreign_event_and_the_host),
	CASE(stream_synchronize),
	CASE(wrong_stream_synchronize),
	CASE(event_synchronize),
	CASE(context_synchronize),
	CASE(query_says_done),
	CASE(event_query_says_done),
	CASE(query_says_not_ready),
	CASE(long_queue),
	CASE(free_drains),
	CASE(other_thread_synchronizes),
	CASE(host_function_behind_the_write),
	CASE(write_behind_a_host_function),
	CASE(value_between),
	CASE(value_between_and_the_host),
	CASE(value_written_later),
	CASE(legacy_and_non_blocking),
	CASE(non_blocking_and_legacy),
	CASE(legacy_then_blocking),
	CASE(blocking_then_legacy),
	CASE(blocking_by_legacy),
	CASE(two_blocking),
	CASE(per_thread_and_legacy),
	CASE(legacy_synchronize_covers_blocking),
	CASE(pageable_upload),
	CASE(pinned_upload),
	CASE(upload_of_sync_memops),
	CASE(pageable_upload_waits_for_what_was_before),
	CASE(copy_inside_the_device),
	CASE(read_back_waits),
	CASE(asynchronous_read_back_to_pageable_waits),
	CASE(no_bytes),
	CASE(pinned_memory_of_two_copies),
	CASE(two_devices),
	CASE(two_devices_with_a_wait),
	CASE(columns_side_by_side),
	CASE(columns_and_a_write),
	CASE(rows_of_a_memset),
	CASE(kernel_behind_a_write),
	CASE(first_launch),
	CASE(write_behind_a_kernel),
	CASE(read_behind_the_first_kernel),
	CASE(read_beside_a_later_kernel),
	CASE(read_beside_a_kernel_behind_a_write),
	CASE(two_kernels),
	CASE(kernel_beside_the_other_half),
	CASE(kernel_of_a_block_and_a_number),
	CASE(kernel_behind_a_copy_of_its_half),
	CASE(flag_of_a_kernel),
	CASE(parameters_in_one_piece),
	CASE(block_that_comes_again),
	CASE(stream_that_comes_again),
	CASE(blocking_stream_that_is_gone),
	CASE(stream_of_another_kind_in_its_place),
	CASE(many_streams_one_after_the_other),
	CASE(captured_writes),
	CASE(stream_drawn_into_a_capture),
	CASE(write_behind_a_graph),
	CASE(free_beside_a_write),
	CASE(free_beside_a_kernel),
	CASE(free_on_the_legacy_stream),
	CASE(free_on_its_stream),
	CASE(free_behind_an_event),
	CASE(free_behind_a_wait),
	CASE(free_behind_a_host_function),
	CASE(free_of_a_neighbour),
	{NULL, NULL, NULL},
};
