/* SPDX-License-Identifier: MIT */
/*
 * What the checks of the safety suite share: contexts with the kernels of simcuda/kernels.h (real PTX), streams, random numbers, patterns. Each
 * check is a function of one of the files beside; main.c has their names, tests/gpu/safety.py runs them.
 *
 * A check is one program on the simulated driver and on a real one, without the shim and in mode fix. What it writes to stdout must be the same
 * raw and in mode fix, but for lines that begin with "# ": figures. What must be so either way is EXPECTed.
 */
#ifndef SAFETY_H
#define SAFETY_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define EXPECT_END _exit(1)
#include "../expect.h"

/* Exported by every driver; cuda.h of later toolkits has other prototypes for the plain name. */
CUresult cuCtxCreate_v2(CUcontext *, unsigned int, CUdevice);

/* A status that raw and mode fix must have in common. */
#define TELL(what, call) printf("%s: %d\n", what, (int)(call))

/* A context and its kernels, loaded: a first launch waits. */
struct world {
	CUcontext context;
	CUfunction spin, gate, copy, fill;
};

/* cuInit and the primary context of device 0, current. */
void world_open(struct world *world);
/* The same of the current context. */
void world_load(struct world *world);

/* Mode fix has pinned memory for copies once so much was copied that it pays; one copy that does. */
void earn_staging(void);

CUstream new_stream(unsigned int flags);
void spin(const struct world *world, CUstream stream, uint64_t ns);
/* By one thread each where `slow`: on a real device, megabytes then take milliseconds. */
void fill(const struct world *world, CUstream stream, CUdeviceptr to, unsigned char value,
	  size_t bytes, bool slow);
void copy(const struct world *world, CUstream stream, CUdeviceptr to, CUdeviceptr from,
	  size_t bytes, bool slow);

/* Every byte is `value`. */
bool is_all(const void *at, size_t bytes, unsigned char value);
/* What the device has at `at`, every byte; by a stream of its own, which waits for nothing else. */
bool device_is_all(CUdeviceptr at, size_t bytes, unsigned char value);
CUdeviceptr device_block(size_t bytes);
void *pinned_block(size_t bytes);

uint64_t draw(uint64_t *state);
unsigned int below(uint64_t *state, unsigned int bound);
uint64_t now_ns(void);

struct check {
	const char *name;
	void (*run)(char **arguments); /* NULL behind the last */
};
extern const struct check poison_checks[], copies_checks[], gate_checks[], calls_checks[],
	life_checks[], memory_checks[];

#endif
