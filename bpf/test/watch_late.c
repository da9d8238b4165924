// SPDX-License-Identifier: MIT
/*
 * Loads a driver library only after a while, and calls functions of it by name:
 *
 *     watch-late LIBRARY COUNT            COUNT times cuStreamSynchronize_ptsz
 *     watch-late LIBRARY all NAMES        function i of the file NAMES (i % 5) + 1 times
 *     watch-late LIBRARY wait COUNT       loads it, says so, waits for the end of its input, calls
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int call_all(void *library, const char *path)
{
	FILE *names = fopen(path, "r");
	char name[128];
	int i = 0;

	if (!names)
		return 3;
	for (; fscanf(names, "%127s", name) == 1; i++) {
		int (*function)(void) = (int (*)(void))dlsym(library, name);

		if (!function)
			return 3;
		for (int n = 0; n < i % 5 + 1; n++) {
			if (function() != i)
				return 3;
		}
	}
	fclose(names);
	return 0;
}

int main(int argc, char **argv)
{
	int (*function)(void *);
	void *library;
	char byte;

	if (argc < 3)
		return 2;
	usleep(20000);
	library = dlopen(argv[1], RTLD_NOW);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 3;
	}
	if (!strcmp(argv[2], "all"))
		return call_all(library, argv[3]);
	if (!strcmp(argv[2], "wait")) {
		printf("ready\n");
		fflush(stdout);
		if (read(0, &byte, 1) < 0)
			return 3;
	}
	function = (int (*)(void *))dlsym(library, "cuStreamSynchronize_ptsz");
	for (int i = atoi(argv[argc - 1]); function && i > 0; i--)
		function(NULL);
	return function ? 0 : 3;
}
