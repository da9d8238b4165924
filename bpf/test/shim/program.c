// SPDX-License-Identifier: MIT
/* Known numbers of calls that can wait, in two threads and a child, for the watch beside the shim. */
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 25, BYTES = 1 << 16 };

static CUcontext context;

static void check(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "%s: %d\n", what, (int)result);
	_exit(3);
}

#define CHECK(call) check((call), #call)

static void *rounds(void *unused)
{
	static char host[BYTES];
	CUstream stream;

	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < ROUNDS; i++) {
		CUdeviceptr memory;
		void *pinned;

		CHECK(cuMemAlloc(&memory, BYTES));
		CHECK(cuMemHostAlloc(&pinned, BYTES, 0));
		CHECK(cuMemcpyHtoD(memory, host, BYTES));
		CHECK(cuMemcpyDtoHAsync(pinned, memory, BYTES, stream));
		CHECK(cuStreamSynchronize(stream));
		CHECK(cuMemFreeHost(pinned));
		CHECK(cuMemFree(memory));
		CHECK(cuCtxSynchronize());
	}
	CHECK(cuStreamDestroy(stream));
	return unused;
}

static void use(void)
{
	CUdevice device;
	pthread_t other;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	if (pthread_create(&other, NULL, rounds, NULL))
		_exit(3);
	rounds(NULL);
	pthread_join(other, NULL);
}

int main(int argc, char **argv)
{
	pid_t child = fork();

	if (!child) {
		use();
		return 0;
	}
	use();
	if (waitpid(child, NULL, 0) != child)
		return 3;
	return 0;
}
