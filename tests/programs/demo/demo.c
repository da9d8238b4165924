// SPDX-License-Identifier: MIT
/*
 * The demo program: a small frame pipeline as one finds them, which waits for the GPU in many
 * places without saying so. It is what tools/demo runs, and the end-to-end test of the report
 * (check_demo.py) reads its sources:
 *
 *	expect: RULE FUNCTION COUNT
 *
 * in a comment above a call says that the report must blame this line, that often. It checks its
 * own arithmetic, so that a run in which slipstream changed a result fails.
 *
 * Its kernels are PTX text, whose entries the simulated driver knows as built-ins, so it runs
 * with and without a GPU.
 */
#include "driver.h"
#include "pipeline.h"

#include <slipstream/slipstream.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

/*
 * What the device must have computed for this frame: upload's ramp, through filter.c's saxpy (2x
 * + y) with y = x.
 */
static int result_is_right(const struct pipeline *p, int number)
{
	for (int i = 0; i < FRAME_FLOATS; i++) {
		float wanted = 3.0f * (float)(number + i % 251);

		if (fabsf(p->host_result[i] - wanted) > 0.0f) {
			fprintf(stderr, "demo: frame %d, value %d: got %g, expected %g\n", number,
				i, p->host_result[i], wanted);
			return 0;
		}
	}
	return 1;
}

static int process_frame(struct pipeline *p, int number)
{
	SLIPSTREAM_REGION("frame");

	upload_frame(p, number);
	filter_frame(p);
	download_result(p);
	if (!result_is_right(p, number))
		return -1;

	filter_with_scratch(p);
	upload_staged(p, number);
	upload_registered(p, number);
	download_preview(p);
	download_statistics(p);
	filter_overlay(p);
	return 0;
}

int main(int argc, char **argv)
{
	struct pipeline p = {0};
	char name[64];

	driver_open();
	if (argc == 2 && strcmp(argv[1], "--probe") == 0)
		return CU(cuInit)(0) ? 1 : 0; /* for tools/demo: is there a driver with a device? */
	if (argc > 1) {
		fprintf(stderr, "demo: unknown argument '%s'\n", argv[1]);
		return 2;
	}
	pipeline_open(&p);
	CHECK(CU(cuDeviceGetName)(name, sizeof(name), p.device));
	printf("demo: %d frames of %d bytes on %s\n", FRAME_COUNT, (int)FRAME_BYTES, name);

	for (int number = 0; number < FRAME_COUNT; number++) {
		if (process_frame(&p, number))
			return 1;
		printf("demo: frame %d is right\n", number);
		if (number == 1)
			pipeline_change_quality(&p);
		if (number == 2)
			filter_late(&p);
	}

	pipeline_close(&p);
	return 0;
}
