// SPDX-License-Identifier: MIT
/*
 * As barrier.c, with a free of device memory (cuMemFree) for the barrier: drop_weights() frees, main() reads. Prints the word that the
 * kernel wrote.
 */
#include "planted.h"

static __attribute__((noinline)) void drop_weights(CUdeviceptr weights)
{
	OK(cuMemFree(weights)); /* the barrier */
}

static __attribute__((noinline)) CUdeviceptr make_weights(void)
{
	CUdeviceptr weights;

	OK(cuMemAlloc(&weights, 4 * BYTES));
	return weights;
}

static void launch(CUfunction function, CUstream stream, void **parameters)
{
	OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

int main(void)
{
	uint64_t none = 0, ns = 100 * 1000 * 1000;
	uint32_t value = 42, count = 1;
	CUmodule module = start();
	CUfunction spin, fill;
	CUdeviceptr weights;
	uint32_t *result;
	CUstream stream;

	OK(cuModuleGetFunction(&spin, module, "spin"));
	OK(cuModuleGetFunction(&fill, module, "fill"));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemHostAlloc((void **)&result, sizeof(*result), CU_MEMHOSTALLOC_DEVICEMAP));
	run_innocent();
	for (int i = 0; i < 5; i++)
		OK(cuMemFree(make_weights())); /* innocent as well */
	weights = make_weights();
	/* First launches wait for the context: not the ones that matter. */
	launch(spin, stream, (void *[]){&none});
	launch(fill, stream, (void *[]){&result, &count, &count});
	OK(cuStreamSynchronize(stream));
	*result = 0;

	launch(spin, stream, (void *[]){&ns});
	launch(fill, stream, (void *[]){&result, &value, &count});
	drop_weights(weights);
	printf("%u\n", *(volatile uint32_t *)result);
	return 0;
}
