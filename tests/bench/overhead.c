// SPDX-License-Identifier: MIT
/*
 * One figure of the cost benchmark, measured in this process: overhead.py runs it with and without
 * the shim by turns. Prints one number a line, names first. The driver is reached as the CUDA
 * runtime reaches it: dlopen and look-up.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cells.h"
#include "gpu.h"

#define DEPTH 500 /* launches in a row, fewer than the driver queues */

static int compare_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *sample, int count)
{
	qsort(sample, (size_t)count, sizeof(*sample), compare_double);
	return sample[count / 2];
}

static double time_get_current(uint64_t calls)
{
	uint64_t begin = bench_now();
	CUcontext context;

	for (uint64_t i = 0; i < calls; i++) {
		if (gpu.cuCtxGetCurrent(&context))
			abort();
	}
	return (double)(bench_now() - begin) / (double)calls;
}

static int get_current(struct bench *bench)
{
	double sample[21];

	(void)bench;
	(void)time_get_current(1000000);
	for (int i = 0; i < 21; i++)
		sample[i] = time_get_current(1000000);
	printf("get_current_ns %.3f\n", median(sample, 21));
	return 0;
}

/* A full queue makes a launch wait, so each loop begins with an idle device. */
static int launches(struct bench *bench)
{
	for (int stream = 0; stream < BENCH_STREAMS; stream += BENCH_NON_BLOCKING) {
		double sample[101];

		for (int round = -5; round < 101; round++) {
			uint64_t begin = bench_now();

			for (int i = 0; i < DEPTH; i++) {
				if (bench_kernel(bench, (enum bench_stream)stream, 0))
					return 1;
			}
			if (round >= 0)
				sample[round] = (double)(bench_now() - begin) / DEPTH;
			if (bench_idle(bench))
				return 1;
		}
		printf("launch_%s_ns %.1f\n", stream ? "non_blocking" : "null",
		       median(sample, 101));
	}
	return 0;
}

static long resident_kib(void)
{
	long pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");

	if (!file || fscanf(file, "%*d %ld", &pages) != 1)
		abort();
	fclose(file);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* What the record files take on the disk. */
static long recorded_kib(void)
{
	const char *folder = getenv("SLIPSTREAM_OUT");
	DIR *directory = folder ? opendir(folder) : NULL;
	struct dirent *entry;
	struct stat status;
	long blocks = 0;

	if (!directory)
		return 0;
	while ((entry = readdir(directory))) {
		if (!fstatat(dirfd(directory), entry->d_name, &status, 0) &&
		    S_ISREG(status.st_mode))
			blocks += (long)status.st_blocks;
	}
	closedir(directory);
	return blocks / 2;
}

static int many_launches(struct bench *bench, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		if (bench_kernel(bench, i % 2 ? BENCH_NULL : BENCH_NON_BLOCKING, 0))
			return 1;
		if (i % DEPTH == 0 && bench_idle(bench))
			return 1;
	}
	return bench_idle(bench) != CUDA_SUCCESS;
}

static int flat(struct bench *bench, uint64_t calls, uint64_t launch_count)
{
	long resident, recorded;

	/* Everything that is made once is made here. */
	(void)time_get_current(100000);
	if (many_launches(bench, 10 * DEPTH))
		return 1;
	resident = resident_kib();
	recorded = recorded_kib();
	(void)time_get_current(calls);
	if (many_launches(bench, launch_count))
		return 1;
	printf("resident_growth_kib %ld\nrecorded_growth_kib %ld\n", resident_kib() - resident,
	       recorded_kib() - recorded);
	return 0;
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t value = strtoull(text, &end, 10);

	if (end == text || *end) {
		fprintf(stderr, "overhead: %s is no number\n", text);
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	struct bench bench;
	uint64_t begin;

	if (!strcmp(what, "start") && argc == 2) {
		if (gpu_open(NULL))
			return 1;
		begin = bench_now();
		if (gpu.cuInit(0))
			return 1;
		printf("init_ms %.3f\n", (double)(bench_now() - begin) / 1e6);
		return 0;
	}
	if (!strcmp(what, "nothing") && argc == 2)
		return 0;
	if (gpu_open(NULL) || bench_open(&bench, BENCH_PLAIN))
		return 1;
	if (!strcmp(what, "get-current") && argc == 2)
		return get_current(&bench);
	if (!strcmp(what, "launches") && argc == 2)
		return launches(&bench);
	if (!strcmp(what, "flat") && argc == 4)
		return flat(&bench, number(argv[2]), number(argv[3]));
	fprintf(stderr, "usage: overhead start|nothing|get-current|launches|flat CALLS LAUNCHES\n");
	return 2;
}
