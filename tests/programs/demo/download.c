// SPDX-License-Identifier: MIT
/* Ways to bring results back. */
#include "driver.h"
#include "pipeline.h"

#include <stdlib.h>

/*
 * Everything of this frame is done when this begins (filter_frame waits by an event): nothing to
 * wait for.
 */
void download_result(struct pipeline *p)
{
	CHECK(CU(cuMemcpyDtoH)(p->host_result, p->result, FRAME_BYTES));
}

/* Asynchronous by name; into ordinary memory it waits all the same. */
void download_preview(struct pipeline *p)
{
	float *preview = malloc(FRAME_BYTES);

	if (!preview)
		abort();
	filter_start(p, p->preview);
	/* expect: pageable-d2h-async cuMemcpyDtoHAsync_v2 FRAME_COUNT */
	CHECK(CU(cuMemcpyDtoHAsync)(preview, p->result, FRAME_BYTES, p->preview));
	CHECK(CU(cuStreamSynchronize)(p->preview));
	free(preview);
}

/* A few bytes read back in the middle of the frame, behind the running filter. */
void download_statistics(struct pipeline *p)
{
	char statistics[STATISTICS_BYTES];

	filter_start(p, p->compute);
	/* expect: d2h cuMemcpyDtoH_v2 FRAME_COUNT */
	CHECK(CU(cuMemcpyDtoH)(statistics, p->result, sizeof(statistics)));
}
