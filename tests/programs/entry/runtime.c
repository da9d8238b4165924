// SPDX-License-Identifier: MIT
/*
 * A program of the CUDA runtime, linked with an unmodified libcudart_static.a: brings its own
 * look-ups, export tables and order of calls. On a simulated driver the runtime refuses to work in
 * the end (it checks the driver's authenticity); up to there it must behave the same with and
 * without the shim.
 */
#include <stdio.h>

#include <cuda_runtime_api.h>

int main(void)
{
	void *memory = NULL;
	int count = -1, version = 0;

	printf("version %d\n", cudaDriverGetVersion(&version));
	printf("%d\n", version);
	printf("count %d\n", cudaGetDeviceCount(&count));
	printf("malloc %d\n", cudaMalloc(&memory, 1 << 20));
	printf("free %d\n", cudaFree(memory));
	printf("sync %d\n", cudaDeviceSynchronize());
	printf("last %d\n", cudaGetLastError());
	return 0;
}
