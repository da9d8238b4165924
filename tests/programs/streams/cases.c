// SPDX-License-Identifier: MIT
/*
 * One rule of the rewritten default stream at a time: `cases NAME`, run by run.py on the simulated driver, without the rewrite and with it.
 * Exit status 0: what the case itself can see is right; 1: it is not, and stderr says what.
 */
#include "cases.h"

#include <string.h>

#include "../../simcuda/kernels.h"

/* What journal lines of this program begin with: a name of so many bytes is asked for. */
enum { MARK_BEGIN = 1001, MARK_END = 1002, MARK_LETTER = 2000 };

int failures;
CUcontext context;
CUmodule module;
CUfunction hash_kernel, fill_kernel, copy_kernel, gate_kernel, spin_kernel;
CUdeviceptr word;
static uint32_t salt;
static volatile uint32_t *gates;

static void mark(int what)
{
	char name[3000];

	OK(cuDeviceGetName(name, what, 0));
}

void begin(void)
{
	mark(MARK_BEGIN);
}

void end(void)
{
	mark(MARK_END);
}

void name_stream(char letter, CUstream stream)
{
	unsigned int flags;

	mark(MARK_LETTER + letter);
	OK(cuStreamGetFlags(stream, &flags));
}

CUstream new_stream(char letter, unsigned int flags)
{
	CUstream stream;

	OK(cuStreamCreate(&stream, flags));
	name_stream(letter, stream);
	return stream;
}

CUevent new_event(char letter, unsigned int flags)
{
	CUevent event;

	OK(cuEventCreate(&event, flags));
	mark(MARK_LETTER + letter);
	OK(cuEventQuery(event));
	return event;
}

CUresult try_step(CUstream stream, unsigned int index)
{
	CUdeviceptr own = word + 8 * (uint64_t)index, read = index ? word : word + 8;
	uint32_t bytes = index ? 8 : 8 * (LOOSE - 1), value = ++salt;
	void *parameters[] = {&own, index == LOOSE ? &own : &read, &bytes, &value};

	return cuLaunchKernel(hash_kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
}

void step(CUstream stream, unsigned int index)
{
	OK(try_step(stream, index));
}

void say_words(void)
{
	uint64_t words[WORDS];

	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoH(words, word, sizeof(words)));
	for (unsigned int i = 0; i < WORDS; i++)
		printf("word %u: %016llx\n", i, (unsigned long long)words[i]);
}

void close_gate(CUstream stream, unsigned int index)
{
	volatile uint32_t *flag = &gates[index];
	void *parameters[] = {&flag};

	*flag = 0;
	OK(cuLaunchKernel(gate_kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

void open_gate(unsigned int index)
{
	gates[index] = 1;
}

void gates_are_gone(void)
{
	gates = NULL;
}

void load_kernels(void)
{
	OK(cuModuleLoadData(&module, simcuda_ptx));
	OK(cuModuleGetFunction(&hash_kernel, module, "hash"));
	OK(cuModuleGetFunction(&fill_kernel, module, "fill"));
	OK(cuModuleGetFunction(&copy_kernel, module, "copy"));
	OK(cuModuleGetFunction(&gate_kernel, module, "gate"));
	OK(cuModuleGetFunction(&spin_kernel, module, "spin"));
}

void prepare_context(void)
{
	uint64_t none = 0;
	uint32_t nothing = 0;
	void *copy[] = {&word, &word, &none}, *fill[] = {&word, &nothing, &nothing},
	     *spin[] = {&none};
	void *host;

	load_kernels();
	OK(cuMemAlloc(&word, 4096));
	OK(cuMemsetD8(word, 0, 4096));
	if (!gates) {
		OK(cuMemHostAlloc(&host, 4096,
				  CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
		gates = host;
	}
	/* A first launch may wait, so the rewrite leaves it where it is. */
	close_gate(NULL, 0);
	open_gate(0);
	OK(cuLaunchKernel(copy_kernel, 1, 1, 1, 1, 1, 1, 0, NULL, copy, NULL));
	OK(cuLaunchKernel(fill_kernel, 1, 1, 1, 1, 1, 1, 0, NULL, fill, NULL));
	OK(cuLaunchKernel(spin_kernel, 1, 1, 1, 1, 1, 1, 0, NULL, spin, NULL));
	step(NULL, 0);
	OK(cuCtxSynchronize());
}

void mix(CUstream blocking)
{
	step(blocking, 1);
	step(NULL, 0);
	OK(cuCtxSynchronize());
}

static bool run(const struct named_case *cases, const char *name)
{
	for (; cases->name; cases++)
		if (strcmp(cases->name, name) == 0) {
			cases->run();
			return true;
		}
	return false;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	prepare_context();
	if (!run(barrier_cases, argv[1]) && !run(call_cases, argv[1]) &&
	    !run(memory_cases, argv[1]) && !run(capture_cases, argv[1]) &&
	    !run(life_cases, argv[1]) && !run(refused_cases, argv[1]) &&
	    !run(entry_cases, argv[1]) && !run(unseen_cases, argv[1])) {
		fprintf(stderr, "cases: no case %s\n", argv[1]);
		return 2;
	}
	return failures ? 1 : 0;
}
