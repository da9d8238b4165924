// SPDX-License-Identifier: MIT
/*
 * A program linked with the driver: its calls reach the shim as plain symbols. One case a run.
 */
#include "entry_test.h"

static void case_calls(void)
{
	CUcontext context;
	CUdeviceptr pointer;
	char byte = 0;

	CHECK_EQUAL(CUDA_SUCCESS, cuInit(0));
	for (int i = 0; i < 10; i++)
		CHECK_EQUAL(CUDA_SUCCESS, cuCtxGetCurrent(&context));
	CHECK_EQUAL(CUDA_SUCCESS, cuMemAlloc(&pointer, 16));
	CHECK_EQUAL(CUDA_SUCCESS, cuMemcpyHtoD(pointer, &byte, 1));
	CHECK_EQUAL(CUDA_SUCCESS, cuMemFree(pointer));
	CHECK_EQUAL(1, fake_calls("cuInit"));
	CHECK_EQUAL(10, fake_calls("cuCtxGetCurrent"));
	CHECK_EQUAL(1, fake_calls("cuMemcpyHtoD_v2"));
	/* The linked address and the looked-up one are the same. */
	CHECK((void *)cuInit == dlsym(driver_handle(), "cuInit"));
	CHECK((void *)cuInit == dlsym(RTLD_DEFAULT, "cuInit"));
	CHECK(lies_in((void *)cuInit, "libslipstream.so"));
}

/* Linked against a driver that had it, run with one that has not. */
static void case_missing(void)
{
	char byte = 0;

	CHECK_EQUAL(CUDA_SUCCESS, cuInit(0));
	for (int i = 0; i < 3; i++)
		CHECK_EQUAL(CUDA_ERROR_NOT_SUPPORTED, cuMemcpyDtoH(&byte, 0x700000000000, 1));
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "calls") == 0)
		case_calls();
	else if (argc > 1 && strcmp(argv[1], "missing") == 0)
		case_missing();
	else
		return 2;
	return 0;
}
