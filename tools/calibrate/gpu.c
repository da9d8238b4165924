// SPDX-License-Identifier: MIT
/*
 * Finds the driver's functions for the measuring programs. Called by their main() alone; relies on
 * nothing but dlopen.
 */
#include "gpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

struct gpu gpu;

#define TEXT_(name) #name
#define TEXT(name)  TEXT_(name)

static void *find(void *(*look_up)(void *, const char *), const char *name)
{
	void *address = look_up(gpu.library, name);

	if (!address)
		fprintf(stderr, "slipstream calibrate: the driver has no %s\n", name);
	return address;
}

static int fill(struct gpu *ret_gpu, void *(*look_up)(void *, const char *))
{
#define GPU_FIND(name)                                                                             \
	ret_gpu->name = find(look_up, TEXT(name));                                                 \
	if (!ret_gpu->name)                                                                        \
		return -ENOSYS;
	GPU_FUNCTIONS(GPU_FIND)
	ret_gpu->context_synchronize = find(look_up, "cuCtxSynchronize");
	if (!ret_gpu->context_synchronize)
		return -ENOSYS;
	/* Only a fact to look at; a driver without it simply has no such fact. */
	ret_gpu->get_proc_address_v1 = look_up(gpu.library, "cuGetProcAddress");
	return 0;
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
	return fill(&gpu, dlsym);
}

int gpu_open_unhooked(struct gpu *ret_gpu)
{
	static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
	void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD), *symbol = NULL;
	void *(*look_up)(void *, const char *);

	for (size_t i = 0; libc && !symbol && i < sizeof(versions) / sizeof(versions[0]); i++)
		symbol = dlvsym(libc, "dlsym", versions[i]);
	if (!symbol) {
		fprintf(stderr, "slipstream calibrate: the C library has no dlsym\n");
		return -ENOSYS;
	}
	memcpy(&look_up, &symbol, sizeof(look_up));
	return fill(ret_gpu, look_up);
}
