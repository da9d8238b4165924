// SPDX-License-Identifier: MIT
/* L12, another way: pinned memory is freed, and a registration taken back, while the device works. Fixed: after the last round. */
#include "common.h"

#define BLOCKS 2 /* so few, that taking them is no hot path */

int main(void)
{
	CUstream stream;
	void *taken[BLOCKS], *registered[BLOCKS];

	begin();
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	for (int i = 0; i < BLOCKS; i++) {
		taken[i] = pinned(4096);
		registered[i] = aligned_alloc(4096, 4096);
		OK(cuMemHostRegister(registered[i], 4096, 0));
	}
	for (int i = 0; i < BLOCKS; i++) {
		spin(stream, BUSY);
#ifndef FIXED
		OK(cuMemFreeHost(taken[i]));
		spin(stream, BUSY);
		OK(cuMemHostUnregister(registered[i]));
#endif
	}
	OK(cuStreamSynchronize(stream));
#ifdef FIXED
	for (int i = 0; i < BLOCKS; i++) {
		OK(cuMemFreeHost(taken[i]));
		OK(cuMemHostUnregister(registered[i]));
	}
#endif
	return 0;
}
