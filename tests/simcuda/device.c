// SPDX-License-Identifier: MIT
/*
 * Devices: their number, names and attributes. Values are those of a large data-centre GPU, so that
 * programs that look before they leap go on. Owns: the attribute table. Called by: exports.c.
 */
#include "sim.h"
#include <string.h>

#define CHECK(device)                                                                              \
	do {                                                                                       \
		if ((device) < 0 || (device) >= sim.device_count)                                  \
			return CUDA_ERROR_INVALID_DEVICE;                                          \
	} while (0)

static const struct {
	CUdevice_attribute attribute;
	int value;
} attributes[] = {
	{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
	{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
	{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
	{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
	{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
	{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
	{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
	{CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
	{CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
	{CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
	{CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
	{CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
	{CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
	{CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
	{CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
	{CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
	{CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
	{CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
	{CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 1},
	{CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 3201000},
	{CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 6144},
	{CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 62914560},
	{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
	{CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
	{CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
	{CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
	{CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, 131072},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, 131072},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, 65536},
	{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
	{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
	{CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
	{CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
	{CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
	{CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2},
	{CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
	{CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1, 1},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1, 1},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1, 1},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
	{CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
	{CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
	{CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, 0},
	{CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
	{CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE, 39321600},
	{CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE, 134213632},
	{CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
	{CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 1},
	{CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, 1},
	{CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 1},
};

CUresult impl_cuDeviceGetCount(int *count)
{
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = sim.device_count;
	return CUDA_SUCCESS;
}

CUresult impl_cuDeviceGet(CUdevice *device, int ordinal)
{
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	CHECK(ordinal);
	*device = ordinal;
	return CUDA_SUCCESS;
}

CUresult impl_cuDeviceGetName(char *name, int len, CUdevice dev)
{
	CHECK(dev);
	if (!name || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(name, len, "Simulated CUDA device");
	return CUDA_SUCCESS;
}

CUresult impl_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	CHECK(dev);
	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(uuid->bytes, "simulated-device", 16);
	uuid->bytes[15] = (char)dev;
	return CUDA_SUCCESS;
}

CUresult impl_cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
	return impl_cuDeviceGetUuid_v2(uuid, dev);
}

CUresult impl_cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	CHECK(dev);
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = sim.memory_total;
	return CUDA_SUCCESS;
}

CUresult impl_cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
	CHECK(dev);
	if (!pi || attrib < 1 || attrib >= CU_DEVICE_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	*pi = attrib == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID ? dev + 1 : 0;
	for (unsigned i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++)
		if (attributes[i].attribute == attrib)
			*pi = attributes[i].value;
	if (attrib == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS)
		*pi = sim.pageable != SIM_PAGEABLE_NONE;
	if (attrib == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES)
		*pi = sim.pageable == SIM_PAGEABLE_ATS;
	return CUDA_SUCCESS;
}

CUresult impl_cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
	CHECK(dev);
	if (!major || !minor)
		return CUDA_ERROR_INVALID_VALUE;
	*major = 9;
	*minor = 0;
	return CUDA_SUCCESS;
}

CUresult impl_cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
	CHECK(dev);
	if (!prop)
		return CUDA_ERROR_INVALID_VALUE;
	*prop = (CUdevprop){
		.maxThreadsPerBlock = 1024,
		.maxThreadsDim = {1024, 1024, 64},
		.maxGridSize = {2147483647, 65535, 65535},
		.sharedMemPerBlock = 49152,
		.totalConstantMemory = 65536,
		.SIMDWidth = 32,
		.memPitch = 2147483647,
		.regsPerBlock = 65536,
		.clockRate = 1980000,
		.textureAlign = 512,
	};
	return CUDA_SUCCESS;
}

CUresult impl_cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
	CHECK(dev);
	if (!pciBusId || len < 13)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(pciBusId, len, "0000:%02x:00.0", (unsigned)dev + 1);
	return CUDA_SUCCESS;
}

CUresult impl_cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
	unsigned domain, bus;

	if (!dev || !pciBusId)
		return CUDA_ERROR_INVALID_VALUE;
	if (sscanf(pciBusId, "%x:%x:", &domain, &bus) != 2 || !bus || (int)bus > sim.device_count)
		return CUDA_ERROR_INVALID_DEVICE;
	*dev = (CUdevice)bus - 1;
	return CUDA_SUCCESS;
}

CUresult impl_cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
	CHECK(dev);
	CHECK(peerDev);
	if (!canAccessPeer)
		return CUDA_ERROR_INVALID_VALUE;
	*canAccessPeer = dev != peerDev;
	return CUDA_SUCCESS;
}

CUresult impl_cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
				      CUdevice dstDevice)
{
	CHECK(srcDevice);
	CHECK(dstDevice);
	if (!value || srcDevice == dstDevice)
		return CUDA_ERROR_INVALID_VALUE;
	*value = attrib == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
		 attrib == CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED;
	return CUDA_SUCCESS;
}

CUresult impl_cuDeviceGetTexture1DLinearMaxWidth(size_t *maxWidthInElements, CUarray_format format,
						 unsigned numChannels, CUdevice dev)
{
	CHECK(dev);
	*maxWidthInElements = 268435456;
	return CUDA_SUCCESS;
}

CUresult impl_cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice dev)
{
	CHECK(dev);
	*pi = 0;
	return CUDA_SUCCESS;
}

/* ---- occupancy: enough for programs that size their grids by it ---- */

CUresult impl_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func,
								   int blockSize,
								   size_t dynamicSMemSize,
								   unsigned int flags)
{
	int blocks;

	if (!numBlocks || blockSize <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_object_check(func, SIM_FUNCTION))
		return CUDA_ERROR_INVALID_HANDLE;
	blocks = blockSize > 1024 ? 0 : 2048 / blockSize;
	if (dynamicSMemSize && blocks > (int)(233472 / (dynamicSMemSize + 1024)))
		blocks = (int)(233472 / (dynamicSMemSize + 1024));
	*numBlocks = blocks > 32 ? 32 : blocks;
	return CUDA_SUCCESS;
}

CUresult impl_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func,
							  int blockSize, size_t dynamicSMemSize)
{
	return impl_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize,
									 dynamicSMemSize, 0);
}

CUresult impl_cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize,
							CUfunction func, CUoccupancyB2DSize size,
							size_t dynamicSMemSize, int blockSizeLimit,
							unsigned int flags)
{
	if (!minGridSize || !blockSize)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_object_check(func, SIM_FUNCTION))
		return CUDA_ERROR_INVALID_HANDLE;
	*blockSize = blockSizeLimit > 0 && blockSizeLimit < 1024 ? blockSizeLimit : 1024;
	*minGridSize = 132 * (2048 / *blockSize > 32 ? 32 : 2048 / *blockSize);
	return CUDA_SUCCESS;
}

CUresult impl_cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
					       CUoccupancyB2DSize size, size_t dynamicSMemSize,
					       int blockSizeLimit)
{
	return impl_cuOccupancyMaxPotentialBlockSizeWithFlags(minGridSize, blockSize, func, size,
							      dynamicSMemSize, blockSizeLimit, 0);
}

CUresult impl_cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func,
						      int numBlocks, int blockSize)
{
	if (!dynamicSmemSize || numBlocks <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	*dynamicSmemSize = 233472 / numBlocks - 1024;
	if (*dynamicSmemSize > 232448)
		*dynamicSmemSize = 232448;
	return CUDA_SUCCESS;
}
