// SPDX-License-Identifier: MIT
/* Pools, virtual memory, peers, attributes, copies in two dimensions, SYNC_MEMOPS, and what a host
 * access does. */
#include "check.h"
#include <setjmp.h>
#include <signal.h>

static CUcontext context;
static CUfunction spinner, hasher;
static CUstream first, second;

static void test_pools(void)
{
	CUdeviceptr one, again, other;
	cuuint64_t keep = UINT64_MAX, used = 1;
	CUmemoryPool pool;
	size_t before, during, after, total;

	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	OK(cuMemGetInfo(&before, &total));
	/* The stream that freed may use the block at once, another one may not. */
	OK(spin(spinner, 20000000, first));
	OK(cuMemAllocAsync(&one, 1 << 20, first));
	OK(cuMemFreeAsync(one, first));
	OK(cuMemAllocAsync(&other, 1 << 20, second));
	EXPECT(other != one);
	OK(cuMemAllocAsync(&again, 1 << 20, first));
	EXPECT(again == one);
	OK(hash(hasher, again, 1, first));
	OK(cuMemGetInfo(&during, &total));
	EXPECT(before - during == 2 << 20);
	STATUS(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(again + 8, first));
	OK(cuMemFreeAsync(again, first));
	STATUS(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(again, first));
	OK(cuMemFreeAsync(other, second));
	OK(cuCtxSynchronize());
	OK(cuMemGetInfo(&after, &total));
	EXPECT(after == before); /* threshold 0: given back at the wait */
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	OK(cuMemAllocAsync(&one, 1 << 20, first));
	OK(cuMemFreeAsync(one, first));
	OK(cuStreamSynchronize(first));
	OK(cuMemGetInfo(&during, &total));
	EXPECT(during < before);
	OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
	EXPECT(used == 0);
	OK(cuMemPoolTrimTo(pool, 0));
	OK(cuMemGetInfo(&after, &total));
	EXPECT(after == before);
	/* cuMemFree of such a pointer does not wait. */
	OK(cuMemAllocAsync(&one, 4096, first));
	OK(cuStreamSynchronize(first));
	OK(spin(spinner, 40000000, second));
	uint64_t start = now_ns();
	OK(cuMemFree(one));
	EXPECT(now_ns() - start < 20000000);
	OK(cuCtxSynchronize());
}

static void test_virtual(void)
{
	CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
	};
	CUmemAccessDesc access = {
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr range;
	uint32_t value = 42, seen = 0;
	size_t granule;
	int is_supported;

	/* Programs ask before they use it, and some end where it reads 0. */
	for (CUdevice device = 0; device < 2; device++) {
		is_supported = 0;
		OK(cuDeviceGetAttribute(&is_supported,
					CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
					device));
		EXPECT(is_supported == 1);
	}
	OK(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	OK(cuMemAddressReserve(&range, 2 * granule, 0, 0, 0));
	OK(cuMemCreate(&handle, granule, &properties, 0));
	OK(cuMemMap(range + granule, granule, 0, handle, 0));
	STATUS(CUDA_ERROR_INVALID_VALUE,
	       cuMemcpyHtoD(range + granule, &value, 4)); /* no access yet */
	OK(cuMemSetAccess(range + granule, granule, &access, 1));
	OK(cuMemcpyHtoD(range + granule, &value, 4));
	OK(cuMemRelease(handle)); /* the mapping keeps it */
	OK(cuMemcpyDtoH(&seen, range + granule, 4));
	EXPECT(seen == 42);
	STATUS(CUDA_ERROR_INVALID_VALUE, cuMemFree(range + granule));
	OK(cuMemUnmap(range + granule, granule));
	STATUS(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(range + granule, granule));
	OK(cuMemAddressFree(range, 2 * granule));
}

static void test_two_dimensions(void)
{
	unsigned char host[8 * 10], back[8 * 10] = {0};
	CUdeviceptr device;
	CUarray array;
	size_t pitch;
	CUDA_ARRAY_DESCRIPTOR shape = {
		.Width = 8, .Height = 10, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};

	for (int i = 0; i < 80; i++)
		host[i] = i;
	OK(cuMemAllocPitch(&device, &pitch, 8, 10, 4));
	EXPECT(pitch >= 8 && pitch % 512 == 0);
	OK(cuArrayCreate(&array, &shape));
	CUDA_MEMCPY2D up = {
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = host,
		.srcPitch = 8,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = device,
		.dstPitch = pitch,
		.WidthInBytes = 8,
		.Height = 10,
	};
	OK(cuMemcpy2D(&up));
	CUDA_MEMCPY2D across = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = device,
		.srcPitch = pitch,
		.dstMemoryType = CU_MEMORYTYPE_ARRAY,
		.dstArray = array,
		.WidthInBytes = 8,
		.Height = 10,
	};
	OK(cuMemcpy2DAsync(&across, first));
	CUDA_MEMCPY2D down = {
		.srcMemoryType = CU_MEMORYTYPE_ARRAY,
		.srcArray = array,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = back,
		.dstPitch = 8,
		.WidthInBytes = 8,
		.Height = 10,
	};
	OK(cuMemcpy2DAsync(&down, first));
	EXPECT(!memcmp(host, back, 80)); /* to pageable memory: done at return */
	OK(cuMemsetD2D16(device, pitch, 0x0102, 2, 10));
	CUDA_MEMCPY2D check = {
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = device,
		.srcPitch = pitch,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = (CUdeviceptr)back,
		.dstPitch = 8,
		.WidthInBytes = 8,
		.Height = 10,
	};
	OK(cuMemcpy2D(&check));
	EXPECT(back[0] == 2 && back[1] == 1 && back[2] == 2 && back[4] == 4 && back[72] == 2 &&
	       back[76] == 76);
	OK(cuArrayDestroy(array));
	OK(cuMemFree(device));
}

static void test_sync_memops(void)
{
	CUdeviceptr device;
	unsigned on = 1, seen = 0;
	char *pinned;
	uint64_t start;

	OK(cuMemAlloc(&device, 4096));
	OK(cuMemHostAlloc((void **)&pinned, 4096, 0));
	OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, device));
	OK(cuPointerGetAttribute(&seen, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, device));
	EXPECT(seen == 1);
	OK(spin(spinner, 30000000, first));
	start = now_ns();
	OK(cuMemcpyHtoDAsync(device, pinned, 4096, first));
	EXPECT(now_ns() - start > 20000000);
	OK(cuMemFree(device));
	OK(cuMemFreeHost(pinned));
}

static void test_attributes(void)
{
	CUdeviceptr device, start;
	unsigned type, types[2];
	unsigned long long id, id_again;
	size_t size;
	int local;
	void *pinned;
	CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				       CU_POINTER_ATTRIBUTE_IS_MANAGED};
	void *values[] = {&types[0], &types[1]};

	OK(cuMemAlloc(&device, 1000));
	OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device + 999));
	EXPECT(type == CU_MEMORYTYPE_DEVICE);
	STATUS(CUDA_ERROR_INVALID_VALUE,
	       cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)&local));
	OK(cuPointerGetAttributes(2, which, values, (CUdeviceptr)&local));
	EXPECT(types[0] == 0 && types[1] == 0);
	OK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, device + 10));
	OK(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, device + 10));
	EXPECT(start == device && size == 1000);
	OK(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, device));
	OK(cuMemFree(device));
	OK(cuMemAlloc(&start, 1000));
	EXPECT(start == device); /* the address is soon used again, with another id */
	OK(cuPointerGetAttribute(&id_again, CU_POINTER_ATTRIBUTE_BUFFER_ID, device));
	EXPECT(id != id_again);
	OK(cuMemFree(device));
	OK(cuMemHostAlloc(&pinned, 100, CU_MEMHOSTALLOC_PORTABLE));
	OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)pinned));
	EXPECT(type == CU_MEMORYTYPE_HOST);
	OK(cuMemFreeHost(pinned));
}

static void test_peers(void)
{
	CUcontext far;
	CUdeviceptr here, there;
	uint32_t value = 5, seen = 0;
	uint64_t start;

	OK(cuMemAlloc(&here, 4));
	OK(cuMemcpyHtoD(here, &value, 4));
	OK(cuCtxCreate(&far, NULL, 0, 1));
	OK(cuMemAlloc(&there, 4));
	OK(cuCtxEnablePeerAccess(context, 0));
	STATUS(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(context, 0));
	OK(cuCtxDisablePeerAccess(context));
	OK(cuCtxPopCurrent(NULL));
	/* The synchronous form waits on the device for the legacy streams of both sides, not on the
	 * host. */
	OK(spin(spinner, 40000000, NULL));
	start = now_ns();
	OK(cuMemcpyPeer(there, far, here, context, 4));
	EXPECT(now_ns() - start < 20000000);
	OK(cuCtxPushCurrent(far));
	OK(cuMemcpyDtoH(&seen, there, 4));
	EXPECT(seen == 5 && now_ns() - start >= 35000000);
	OK(cuCtxDestroy(far));
	OK(cuMemFree(here));
}

static sigjmp_buf back;

static void on_fault(int signal)
{
	siglongjmp(back, signal);
}

static void test_host_access_faults(void)
{
	CUdeviceptr device;
	struct sigaction action = {.sa_handler = on_fault}, old;
	volatile int reached = 0;

	OK(cuMemAlloc(&device, 4096));
	sigaction(SIGSEGV, &action, &old);
	if (!sigsetjmp(back, 1)) {
		*(volatile char *)device = 1;
		reached = 1;
	}
	sigaction(SIGSEGV, &old, NULL);
	EXPECT(!reached);
	OK(cuMemFree(device));
}

static void test_out_of_memory(void)
{
	CUdeviceptr device;
	size_t free_bytes, total;

	OK(cuMemGetInfo(&free_bytes, &total));
	STATUS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&device, free_bytes + 1));
	OK(cuMemAlloc(&device, free_bytes));
	OK(cuMemFree(device));
}

int main(void)
{
	CUmodule module;

	OK(cuInit(0));
	OK(cuCtxCreate(&context, NULL, 0, 0));
	OK(cuModuleLoadData(&module, simcuda_ptx));
	spinner = kernel(module, "spin");
	hasher = kernel(module, "hash");
	OK(cuFuncLoad(spinner));
	OK(cuFuncLoad(hasher));
	OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	test_pools();
	test_virtual();
	test_two_dimensions();
	test_sync_memops();
	test_attributes();
	test_peers();
	test_host_access_faults();
	test_out_of_memory();
	return failures ? 1 : 0;
}
