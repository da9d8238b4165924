// SPDX-License-Identifier: MIT
/*
 * Download: a kernel makes each frame, the host copies it into ordinary memory and works on it. (twins.h) What the host does with a frame stands in the program before
 * the next launch, so no form that keeps the order can let the device run on meanwhile.
 */
#include "twins.h"

#include "figures.h"

#define BUFFERS 2
#define LOOKED  8192 /* words of a frame that the host looks at */

static CUdeviceptr base, output[BUFFERS];
static char *memory[BUFFERS];
static CUstream copies, kernels;
static CUevent made[BUFFERS], copied[BUFFERS];
static uint64_t seen;

static void prepare(void)
{
	int buffers = twins.form == FREE ? BUFFERS : 1;
	void *numbers = twins_pageable(twins.bytes);

	base = twins_device(twins.bytes);
	twins_write(numbers, twins.bytes);
	DO(gpu.cuMemcpyHtoD(base, numbers, twins.bytes));
	for (int i = 0; i < buffers; i++) {
		output[i] = twins_device(twins.bytes);
		memory[i] = twins.form == FREE ? twins_pinned(twins.bytes)
					       : twins_pageable(twins.bytes);
		made[i] = twins_event();
		copied[i] = twins_event();
	}
	if (twins.form == FREE) {
		copies = twins_stream();
		kernels = twins_stream();
	} else if (twins.form != NAIVE) {
		staging_open();
	}
}

static void make(CUstream stream, CUdeviceptr to, uint64_t frame)
{
	twins_fill(stream, to, UINT32_C(0x42000000) + (uint32_t)(frame << 8), twins.bytes / 4);
	twins_saxpy(stream, 1.0f, base, to, twins.bytes / 4);
	twins_spin(stream, twins.kernel_ns);
}

/* Words all over the frame; then as long as a frame's work takes. */
static void host_work(const char *frame)
{
	uint64_t begin = figures_now();
	size_t stride = twins.bytes / LOOKED & ~(size_t)7;

	stride = stride ? stride : 8;
	for (size_t at = 0; at + 8 <= twins.bytes; at += stride)
		seen = twins_fold(seen, frame + at, 8);
	while (figures_now() - begin < twins.cpu_ns)
		;
}

static void submit(uint64_t frame)
{
	uint64_t at = frame % BUFFERS;

	DO(gpu.cuStreamWaitEvent(kernels, copied[at], 0));
	make(kernels, output[at], frame);
	DO(gpu.cuEventRecord(made[at], kernels));
	DO(gpu.cuStreamWaitEvent(copies, made[at], 0));
	DO(gpu.cuMemcpyDtoHAsync(memory[at], output[at], twins.bytes, copies));
	DO(gpu.cuEventRecord(copied[at], copies));
}

static void run(uint64_t frames)
{
	seen = 0;
	for (uint64_t frame = 0; frame < frames; frame++) {
		if (twins.form == FREE) {
			if (!frame)
				submit(0);
			if (frame + 1 < frames)
				submit(frame + 1);
			DO(gpu.cuEventSynchronize(copied[frame % BUFFERS]));
			host_work(memory[frame % BUFFERS]);
			continue;
		}
		make(NULL, output[0], frame);
		if (twins.form == NAIVE)
			DO(gpu.cuMemcpyDtoH(memory[0], output[0], twins.bytes));
		else
			staging_download(memory[0], output[0], twins.bytes);
		host_work(memory[0]);
	}
}

static uint64_t digest(void)
{
	return seen;
}

const struct twin twins_download = {"download", prepare, run, digest};
