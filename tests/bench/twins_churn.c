// SPDX-License-Identifier: MIT
/*
 * Churn: each frame has pinned and device memory of its own, of several sizes: allocated, written, copied, worked on by a kernel, freed. Every so many frames
 * the host reads a result. (twins.h) The frames belong to a few lanes that have nothing to do with each other, which the free form uses.
 */
#include "twins.h"

#include <string.h>

#define LANES 4
#define BATCH 16
#define USED  ((size_t)64 << 10) /* bytes of a block that are written */

static const size_t sizes[] = {64 << 10, 256 << 10, 1 << 20, 4 << 20};

static CUdeviceptr device[BATCH], sum, states;
static void *host[BATCH];
static uint64_t *told; /* states of a batch, pinned where they are read later */
static uint64_t seen;
static CUstream lane[LANES];
static CUevent used[BATCH], ended[LANES];

static void prepare(void)
{
	for (int i = 0; i < BATCH && twins.form != NAIVE; i++) {
		host[i] = twins_pinned(sizes[3]);
		device[i] = twins_device(sizes[3]);
		used[i] = twins_event();
	}
	for (int i = 0; i < LANES && twins.form == FREE; i++) {
		lane[i] = twins_stream();
		ended[i] = twins_event();
	}
	sum = twins_device(LANES * USED);
	states = twins_device(LANES * sizeof(uint64_t));
	told = twins.form == FREE ? twins_pinned(LANES * sizeof(uint64_t))
				  : twins_pageable(LANES * sizeof(uint64_t) * 128);
}

static void work(CUstream stream, void *from, CUdeviceptr to, uint64_t frame)
{
	uint64_t at = frame % LANES;

	memset(from, 0x3c, USED);
	twins_stamp(from, frame);
	DO(gpu.cuMemcpyHtoDAsync(to, from, USED, stream));
	twins_hash(stream, states + at * sizeof(uint64_t), to, TWINS_HASHED, (uint32_t)frame);
	twins_saxpy(stream, 0.5f, to, sum + at * USED, USED / 4);
	twins_spin(stream, twins.kernel_ns);
}

static void naive(uint64_t frame)
{
	size_t bytes = sizes[frame * 7 / 3 % 4];
	CUdeviceptr memory;
	void *pinned;

	DO(gpu.cuMemHostAlloc(&pinned, bytes, 0));
	DO(gpu.cuMemAlloc(&memory, bytes));
	work(NULL, pinned, memory, frame);
	DO(gpu.cuMemFreeHost(pinned));
	DO(gpu.cuMemFree(memory));
}

/* The read at a batch's end proves that its blocks are not in use. */
static void ordered(uint64_t frame)
{
	work(NULL, host[frame % BATCH], device[frame % BATCH], frame);
}

static void unordered(uint64_t frame)
{
	uint64_t at = frame % BATCH;

	DO(gpu.cuEventSynchronize(used[at]));
	work(lane[frame % LANES], host[at], device[at], frame);
	DO(gpu.cuEventRecord(used[at], lane[frame % LANES]));
}

static void look(void)
{
	for (int i = 0; i < LANES; i++)
		seen = (seen ^ told[i]) * 31;
}

/* Of the batch before, whose copies have come; then this one's are asked for. */
static void look_later(bool is_first)
{
	for (int i = 0; i < LANES; i++)
		DO(gpu.cuEventSynchronize(ended[i]));
	if (!is_first)
		look();
	for (int i = 0; i < LANES; i++) {
		DO(gpu.cuMemcpyDtoHAsync(told + i, states + (uint64_t)i * sizeof(uint64_t),
					 sizeof(uint64_t), lane[i]));
		DO(gpu.cuEventRecord(ended[i], lane[i]));
	}
}

static void run(uint64_t frames)
{
	bool is_first = true;

	seen = 0;
	DO(gpu.cuMemsetD8(sum, 0, LANES * USED));
	DO(gpu.cuMemsetD8(states, 0, LANES * sizeof(uint64_t)));
	if (twins.form == FREE)
		DO(gpu.cuStreamSynchronize(NULL));
	for (uint64_t frame = 0; frame < frames; frame++) {
		if (twins.form == NAIVE)
			naive(frame);
		else if (twins.form == FREE)
			unordered(frame);
		else
			ordered(frame);
		if ((frame + 1) % BATCH && frame + 1 < frames)
			continue;
		if (twins.form == FREE) {
			look_later(is_first);
			is_first = false;
		} else {
			DO(gpu.cuMemcpyDtoH(told, states, LANES * sizeof(uint64_t)));
			look();
		}
	}
	if (twins.form == FREE) {
		for (int i = 0; i < LANES; i++)
			DO(gpu.cuEventSynchronize(ended[i]));
		look();
	}
}

static uint64_t digest(void)
{
	static uint64_t all[LANES * USED / sizeof(uint64_t)];

	DO(gpu.cuMemcpyDtoH(all, sum, sizeof(all)));
	return twins_fold(seen, all, sizeof(all));
}

const struct twin twins_churn = {"churn", prepare, run, digest};
