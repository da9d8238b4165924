// SPDX-License-Identifier: MIT
/*
 * Of the programs of the guard: PROGRAM CASE. A line that ends with FOUND in a comment, the case's name and a rule, is found in that case; OTHER marks the
 * copy that is the other side. Everything else must not be.
 */
#ifndef GUARD_GUARDED_H
#define GUARD_GUARDED_H

#include "../check/programs/common.h"

#define PAGES  4
#define REGION (PAGES * 4096UL)

/* Exits with the line where it does not hold. */
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__,           \
				      #condition);                                                 \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

struct guard_case {
	const char *name;
	void (*run)(void);
};

static CUstream stream, second;
static CUevent event;
static CUdeviceptr data;
static CUfunction spin;
/* What is read, so that the compiler does so. */
static volatile unsigned int sum;

static void busy_on(CUstream on)
{
	unsigned long time = BUSY;

	OK(LAUNCH(spin, on, &time));
}

static int run_case(int argc, char **argv, const struct guard_case *cases, size_t count)
{
	for (size_t i = 0; argc == 2 && i < count; i++) {
		if (strcmp(cases[i].name, argv[1]) != 0)
			continue;
		start();
		spin = kernel("spin");
		stream = new_stream(CU_STREAM_NON_BLOCKING);
		second = new_stream(CU_STREAM_NON_BLOCKING);
		event = new_event(CU_EVENT_DISABLE_TIMING);
		data = on_device(REGION);
		OK(cuMemsetD32(data, 42, REGION / 4));
		OK(cuCtxSynchronize());
		cases[i].run();
		OK(cuCtxSynchronize());
		return 0;
	}
	for (size_t i = 0; i < count; i++)
		printf("%s\n", cases[i].name);
	return argc == 2 ? 2 : 0;
}

#define CASES(table)                                                                               \
	int main(int argc, char **argv)                                                            \
	{                                                                                          \
		return run_case(argc, argv, table, sizeof(table) / sizeof((table)[0]));            \
	}

#endif
