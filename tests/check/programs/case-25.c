// SPDX-License-Identifier: MIT
/*
 * Case 25, mscclpp#516, oneflow#890: so many launches stand behind a gate that the queue is full; the copy that would open it is never submitted.
 * Fixed: the gate is opened first, and every 256 launches are waited for.
 */
#include "common.h"

#define LAUNCHES 4096

int main(int argc, char **argv)
{
	unsigned long time = 0;
	CUstream stream, other;
	CUfunction spin;
	uint32_t *gate, *one;

	begin(argc, argv);
	spin = kernel("spin");
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	other = new_stream(CU_STREAM_NON_BLOCKING);
	gate = pinned(sizeof(*gate));
	one = pinned(sizeof(*one));
	*one = 1;
	OK(cuStreamWaitValue32(stream, (CUdeviceptr)gate, 1, CU_STREAM_WAIT_VALUE_GEQ));
	if (fixed)
		OK(cuStreamWriteValue32(other, (CUdeviceptr)gate, 1, 0));
	for (int i = 1; i <= LAUNCHES; i++) {
		OK(LAUNCH(spin, stream, &time)); /* FOUND: L15 */
		if (fixed && i % 256 == 0)
			OK(cuStreamSynchronize(stream));
	}
	OK(cuStreamWriteValue32(other, (CUdeviceptr)gate, 1, 0));
	OK(cuStreamSynchronize(stream));
	return 0;
}
