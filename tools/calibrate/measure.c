// SPDX-License-Identifier: MIT
/*
 * The measuring process of `slipstream calibrate`: one unit, see measure.h. Called by calibrate.c
 * in a child; relies on cells, bench, facts and staging.
 */
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cells.h"
#include "facts.h"
#include "gpu.h"
#include "staging.h"

#define KERNEL    UINT64_C(2000000) /* ns */
#define IDLE_RUNS 7
#define BUSY_RUNS 3
#define WARM_RUNS 2
#define SLOW_CALL UINT64_C(20000000) /* ns: fewer runs of calls slower than this */

/* What a unit's name may end with: `row NAME@VARIANT`. */
static const struct {
	const char *name;
	enum bench_variant bench;
	const char *variable, *value;
} variants[] = {
	{"schedule-blocking", BENCH_SCHEDULE_BLOCKING, NULL, NULL},
	{"second-context", BENCH_SECOND_CONTEXT, NULL, NULL},
	{"eager", BENCH_PLAIN, "CUDA_MODULE_LOADING", "EAGER"},
	{"lazy", BENCH_PLAIN, "CUDA_MODULE_LOADING", "LAZY"},
};
#define VARIANTS ((int)(sizeof(variants) / sizeof(variants[0])))

static int step, first_step;

bool measure_step(const char *line)
{
	if (step++ < first_step)
		return false;
	printf("step %d %s\n", step - 1, line);
	fflush(stdout);
	return true;
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Median over some runs, after some that do not count. */
static CUresult median(struct bench *bench, const struct cell *cell, enum bench_stream stream,
		       uint64_t kernel, int warm, int runs, uint64_t *ret_ns, uint64_t *ret_least)
{
	uint64_t sample[IDLE_RUNS], ns = 0;
	CUresult result;

	for (int i = 0; i < warm; i++) {
		result = cell_run(bench, cell, stream, kernel, &ns);
		if (result)
			return result;
	}
	if (ns > SLOW_CALL)
		runs = BUSY_RUNS;
	for (int i = 0; i < runs; i++) {
		result = cell_run(bench, cell, stream, kernel, &sample[i]);
		if (result)
			return result;
	}
	qsort(sample, (size_t)runs, sizeof(sample[0]), compare_u64);
	*ret_ns = sample[runs / 2];
	if (ret_least)
		*ret_least = sample[0];
	return CUDA_SUCCESS;
}

static unsigned int size_class(size_t bytes)
{
	unsigned int class = 0;

	while (class < 63 && ((size_t)1 << class) < bytes)
		class ++;
	return class;
}

static void print_idle(const struct cell *cell, uint64_t ns)
{
	printf("idle %s %s %s %u %llu\n", cell->function, operand_name[cell->source],
	       operand_name[cell->destination], size_class(cell->bytes),
	       (unsigned long long)(ns ? ns : 1));
	fflush(stdout);
}

static void measure_row(struct bench *bench, const struct cell *cell, const char *name, bool idle,
			bool gates)
{
	/* The least is what a machine busy with other things leaves of the idle cost. */
	uint64_t idle_ns = 0, least_ns = 0, ns;
	CUresult result;
	char line[256];

	/* Without its idle cost no later step of the row can be judged: it is taken again after a
	 * hang. */
	result = median(bench, cell, BENCH_NULL, 0, WARM_RUNS, IDLE_RUNS, &idle_ns, &least_ns);
	if (!result && idle && first_step == 0)
		print_idle(cell, idle_ns);

	for (int i = 0; i < BENCH_STREAMS; i++) {
		snprintf(line, sizeof(line), "cell %s %s hung 0", name, bench_stream_name[i]);
		if (!measure_step(line))
			continue;
		if (!result)
			result = median(bench, cell, i, KERNEL, 0, BUSY_RUNS, &ns, NULL);
		if (result)
			printf("cell %s %s error-%d 0\n", name, bench_stream_name[i], (int)result);
		else
			printf("cell %s %s %s %llu\n", name, bench_stream_name[i],
			       ns > least_ns + KERNEL / 2 ? "blocked" : "free",
			       (unsigned long long)(ns + 500) / 1000);
		fflush(stdout);
	}
	for (int i = 0; gates && i < BENCH_STREAMS; i++) {
		static const char *const word[] = {"-", "no", "yes"};
		struct cell_gate gate;

		snprintf(line, sizeof(line), "gate %s %s hung - -", name, bench_stream_name[i]);
		if (!measure_step(line))
			continue;
		if (!result)
			result = cell_gate(bench, cell, i, &gate);
		if (result)
			printf("gate %s %s error-%d - -\n", name, bench_stream_name[i],
			       (int)result);
		else
			printf("gate %s %s %s %s %s\n", name, bench_stream_name[i],
			       gate.blocks ? "blocks" : "returns", word[gate.joins_blocking + 1],
			       word[gate.joins_non_blocking + 1]);
		fflush(stdout);
	}
}

static void measure_idle(struct bench *bench)
{
	uint64_t ns;

	for (const struct cell *cell = cells_idle; cell->name; cell++) {
		if (measure_step("") &&
		    !median(bench, cell, BENCH_NULL, 0, WARM_RUNS, IDLE_RUNS, &ns, NULL))
			print_idle(cell, ns);
	}
}

static int measure_device(void)
{
	CUdevice device;
	char name[128];
	int version;

	if (gpu.cuInit(0) || gpu.cuDriverGetVersion(&version) || gpu.cuDeviceGet(&device, 0) ||
	    gpu.cuDeviceGetName(name, sizeof(name), device)) {
		fprintf(stderr, "slipstream calibrate: the driver finds no usable GPU\n");
		return MEASURE_TOLD;
	}
	name[sizeof(name) - 1] = 0;
	printf("driver %d\ngpu %s\n", version, name);
	return 0;
}

int measure_units(char unit[UNITS_MAX][UNIT_NAME], bool full)
{
	int count = 0;

	for (const struct cell *cell = cells; cell->name; cell++)
		snprintf(unit[count++], UNIT_NAME, "row %s", cell->name);
	snprintf(unit[count++], UNIT_NAME, "idle");
	for (const struct fact_group *group = fact_groups; group->name; group++)
		snprintf(unit[count++], UNIT_NAME, "facts %s", group->name);
	snprintf(unit[count++], UNIT_NAME, "%s", STAGING_UNIT);
	snprintf(unit[count++], UNIT_NAME, "%s", STAGING_UNIT_UNWAITED);
	if (!full)
		return count;
	for (const struct cell *cell = cells_full; cell->name; cell++)
		snprintf(unit[count++], UNIT_NAME, "row %s", cell->name);
	for (int i = 0; i < VARIANTS; i++) {
		for (const struct cell *cell = cells; cell->name; cell++)
			snprintf(unit[count++], UNIT_NAME, "row %s@%s", cell->name,
				 variants[i].name);
		snprintf(unit[count++], UNIT_NAME, "row first-launch@%s", variants[i].name);
	}
	return count;
}

int measure_unit(const char *unit, const char *driver, int from)
{
	enum bench_variant variant = BENCH_PLAIN;
	const struct cell *cell = NULL;
	char name[UNIT_NAME];
	struct bench bench;
	const char *at;

	first_step = from;
	if (!strncmp(unit, "row ", 4)) {
		at = strchr(unit, '@');
		snprintf(name, sizeof(name), "%.*s", at ? (int)(at - unit - 4) : UNIT_NAME - 1,
			 unit + 4);
		cell = cell_find(name);
		if (!cell) {
			fprintf(stderr, "slipstream calibrate: no cell %s\n", name);
			return MEASURE_TOLD;
		}
		for (int i = 0; at && i < VARIANTS; i++) {
			if (strcmp(at + 1, variants[i].name))
				continue;
			variant = variants[i].bench;
			if (variants[i].variable)
				setenv(variants[i].variable, variants[i].value, 1);
		}
	}
	if (gpu_open(driver))
		return MEASURE_TOLD;
	if (!strcmp(unit, "device"))
		return measure_device();
	if (staging_is_unit(unit))
		return staging_measure(unit);
	if (bench_open(&bench, variant))
		return 1;
	if (cell) {
		bool plain = !strchr(unit, '@');
		bool listed = false;

		for (const struct cell *one = cells; one->name; one++)
			listed |= one == cell;
		measure_row(&bench, cell, unit + 4, plain && listed, plain);
		return 0;
	}
	if (!strcmp(unit, "idle")) {
		measure_idle(&bench);
		return 0;
	}
	for (const struct fact_group *group = fact_groups; group->name; group++) {
		char line[256];

		if (strncmp(unit, "facts ", 6) || strcmp(unit + 6, group->name))
			continue;
		snprintf(line, sizeof(line), "fact %s hung", group->name);
		if (!measure_step(line))
			return 0;
		return group->run(&bench) ? 1 : 0;
	}
	fprintf(stderr, "slipstream calibrate: no unit %s\n", unit);
	return MEASURE_TOLD;
}
