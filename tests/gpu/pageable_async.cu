// SPDX-License-Identifier: MIT
/*
 * "Asynchronous" copies of ordinary memory, small and large, in both directions and by rows; a source that is changed as soon as its copy
 * has returned; memory that is registered, used and unregistered; managed memory. Prints checksums.
 */
#include "program.cuh"

#include <cstring>

int main()
{
	const size_t sizes[] = {16, 4096, 65536, 1 << 20, 24 << 20};
	const size_t most = 24 << 20;
	std::vector<uint32_t> host(most / 4), back(most / 4);
	cudaStream_t stream[2];
	uint32_t *device, *managed;
	uint64_t sum = 0;

	CHECK(cudaStreamCreate(&stream[0]));
	CHECK(cudaStreamCreateWithFlags(&stream[1], cudaStreamNonBlocking));
	CHECK(cudaMalloc(&device, most));
	for (int round = 0; round < 6; round++) {
		for (size_t bytes : sizes) {
			cudaStream_t on = stream[round % 2];
			size_t count = bytes / 4;

			for (size_t i = 0; i < count; i++)
				host[i] = (uint32_t)(i + (size_t)round);
			CHECK(cudaMemcpyAsync(device, host.data(), bytes, cudaMemcpyHostToDevice,
					      on));
			/* Pageable: the source may be used again at once. */
			memset(host.data(), 0xee, bytes);
			run_step(device, count, (uint32_t)round, on);
			CHECK(cudaMemcpyAsync(back.data(), device, bytes, cudaMemcpyDeviceToHost,
					      on));
			CHECK(cudaStreamSynchronize(on));
			sum = sum * 31 + checksum(back.data(), count);
		}
	}
	printf("pageable %016llx\n", (unsigned long long)sum);

	/* 256 rows of 1 KiB out of a matrix with rows of 4 KiB. */
	memset(back.data(), 0, most);
	CHECK(cudaMemcpy2DAsync(back.data(), 4096, device, 2048, 1024, 256, cudaMemcpyDeviceToHost,
				stream[1]));
	CHECK(cudaStreamSynchronize(stream[1]));
	printf("rows %016llx\n", (unsigned long long)checksum(back.data(), 1 << 18));

	sum = 0;
	for (int round = 0; round < 5; round++) {
		CHECK(cudaHostRegister(host.data(), 1 << 20, cudaHostRegisterDefault));
		CHECK(cudaMemcpyAsync(host.data(), device, 1 << 20, cudaMemcpyDeviceToHost,
				      stream[1]));
		run_step(device, 1 << 18, 9, stream[1]);
		CHECK(cudaStreamSynchronize(stream[1]));
		CHECK(cudaHostUnregister(host.data()));
		sum = sum * 31 + checksum(host.data(), 1 << 18);
	}
	printf("registered %016llx\n", (unsigned long long)sum);

	CHECK(cudaMallocManaged(&managed, 1 << 20));
	memset(managed, 5, 1 << 20);
	run_step(managed, 1 << 18, 2, stream[0]);
	CHECK(cudaMemcpy(back.data(), managed, 1 << 20, cudaMemcpyDefault));
	printf("managed %016llx\n", (unsigned long long)checksum(back.data(), 1 << 18));
	CHECK(cudaFree(managed));
	CHECK(cudaFree(device));
	return 0;
}
