// SPDX-License-Identifier: MIT
/*
 * Case 7, ucx#4188, ucx#3560: pageable memory is copied synchronously into memory that another process reads, here by IPC; a network card does the
 * same. The other one is told when the call returns. Fixed: it waits for an event behind the copy.
 */
#include "processes.h"

int main(int argc, char **argv)
{
	struct parcel parcel = {0};
	CUdeviceptr shared;
	CUevent event;
	void *host;

	arguments(argc, argv);
	if (argc > 2)
		return read_shared(argv, fixed);
	start_child(argv);
	start();
	shared = on_device(BYTES);
	host = pageable(BYTES);
	event = new_event(CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
	OK(cuIpcGetMemHandle(&parcel.memory, shared));
	OK(cuIpcGetEventHandle(&parcel.event, event));
	OK(cuMemcpyHtoD(shared, host, BYTES)); /* FOUND: L05 */
	if (fixed)
		OK(cuEventRecord(event, NULL));
	tell_child(&parcel);
	OK(cuEventDestroy(event));
	return 0;
}
