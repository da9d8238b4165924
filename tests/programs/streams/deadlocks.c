// SPDX-License-Identifier: MIT
/*
 * Programs that end because nothing waits for more than it has to: `deadlocks NAME`, run by run.py on the simulated driver without the rewrite of the default stream and
 * with it, both with a time limit. Where an engine held its lock over something that waits, or made work wait for work that it need not wait for, they
 * hang. What they say must be the same both times.
 */
#include "deadlocks.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "../../simcuda/kernels.h"

#define FNV_PRIME UINT64_C(1099511628211)

int failures;
CUcontext deadlocks_context;
static CUfunction hash, gate;
volatile uint32_t *gates;
CUdeviceptr words;

CUstream make_stream(unsigned int flags)
{
	CUstream stream;

	OK(cuStreamCreate(&stream, flags));
	return stream;
}

CUresult put(CUfunction function, CUstream stream, unsigned int index, uint32_t salt)
{
	CUdeviceptr own = words + 64 * (uint64_t)index;
	uint32_t bytes = 0;
	void *parameters[] = {&own, &own, &bytes, &salt};

	return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
}

/* On any stream; the word's final value tells the order. */
void work(CUstream stream, unsigned int index, uint32_t salt)
{
	OK(put(hash, stream, index, salt));
}

/* The same, on the host: what the word must become. */
uint64_t folded(uint64_t state, uint32_t salt)
{
	return (state ^ salt) * FNV_PRIME;
}

uint64_t get(unsigned int index)
{
	uint64_t value;

	OK(cuMemcpyDtoH(&value, words + 64 * (uint64_t)index, 8));
	return value;
}

static void pass(CUstream stream, unsigned int index)
{
	volatile uint32_t *flag = &gates[index];
	void *parameters[] = {&flag};

	OK(cuLaunchKernel(gate, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

void shut(CUstream stream, unsigned int index)
{
	gates[index] = 0;
	pass(stream, index);
}

/* Ends in the state in which the legacy stream is rewritten, where it is. */
CUstream mixed(void)
{
	CUstream a = make_stream(CU_STREAM_DEFAULT);

	work(a, 0, 1);
	work(NULL, 0, 2);
	OK(cuCtxSynchronize());
	return a;
}

void start(pthread_t *thread, void *(*run)(void *), void *data)
{
	if (pthread_create(thread, NULL, run, data))
		exit(1);
}

void *open_later(void *index)
{
	usleep(200000);
	gates[(uintptr_t)index] = 1;
	return NULL;
}

static void prepare(void)
{
	CUmodule module;
	void *host;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&deadlocks_context, 0));
	OK(cuCtxSetCurrent(deadlocks_context));
	OK(cuModuleLoadData(&module, simcuda_ptx));
	OK(cuModuleGetFunction(&hash, module, "hash"));
	OK(cuModuleGetFunction(&gate, module, "gate"));
	OK(cuMemAlloc(&words, 8192));
	OK(cuMemsetD8(words, 0, 8192));
	OK(cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
	gates = host;
	gates[0] = 1;
	pass(NULL, 0);
	work(NULL, 0, 0);
	OK(cuCtxSynchronize());
}

static bool run(const struct named_case *programs, const char *name)
{
	for (; programs->name; programs++)
		if (strcmp(programs->name, name) == 0) {
			programs->run();
			return true;
		}
	return false;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	prepare();
	if (!run(queue_programs, argv[1]) && !run(wait_programs, argv[1]) &&
	    !run(thread_programs, argv[1])) {
		fprintf(stderr, "deadlocks: no program %s\n", argv[1]);
		return 2;
	}
	return failures ? 1 : 0;
}
