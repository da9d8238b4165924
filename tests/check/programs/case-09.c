// SPDX-License-Identifier: MIT
/*
 * Case 9, ucx#10599: SYNC_MEMOPS is set on memory that a pending kernel is to write; the kernel waits for a gate that the same thread opens later.
 * Fixed: it is set right after the allocation.
 */
#include "common.h"

int main(int argc, char **argv)
{
	unsigned int value = 7, count = BYTES / 4, on = 1;
	CUpointer_attribute sync_memops = CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
	CUfunction fill;
	CUstream stream;
	CUdeviceptr data;
	uint32_t *gate;

	begin(argc, argv);
	fill = kernel("fill");
	stream = new_stream(CU_STREAM_DEFAULT);
	gate = pinned(sizeof(*gate));
	data = on_device(BYTES);
	if (fixed)
		OK(cuPointerSetAttribute(&on, sync_memops, data));
	OK(cuStreamWaitValue32(stream, (CUdeviceptr)gate, 1, CU_STREAM_WAIT_VALUE_GEQ));
	OK(LAUNCH(fill, stream, &data, &value, &count));
	if (!fixed)
		OK(cuPointerSetAttribute(&on, sync_memops, data)); /* FOUND: L06 */
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
	OK(cuStreamSynchronize(stream));
	return 0;
}
