// SPDX-License-Identifier: MIT
/*
 * A driver of pinned memory and launches alone that may be called from signal handlers at any moment, as the simulated one, with its one lock, may not.
 * Blocks are never given out again, so a block that two have at once was given to both by the shim.
 */
#include <stdint.h>

#include <cuda.h>

#define EXPORT __attribute__((visibility("default")))
#define BLOCK  4096
#define BLOCKS (1 << 16)

/* 0: never given out, 1: live, 2: freed. */
static unsigned char state[BLOCKS], memory[(size_t)BLOCKS * BLOCK] __attribute__((aligned(BLOCK)));
static uint32_t given;

/* Launches that succeed until the context is broken. */
static uint32_t launches = UINT32_MAX;

void EXPORT driver_break(uint32_t after);
void driver_break(uint32_t after)
{
	launches = after;
}

static CUresult status(void)
{
	return launches ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

#define FUNCTION(name, ...)                                                                        \
	CUresult EXPORT name(__VA_ARGS__);                                                         \
	CUresult name(__VA_ARGS__)

FUNCTION(cuInit, unsigned int flags)
{
	return CUDA_SUCCESS;
}

FUNCTION(cuDriverGetVersion, int *version)
{
	*version = 13000;
	return CUDA_SUCCESS;
}

FUNCTION(cuCtxGetId, CUcontext context, unsigned long long *id)
{
	*id = 1;
	return CUDA_SUCCESS;
}

FUNCTION(cuMemHostAlloc, void **address, size_t bytes, unsigned int flags)
{
	uint32_t block = __atomic_fetch_add(&given, 1, __ATOMIC_SEQ_CST);

	if (status())
		return status();
	if (bytes > BLOCK || block >= BLOCKS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	__atomic_store_n(&state[block], 1, __ATOMIC_SEQ_CST);
	*address = memory + (size_t)block * BLOCK;
	return CUDA_SUCCESS;
}

FUNCTION(cuMemFreeHost, void *address)
{
	size_t block = (size_t)((unsigned char *)address - memory) / BLOCK;
	unsigned char live = 1;

	if (status())
		return status();
	if (block >= BLOCKS || !__atomic_compare_exchange_n(&state[block], &live, 2, 0,
							    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

FUNCTION(cuStreamCreate, CUstream *stream, unsigned int flags)
{
	*stream = (CUstream)(uintptr_t)0x5000;
	return CUDA_SUCCESS;
}

FUNCTION(cuStreamSynchronize, CUstream stream)
{
	return status();
}

FUNCTION(cuModuleGetFunction, CUfunction *function, CUmodule module, const char *name)
{
	*function = (CUfunction)(uintptr_t)0x9050;
	return CUDA_SUCCESS;
}

FUNCTION(cuLaunchKernel, CUfunction function, unsigned int grid_x, unsigned int grid_y,
	 unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,
	 unsigned int shared_bytes, CUstream stream, void **parameters, void **extra)
{
	CUresult result = status();

	launches -= launches != 0;
	return result;
}
