// SPDX-License-Identifier: MIT
/* S02: a blocking stream, and no work on the legacy stream anywhere. Fixed: a non-blocking one. */
#include "common.h"

int main(int argc, char **argv)
{
	CUdeviceptr data;
	CUstream stream;
	unsigned int flags;

	begin(argc, argv);
	flags = fixed ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
	OK(cuStreamCreate(&stream, flags)); /* FOUND: S02 */
	data = on_device(BYTES);
	OK(cuMemsetD8Async(data, 0, BYTES, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuStreamDestroy(stream));
	return 0;
}
