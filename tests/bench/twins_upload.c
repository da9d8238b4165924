// SPDX-License-Identifier: MIT
/*
 * Upload: frames that the host makes in ordinary memory, one after the other in the same buffer, are copied to the device by synchronous copies and worked on
 * by kernels on the legacy stream, which need scratch memory; at the end the result is copied back. (twins.h)
 */
#include "twins.h"

#define SCRATCH ((size_t)1 << 20)
#define BUFFERS 2

static CUdeviceptr input[BUFFERS], scratch[BUFFERS], sum, state;
static void *source[BUFFERS], *result;
static CUstream copies, kernels;
static CUevent copied[BUFFERS], used[BUFFERS];

static void prepare(void)
{
	int buffers = twins.form == FREE ? BUFFERS : 1;

	for (int i = 0; i < buffers; i++) {
		input[i] = twins_device(twins.bytes);
		source[i] = twins.form == FREE ? twins_pinned(twins.bytes)
					       : twins_pageable(twins.bytes);
		twins_write(source[i], twins.bytes);
		if (twins.form != NAIVE)
			scratch[i] = twins_device(SCRATCH);
		copied[i] = twins_event();
		used[i] = twins_event();
	}
	sum = twins_device(twins.bytes);
	state = twins_device(sizeof(uint64_t));
	result = twins.form == FREE ? twins_pinned(twins.bytes) : twins_pageable(twins.bytes);
	if (twins.form == FREE) {
		copies = twins_stream();
		kernels = twins_stream();
	} else if (twins.form != NAIVE) {
		staging_open();
	}
}

static void work(CUstream stream, CUdeviceptr from, CUdeviceptr with, uint64_t frame)
{
	twins_hash(stream, state, from, TWINS_HASHED, (uint32_t)frame);
	twins_fill(stream, with, UINT32_C(0x3f800000) + (uint32_t)frame, SCRATCH / 4);
	twins_saxpy(stream, 0.5f, from, sum, twins.bytes / 4);
	twins_saxpy(stream, 1.0f, with, sum, (SCRATCH < twins.bytes ? SCRATCH : twins.bytes) / 4);
	twins_spin(stream, twins.kernel_ns);
}

static void naive(uint64_t frame)
{
	CUdeviceptr memory;

	DO(gpu.cuMemAlloc(&memory, SCRATCH));
	twins_stamp(source[0], frame);
	DO(gpu.cuMemcpyHtoD(input[0], source[0], twins.bytes));
	work(NULL, input[0], memory, frame);
	DO(gpu.cuMemFree(memory));
}

static void ordered(uint64_t frame)
{
	twins_stamp(source[0], frame);
	staging_upload(input[0], source[0], twins.bytes, twins.form == ORDERED);
	work(NULL, input[0], scratch[0], frame);
}

static void unordered(uint64_t frame)
{
	uint64_t at = frame % BUFFERS;

	DO(gpu.cuEventSynchronize(copied[at]));
	twins_stamp(source[at], frame);
	DO(gpu.cuStreamWaitEvent(copies, used[at], 0));
	DO(gpu.cuMemcpyHtoDAsync(input[at], source[at], twins.bytes, copies));
	DO(gpu.cuEventRecord(copied[at], copies));
	DO(gpu.cuStreamWaitEvent(kernels, copied[at], 0));
	work(kernels, input[at], scratch[at], frame);
	DO(gpu.cuEventRecord(used[at], kernels));
}

static void run(uint64_t frames)
{
	DO(gpu.cuMemsetD8(sum, 0, twins.bytes));
	DO(gpu.cuMemsetD8(state, 0, sizeof(uint64_t)));
	if (twins.form == FREE)
		DO(gpu.cuStreamSynchronize(NULL));
	for (uint64_t frame = 0; frame < frames; frame++) {
		if (twins.form == NAIVE)
			naive(frame);
		else if (twins.form == FREE)
			unordered(frame);
		else
			ordered(frame);
	}
	if (twins.form == NAIVE) {
		DO(gpu.cuMemcpyDtoH(result, sum, twins.bytes));
	} else if (twins.form == FREE) {
		DO(gpu.cuMemcpyDtoHAsync(result, sum, twins.bytes, kernels));
		DO(gpu.cuStreamSynchronize(kernels));
	} else {
		staging_download(result, sum, twins.bytes);
	}
}

static uint64_t digest(void)
{
	uint64_t order;

	DO(gpu.cuMemcpyDtoH(&order, state, sizeof(order)));
	return twins_fold(order, result, twins.bytes);
}

const struct twin twins_upload = {"upload", prepare, run, digest};
