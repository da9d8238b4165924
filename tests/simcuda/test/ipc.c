// SPDX-License-Identifier: MIT
/* Memory and an event shared by two processes. The program starts itself as the second one. */
#include "check.h"
#include <sys/wait.h>

struct parcel {
	CUipcMemHandle memory;
	CUipcEventHandle event;
};

static int importer(int in, int out)
{
	struct parcel parcel;
	CUcontext context;
	CUmodule module;
	CUdeviceptr shared;
	CUstream stream;
	CUevent event;
	char done = 1;

	OK(cuInit(0));
	OK(cuCtxCreate(&context, NULL, 0, 0));
	OK(cuModuleLoadData(&module, simcuda_ptx));
	OK(cuFuncLoad(kernel(module, "hash"))); /* a lazy load would wait for the gate */
	if (read(in, &parcel, sizeof(parcel)) != sizeof(parcel))
		return 2;
	OK(cuIpcOpenMemHandle(&shared, parcel.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	OK(cuIpcOpenEventHandle(&event, parcel.event));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	/* The exporter recorded it behind a closed gate: the hash must wait for its bytes. */
	STATUS(CUDA_ERROR_NOT_READY, cuEventQuery(event));
	OK(cuStreamWaitEvent(stream, event, 0));
	OK(hash(kernel(module, "hash"), shared, 2, stream));
	STATUS(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
	if (write(out, &done, 1) != 1)
		return 2;
	OK(cuEventSynchronize(event));
	OK(cuStreamSynchronize(stream));
	OK(cuIpcCloseMemHandle(shared));
	STATUS(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(shared));
	return failures != 0;
}

int main(int argc, char **argv)
{
	struct parcel parcel;
	CUcontext context;
	CUmodule module;
	CUdeviceptr shared, pad;
	CUstream stream;
	CUevent event;
	uint64_t value = 7;
	uint32_t *gate;
	int to[2], from[2], status;
	char byte;
	pid_t child;

	if (argc == 3)
		return importer(atoi(argv[1]), atoi(argv[2]));
	if (pipe(to) || pipe(from))
		return 2;
	child = fork();
	if (!child) {
		char in[16], out[16];

		snprintf(in, sizeof(in), "%d", to[0]);
		snprintf(out, sizeof(out), "%d", from[1]);
		execl(argv[0], argv[0], in, out, NULL);
		_exit(127);
	}
	OK(cuInit(0));
	OK(cuCtxCreate(&context, NULL, 0, 0));
	OK(cuModuleLoadData(&module, simcuda_ptx));
	OK(cuFuncLoad(kernel(module, "hash"))); /* a lazy load would wait for the gate */
	OK(cuMemAlloc(&pad, 700));              /* so that the block does not begin on a page */
	OK(cuMemAlloc(&shared, 8));
	OK(cuMemHostAlloc((void **)&gate, 4, 0));
	OK(cuMemcpyHtoD(shared, &value, 8));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	STATUS(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&event, CU_EVENT_INTERPROCESS));
	OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	*gate = 0;
	OK(cuStreamWaitValue32(stream, (CUdeviceptr)gate, 1, CU_STREAM_WAIT_VALUE_GEQ));
	OK(hash(kernel(module, "hash"), shared, 1, stream));
	OK(cuEventRecord(event, stream));
	OK(cuIpcGetMemHandle(&parcel.memory, shared));
	OK(cuIpcGetEventHandle(&parcel.event, event));
	STATUS(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle(&pad, parcel.memory, 1));
	if (write(to[1], &parcel, sizeof(parcel)) != sizeof(parcel) || read(from[0], &byte, 1) != 1)
		return 2;
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
	waitpid(child, &status, 0);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoH(&value, shared, 8));
	EXPECT(value == hash_of(hash_of(7, 1), 2));
	return failures ? 1 : 0;
}
