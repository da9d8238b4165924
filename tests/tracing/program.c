// SPDX-License-Identifier: MIT
/*
 * A CUDA program for the tests of the provider: does what its arguments say, one step each, in order,
 * and prints what it read back. Runs on the simulated driver.
 *
 *	waits:N		N times: a launch of 20 us on an own stream, cuStreamSynchronize
 *	long:MS		a launch that takes so long, cuStreamSynchronize
 *	several:N	N times: launches on two streams, cuCtxSynchronize (two candidates)
 *	copies:N	N times: a copy from pageable memory, and back
 *	ordered:N	N times: launch, record, wait of the other stream for it, launch there, legacy launch, synchronize
 *	row:N		N launches in a row on each of two streams and the legacy one, then cuCtxSynchronize
 *	streams:N	N times: a stream made, used and destroyed
 *	sleep:MS	sleeps
 *	touch:PATH	makes the file
 *	await:PATH	until the file is there
 *	fork:N		N children: each does the rest in its own process; the parent waits for them and goes on
 *	child:N		N children that use CUDA after a fork: refused; each ends by exit()
 *	clone		a child by a bare clone(), refused as well
 *	threads:N	N threads, each with ten of `waits`, that end
 *	signals		prints the signal mask
 *	maps		prints how many mappings are LTTng's, and how many threads there are
 *	quit		ends by _exit()
 */
#include <cuda.h>

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels.h"

#define BYTES 4096

static CUcontext context;
static CUstream streams[2];
static CUevent event;
static CUfunction spin;
static CUdeviceptr memory;
static bool is_ready;

static void check(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	printf("%s: %d\n", what, result);
	exit(1);
}

#define CALL(function, ...) check(function(__VA_ARGS__), #function)

/* At the first step that needs it: children of `fork` have their own. */
static void prepare(void)
{
	CUmodule module;
	CUdevice device;

	if (is_ready)
		return;
	is_ready = true;
	CALL(cuInit, 0);
	CALL(cuDeviceGet, &device, 1);
	CALL(cuDevicePrimaryCtxRetain, &context, device);
	CALL(cuCtxSetCurrent, context);
	CALL(cuModuleLoadData, &module, simcuda_ptx);
	CALL(cuModuleGetFunction, &spin, module, "spin");
	CALL(cuStreamCreate, &streams[0], CU_STREAM_DEFAULT);
	CALL(cuStreamCreate, &streams[1], CU_STREAM_NON_BLOCKING);
	CALL(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
	CALL(cuMemAlloc, &memory, BYTES);
}

static void launch(CUstream stream, uint64_t ns)
{
	void *parameters[] = {&ns};

	CALL(cuLaunchKernel, spin, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
}

static void waits(long count)
{
	prepare();
	CALL(cuCtxSetCurrent, context);
	while (count-- > 0) {
		launch(streams[0], 20000);
		CALL(cuStreamSynchronize, streams[0]);
	}
}

static void long_wait(long ms)
{
	prepare();
	launch(streams[0], (uint64_t)ms * 1000000);
	CALL(cuStreamSynchronize, streams[0]);
}

static void several(long count)
{
	prepare();
	while (count-- > 0) {
		launch(streams[0], 20000);
		launch(streams[1], 20000);
		CALL(cuCtxSynchronize);
	}
}

static void copies(long count)
{
	unsigned char there[BYTES], back[BYTES];
	unsigned int sum = 0;

	prepare();
	for (long i = 0; i < count; i++) {
		memset(there, (int)i + 1, sizeof(there));
		launch(streams[0], 20000);
		CALL(cuMemcpyHtoD, memory, there, sizeof(there));
		CALL(cuMemcpyDtoH, back, memory, sizeof(back));
		for (size_t k = 0; k < sizeof(back); k++)
			sum = sum * 31 + back[k];
	}
	printf("bytes %08x\n", sum);
}

static void ordered(long count)
{
	prepare();
	while (count-- > 0) {
		launch(streams[0], 20000);
		CALL(cuEventRecord, event, streams[0]);
		CALL(cuStreamWaitEvent, streams[1], event, 0);
		launch(streams[1], 20000);
		launch(NULL, 20000);
		CALL(cuStreamSynchronize, NULL);
		CALL(cuStreamSynchronize, streams[1]);
	}
}

static void row(long count)
{
	prepare();
	for (long i = 0; i < count; i++)
		launch(streams[0], 100);
	for (long i = 0; i < count; i++)
		launch(streams[1], 100);
	for (long i = 0; i < count; i++)
		launch(NULL, 100);
	CALL(cuCtxSynchronize);
}

static void make_streams(long count)
{
	CUstream stream;

	prepare();
	while (count-- > 0) {
		CALL(cuStreamCreate, &stream,
		     count % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
		launch(stream, 200000);
		CALL(cuStreamSynchronize, stream);
		CALL(cuStreamDestroy, stream);
	}
}

static void *thread(void *unused)
{
	(void)unused;
	waits(10);
	return NULL;
}

static void threads(long count)
{
	pthread_t ids[64];

	prepare();
	for (long i = 0; i < count && i < 64; i++)
		if (pthread_create(&ids[i], NULL, thread, NULL))
			exit(1);
	for (long i = 0; i < count && i < 64; i++)
		pthread_join(ids[i], NULL);
}

/* Returns in the children. */
static bool fork_children(long count)
{
	int status;

	fflush(stdout);
	for (long i = 0; i < count; i++) {
		pid_t child = fork();

		if (!child)
			return true;
		if (child < 0 || waitpid(child, &status, 0) != child || status) {
			printf("child: status %x\n", status);
			exit(1);
		}
	}
	return false;
}

static void fork_refused(long count)
{
	prepare();
	if (!fork_children(count))
		return;
	if (cuCtxSynchronize() == CUDA_SUCCESS)
		exit(1);
	exit(0);
}

static void clone_refused(void)
{
	int status;
	pid_t child;

	prepare();
	fflush(stdout);
	child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (!child) {
		(void)cuCtxSynchronize();
		(void)cuCtxSynchronize();
		exit(0);
	}
	if (waitpid(child, &status, 0) != child || status)
		exit(1);
}

static void print_signals(void)
{
	sigset_t mask;

	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	for (int i = 1; i < 32; i++)
		putchar(sigismember(&mask, i) ? '1' : '0');
	putchar('\n');
}

static void print_maps(void)
{
	unsigned int mappings = 0, threads_seen = 0;
	DIR *tasks = opendir("/proc/self/task");
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[4096];

	while (maps && fgets(line, sizeof(line), maps))
		mappings += strstr(line, "lttng") != NULL;
	while (tasks && readdir(tasks))
		threads_seen++;
	printf("mappings %u threads %u\n", mappings, threads_seen - 2);
	if (maps)
		fclose(maps);
	if (tasks)
		closedir(tasks);
}

static void await(const char *path)
{
	while (access(path, F_OK))
		usleep(2000);
}

static bool is_step(const char *step, const char *name, const char **ret_argument)
{
	size_t length = strlen(name);

	if (strncmp(step, name, length) || (step[length] && step[length] != ':'))
		return false;
	*ret_argument = step[length] ? step + length + 1 : "";
	return true;
}

static void take(const char *step)
{
	const char *argument;
	FILE *file;

	if (is_step(step, "waits", &argument)) {
		waits(atol(argument));
	} else if (is_step(step, "long", &argument)) {
		long_wait(atol(argument));
	} else if (is_step(step, "several", &argument)) {
		several(atol(argument));
	} else if (is_step(step, "copies", &argument)) {
		copies(atol(argument));
	} else if (is_step(step, "ordered", &argument)) {
		ordered(atol(argument));
	} else if (is_step(step, "row", &argument)) {
		row(atol(argument));
	} else if (is_step(step, "streams", &argument)) {
		make_streams(atol(argument));
	} else if (is_step(step, "threads", &argument)) {
		threads(atol(argument));
	} else if (is_step(step, "sleep", &argument)) {
		usleep((unsigned int)atol(argument) * 1000);
	} else if (is_step(step, "touch", &argument)) {
		file = fopen(argument, "w");
		if (file)
			fclose(file);
	} else if (is_step(step, "await", &argument)) {
		await(argument);
	} else if (is_step(step, "fork", &argument)) {
		fork_children(atol(argument));
	} else if (is_step(step, "child", &argument)) {
		fork_refused(atol(argument));
	} else if (is_step(step, "clone", &argument)) {
		clone_refused();
	} else if (is_step(step, "signals", &argument)) {
		print_signals();
	} else if (is_step(step, "maps", &argument)) {
		print_maps();
	} else if (is_step(step, "init", &argument)) {
		prepare();
	} else if (is_step(step, "quit", &argument)) {
		fflush(stdout);
		_exit(0);
	} else {
		printf("no such step: %s\n", step);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		take(argv[i]);
	printf("done\n");
	return 0;
}
