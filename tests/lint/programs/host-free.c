// SPDX-License-Identifier: MIT
/* L12, another way: pinned memory is freed, and a registration taken back, while the device works. Fixed: after the last round. */
#include "common.h"

int main(void)
{
	CUstream stream;
	void *taken[ROUNDS], *registered[ROUNDS];

	begin();
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	for (int i = 0; i < ROUNDS; i++) {
		taken[i] = pinned(4096);
		registered[i] = aligned_alloc(4096, 4096);
		OK(cuMemHostRegister(registered[i], 4096, 0));
	}
	for (int i = 0; i < ROUNDS; i++) {
		spin(stream, BUSY);
#ifndef FIXED
		OK(cuMemFreeHost(taken[i]));
		spin(stream, BUSY);
		OK(cuMemHostUnregister(registered[i]));
#endif
	}
	OK(cuStreamSynchronize(stream));
#ifdef FIXED
	for (int i = 0; i < ROUNDS; i++) {
		OK(cuMemFreeHost(taken[i]));
		OK(cuMemHostUnregister(registered[i]));
	}
#endif
	return 0;
}
