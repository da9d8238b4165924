// SPDX-License-Identifier: MIT
/*
 * `twins PROGRAM FORM [OPTION...]`: one program of twins.h in one form; started by twins.py, the form naive with the shim, too. Prints
 * the digest, ns a frame of the first few frames (`first`: what is made once is made then), and ns a frame of the loop that counts.
 */
#include "twins.h"

#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../simcuda/kernels.h"
#include "figures.h"

#define BLOCKS  512
#define THREADS 256
#define FNV     UINT64_C(1099511628211)

struct twins twins;

static const char *const form_names[FORMS] = {"naive", "ordered", "unwaited", "free"};
static const struct twin *const programs[] = {&twins_upload, &twins_churn, &twins_download};

static struct {
	const struct twin *twin;
	bool has_form;
	uint64_t frames, first, kib, kernel_us, cpu_us;
} options = {.frames = 100, .first = 10, .kib = 16 << 10, .kernel_us = 1000, .cpu_us = 1000};

void twins_check(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "twins: %s: %d\n", what, (int)result);
	exit(1);
}

CUdeviceptr twins_device(size_t bytes)
{
	CUdeviceptr memory;

	DO(gpu.cuMemAlloc(&memory, bytes));
	DO(gpu.cuMemsetD8(memory, 0, bytes));
	return memory;
}

void *twins_pinned(size_t bytes)
{
	void *memory;

	DO(gpu.cuMemHostAlloc(&memory, bytes, 0));
	return memory;
}

void *twins_pageable(size_t bytes)
{
	void *memory = aligned_alloc(4096, bytes);

	if (!memory) {
		fprintf(stderr, "twins: no memory\n");
		exit(1);
	}
	memset(memory, 0, bytes);
	return memory;
}

CUstream twins_stream(void)
{
	CUstream stream;

	DO(gpu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

CUevent twins_event(void)
{
	CUevent event;

	DO(gpu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	DO(gpu.cuEventRecord(event, NULL));
	return event;
}

static void launch(CUstream stream, CUfunction function, unsigned int blocks, void **parameters)
{
	DO(gpu.cuLaunchKernel(function, blocks, 1, 1, blocks == 1 ? 1 : THREADS, 1, 1, 0, stream,
			      parameters, NULL));
}

void twins_spin(CUstream stream, uint64_t ns)
{
	void *parameters[] = {&ns};

	launch(stream, twins.spin, 1, parameters);
}

void twins_saxpy(CUstream stream, float a, CUdeviceptr x, CUdeviceptr y, size_t words)
{
	uint32_t n = (uint32_t)words;
	void *parameters[] = {&a, &x, &y, &n};

	launch(stream, twins.saxpy, BLOCKS, parameters);
}

void twins_fill(CUstream stream, CUdeviceptr to, uint32_t value, size_t words)
{
	uint32_t n = (uint32_t)words;
	void *parameters[] = {&to, &value, &n};

	launch(stream, twins.fill, BLOCKS, parameters);
}

void twins_hash(CUstream stream, CUdeviceptr state, CUdeviceptr data, uint32_t bytes, uint32_t salt)
{
	void *parameters[] = {&state, &data, &bytes, &salt};

	launch(stream, twins.hash, 1, parameters);
}

void twins_write(void *memory, size_t bytes)
{
	float *words = memory;

	for (size_t i = 0; i < bytes / sizeof(*words); i++)
		words[i] = (float)(i % 1021);
}

void twins_stamp(void *memory, uint64_t frame)
{
	float *words = memory;

	for (size_t i = 0; i < TWINS_STAMP / sizeof(*words); i++)
		words[i] = (float)((frame * 31 + i) % 251);
}

uint64_t twins_fold(uint64_t digest, const void *memory, size_t bytes)
{
	const uint64_t *words = memory;

	for (size_t i = 0; i < bytes / sizeof(*words); i++)
		digest = (digest ^ words[i]) * FNV;
	return digest;
}

static CUfunction function(CUmodule module, const char *name)
{
	CUfunction found;

	DO(gpu.cuModuleGetFunction(&found, module, name));
	return found;
}

static void open_driver(void)
{
	CUcontext context;
	CUmodule module;

	DO(gpu.cuInit(0));
	DO(gpu.cuDevicePrimaryCtxRetain(&context, 0));
	DO(gpu.cuCtxSetCurrent(context));
	DO(gpu.cuModuleLoadData(&module, simcuda_ptx));
	twins.spin = function(module, "spin");
	twins.saxpy = function(module, "saxpy");
	twins.fill = function(module, "fill");
	twins.hash = function(module, "hash");
}

static uint64_t timed(uint64_t frames)
{
	uint64_t begin;

	DO(gpu.context_synchronize());
	begin = figures_now();
	options.twin->run(frames);
	return (figures_now() - begin) / frames;
}

static uint64_t number(const char *text, struct argp_state *state)
{
	char *end;
	uint64_t value = strtoull(text, &end, 0);

	if (end == text || *end || value > UINT32_MAX)
		argp_error(state, "%s is no number that can be used", text);
	return value;
}

static void word(const char *text, struct argp_state *state)
{
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]) && !options.twin; i++)
		if (!strcmp(text, programs[i]->name)) {
			options.twin = programs[i];
			return;
		}
	for (enum form form = NAIVE; form < FORMS && options.twin && !options.has_form; form++)
		if (!strcmp(text, form_names[form])) {
			twins.form = form;
			options.has_form = true;
			return;
		}
	argp_error(state, "%s: no such program or form", text);
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	switch (key) {
	case 'n':
		options.frames = number(text, state);
		break;
	case 'f':
		options.first = number(text, state);
		break;
	case 'b':
		options.kib = number(text, state);
		break;
	case 'k':
		options.kernel_us = number(text, state);
		break;
	case 'c':
		options.cpu_us = number(text, state);
		break;
	case ARGP_KEY_ARG:
		word(text, state);
		break;
	case ARGP_KEY_END:
		if (!options.has_form)
			argp_usage(state);
		/* A stamp, and whole words of the digest. */
		if (!options.frames || !options.first || options.kib < 8 || options.kib % 4)
			argp_error(
				state,
				"frames: at least 1; KiB of a frame: a multiple of 4, at least 8");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const struct argp_option argp_options[] = {
		{"frames", 'n', "N", 0, "that count (100)", 0},
		{"first", 'f', "N", 0, "frames before (10)", 0},
		{"kib", 'b', "KIB", 0, "of a frame (16384)", 0},
		{"kernel-us", 'k', "US", 0, "of a frame's kernel (1000)", 0},
		{"cpu-us", 'c', "US", 0, "of the host's work on a frame, of `download` (1000)", 0},
		{0},
	};
	static const struct argp argp = {
		argp_options,
		parse,
		"upload|churn|download naive|ordered|unwaited|free",
		"Programs that pay for implicit waits, and their twins that do not.",
		NULL,
		NULL,
		NULL};
	uint64_t first;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	twins.bytes = options.kib << 10;
	twins.kernel_ns = options.kernel_us * 1000;
	twins.cpu_ns = options.cpu_us * 1000;
	if (gpu_open(NULL))
		return 77;
	open_driver();
	options.twin->prepare();
	first = timed(options.first);
	printf("first %" PRIu64 "\n", first);
	printf("frame %" PRIu64 "\n", timed(options.frames));
	printf("digest %016" PRIx64 "\n", options.twin->digest());
	return 0;
}
