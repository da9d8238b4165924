// SPDX-License-Identifier: MIT
/* S02: a blocking stream, and no work on the legacy stream anywhere. Fixed: a non-blocking one. */
#include "common.h"

int main(int argc, char **argv)
{
	CUdeviceptr data;
	CUstream stream;

	begin(argc, argv);
	OK(cuStreamCreate(&stream,
			  fixed ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT)); /* FOUND: S02 */
	data = on_device(BYTES);
	OK(cuMemsetD8Async(data, 0, BYTES, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuStreamDestroy(stream));
	return 0;
}
