// SPDX-License-Identifier: MIT
/*
 * A plugin that looks the driver up; opened with RTLD_DEEPBIND its dlsym is the C library's. With
 * LINKED it is linked with the driver, which is then loaded for it alone.
 */
#include <dlfcn.h>

__attribute__((visibility("default"))) void *plugin_look_up(void);
__attribute__((visibility("default"))) void *plugin_look_up(void)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);

	return handle ? dlsym(handle, "cuInit") : (void *)0;
}

/* By RTLD_DEFAULT, which also searches what this plugin was loaded with. */
__attribute__((visibility("default"))) void *plugin_default(void);
void *plugin_default(void)
{
	void *volatile found = dlsym(RTLD_DEFAULT, "cuInit");

	return found;
}

#ifdef LINKED
int cuInit(unsigned int flags);

__attribute__((visibility("default"))) int plugin_init(void);
int plugin_init(void)
{
	return cuInit(0);
}
#endif
