// SPDX-License-Identifier: MIT
/*
 * Sides (sides.h).
 */
#include "sides.h"

#include <stdint.h>
#include <stdlib.h>

#include "../../tools/kernels/kernels.h"
#include "driver_symbols.h"

struct gpu side[SIDES];

#define TEXT_(name) #name
#define TEXT(name)  TEXT_(name)

void sides_check(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "%s: error %d\n", what, (int)result);
	exit(1);
}

void *sides_raw_symbol(const char *name)
{
	void *address = library_symbol("libcuda.so", name);

	if (!address) {
		fprintf(stderr, "libcuda.so's symbol table has no %s\n", name);
		exit(1);
	}
	return address;
}

int sides_open(void)
{
	if (gpu_open(NULL))
		return 1;
	side[WRAPPED] = gpu;
#define RAW_FIND(name) side[RAW].name = sides_raw_symbol(TEXT(name));
	GPU_FUNCTIONS(RAW_FIND)
	side[RAW].context_synchronize = sides_raw_symbol("cuCtxSynchronize");
	if ((void *)side[RAW].cuLaunchKernel == (void *)side[WRAPPED].cuLaunchKernel ||
	    (void *)side[RAW].cuCtxGetCurrent == (void *)side[WRAPPED].cuCtxGetCurrent) {
		fprintf(stderr, "no shim here: both addresses are the driver's\n");
		return SIDES_NO_SHIM;
	}
	return 0;
}

CUfunction sides_prepare(void)
{
	CUcontext context;
	CUfunction spin;
	CUmodule module;

	sides_check(side[WRAPPED].cuInit(0), "cuInit");
	sides_check(side[WRAPPED].cuDevicePrimaryCtxRetain(&context, 0),
		    "cuDevicePrimaryCtxRetain");
	sides_check(side[WRAPPED].cuCtxSetCurrent(context), "cuCtxSetCurrent");
	sides_check(side[WRAPPED].cuModuleLoadData(&module, KERNELS_SPIN), "cuModuleLoadData");
	sides_check(side[WRAPPED].cuModuleGetFunction(&spin, module, "spin"),
		    "cuModuleGetFunction");
	/* The first launch loads. */
	for (int which = 0; which < SIDES; which++) {
		sides_launch(which, spin, 1000, NULL);
		sides_check(side[which].context_synchronize(), "cuCtxSynchronize");
	}
	return spin;
}

void sides_launch(int which, CUfunction spin, uint64_t ns, CUstream stream)
{
	void *parameters[] = {&ns};

	sides_check(side[which].cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL),
		    "cuLaunchKernel");
}
