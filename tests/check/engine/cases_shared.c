// SPDX-License-Identifier: MIT
/* Cases of L05: a synchronous copy to memory that other processes reach. */
#include <pthread.h>

#include "cases.h"

#define BYTES 4096UL

static CUdeviceptr shared;
static char bytes[BYTES];

static CUdeviceptr shared_block(void)
{
	CUipcMemHandle handle;

	shared = on_device(BYTES);
	OK(cuIpcGetMemHandle(&handle, shared));
	return shared;
}

static CUevent new_event(void)
{
	CUevent event;

	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	return event;
}

static void case_upload_and_end(void)
{
	(void)shared_block();
	OK(cuMemcpyHtoD(shared, bytes, BYTES)); /* L05 */
}

static void case_copy_inside_and_end(void)
{
	CUdeviceptr other = on_device(BYTES);

	OK(cuMemcpyDtoD(shared_block() + 64, other, 64)); /* L05 */
}

static void case_event_given_up_behind_the_upload(void)
{
	CUevent event = new_event();

	(void)shared_block();
	OK(cuMemcpyHtoD(shared, bytes, BYTES)); /* L05 */
	OK(cuEventDestroy(event));
	OK(cuCtxSynchronize());
}

static void case_event_behind_the_upload(void)
{
	CUevent event = new_event();

	OK(cuMemcpyHtoD(shared_block(), bytes, BYTES));
	OK(cuEventRecord(event, NULL));
	OK(cuEventDestroy(event));
}

static void case_wait_behind_the_upload(void)
{
	OK(cuMemcpyHtoD(shared_block(), bytes, BYTES));
	OK(cuCtxSynchronize());
}

static void case_upload_that_is_read_back(void)
{
	char back[BYTES];

	OK(cuMemcpyHtoD(shared_block(), bytes, BYTES));
	OK(cuMemcpyDtoH(back, shared, BYTES));
}

static void case_two_uploads_and_a_wait(void)
{
	(void)shared_block();
	OK(cuMemcpyHtoD(shared, bytes, 64));
	OK(cuMemcpyHtoD(shared + 64, bytes, 64));
	OK(cuStreamSynchronize(NULL));
}

static void case_upload_of_shared_sync_memops(void)
{
	unsigned int on = 1;

	(void)shared_block();
	OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, shared));
	OK(cuMemcpyHtoD(shared, bytes, BYTES));
}

static void case_pinned_upload_to_shared_memory(void)
{
	OK(cuMemcpyHtoD(shared_block(), pinned(BYTES), BYTES));
}

static void case_upload_to_memory_of_its_own(void)
{
	(void)shared_block();
	OK(cuMemcpyHtoD(on_device(BYTES), bytes, BYTES));
}

static void case_block_that_is_shared_no_more(void)
{
	OK(cuMemFree(shared_block()));
	OK(cuMemcpyHtoD(on_device(BYTES), bytes, BYTES));
}

static void *upload(void *context)
{
	OK(cuCtxSetCurrent(context));
	OK(cuMemcpyHtoD(shared, bytes, BYTES)); /* other */
	return NULL;
}

/* Work of the legacy stream that tells others is behind the copy. */
static void case_value_behind_the_upload(void)
{
	CUdeviceptr flag = on_device(4);
	CUevent event = new_event();

	OK(cuMemcpyHtoD(shared_block(), bytes, BYTES));
	OK(cuStreamWriteValue32(NULL, flag, 1, 0));
	OK(cuEventDestroy(event));
}

static void case_value_of_a_non_blocking_stream(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr flag = on_device(4);
	CUevent event = new_event();

	(void)shared_block();
	OK(cuMemcpyHtoD(shared, bytes, BYTES)); /* L05 */
	OK(cuStreamWriteValue32(stream, flag, 1, 0));
	OK(cuEventDestroy(event));
}

static CUfunction function(const char *name)
{
	CUmodule module;
	CUfunction function;

	OK(cuModuleLoadData(&module, simcuda_ptx));
	OK(cuModuleGetFunction(&function, module, name));
	OK(cuFuncLoad(function));
	return function;
}

static void fill(CUfunction kernel, CUdeviceptr memory)
{
	unsigned int value = 7, count = 16;
	void *arguments[] = {&memory, &value, &count};

	OK(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL));
}

static void case_kernel_that_tells_others(void)
{
	CUfunction kernel = function("fill");
	CUevent event = new_event();

	OK(cuMemcpyHtoD(shared_block(), bytes, BYTES));
	fill(kernel, shared);
	OK(cuEventDestroy(event));
}

static void case_kernel_of_memory_of_its_own(void)
{
	CUdeviceptr own = on_device(BYTES);
	CUfunction kernel = function("fill");
	CUevent event = new_event();

	(void)shared_block();
	OK(cuMemcpyHtoD(shared, bytes, BYTES)); /* L05 */
	fill(kernel, own);
	OK(cuEventDestroy(event));
}

static void case_block_of_a_context_that_has_ended(void)
{
	CUcontext context;
	CUdevice device;

	OK(cuCtxGetDevice(&device));
	(void)shared_block();
	OK(cuDevicePrimaryCtxReset(device));
	OK(cuDevicePrimaryCtxRetain(&context, device));
	OK(cuCtxSetCurrent(context));
	OK(cuMemcpyHtoD(on_device(BYTES), bytes, BYTES));
}

static void case_thread_that_waits_for_another(void)
{
	CUcontext context;
	pthread_t thread;

	(void)shared_block();
	OK(cuCtxGetCurrent(&context));
	OK(cuMemcpyHtoD(shared, bytes, 64));
	OK(cuStreamSynchronize(NULL));
	if (pthread_create(&thread, NULL, upload, context))
		abort();
	pthread_join(thread, NULL);
	OK(cuStreamSynchronize(NULL));
}

const struct check_case cases_shared[] = {
	CASE(upload_and_end),
	CASE(copy_inside_and_end),
	CASE(event_given_up_behind_the_upload),
	CASE(event_behind_the_upload),
	CASE(wait_behind_the_upload),
	CASE(upload_that_is_read_back),
	CASE(value_behind_the_upload),
	CASE(value_of_a_non_blocking_stream),
	CASE(kernel_that_tells_others),
	CASE(kernel_of_memory_of_its_own),
	CASE(block_of_a_context_that_has_ended),
	CASE(two_uploads_and_a_wait),
	CASE(upload_of_shared_sync_memops),
	CASE(pinned_upload_to_shared_memory),
	CASE(upload_to_memory_of_its_own),
	CASE(block_that_is_shared_no_more),
	CASE(thread_that_waits_for_another),
	{NULL, NULL, NULL},
};
