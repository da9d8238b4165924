// SPDX-License-Identifier: MIT
/* Init, contexts, memory, launches, copies, events: results and statuses. */
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

static CUcontext context;
static CUmodule module;

static void test_before_init(void)
{
	int version = 0, count;
	const char *name = NULL;

	STATUS(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&count));
	OK(cuDriverGetVersion(&version));
	EXPECT(version == 13000);
	OK(cuGetErrorName(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, &name));
	EXPECT(!strcmp(name, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"));
	OK(cuInit(0));
	STATUS(CUDA_ERROR_INVALID_VALUE, cuInit(1));
	OK(cuDeviceGetCount(&count));
	EXPECT(count == 2);
	STATUS(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize());
}

static void test_kernels(void)
{
	float a[100], b[100], c[100], factor = 2;
	uint32_t n = 100, value = 7, words[10] = {0}, ten = 10;
	CUdeviceptr da, db, dc;
	uint64_t bytes = 400;

	for (int i = 0; i < 100; i++) {
		a[i] = i;
		b[i] = 3 * i;
	}
	OK(cuMemAlloc(&da, 400));
	OK(cuMemAlloc(&db, 400));
	OK(cuMemAlloc(&dc, 400));
	OK(cuMemcpyHtoD(da, a, 400));
	OK(cuMemcpyHtoD(db, b, 400));
	void *add[] = {&da, &db, &dc, &n};
	OK(cuLaunchKernel(kernel(module, "add"), 1, 1, 1, 32, 1, 1, 0, NULL, add, NULL));
	OK(cuMemcpyDtoH(c, dc, 400));
	for (int i = 0; i < 100; i++)
		EXPECT(c[i] == 4 * i);
	void *saxpy[] = {&factor, &da, &dc, &n};
	OK(cuLaunchKernel(kernel(module, "saxpy"), 1, 1, 1, 32, 1, 1, 0, NULL, saxpy, NULL));
	void *copy[] = {&db, &dc, &bytes};
	OK(cuLaunchKernel(kernel(module, "copy"), 1, 1, 1, 32, 1, 1, 0, NULL, copy, NULL));
	OK(cuMemcpyDtoH(c, db, 400));
	for (int i = 0; i < 100; i++)
		EXPECT(c[i] == 6 * i);
	void *fill[] = {&da, &value, &ten};
	OK(cuLaunchKernel(kernel(module, "fill"), 1, 1, 1, 32, 1, 1, 0, NULL, fill, NULL));
	OK(cuMemcpyDtoH(words, da, 40));
	EXPECT(words[0] == 7 && words[9] == 7);
	OK(cuMemFree(da));
	OK(cuMemFree(db));
	OK(cuMemFree(dc));
}

static void test_statuses(void)
{
	CUdeviceptr device, base;
	char *pinned, *plain = malloc(4096);
	unsigned flags;
	size_t size;

	OK(cuMemAlloc(&device, 5000));
	STATUS(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&base, 0));
	STATUS(CUDA_ERROR_INVALID_VALUE, cuMemFree(device + 8));
	STATUS(CUDA_ERROR_INVALID_VALUE, cuMemFree((uintptr_t)plain));
	OK(cuMemGetAddressRange(&base, &size, device + 100));
	EXPECT(base == device && size == 5000);
	OK(cuMemFree(device));
	STATUS(CUDA_ERROR_INVALID_VALUE, cuMemFree(device));
	OK(cuMemFree(0));
	OK(cuMemHostAlloc((void **)&pinned, 4096, 0));
	OK(cuMemHostGetFlags(&flags, pinned));
	EXPECT(flags == 2);
	STATUS(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(pinned + 8));
	STATUS(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(plain));
	STATUS(CUDA_ERROR_INVALID_VALUE, cuMemHostUnregister(pinned));
	OK(cuMemFreeHost(pinned));
	STATUS(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(pinned));
	OK(cuMemFreeHost(NULL));
	OK(cuMemHostAlloc((void **)&pinned, 0, 0));
	STATUS(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(NULL));
	STATUS(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery((CUstream)plain));
	OK(cuStreamGetFlags(NULL, &flags));
	EXPECT(flags == 0);
	free(plain);
}

/* A registration keeps the pages it was made of, whatever is mapped there later. */
static void test_page_identity(void)
{
	size_t size = 1 << 16;
	unsigned char *range =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char *back = malloc(size);
	CUdeviceptr device;

	memset(range, 0x5a, size);
	OK(cuMemHostRegister(range, size, 0));
	STATUS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(range, size, 0));
	EXPECT(range[100] == 0x5a);
	range[100] = 0x5b;
	munmap(range, size);
	EXPECT(mmap(range, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		    -1, 0) == range);
	memset(range, 0x11, size);
	OK(cuMemAlloc(&device, size));
	OK(cuMemcpyHtoD(device, range, size));
	OK(cuMemcpyDtoH(back, device, size));
	EXPECT(back[0] == 0x5a && back[100] == 0x5b && back[size - 1] == 0x5a);
	OK(cuMemHostUnregister(range));
	OK(cuMemcpyHtoD(device, range, size));
	OK(cuMemcpyDtoH(back, device, size));
	EXPECT(back[0] == 0x11);
	OK(cuMemFree(device));
	munmap(range, size);
	free(back);
}

static void test_events(void)
{
	CUevent start, stop;
	CUstream stream;
	float ms;

	OK(cuEventCreate(&start, 0));
	OK(cuEventCreate(&stop, 0));
	OK(cuEventQuery(start)); /* never recorded */
	OK(cuEventSynchronize(start));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuEventRecord(start, stream));
	OK(spin(kernel(module, "spin"), 5000000, stream));
	OK(cuEventRecord(stop, stream));
	STATUS(CUDA_ERROR_NOT_READY, cuEventQuery(stop));
	STATUS(CUDA_ERROR_NOT_READY, cuEventElapsedTime(&ms, start, stop));
	OK(cuEventSynchronize(stop));
	OK(cuEventElapsedTime(&ms, start, stop));
	EXPECT(ms >= 4.9 && ms < 50);
	OK(cuEventDestroy(start));
	OK(cuEventDestroy(stop));
	STATUS(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(stop));
	OK(cuStreamDestroy(stream));
}

static void nothing_inside(void *data)
{
	int count;

	*(CUresult *)data = cuDeviceGetCount(&count);
}

static void test_host_function(void)
{
	CUresult inside = CUDA_SUCCESS;

	OK(cuLaunchHostFunc(NULL, nothing_inside, &inside));
	OK(cuStreamSynchronize(NULL));
	EXPECT(inside == CUDA_ERROR_NOT_PERMITTED);
}

static void test_contexts(void)
{
	CUcontext primary, again, created, seen;
	unsigned long long before, after;
	unsigned flags;
	int active;

	OK(cuDevicePrimaryCtxRetain(&primary, 1));
	OK(cuCtxGetId(primary, &before));
	OK(cuDevicePrimaryCtxReset(1));
	OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
	EXPECT(!active);
	OK(cuDevicePrimaryCtxRetain(&again, 1));
	OK(cuCtxGetId(again, &after));
	EXPECT(again == primary && before != after);
	OK(cuDevicePrimaryCtxRelease(1));
	OK(cuCtxCreate(&created, NULL, 0, 1));
	OK(cuCtxGetCurrent(&seen));
	EXPECT(seen == created);
	OK(cuCtxDestroy(created));
	OK(cuCtxGetCurrent(&seen));
	EXPECT(seen == context);
	STATUS(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent(created));
}

static void test_fork(void)
{
	pid_t child = fork();
	int status;

	if (!child) {
		void *p;

		if (cuInit(0) != 3 || cuCtxSynchronize() != 3 || cuMemHostAlloc(&p, 100, 0) != 3)
			_exit(1);
		_exit(0);
	}
	waitpid(child, &status, 0);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_illegal_address(void)
{
	CUcontext doomed;
	CUdeviceptr nowhere = 0x1000;
	CUmodule own;

	OK(cuCtxCreate(&doomed, NULL, 0, 1));
	OK(cuModuleLoadData(&own, simcuda_ptx));
	OK(hash(kernel(own, "hash"), nowhere, 1, NULL));
	STATUS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
	STATUS(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(NULL));
	OK(cuCtxDestroy(doomed));
	OK(cuCtxSynchronize());
}

static void at_exit(void)
{
	/* Registered before cuInit, so it runs after the driver's own handler. */
	CUresult result = cuCtxSynchronize();

	if (result != CUDA_ERROR_DEINITIALIZED) {
		fprintf(stderr, "after the end: %d\n", (int)result);
		_exit(1);
	}
}

int main(void)
{
	atexit(at_exit);
	test_before_init();
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadData(&module, simcuda_ptx));
	test_kernels();
	test_statuses();
	test_page_identity();
	test_events();
	test_host_function();
	test_contexts();
	test_fork();
	test_illegal_address();
	return failures ? 1 : 0;
}
