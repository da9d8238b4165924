// SPDX-License-Identifier: MIT
/*
 * A runtime-API program with the runtime linked in (nvcc -cudart static), as most shipped CUDA programs are. Prints checksums only, so that
 * two runs can be compared byte by byte.
 */
#include "program.cuh"

static uint64_t checksum(const std::vector<uint32_t> &data)
{
	return checksum(data.data(), data.size());
}

int main()
{
	const size_t count = 1 << 20, bytes = count * sizeof(uint32_t);
	std::vector<uint32_t> host(count), back(count);
	cudaStream_t blocking, non_blocking;
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	cudaEvent_t event;
	uint32_t *device, *pooled, *pinned;

	for (size_t i = 0; i < count; i++)
		host[i] = (uint32_t)i;
	CHECK(cudaMalloc(&device, bytes));
	CHECK(cudaStreamCreate(&blocking));
	CHECK(cudaStreamCreateWithFlags(&non_blocking, cudaStreamNonBlocking));
	CHECK(cudaEventCreate(&event));
	CHECK(cudaMallocHost(&pinned, bytes));

	for (int round = 0; round < 50; round++) {
		CHECK(cudaMemcpy(device, host.data(), bytes, cudaMemcpyHostToDevice));
		for (int i = 0; i < 20; i++)
			step<<<(unsigned)(count / 256), 256>>>(device, count, (uint32_t)i);
		CHECK(cudaGetLastError());
		CHECK(cudaMemcpy(back.data(), device, bytes, cudaMemcpyDeviceToHost));
	}
	printf("legacy stream %016llx\n", (unsigned long long)checksum(back));

	for (int round = 0; round < 50; round++) {
		step<<<(unsigned)(count / 256), 256, 0, blocking>>>(device, count, 7);
		CHECK(cudaEventRecord(event, blocking));
		CHECK(cudaStreamWaitEvent(non_blocking, event, 0));
		CHECK(cudaMemcpyAsync(pinned, device, bytes, cudaMemcpyDeviceToHost, non_blocking));
		CHECK(cudaStreamSynchronize(non_blocking));
	}
	back.assign(pinned, pinned + count);
	printf("two streams %016llx\n", (unsigned long long)checksum(back));

	CHECK(cudaStreamBeginCapture(non_blocking, cudaStreamCaptureModeThreadLocal));
	for (int i = 0; i < 10; i++)
		step<<<(unsigned)(count / 256), 256, 0, non_blocking>>>(device, count, (uint32_t)i);
	CHECK(cudaStreamEndCapture(non_blocking, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 20; i++)
		CHECK(cudaGraphLaunch(exec, non_blocking));
	CHECK(cudaStreamSynchronize(non_blocking));
	CHECK(cudaMemcpy(back.data(), device, bytes, cudaMemcpyDeviceToHost));
	printf("graph %016llx\n", (unsigned long long)checksum(back));

	for (int round = 0; round < 20; round++) {
		CHECK(cudaMallocAsync(&pooled, bytes, non_blocking));
		CHECK(cudaMemsetAsync(pooled, round, bytes, non_blocking));
		CHECK(cudaMemcpyAsync(back.data(), pooled, bytes, cudaMemcpyDeviceToHost, non_blocking));
		CHECK(cudaFreeAsync(pooled, non_blocking));
	}
	CHECK(cudaDeviceSynchronize());
	printf("pool %016llx\n", (unsigned long long)checksum(back));

	CHECK(cudaFree(device));
	CHECK(cudaFreeHost(pinned));
	CHECK(cudaHostRegister(host.data(), bytes, 0));
	CHECK(cudaHostUnregister(host.data()));
	CHECK(cudaStreamDestroy(blocking));
	CHECK(cudaStreamDestroy(non_blocking));
	CHECK(cudaDeviceReset());
	CHECK(cudaMalloc(&device, bytes));
	CHECK(cudaMemset(device, 3, bytes));
	CHECK(cudaMemcpy(back.data(), device, bytes, cudaMemcpyDeviceToHost));
	printf("after reset %016llx\n", (unsigned long long)checksum(back));
	return 0;
}
