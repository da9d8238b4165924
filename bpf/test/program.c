// SPDX-License-Identifier: MIT
/*
 * Makes a known number of calls, in each of the ways in which the witness could miss one. Status 5,
 * signal forms by argument.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int cuInit(unsigned int flags);
int cuOuter(void);
int cuJumped(void);

static void *thread(void *argument)
{
	for (int i = 0; i < 100; i++)
		cuInit(0);
	return argument;
}

int main(int argc, char **argv)
{
	int (*escaped)(unsigned int);
	pthread_t other;
	void *library;

	if (argc > 1 && !strcmp(argv[1], "child")) {
		for (int i = 0; i < 3; i++)
			cuInit(0);
		return 0;
	}
	for (int i = 0; i < 1000; i++)
		cuInit(0);
	for (int i = 0; i < 20; i++)
		cuOuter();
	for (int i = 0; i < 7; i++)
		cuJumped();
	if (pthread_create(&other, NULL, thread, NULL) || pthread_join(other, NULL))
		return 1;

	/* A process too short-lived to be found by looking now and then. */
	if (!fork()) {
		for (int i = 0; i < 30; i++)
			cuInit(0);
		_exit(0);
	}
	wait(NULL);
	if (!fork()) {
		execl("/proc/self/exe", argv[0], "child", (char *)NULL);
		_exit(1);
	}
	wait(NULL);
	/* A killed one. */
	if (!fork()) {
		for (int i = 0; i < 11; i++)
			cuInit(0);
		kill(getpid(), SIGKILL);
	}
	wait(NULL);

	/* Past the wrapper. */
	library = dlopen("libcuda.so.1", RTLD_NOW);
	escaped = library ? (int (*)(unsigned int))dlsym(library, "cuInit") : NULL;
	if (!escaped)
		return 1;
	for (int i = 0; i < 13; i++)
		escaped(0);
	if (argc > 1 && !strcmp(argv[1], "signal"))
		raise(SIGTERM);
	return 5;
}
