// SPDX-License-Identifier: MIT
/*
 * Kernels of the pipeline. A filter is a kernel that keeps the device busy for FILTER_NS; saxpy
 * does the arithmetic that is checked.
 */
#include "driver.h"
#include "pipeline.h"

#include <slipstream/slipstream.h>

static void launch(CUfunction function, CUstream stream, unsigned int blocks, void **arguments)
{
	CHECK(CU(cuLaunchKernel)(function, blocks, 1, 1, 256, 1, 1, 0, stream, arguments, NULL));
}

static void launch_spin(CUfunction function, CUstream stream)
{
	unsigned long long ns = FILTER_NS;
	void *arguments[] = {&ns};

	CHECK(CU(cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

/* Something for the next call to wait for. */
void filter_start(struct pipeline *p, CUstream stream)
{
	launch_spin(p->spin, stream);
}

void filter_frame(struct pipeline *p)
{
	float factor = 2.0f;
	unsigned int count = FRAME_FLOATS;
	void *arguments[] = {&factor, &p->frame, &p->result, &count};

	CHECK(CU(cuMemsetD8Async)(p->result, 0, FRAME_BYTES, p->compute));
	launch(p->saxpy, p->compute, FRAME_FLOATS / 256, arguments);
	factor = 1.0f;
	launch(p->saxpy, p->compute, FRAME_FLOATS / 256, arguments);

	launch_spin(p->spin, p->compute);
	CHECK(CU(cuEventRecord)(p->filtered, p->compute));

	SLIPSTREAM_ALLOW_SYNC("the result is compared on the host next");
	/* expect: event-synchronize cuEventSynchronize FRAME_COUNT */
	CHECK(CU(cuEventSynchronize)(p->filtered));
}

/* Device memory allocated and freed for every frame: the free drains the device. */
void filter_with_scratch(struct pipeline *p)
{
	CUdeviceptr scratch;

	CHECK(CU(cuMemAlloc)(&scratch, FRAME_BYTES));
	CHECK(CU(cuMemsetD8Async)(scratch, 0, FRAME_BYTES, p->preview));
	launch_spin(p->spin, p->preview);
	/* expect: free-drains-device cuMemFree_v2 FRAME_COUNT */
	CHECK(CU(cuMemFree)(scratch));
}

/*
 * A launch without a stream between two on a blocking stream: nobody waits on the host, but the
 * device runs them one by one.
 */
void filter_overlay(struct pipeline *p)
{
	unsigned long long ns = FILTER_NS / 10;
	void *arguments[] = {&ns};

	launch_spin(p->spin, p->compute);
	/* expect: legacy-join cuLaunchKernel FRAME_COUNT */
	CHECK(CU(cuLaunchKernel)(p->spin, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
	launch_spin(p->spin, p->compute);
	/* expect: stream-synchronize cuStreamSynchronize FRAME_COUNT */
	CHECK(CU(cuStreamSynchronize)(p->compute));
}

/*
 * The first launch of a function while the device is busy: its code is loaded now, and that
 * waits.
 */
void filter_late(struct pipeline *p)
{
	unsigned long long ns = 1000;
	void *arguments[] = {&ns};

	launch_spin(p->spin, p->compute);
	/* expect: lazy-load cuLaunchKernel 1 */
	CHECK(CU(cuLaunchKernel)(p->late_spin, 1, 1, 1, 1, 1, 1, 0, p->preview, arguments, NULL));
	/* expect: context-synchronize cuCtxSynchronize 1 */
	CHECK(CU(cuCtxSynchronize)());
}
