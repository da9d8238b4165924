// SPDX-License-Identifier: MIT
/*
 * A planted dependence: drop_scratch() frees a buffer, and main() then reads what a kernel writes, as if the free had waited for it. The
 * driver's free does; no document promises it. Prints the word that the kernel wrote. `barrier poll` looks until it is there, which in virtual
 * time is for ever if nothing waits for the kernel.
 */
#include "planted.h"

#include <unistd.h>

static __attribute__((noinline)) void drop_scratch(void *scratch)
{
	OK(cuMemFreeHost(scratch)); /* the barrier */
}

static void launch(CUfunction function, CUstream stream, void **parameters)
{
	OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

int main(int argc, char **argv)
{
	uint64_t ns = 100 * 1000 * 1000;
	uint32_t value = 42, count = 1;
	CUmodule module = start();
	CUfunction spin, fill;
	uint32_t *result;
	CUstream stream;
	void *scratch;

	OK(cuModuleGetFunction(&spin, module, "spin"));
	OK(cuModuleGetFunction(&fill, module, "fill"));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemHostAlloc((void **)&result, sizeof(*result), CU_MEMHOSTALLOC_DEVICEMAP));
	OK(cuMemHostAlloc(&scratch, BYTES, 0));
	*result = 0;
	run_innocent();
	/* First launches wait for the context: not the ones that matter. */
	uint64_t none = 0;
	launch(spin, stream, (void *[]){&none});
	launch(fill, stream, (void *[]){&result, &count, &count});
	OK(cuStreamSynchronize(stream));
	*result = 0;

	launch(spin, stream, (void *[]){&ns});
	launch(fill, stream, (void *[]){&result, &value, &count});
	drop_scratch(scratch);
	while (argc > 1 && !strcmp(argv[1], "poll") && *(volatile uint32_t *)result != value)
		usleep(1000);
	printf("%u\n", *(volatile uint32_t *)result);
	return 0;
}
