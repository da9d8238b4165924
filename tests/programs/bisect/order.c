// SPDX-License-Identifier: MIT
/*
 * A planted dependence on the wait that `relax=order` leaves out: upload() copies from pageable memory, which waits for the kernel before, and
 * main() then takes the kernel for done. Prints what its event says.
 */
#include "planted.h"

static char source[1 << 20];

static __attribute__((noinline)) void upload(CUdeviceptr to)
{
	OK(cuMemcpyHtoD(to, source, sizeof(source)));
}

static __attribute__((noinline)) void upload_first(CUdeviceptr to)
{
	OK(cuMemcpyHtoD(to, source, sizeof(source))); /* with nothing at work */
}

int main(void)
{
	uint64_t none = 0, ns = 100 * 1000 * 1000;
	CUmodule module = start();
	CUdeviceptr memory;
	CUfunction spin;
	CUevent event;

	OK(cuModuleGetFunction(&spin, module, "spin"));
	OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
	OK(cuMemAlloc(&memory, sizeof(source)));
	OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&none}, NULL));
	OK(cuStreamSynchronize(NULL));
	for (int i = 0; i < 300; i++) /* until staging pays */
		upload_first(memory);
	OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&ns}, NULL));
	OK(cuEventRecord(event, NULL));
	upload(memory);
	printf("%s\n", cuEventQuery(event) == CUDA_SUCCESS ? "done" : "at work");
	return 0;
}
