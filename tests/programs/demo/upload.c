// SPDX-License-Identifier: MIT
/* Ways to bring a frame to the device, each with the wait that comes with it. */
#include "driver.h"
#include "pipeline.h"

#include <stdlib.h>

/*
 * A copy from ordinary memory, while the last filter still runs: the driver waits for it first.
 */
void upload_frame(struct pipeline *p, int number)
{
	for (int i = 0; i < FRAME_FLOATS; i++)
		p->host_frame[i] = (float)(number + i % 251);

	filter_start(p, p->compute);
	/* expect: pageable-h2d cuMemcpyHtoD_v2 FRAME_COUNT */
	CHECK(CU(cuMemcpyHtoD)(p->frame, p->host_frame, FRAME_BYTES));
}

/* Pinned memory allocated and freed for every frame, cleared with a synchronous memset. */
void upload_staged(struct pipeline *p, int number)
{
	void *staging;

	CHECK(CU(cuMemHostAlloc)(&staging, FRAME_BYTES, 0));

	filter_start(p, p->compute);
	/* expect: memset-host cuMemsetD8_v2 FRAME_COUNT */
	CHECK(CU(cuMemsetD8)((CUdeviceptr)(uintptr_t)staging, (unsigned char)number, FRAME_BYTES));

	CHECK(CU(cuMemcpyHtoDAsync)(p->frame, staging, FRAME_BYTES, p->compute));
	filter_start(p, p->compute);
	/* expect: pinned-h2d cuMemcpyHtoD_v2 FRAME_COUNT */
	CHECK(CU(cuMemcpyHtoD)(p->frame, staging, FRAME_BYTES));

	filter_start(p, p->compute);
	/* expect: host-free-drains-device cuMemFreeHost FRAME_COUNT */
	CHECK(CU(cuMemFreeHost)(staging));
}

/*
 * A buffer registered for one copy: unregistering waits for everything, other streams included.
 */
void upload_registered(struct pipeline *p, int number)
{
	void *buffer;

	if (posix_memalign(&buffer, 4096, FRAME_BYTES))
		abort();
	for (size_t i = 0; i < FRAME_FLOATS; i++)
		((float *)buffer)[i] = (float)number;

	CHECK(CU(cuMemHostRegister)(buffer, FRAME_BYTES, 0));
	CHECK(CU(cuMemcpyHtoDAsync)(p->frame, buffer, FRAME_BYTES, p->preview));
	filter_start(p, p->preview);
	/* expect: unregister-drains-device cuMemHostUnregister FRAME_COUNT */
	CHECK(CU(cuMemHostUnregister)(buffer));
	free(buffer);
}
