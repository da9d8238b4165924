// SPDX-License-Identifier: MIT
/* The demo's way into the driver: see driver.h. Relies on dlopen and cuGetProcAddress alone. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dlfcn.h>

#ifdef DEMO_LINKED

void driver_open(void)
{
}

#else

/* The prototypes above are those of CUDA 12, and every driver since then has them. */
#define DEMO_API_VERSION 12000

struct driver_api driver_api;

typedef CUresult (*get_proc_address)(const char *, void **, int, cuuint64_t,
				     CUdriverProcAddressQueryResult *);

static void driver_find(get_proc_address get, const char *name, void *ret_function)
{
	CUdriverProcAddressQueryResult status;
	void *function = NULL;

	if (get(name, &function, DEMO_API_VERSION, CU_GET_PROC_ADDRESS_DEFAULT, &status) ||
	    !function) {
		fprintf(stderr, "demo: the CUDA driver has no %s\n", name);
		exit(1);
	}
	memcpy(ret_function, &function, sizeof(function));
}

void driver_open(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	get_proc_address get;

	if (!library) {
		fprintf(stderr, "demo: no CUDA driver: %s\n", dlerror());
		exit(1);
	}
	*(void **)&get = dlsym(library, "cuGetProcAddress_v2");
	if (!get) {
		fprintf(stderr, "demo: needs a driver for CUDA 12 or later\n");
		exit(1);
	}
#define DEMO_FIND(name)  driver_find(get, #name, &driver_api.name);
	DEMO_FUNCTIONS(DEMO_FIND)
#undef DEMO_FIND
}

#endif

void driver_check(CUresult result, const char *call, const char *file, int line)
{
	const char *name = NULL;

	if (result == CUDA_SUCCESS)
		return;
	CU(cuGetErrorName)(result, &name);
	fprintf(stderr, "demo: %s:%d: %s: %s\n", file, line, call, name ? name : "unknown error");
	exit(1);
}
