// SPDX-License-Identifier: MIT
/* L14: pinned memory is taken in every round. Fixed: once, at start. */
#include "common.h"

static void *step(void)
{
	void *memory;

	OK(cuMemHostAlloc(&memory, LARGE, 0)); /* FINDING */
	return memory;
}

int main(void)
{
	CUstream stream;
	void *memory = NULL;

	begin();
	stream = new_stream(CU_STREAM_NON_BLOCKING);
#ifdef FIXED
	memory = step();
#endif
	for (int i = 0; i < ROUNDS; i++) {
#ifndef FIXED
		memory = step();
#endif
		memset(memory, i, LARGE);
		spin(stream, BUSY);
	}
	OK(cuStreamSynchronize(stream));
	return 0;
}
