// SPDX-License-Identifier: MIT
/*
 * The cost of a call that waits, by the shim's wrapper, in what states a trace can be in. Started by
 * trace.py under the shim, on a driver that does nothing; reads from its input what to do, one line
 * each, so that one process goes through all states:
 *
 *	init		cuInit: the provider is loaded
 *	hot NAME	bursts of calls, one behind the other
 *	sparse NAME	single calls, 20 us apart
 *
 * and answers each with one line: `cell NAME MEDIAN QUIET` in ns a call (QUIET: an eighth of the bursts
 * took less), or `done`. Between bursts
 * there is a pause, in which the tracer's consumer empties the buffers; the processor is kept busy, since
 * one that comes back from sleep is slow for a while. The process stays on one processor.
 */
#include <cuda.h>

#include <dlfcn.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WARM_UP  5 /* bursts that do not count */
#define BURSTS   60
#define BURST    1000
#define PAUSE_NS 700000
#define CALLS    2000
#define APART_NS 20000

static CUresult (*init)(unsigned int);
static CUresult (*create)(CUstream *, unsigned int);
static CUresult (*synchronize)(CUstream);
static CUstream stream;
static double times[CALLS];

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return a < b ? -1 : a > b;
}

static void tell(const char *name, int count)
{
	qsort(times, (size_t)count, sizeof(times[0]), compare);
	printf("cell %s %.1f %.1f\n", name, times[count / 2], times[count / 8]);
}

static void pause_until(uint64_t end)
{
	while (now() < end)
		;
}

static void hot(const char *name)
{
	uint64_t begin;

	for (int i = -WARM_UP; i < BURSTS; i++) {
		begin = now();
		for (int k = 0; k < BURST; k++)
			synchronize(stream);
		if (i >= 0)
			times[i] = (double)(now() - begin) / BURST;
		pause_until(now() + PAUSE_NS);
	}
	tell(name, BURSTS);
}

static void sparse(const char *name)
{
	uint64_t begin;

	for (int i = 0; i < CALLS; i++) {
		begin = now();
		synchronize(stream);
		times[i] = (double)(now() - begin);
		pause_until(begin + APART_NS);
	}
	tell(name, CALLS);
}

static void *look_up(void *driver, const char *name)
{
	void *found = dlsym(driver, name);

	if (!found) {
		fprintf(stderr, "trace: the driver has no %s\n", name);
		exit(1);
	}
	return found;
}

/* The last processor that it may use: the first ones have the machine's interrupts. */
static void stay(void)
{
	cpu_set_t set;
	int cpu;

	if (sched_getaffinity(0, sizeof(set), &set))
		return;
	for (cpu = CPU_SETSIZE - 1; cpu > 0 && !CPU_ISSET(cpu, &set); cpu--)
		;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	(void)sched_setaffinity(0, sizeof(set), &set);
}

int main(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	char line[256];

	if (!driver) {
		fprintf(stderr, "trace: %s\n", dlerror());
		return 1;
	}
	stay();
	init = (CUresult(*)(unsigned int))look_up(driver, "cuInit");
	create = (CUresult(*)(CUstream *, unsigned int))look_up(driver, "cuStreamCreate");
	synchronize = (CUresult(*)(CUstream))look_up(driver, "cuStreamSynchronize");
	if (create(&stream, 0) != CUDA_SUCCESS)
		return 1;
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		if (!strcmp(line, "init")) {
			if (init(0) != CUDA_SUCCESS)
				return 1;
			printf("done\n");
		} else if (!strncmp(line, "hot ", 4)) {
			hot(line + 4);
		} else if (!strncmp(line, "sparse ", 7)) {
			sparse(line + 7);
		} else {
			fprintf(stderr, "trace: what is '%s'?\n", line);
			return 2;
		}
		fflush(stdout);
	}
	return 0;
}
