// SPDX-License-Identifier: MIT
/*
 * Ranks: a program of several ranks, each with a number of waits of its own: 10 and its rank, each
 * followed by a barrier of all ranks as long as all take part. Rank 0 prints the sum that MPI made.
 */
#include <cuda.h>
#include <mpi.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels.h"

#define WAITS 10
#define NS    50000 /* of each kernel */

static void check(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	(void)fprintf(stderr, "%s: %d\n", what, result);
	(void)MPI_Abort(MPI_COMM_WORLD, 1);
}

#define CALL(function, ...) check(function(__VA_ARGS__), #function)

int main(int argc, char **argv)
{
	uint64_t ns = NS;
	void *parameters[] = {&ns};
	CUcontext context;
	CUfunction spin;
	CUmodule module;
	CUstream stream;
	CUdevice device;
	int rank, sum = 0;

	(void)MPI_Init(&argc, &argv);
	(void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	CALL(cuInit, 0);
	CALL(cuDeviceGet, &device, 0);
	CALL(cuDevicePrimaryCtxRetain, &context, device);
	CALL(cuCtxSetCurrent, context);
	CALL(cuModuleLoadData, &module, simcuda_ptx);
	CALL(cuModuleGetFunction, &spin, module, "spin");
	CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	for (int i = 0; i < WAITS + rank; i++) {
		CALL(cuLaunchKernel, spin, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
		CALL(cuStreamSynchronize, stream);
		if (i < WAITS)
			(void)MPI_Barrier(MPI_COMM_WORLD);
	}
	(void)MPI_Reduce(&rank, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	if (!rank)
		printf("sum %d\n", sum);
	CALL(cuStreamDestroy, stream);
	(void)MPI_Finalize();
	return 0;
}
