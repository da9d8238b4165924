// SPDX-License-Identifier: MIT
/*
 * What the runtime-API programs of the GPU suite share: a checked call, a checksum, a kernel whose
 * result depends on how often and in which order it ran.
 */
#ifndef SLIPSTREAM_GPU_PROGRAM_CUH
#define SLIPSTREAM_GPU_PROGRAM_CUH

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                                \
	do {                                                                                       \
		cudaError_t error_ = (call);                                                       \
		if (error_ != cudaSuccess) {                                                       \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error_));            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static __global__ void step(uint32_t *data, size_t count, uint32_t salt)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	if (i < count)
		data[i] = data[i] * 1664525u + 1013904223u + salt;
}

static inline void run_step(uint32_t *data, size_t count, uint32_t salt, cudaStream_t stream)
{
	step<<<(unsigned)((count + 255) / 256), 256, 0, stream>>>(data, count, salt);
	CHECK(cudaGetLastError());
}

static inline uint64_t checksum(const uint32_t *data, size_t count)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (size_t i = 0; i < count; i++)
		hash = (hash ^ data[i]) * 0x100000001b3u;
	return hash;
}

#endif
