// SPDX-License-Identifier: MIT
/* A library that uses futures; opened twice by plugin.c, under two names. */
#include "support.h"

__attribute__((visibility("default"))) void *library_record(void);
__attribute__((visibility("default"))) void library_future(CUstream stream, int *ret_called);

void *library_record(void)
{
	return &slipstream_future_process_1;
}

static void called(CUresult status, void *data)
{
	CHECK(status == CUDA_SUCCESS);
	__atomic_store_n((int *)data, 1, __ATOMIC_RELEASE);
}

void library_future(CUstream stream, int *ret_called)
{
	struct slipstream_future *future = new_future(stream, SLIPSTREAM_FUTURE_MONITOR);

	OK(slipstream_future_then(future, called, ret_called));
	slipstream_future_destroy(future);
}
