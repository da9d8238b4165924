// SPDX-License-Identifier: MIT
#include "library_find.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* In a child: a driver runs code when it is loaded, which is nothing to have in here. */
char *library_find(void)
{
	char path[4096] = "", *found = NULL;
	ssize_t length = 0;
	int end[2], status;
	pid_t child;

	if (pipe2(end, O_CLOEXEC))
		return NULL;
	child = fork();
	if (!child) {
		void *library = dlopen("libcuda.so.1", RTLD_LAZY);

		if (library && !dlinfo(library, RTLD_DI_ORIGIN, path)) {
			strncat(path, "/libcuda.so.1", sizeof(path) - strlen(path) - 1);
			length = write(end[1], path, strlen(path));
		}
		_exit(length <= 0);
	}
	close(end[1]);
	if (child > 0) {
		length = read(end[0], path, sizeof(path) - 1);
		while (waitpid(child, &status, 0) < 0 && errno == EINTR)
			;
		if (length > 0) {
			path[length] = 0;
			found = realpath(path, NULL);
		}
	}
	close(end[0]);
	return found;
}
