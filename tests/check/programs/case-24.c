// SPDX-License-Identifier: MIT
/*
 * Case 24, TensorRT-LLM#17773: much memory is pinned in one call, with the driver's locks held; from 64 MiB on. Fixed: in two pieces.
 */
#include "common.h"

#define LARGE (64UL << 20)
#define PIECE (LARGE / 2)

int main(int argc, char **argv)
{
	void *memory;

	begin(argc, argv);
	if (fixed)
		for (unsigned int i = 0; i < LARGE / PIECE; i++)
			OK(cuMemHostAlloc(&memory, PIECE, 0));
	else
		OK(cuMemHostAlloc(&memory, LARGE, 0)); /* FOUND: L14 */
	return 0;
}
