// SPDX-License-Identifier: MIT
/*
 * Case 17, nvbench#136: a kernel holds a stream until the host lets it go on; the first launch of another one loads it, and waits for the first.
 * Fixed: it is loaded before.
 */
#include "common.h"

int main(int argc, char **argv)
{
	unsigned int value = 7, count = BYTES / 4;
	CUfunction gate, late;
	CUdeviceptr data, flag;
	CUstream stream;
	uint32_t *open;

	begin(argc, argv);
	gate = kernel("gate");
	late = fixed ? kernel("fill") : unloaded("fill");
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	open = pinned(sizeof(*open));
	flag = (CUdeviceptr)open;
	data = on_device(BYTES);
	OK(LAUNCH(gate, stream, &flag));
	OK(LAUNCH(late, stream, &data, &value, &count)); /* FOUND: L11 */
	__atomic_store_n(open, 1, __ATOMIC_RELEASE);
	OK(cuStreamSynchronize(stream));
	return 0;
}
