// SPDX-License-Identifier: MIT
/*
 * table CELL STREAM: one call, made while a kernel of 2 ms is pending on one kind of stream; what
 * the table test runs under `slipstream run`. Prints the call's time and its idle time in
 * microseconds. Unmodified on a real driver and on the simulated one.
 *
 * The judged call is alone in the region "cell" of the report. It is made some times with nothing
 * pending first, so that loading, first touches and allocations of the driver are over.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cells.h"
#include "gpu.h"
#include "slipstream/slipstream.h"

#define KERNEL UINT64_C(2000000) /* ns */
#define WARM   5

static void mark(bool begin)
{
	if (begin)
		slipstream_region_begin("cell");
	else
		slipstream_region_end();
}

static int usage(void)
{
	fprintf(stderr, "usage: table CELL null|blocking|non-blocking\ncells:");
	for (const struct cell *cell = cells; cell->name; cell++)
		fprintf(stderr, " %s", cell->name);
	fprintf(stderr, "\n");
	return 2;
}

int main(int argc, char **argv)
{
	uint64_t idle = UINT64_MAX, busy = 0;
	enum bench_stream stream;
	const struct cell *cell;
	struct bench bench;
	CUresult result;

	cell = argc == 3 ? cell_find(argv[1]) : NULL;
	if (!cell)
		return usage();
	for (stream = BENCH_NULL; stream < BENCH_STREAMS; stream++) {
		if (!strcmp(argv[2], bench_stream_name[stream]))
			break;
	}
	if (stream == BENCH_STREAMS)
		return usage();
	/* Finding the shim is none of the call's time. */
	mark(true);
	mark(false);
	if (gpu_open(NULL) || bench_open(&bench, BENCH_PLAIN))
		return 1;

	for (int i = 0; i < WARM; i++) {
		uint64_t ns;

		result = cell_run(&bench, cell, stream, 0, &ns);
		if (result) {
			fprintf(stderr, "table: %s: idle: error %d\n", cell->name, result);
			return 1;
		}
		if (ns < idle)
			idle = ns;
	}
	bench.around = mark;
	result = cell_run(&bench, cell, stream, KERNEL, &busy);
	if (result) {
		fprintf(stderr, "table: %s: error %d\n", cell->name, result);
		return 1;
	}
	printf("%llu %llu\n", (unsigned long long)busy / 1000, (unsigned long long)idle / 1000);
	return 0;
}
