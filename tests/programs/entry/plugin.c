// SPDX-License-Identifier: MIT
/*
 * A plugin that looks the driver up; opened with RTLD_DEEPBIND its dlsym is the C library's.
 */
#include <dlfcn.h>

__attribute__((visibility("default"))) void *plugin_look_up(void);
__attribute__((visibility("default"))) void *plugin_look_up(void)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);

	return handle ? dlsym(handle, "cuInit") : (void *)0;
}
