// SPDX-License-Identifier: MIT
/* Of calls.c: what its programs share. */
#ifndef CHECK_CALLS_H
#define CHECK_CALLS_H

#include "../programs/common.h"

struct named {
	const char *name; /* NULL: the end */
	void (*run)(void);
};

extern const struct named clean_copies[], clean_streams[], clean_waits[], clean_captures[],
	clean_pipelines[];

/* The program's context, and kernels of its module. */
extern CUcontext own_context;
CUfunction own_kernel(const char *name);
CUfunction own_unloaded(const char *name);
/* Two non-blocking streams, ROUNDS pieces of BYTES on the device and in pinned memory. */
extern CUstream first, second;
extern CUdeviceptr data, result;
extern uint8_t *host;
extern CUfunction spin, fill;

static inline void spin_on(CUstream stream, unsigned long ns)
{
	OK(LAUNCH(spin, stream, &ns));
}

#endif
