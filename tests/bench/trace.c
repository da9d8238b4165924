// SPDX-License-Identifier: MIT
/*
 * The cost of a call that waits, by the shim's wrapper, in what states a trace can be in. Started by
 * trace.py under the shim, on a driver that does nothing; reads from its input what to do, one line
 * each, so that one process goes through all states:
 *
 *	init		cuInit: the provider is loaded
 *	hot NAME	bursts of calls, one behind the other
 *	sparse NAME	single calls, 20 us apart
 *	short NAME	as hot, for SHORT_NS and without pauses: while nothing is recorded
 *
 * and answers each with one line: `cell NAME MEDIAN QUIET` in ns a call (QUIET: an eighth of the bursts
 * took less; of `short` a fiftieth), or `done`. Between bursts there is a pause, in which the tracer's
 * consumer empties the buffers; the processor is kept busy, since one that comes back from sleep is slow
 * for a while. The process stays on one processor.
 *
 * A second thread sleeps all the time. LTTng starts threads, and the C library's locks take a shorter way
 * in a process that never had one; but so does the driver of every CUDA program, if not this one.
 */
#include <cuda.h>

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WARM_UP  5 /* bursts that do not count */
#define BURSTS   60
#define BURST    1000
#define PAUSE_NS 700000
#define CALLS    2000
#define APART_NS 20000
/* Of `short`, whose bursts are short too: some fall between the work of others. */
#define SHORT_NS    120000000
#define SHORT_BURST 100
#define SHORT_MAX   20000
#define SHORT_QUIET 50 /* one of so many bursts took less than its QUIET */

static CUresult (*init)(unsigned int);
static CUresult (*create)(CUstream *, unsigned int);
static CUresult (*synchronize)(CUstream);
static CUstream stream;
static double times[SHORT_MAX];

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

static void tell(const char *name, int count, int quiet)
{
	qsort(times, (size_t)count, sizeof(times[0]), compare);
	printf("cell %s %.2f %.2f\n", name, times[count / 2], times[count / quiet]);
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
	tell(name, BURSTS, 8);
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
	tell(name, CALLS, 8);
}

static void short_time(const char *name)
{
	uint64_t end = now() + SHORT_NS;
	uint64_t begin;
	int count;

	for (count = -SHORT_BURST; count < 1 || (count < SHORT_MAX && now() < end); count++) {
		begin = now();
		for (int k = 0; k < SHORT_BURST; k++)
			synchronize(stream);
		if (count >= 0)
			times[count] = (double)(now() - begin) / SHORT_BURST;
	}
	tell(name, count, SHORT_QUIET);
}

/*
 * With a provider and without: a call site that is known from before a library was loaded is found one
 * step later, since what was remembered of it is still there.
 */
static void load_something(void)
{
	if (!dlopen("libutil.so.1", RTLD_NOW))
		fprintf(stderr, "trace: %s\n", dlerror());
}

static void *sleep_on(void *unused)
{
	for (;;)
		pause();
	return unused;
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
	pthread_t sleeper;
	char line[256];

	if (!driver) {
		fprintf(stderr, "trace: %s\n", dlerror());
		return 1;
	}
	if (pthread_create(&sleeper, NULL, sleep_on, NULL))
		return 1;
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
			load_something();
			printf("done\n");
		} else if (!strncmp(line, "hot ", 4)) {
			hot(line + 4);
		} else if (!strncmp(line, "sparse ", 7)) {
			sparse(line + 7);
		} else if (!strncmp(line, "short ", 6)) {
			short_time(line + 6);
		} else {
			fprintf(stderr, "trace: what is '%s'?\n", line);
			return 2;
		}
		fflush(stdout);
	}
	return 0;
}
