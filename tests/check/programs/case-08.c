// SPDX-License-Identifier: MIT
/*
 * Case 8, libfabric#11231: memory is copied inside the device, which waits for nothing, and another process, told by a pipe, reads it. Fixed: the event
 * is waited for before the other one is told.
 */
#include "processes.h"

int main(int argc, char **argv)
{
	struct parcel parcel = {0};
	CUdeviceptr data, shared;
	CUevent event;

	arguments(argc, argv);
	if (argc > 2)
		return read_shared(argv, false);
	start_child(argv);
	start();
	data = on_device(BYTES);
	shared = on_device(BYTES);
	event = new_event(CU_EVENT_DISABLE_TIMING);
	OK(cuIpcGetMemHandle(&parcel.memory, shared));
	OK(cuMemcpyDtoD(shared, data, BYTES)); /* FOUND: L05 */
	if (fixed) {
		OK(cuEventRecord(event, NULL));
		OK(cuEventSynchronize(event));
	}
	tell_child(&parcel);
	OK(cuEventDestroy(event));
	return 0;
}
