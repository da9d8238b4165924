// SPDX-License-Identifier: MIT
/*
 * Stream-ordered allocation: the default pool and one of its own, a release threshold, memory handed from stream to stream by an event,
 * trimming. Prints checksums and what the pools say they hold at the end.
 */
#include "program.cuh"

int main()
{
	const size_t count = 1 << 18, bytes = count * sizeof(uint32_t);
	std::vector<uint32_t> host(count), back(count);
	cudaMemPoolProps properties = {};
	cudaStream_t first, second;
	uint64_t threshold = UINT64_MAX, used = 1;
	cudaEvent_t event;
	cudaMemPool_t pool, own;
	uint32_t *a, *b;
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		host[i] = (uint32_t)(i * 2654435761u);
	CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
	CHECK(cudaStreamCreate(&second));
	CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));

	for (int round = 0; round < 40; round++) {
		if (round == 20)
			CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold,
						      &threshold));
		CHECK(cudaMallocAsync(&a, bytes, first));
		CHECK(cudaMemcpyAsync(a, host.data(), bytes, cudaMemcpyHostToDevice, first));
		run_step(a, count, (uint32_t)round, first);
		CHECK(cudaEventRecord(event, first));
		CHECK(cudaStreamWaitEvent(second, event, 0));
		CHECK(cudaMallocAsync(&b, bytes, second));
		CHECK(cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice, second));
		run_step(b, count, 1, second);
		CHECK(cudaMemcpyAsync(back.data(), b, bytes, cudaMemcpyDeviceToHost, second));
		CHECK(cudaFreeAsync(a, second));
		CHECK(cudaFreeAsync(b, second));
		CHECK(cudaStreamSynchronize(second));
		sum = sum * 31 + checksum(back.data(), count);
	}
	printf("default pool %016llx\n", (unsigned long long)sum);

	properties.allocType = cudaMemAllocationTypePinned;
	properties.location.type = cudaMemLocationTypeDevice;
	CHECK(cudaMemPoolCreate(&own, &properties));
	sum = 0;
	for (int round = 0; round < 20; round++) {
		CHECK(cudaMallocFromPoolAsync(&a, bytes, own, first));
		CHECK(cudaMemsetAsync(a, round, bytes, first));
		run_step(a, count, 3, first);
		CHECK(cudaMemcpyAsync(back.data(), a, bytes, cudaMemcpyDeviceToHost, first));
		CHECK(cudaStreamSynchronize(first));
		/* A pool's block given back by the plain free. */
		if (round % 4 == 3)
			CHECK(cudaFree(a));
		else
			CHECK(cudaFreeAsync(a, first));
		sum = sum * 31 + checksum(back.data(), count);
	}
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaMemPoolTrimTo(own, 0));
	CHECK(cudaMemPoolGetAttribute(own, cudaMemPoolAttrUsedMemCurrent, &used));
	CHECK(cudaMemPoolDestroy(own));
	CHECK(cudaMemPoolTrimTo(pool, 0));
	printf("own pool %016llx, %llu bytes in use\n", (unsigned long long)sum,
	       (unsigned long long)used);
	return 0;
}
