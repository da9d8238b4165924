// SPDX-License-Identifier: MIT
/*
 * Seeds, virtual time, journal, fault injection. The program starts itself with other variables:
 * `play` does a fixed sequence of submissions and prints what the bytes became.
 */
#include "check.h"
#include <sys/wait.h>

static void hash_count(void *data)
{
	++*(int *)data;
}

static int play(void)
{
	CUcontext context;
	CUmodule module;
	CUstream streams[4];
	CUdeviceptr ordered, loose;
	CUfunction hasher, spinner;
	uint64_t values[2] = {1, 1}, start = 0;
	int counted = 0;

	OK(cuInit(0));
	OK(cuCtxCreate(&context, NULL, 0, 0));
	OK(cuModuleLoadData(&module, simcuda_ptx));
	hasher = kernel(module, "hash");
	spinner = kernel(module, "spin");
	OK(cuMemAlloc(&ordered, 8));
	OK(cuMemAlloc(&loose, 8));
	OK(cuMemcpyHtoD(ordered, values, 8));
	OK(cuMemcpyHtoD(loose, values, 8));
	for (int i = 0; i < 4; i++)
		OK(cuStreamCreate(&streams[i], i < 2 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
	start = now_ns();
	for (uint32_t i = 0; i < 40; i++) {
		OK(hash(hasher, ordered, 100 + i, i % 2 ? NULL : streams[0]));
		OK(hash(hasher, loose, i, streams[2 + i % 2]));
		if (i % 7 == 0)
			OK(spin(spinner, 50000000, streams[i % 4]));
		if (i % 11 == 0)
			OK(cuLaunchHostFunc(streams[1], hash_count, &counted));
	}
	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoH(&values[0], ordered, 8));
	OK(cuMemcpyDtoH(&values[1], loose, 8));
	EXPECT(counted == 4);
	printf("%016llx %016llx %d\n", (unsigned long long)values[0], (unsigned long long)values[1],
	       now_ns() - start < 50000000);
	return failures != 0;
}

struct outcome {
	char ordered[32], loose[32], *journal;
	int fast, status;
};

static const char *self;

static struct outcome run(const char *seed, const char *time, const char *fail, const char *mode)
{
	struct outcome outcome = {.status = -1};
	char path[] = "/tmp/simcuda-journal-XXXXXX";
	int file = mkstemp(path), ends[2];
	size_t size = 0;
	FILE *out, *journal;
	pid_t child;

	if (file < 0 || pipe(ends))
		exit(2);
	close(file);
	child = fork();
	if (!child) {
		dup2(ends[1], 1);
		close(ends[0]);
		if (seed)
			setenv("SIMCUDA_SEED", seed, 1);
		if (fail)
			setenv("SIMCUDA_FAIL", fail, 1);
		setenv("SIMCUDA_TIME", time, 1);
		setenv("SIMCUDA_JOURNAL", path, 1);
		setenv("SIMCUDA_COSTS", "none", 1);
		execl(self, self, mode, NULL);
		_exit(127);
	}
	close(ends[1]);
	out = fdopen(ends[0], "r");
	if (fscanf(out, "%31s %31s %d", outcome.ordered, outcome.loose, &outcome.fast) != 3)
		outcome.fast = -1;
	fclose(out);
	waitpid(child, &outcome.status, 0);
	journal = fopen(path, "r");
	if (getdelim(&outcome.journal, &size, 0, journal) < 0)
		outcome.journal = strdup("");
	fclose(journal);
	unlink(path);
	return outcome;
}

static void test_seeds(void)
{
	struct outcome first = run("1", "virtual", NULL, "play");
	struct outcome again = run("1", "virtual", NULL, "play");
	int different = 0, journals = 0, fast = first.fast;

	EXPECT(first.status == 0 && again.status == 0);
	EXPECT(!strcmp(first.journal, again.journal));
	EXPECT(strstr(first.journal, "cuLaunchKernel") && strstr(first.journal, " hash\n"));
	EXPECT(strstr(first.journal, "cuCtxSynchronize -> 0 wait=y"));
	free(again.journal);
	/* Six kernels of 50 ms take no time. A busy machine can make any one run slow, but none fast that sleeps. */
	for (int more = 0; fast == 0 && more < 20; more++) {
		again = run("1", "virtual", NULL, "play");
		fast = again.fast;
		free(again.journal);
	}
	EXPECT(fast == 1);
	for (int seed = 2; seed < 12; seed++) {
		char text[8];

		snprintf(text, sizeof(text), "%d", seed);
		again = run(text, seed % 2 ? "real" : "virtual", NULL, "play");
		EXPECT(again.status == 0);
		EXPECT(!strcmp(first.ordered, again.ordered));
		different += strcmp(first.loose, again.loose) != 0;
		journals += strcmp(first.journal, again.journal) != 0;
		free(again.journal);
	}
	/* What has no order comes out differently for most seeds. */
	EXPECT(different >= 5);
	/* Also by the choice among ready operations alone, without lingering. */
	setenv("SIMCUDA_DELAY_US", "0", 1);
	different = 0;
	for (int seed = 2; seed < 8; seed++) {
		char text[8];

		snprintf(text, sizeof(text), "%d", seed);
		again = run(text, "virtual", NULL, "play");
		EXPECT(again.status == 0 && !strcmp(first.ordered, again.ordered));
		different += strcmp(first.loose, again.loose) != 0;
		free(again.journal);
	}
	unsetenv("SIMCUDA_DELAY_US");
	EXPECT(different >= 3);
	EXPECT(journals >= 9);
	free(first.journal);
}

static int fail_mode(void)
{
	CUdeviceptr pointer;
	CUcontext context;

	OK(cuInit(0));
	OK(cuCtxCreate(&context, NULL, 0, 0));
	OK(cuMemAlloc(&pointer, 8));
	OK(cuMemAlloc(&pointer, 8));
	STATUS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&pointer, 8));
	OK(cuMemAlloc(&pointer, 8));
	STATUS(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(NULL));
	STATUS(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(NULL));
	puts("0 0 0");
	return failures != 0;
}

int main(int argc, char **argv)
{
	struct outcome outcome;

	self = argv[0];
	if (argc > 1)
		return strcmp(argv[1], "play") ? fail_mode() : play();
	test_seeds();
	outcome = run(NULL, "real", "cuMemAlloc_v2:3:2,cuStreamQuery:*:400", "fail");
	EXPECT(outcome.status == 0);
	EXPECT(strstr(outcome.journal, "cuStreamQuery -> 400"));
	free(outcome.journal);
	return failures ? 1 : 0;
}
