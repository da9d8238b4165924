// SPDX-License-Identifier: MIT
/*
 * Finds the driver's functions for the measuring programs. Called by their main() alone; relies on
 * nothing but dlopen.
 */
#include "gpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

struct gpu gpu;

#define TEXT_(name) #name
#define TEXT(name)  TEXT_(name)

static void *find(const char *name)
{
	void *address = dlsym(gpu.library, name);

	if (!address)
		fprintf(stderr, "slipstream calibrate: the driver has no %s\n", name);
	return address;
}

int gpu_open(const char *folder)
{
	char path[4096] = "libcuda.so.1";

	if (folder &&
	    snprintf(path, sizeof(path), "%s/libcuda.so.1", folder) >= (int)sizeof(path)) {
		fprintf(stderr, "slipstream calibrate: %s: path too long\n", folder);
		return -ENAMETOOLONG;
	}
	gpu.library = dlopen(path, RTLD_NOW);
	if (!gpu.library) {
		fprintf(stderr, "slipstream calibrate: no driver: %s\n", dlerror());
		return -ENOENT;
	}

#define GPU_FIND(name)                                                                             \
	gpu.name = find(TEXT(name));                                                               \
	if (!gpu.name)                                                                             \
		return -ENOSYS;
	GPU_FUNCTIONS(GPU_FIND)
	gpu.context_synchronize = find("cuCtxSynchronize");
	if (!gpu.context_synchronize)
		return -ENOSYS;
	/* Only a fact to look at; a driver without it simply has no such fact. */
	gpu.get_proc_address_v1 = dlsym(gpu.library, "cuGetProcAddress");
	return 0;
}
