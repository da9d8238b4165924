// SPDX-License-Identifier: MIT
/*
 * Calls that a preloaded library sees, and the ways past it, each a known number of times:
 *
 *     watch-escape DRIVER
 *
 * Called with the wrapper preloaded; DRIVER is the path of the driver library.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "waits.h"

typedef int (*synchronize)(void *stream);

static synchronize look_up(void *library)
{
	return library ? (synchronize)dlsym(library, "cuStreamSynchronize_ptsz") : NULL;
}

static int repeat(synchronize function, int count)
{
	if (!function)
		return 3;
	for (int i = 0; i < count; i++)
		function(NULL);
	return 0;
}

/* Each from its own function, so that the stacks tell them apart. */
__attribute__((noinline)) static int wrapped(void)
{
	for (int i = 0; i < 100; i++)
		cuStreamSynchronize_ptsz(NULL);
	return 0;
}

__attribute__((noinline)) static int saved_pointer(const char *driver)
{
	return repeat(look_up(dlopen(driver, RTLD_NOW)), 11);
}

/* The module binds to its own dependencies before anything preloaded. */
__attribute__((noinline)) static int deep_bind(const char *module)
{
	void *library = dlopen(module, RTLD_NOW | RTLD_DEEPBIND);
	int (*call)(int) = library ? (int (*)(int))dlsym(library, "call_driver") : NULL;

	return call ? call(12) : 3;
}

__attribute__((noinline)) static int other_namespace(const char *driver)
{
	return repeat(look_up(dlmopen(LM_ID_NEWLM, driver, RTLD_NOW)), 13);
}

__attribute__((noinline)) static int export_table(void)
{
	const void *table;

	if (cuGetExportTable(&table, "id"))
		return 3;
	for (int i = 0; i < 14; i++)
		((synchronize const *)table)[0](NULL);
	return 0;
}

static int unpreloaded_child(char **argv)
{
	pid_t child = fork();

	if (!child) {
		unsetenv("LD_PRELOAD");
		execl("/proc/self/exe", argv[0], "child", (char *)NULL);
		_exit(3);
	}
	waitpid(child, NULL, 0);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "child")) {
		for (int i = 0; i < 15; i++)
			cuStreamSynchronize_ptsz(NULL);
		return 0;
	}
	if (argc != 3)
		return 2;
	return wrapped() | saved_pointer(argv[1]) | deep_bind(argv[2]) | other_namespace(argv[1]) |
	       export_table() | unpreloaded_child(argv);
}
