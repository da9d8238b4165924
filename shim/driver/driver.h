// SPDX-License-Identifier: MIT
/*
 * Driver: the only place that calls the real driver. `driver` is one table of typed pointers, a
 * member per wrapped export, named like it (generated: driver_ops.h). Members are NULL until the
 * driver library is found and where it lacks the symbol. Tests fill the table with fakes.
 *
 * Written once, by whoever finds the driver first (racing finders store the same values); read by
 * every thread without a lock: each member is one relaxed atomic pointer and its value never
 * changes again.
 */
#ifndef SLIPSTREAM_DRIVER_DRIVER_H
#define SLIPSTREAM_DRIVER_DRIVER_H

#include <errno.h>
#include <stdbool.h>

#include <cuda.h>
#if __has_include(<cudaProfiler.h>)
#include <cudaProfiler.h> /* types of cuProfilerInitialize, which cuda.h lacks */
#endif

#include "driver/driver_ops.h" /* generated: struct driver_ops, enum function_number, FUNCTION_COUNT */

extern struct driver_ops driver;

/* Looks for a loaded libcuda.so.1 (never loads one), takes a reference, fills `driver`. No malloc
 * of ours, no lock of ours. */
bool driver_find(void);

/* A call of ours that may reach the system: what that leaves in errno is none of the program's, whose own call needed none. */
#define QUIETLY(call_)                                                                             \
	({                                                                                         \
		int saved_ = errno;                                                                \
		CUresult quietly_ = (call_);                                                       \
		errno = saved_;                                                                    \
		quietly_;                                                                          \
	})

/* Which exported function lives at this address: its number, or -1. */
int driver_function_at(const void *address);

#endif
