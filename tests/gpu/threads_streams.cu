// SPDX-License-Identifier: MIT
/*
 * Threads, each with its per-thread default stream and streams of its own, tied together by events; priorities, timing events, host functions
 * and a stream that is made and destroyed all the time. Compiled with --default-stream per-thread. Prints checksums, no times.
 */
#include "program.cuh"

#include <atomic>
#include <thread>

static std::atomic<int> called;

static void host_function(void *)
{
	called++;
}

static void work(int index, uint64_t *ret_sum)
{
	const size_t count = 1 << 16, bytes = count * sizeof(uint32_t);
	std::vector<uint32_t> back(count);
	cudaStream_t high, low, brief;
	uint32_t *device, *pinned;
	cudaEvent_t begin, end, ready;
	uint64_t sum = 0;
	int least, greatest;
	float ms;

	CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
	CHECK(cudaStreamCreateWithPriority(&high, cudaStreamNonBlocking, greatest));
	CHECK(cudaStreamCreateWithPriority(&low, cudaStreamDefault, least));
	CHECK(cudaEventCreate(&begin));
	CHECK(cudaEventCreate(&end));
	CHECK(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming | cudaEventBlockingSync));
	CHECK(cudaMalloc(&device, bytes));
	CHECK(cudaMallocHost(&pinned, bytes));
	CHECK(cudaMemset(device, index, bytes));
	CHECK(cudaStreamSynchronize(0));

	for (int round = 0; round < 100; round++) {
		CHECK(cudaEventRecord(begin, high));
		run_step(device, count, (uint32_t)round, high);
		CHECK(cudaEventRecord(ready, high));
		CHECK(cudaStreamWaitEvent(low, ready, 0));
		run_step(device, count, 5, low);
		CHECK(cudaEventRecord(ready, low));
		/* 0 is this thread's own stream. */
		CHECK(cudaStreamWaitEvent(0, ready, 0));
		run_step(device, count, 11, 0);
		CHECK(cudaMemcpyAsync(pinned, device, bytes, cudaMemcpyDeviceToHost, 0));
		CHECK(cudaEventRecord(ready, 0));
		CHECK(cudaStreamWaitEvent(high, ready, 0));
		CHECK(cudaLaunchHostFunc(high, host_function, NULL));
		CHECK(cudaEventRecord(end, high));
		CHECK(cudaEventSynchronize(end));
		CHECK(cudaEventElapsedTime(&ms, begin, end));
		if (ms < 0)
			exit(1);
		sum = sum * 31 + checksum(pinned, count);
		CHECK(cudaStreamCreate(&brief));
		run_step(device, count, 1, brief);
		CHECK(cudaStreamSynchronize(brief));
		CHECK(cudaStreamDestroy(brief));
	}
	CHECK(cudaMemcpy(back.data(), device, bytes, cudaMemcpyDeviceToHost));
	*ret_sum = sum * 31 + checksum(back.data(), count);
	CHECK(cudaFreeHost(pinned));
	CHECK(cudaFree(device));
	CHECK(cudaStreamDestroy(high));
	CHECK(cudaStreamDestroy(low));
}

int main()
{
	const int threads = 4;
	uint64_t sums[threads];
	std::vector<std::thread> running;

	for (int i = 0; i < threads; i++)
		running.emplace_back(work, i, &sums[i]);
	for (std::thread &thread : running)
		thread.join();
	for (uint64_t sum : sums)
		printf("thread %016llx\n", (unsigned long long)sum);
	CHECK(cudaDeviceSynchronize());
	printf("host functions %d\n", called.load());
	return 0;
}
