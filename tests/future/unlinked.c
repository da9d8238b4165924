// SPDX-License-Identifier: MIT
/*
 * A program like those of the CUDA runtime: not linked to libcuda, which something in it opens for
 * itself (RTLD_LOCAL). Without any driver, futures say so.
 */
#include <slipstream/future.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A conversion from a pointer to data would be no ISO C. */
static void find(void *library, const char *name, void *ret_function)
{
	void *address = dlsym(library, name);

	memcpy(ret_function, &address, sizeof(address));
}

int main(void)
{
	CUresult (*retain)(CUcontext * context, CUdevice device);
	CUresult (*create)(CUstream * stream, unsigned int flags);
	CUresult (*set_current)(CUcontext context);
	CUresult (*init)(unsigned int flags);
	struct slipstream_future *future;
	CUcontext context;
	void *library;
	CUstream stream;

	alarm(50);
	library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		if (slipstream_future_create(&future, NULL, SLIPSTREAM_FUTURE_MONITOR) !=
		    CUDA_ERROR_NOT_FOUND)
			return 1;
		printf("no driver\n");
		return 0;
	}
	find(library, "cuInit", &init);
	find(library, "cuDevicePrimaryCtxRetain", &retain);
	find(library, "cuCtxSetCurrent", &set_current);
	find(library, "cuStreamCreate", &create);
	if (init(0) || retain(&context, 0) || set_current(context) || create(&stream, 1))
		return 2;
	for (unsigned int mode = 0; mode < 2; mode++) {
		if (slipstream_future_create(&future, stream, (enum slipstream_future_mode)mode) !=
			    CUDA_SUCCESS ||
		    slipstream_future_wait(future) != CUDA_SUCCESS)
			return 3;
		slipstream_future_destroy(future);
	}
	return 0;
}
