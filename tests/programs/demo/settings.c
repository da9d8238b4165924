// SPDX-License-Identifier: MIT
/* What the pipeline sets up once, changes on the way, and takes down. */
#include "driver.h"
#include "pipeline.h"

#include <stdlib.h>

#include "kernels.h" /* PTX text of the kernels */

static CUfunction function_of(CUmodule module, const char *name)
{
	CUfunction function;

	CHECK(CU(cuModuleGetFunction)(&function, module, name));
	return function;
}

void pipeline_open(struct pipeline *p)
{
	CHECK(CU(cuInit)(0));
	CHECK(CU(cuDeviceGet)(&p->device, 0));
	CHECK(CU(cuDevicePrimaryCtxRetain)(&p->context, p->device));
	CHECK(CU(cuCtxSetCurrent)(p->context));

	CHECK(CU(cuModuleLoadData)(&p->module, simcuda_ptx));
	p->spin = function_of(p->module, "spin");
	p->add = function_of(p->module, "add");
	p->saxpy = function_of(p->module, "saxpy");
	CHECK(CU(cuModuleLoadData)(&p->late_module, simcuda_ptx));
	p->late_spin = function_of(p->late_module, "spin");

	CHECK(CU(cuStreamCreate)(&p->compute, CU_STREAM_DEFAULT));
	CHECK(CU(cuStreamCreate)(&p->preview, CU_STREAM_NON_BLOCKING));
	CHECK(CU(cuEventCreate)(&p->filtered, CU_EVENT_DISABLE_TIMING));
	CHECK(CU(cuMemAlloc)(&p->frame, FRAME_BYTES));
	CHECK(CU(cuMemAlloc)(&p->result, FRAME_BYTES));
	p->host_frame = malloc(FRAME_BYTES);
	p->host_result = malloc(FRAME_BYTES);
	if (!p->host_frame || !p->host_result)
		abort();
}

/* A deeper device stack in the middle of the work: the device is drained first. */
void pipeline_change_quality(struct pipeline *p)
{
	size_t stack = 0;

	CHECK(CU(cuCtxGetLimit)(&stack, CU_LIMIT_STACK_SIZE));
	filter_start(p, p->compute);
	/* expect: stack-limit cuCtxSetLimit 1 */
	CHECK(CU(cuCtxSetLimit)(CU_LIMIT_STACK_SIZE, stack + 4096));
}

void pipeline_close(struct pipeline *p)
{
	CHECK(CU(cuCtxSynchronize)());
	CHECK(CU(cuMemFree)(p->frame));
	CHECK(CU(cuMemFree)(p->result));
	CHECK(CU(cuEventDestroy)(p->filtered));
	CHECK(CU(cuStreamDestroy)(p->compute));
	CHECK(CU(cuStreamDestroy)(p->preview));
	CHECK(CU(cuModuleUnload)(p->module));
	CHECK(CU(cuModuleUnload)(p->late_module));
	CHECK(CU(cuDevicePrimaryCtxRelease)(p->device));
	free(p->host_frame);
	free(p->host_result);
}
