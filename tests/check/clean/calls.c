// SPDX-License-Identifier: MIT
/*
 * Programs, by name, of which the rules about single calls say nothing: each comes close to one of them, and is right. `calls NAME`; `calls` lists them.
 * Driver API; on the simulated driver or a real one.
 */
#include "calls.h"

CUcontext own_context;
CUstream first, second;
CUdeviceptr data, result;
uint8_t *host;
CUfunction spin, fill;

static const struct named *const groups[] = {clean_copies, clean_streams, clean_waits,
					     clean_captures, clean_pipelines};

CUfunction own_kernel(const char *name)
{
	return kernel(name);
}

CUfunction own_unloaded(const char *name)
{
	return unloaded(name);
}

static void prepare(void)
{
	start();
	own_context = context;
	spin = kernel("spin");
	fill = kernel("fill");
	first = new_stream(CU_STREAM_NON_BLOCKING);
	second = new_stream(CU_STREAM_NON_BLOCKING);
	data = on_device(ROUNDS * BYTES);
	result = on_device(ROUNDS * BYTES);
	host = pinned(ROUNDS * BYTES);
}

int main(int argc, char **argv)
{
	const struct named *found = NULL;

	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
		for (const struct named *named = groups[i]; named->name; named++) {
			if (argc < 2)
				printf("%s\n", named->name);
			else if (!strcmp(named->name, argv[1]))
				found = named;
		}
	if (argc < 2)
		return 0;
	if (!found) {
		(void)fprintf(stderr, "%s: no program of this name\n", argv[1]);
		return 2;
	}
	prepare();
	found->run();
	return 0;
}
