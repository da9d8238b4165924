// SPDX-License-Identifier: MIT
/*
 * Another tool that wraps a driver function and finds the real one by RTLD_NEXT. Preloaded before
 * the shim and behind it.
 */
#include <dlfcn.h>
#include <stdlib.h>

typedef int init_function(unsigned int);

__attribute__((visibility("default"))) int cuInit(unsigned int flags);
int cuInit(unsigned int flags)
{
	static int depth;
	init_function *next = (init_function *)dlsym(RTLD_NEXT, "cuInit");
	int result;

	if (depth++)
		_Exit(3);
	if (!next)
		_Exit(4);
	result = next(flags);
	depth--;
	return result;
}
