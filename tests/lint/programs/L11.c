// SPDX-License-Identifier: MIT
/* L11: a module is loaded in every round. Fixed: once, at start. */
#include "common.h"

static CUmodule step(void)
{
	CUmodule module;

	OK(cuModuleLoadData(&module, simcuda_ptx)); /* FINDING */
	return module;
}

int main(void)
{
	CUstream stream;

	begin();
	stream = new_stream(CU_STREAM_NON_BLOCKING);
#ifdef FIXED
	(void)step();
#endif
	for (int i = 0; i < ROUNDS; i++) {
		spin(stream, BUSY);
#ifndef FIXED
		(void)step();
#endif
		OK(cuStreamSynchronize(stream));
	}
	return 0;
}
