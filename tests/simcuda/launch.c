// SPDX-License-Identifier: MIT
/*
 * Kernel launches, host functions, value waits and writes.
 *
 * Owns: the checks of a launch and its lazy load (the first launch of a function waits for the
 * context). Called by: exports.c, graph.c (sim_kernel_work). Relies on stream.c.
 */
#include "sim.h"
#include <stdlib.h>
#include <string.h>

/* A launch as a work item: parameters are copied. */
CUresult sim_kernel_work(struct sim_function *function, const unsigned grid[3],
			 const unsigned block[3], unsigned shared, void **parameters, void **extra,
			 struct sim_work *ret_work)
{
	const struct sim_builtin *builtin;
	size_t offset = 0, total = 0;

	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	for (int i = 0; i < 3; i++)
		if (!grid[i] || !block[i])
			return CUDA_ERROR_INVALID_VALUE;
	if ((uint64_t)block[0] * block[1] * block[2] > 1024 || grid[1] > 65535 || grid[2] > 65535 ||
	    shared > function->maximum_shared)
		return CUDA_ERROR_INVALID_VALUE;
	builtin = function->builtin;
	memset(ret_work, 0, sizeof(*ret_work));
	ret_work->kind = SIM_KERNEL;
	ret_work->kernel.function = function;
	ret_work->kernel.builtin = builtin;
	ret_work->kernel.shared = shared;
	memcpy(ret_work->kernel.grid, grid, sizeof(ret_work->kernel.grid));
	memcpy(ret_work->kernel.block, block, sizeof(ret_work->kernel.block));
	if (!builtin)
		return CUDA_SUCCESS;
	for (unsigned i = 0; i < builtin->parameter_count; i++) {
		size_t size = builtin->parameter_sizes[i];

		total = ((total + size - 1) & ~(size - 1)) + size;
	}
	ret_work->bytes = calloc(1, total);
	ret_work->byte_count = total;
	if (!ret_work->bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (parameters) {
		for (unsigned i = 0; i < builtin->parameter_count; i++) {
			size_t size = builtin->parameter_sizes[i];

			offset = (offset + size - 1) & ~(size - 1);
			memcpy(ret_work->bytes + offset, parameters[i], size);
			offset += size;
		}
		return CUDA_SUCCESS;
	}
	if (extra) {
		const void *buffer = NULL;
		size_t size = 0;

		for (unsigned i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
			if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
				buffer = extra[i + 1];
			else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
				size = *(size_t *)extra[i + 1];
			else
				break;
		}
		if (buffer && size >= total) {
			memcpy(ret_work->bytes, buffer, total);
			return CUDA_SUCCESS;
		}
	}
	sim_work_clear(ret_work);
	return CUDA_ERROR_INVALID_VALUE;
}

static CUresult launch(CUfunction f, const unsigned grid[3], const unsigned block[3],
		       unsigned shared, CUstream handle, void **parameters, void **extra)
{
	struct sim_function *function = sim_object_check(f, SIM_FUNCTION);
	struct sim_stream *stream;
	struct sim_work work;
	CUresult result = sim_stream_resolve(handle, &stream);

	if (result)
		return result;
	result = sim_kernel_work(function, grid, block, shared, parameters, extra, &work);
	if (result)
		return result;
	if (!function->loaded) {
		/* The load waits for all that runs; also while capturing. */
		function->loaded = true;
		if (!stream->capture)
			sim_wait_load(stream->context);
		sim_cost(100000);
	}
	return sim_submit(stream, &work, NULL);
}

CUresult impl_cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
			     unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
			     unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
			     void **kernelParams, void **extra)
{
	const unsigned grid[3] = {gridDimX, gridDimY, gridDimZ};
	const unsigned block[3] = {blockDimX, blockDimY, blockDimZ};

	return launch(f, grid, block, sharedMemBytes, hStream, kernelParams, extra);
}

CUresult impl_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
			       void **extra)
{
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	const unsigned grid[3] = {config->gridDimX, config->gridDimY, config->gridDimZ};
	const unsigned block[3] = {config->blockDimX, config->blockDimY, config->blockDimZ};

	return launch(f, grid, block, config->sharedMemBytes, config->hStream, kernelParams, extra);
}

CUresult impl_cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
					unsigned int gridDimZ, unsigned int blockDimX,
					unsigned int blockDimY, unsigned int blockDimZ,
					unsigned int sharedMemBytes, CUstream hStream,
					void **kernelParams)
{
	return impl_cuLaunchKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
				   sharedMemBytes, hStream, kernelParams, NULL);
}

/* ---- host functions ---- */

CUresult impl_cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
	struct sim_work work = {.kind = SIM_HOST_FUNCTION,
				.host = {.function = fn, .data = userData}};
	struct sim_stream *stream;
	CUresult result = sim_stream_resolve(hStream, &stream);

	if (result)
		return result;
	if (!fn)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_submit(stream, &work, NULL);
}

CUresult impl_cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData,
				  unsigned int flags)
{
	struct sim_work work = {
		.kind = SIM_HOST_FUNCTION,
		.host = {.callback = callback, .handle = hStream, .data = userData},
	};
	struct sim_stream *stream;
	CUresult result = sim_stream_resolve(hStream, &stream);

	if (result)
		return result;
	if (!callback || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->capture) {
		sim_capture_invalidate(stream->capture);
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return sim_submit(stream, &work, NULL);
}

/* ---- value waits and writes ---- */

static CUresult value(CUstream handle, enum sim_kind kind, CUdeviceptr address, uint64_t number,
		      unsigned flags, bool wide)
{
	struct sim_work work = {
		.kind = kind,
		.value = {.address = address, .value = number, .flags = flags, .wide = wide},
	};
	struct sim_stream *stream;
	CUresult result = sim_stream_resolve(handle, &stream);

	if (result)
		return result;
	if (address % (wide ? 8 : 4) || !sim_memory_translate(address, wide ? 8 : 4, false))
		return CUDA_ERROR_INVALID_VALUE;
	return sim_submit(stream, &work, NULL);
}

#define FORMS(suffix)                                                                              \
	CUresult impl_cuStreamWaitValue32##suffix(CUstream stream, CUdeviceptr addr,               \
						  cuuint32_t number, unsigned int flags)           \
	{                                                                                          \
		return value(stream, SIM_VALUE_WAIT, addr, number, flags, false);                  \
	}                                                                                          \
	CUresult impl_cuStreamWaitValue64##suffix(CUstream stream, CUdeviceptr addr,               \
						  cuuint64_t number, unsigned int flags)           \
	{                                                                                          \
		return value(stream, SIM_VALUE_WAIT, addr, number, flags, true);                   \
	}                                                                                          \
	CUresult impl_cuStreamWriteValue32##suffix(CUstream stream, CUdeviceptr addr,              \
						   cuuint32_t number, unsigned int flags)          \
	{                                                                                          \
		return value(stream, SIM_VALUE_WRITE, addr, number, flags, false);                 \
	}                                                                                          \
	CUresult impl_cuStreamWriteValue64##suffix(CUstream stream, CUdeviceptr addr,              \
						   cuuint64_t number, unsigned int flags)          \
	{                                                                                          \
		return value(stream, SIM_VALUE_WRITE, addr, number, flags, true);                  \
	}

FORMS()
FORMS(_v2)

static CUresult batch(CUstream stream, unsigned count, CUstreamBatchMemOpParams *list,
		      unsigned flags)
{
	CUresult result = CUDA_SUCCESS;

	if (!list || !count || count > 256 || flags)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count && !result; i++) {
		CUstreamBatchMemOpParams *one = &list[i];

		switch (one->operation) {
		case CU_STREAM_MEM_OP_WAIT_VALUE_32:
			result = value(stream, SIM_VALUE_WAIT, one->waitValue.address,
				       one->waitValue.value, one->waitValue.flags, false);
			break;
		case CU_STREAM_MEM_OP_WAIT_VALUE_64:
			result = value(stream, SIM_VALUE_WAIT, one->waitValue.address,
				       one->waitValue.value64, one->waitValue.flags, true);
			break;
		case CU_STREAM_MEM_OP_WRITE_VALUE_32:
			result = value(stream, SIM_VALUE_WRITE, one->writeValue.address,
				       one->writeValue.value, one->writeValue.flags, false);
			break;
		case CU_STREAM_MEM_OP_WRITE_VALUE_64:
			result = value(stream, SIM_VALUE_WRITE, one->writeValue.address,
				       one->writeValue.value64, one->writeValue.flags, true);
			break;
		case CU_STREAM_MEM_OP_BARRIER:
		case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
			break;
		default:
			return CUDA_ERROR_INVALID_VALUE;
		}
	}
	return result;
}

CUresult impl_cuStreamBatchMemOp(CUstream stream, unsigned int count,
				 CUstreamBatchMemOpParams *paramArray, unsigned int flags)
{
	return batch(stream, count, paramArray, flags);
}

CUresult impl_cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
				    CUstreamBatchMemOpParams *paramArray, unsigned int flags)
{
	return batch(stream, count, paramArray, flags);
}
