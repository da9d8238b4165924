/* SPDX-License-Identifier: MIT */
/*
 * What the cases of staged copies share: a context, kernels of the simulated driver, patterns in memory, and a clock. Each case is a function
 * of one of the cases_*.c files; cases.c has their names.
 */
#ifndef STAGING_CASES_H
#define STAGING_CASES_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../expect.h"

/* More than the SLIPSTREAM_STAGE_FROM of run.py; less than a chunk, and more than that. */
#define SOME  ((size_t)300000)
#define LARGE ((size_t)20 << 20)
/* A kernel that runs so long, and what a call takes at least that waits for it. */
#define SPIN_NS 60000000
#define WAIT_NS 40000000

extern CUcontext context; /* primary, of device 0; current */
extern CUfunction spin_kernel, fill_kernel, copy_kernel, gate_kernel;

/* Functions of the current context, loaded: a first launch waits. */
void load_kernels(void);
CUstream new_stream(unsigned int flags);
void spin(CUstream stream, uint64_t ns);
void fill(CUstream stream, CUdeviceptr to, uint32_t value, size_t bytes);
/* The stream stands still until open_gate(). The word is managed memory, made at the first use. */
void close_gate(CUstream stream);
void open_gate(void);
CUdeviceptr device_block(size_t bytes);
/* Pageable memory in which every byte follows from `value`; and whether it is that, from `from` on. */
unsigned char *pattern(size_t bytes, unsigned int value);
void paint(void *at, size_t bytes, unsigned int value);
bool is_pattern(const void *at, size_t bytes, unsigned int value);
/* What the device has. Goes by pinned memory, so that it is never staged itself. */
bool device_is(CUdeviceptr at, size_t bytes, unsigned int value);
uint64_t now_ns(void);

struct named_case {
	const char *name;
	void (*run)(void);
};
extern const struct named_case order_cases[], memory_cases[], life_cases[], between_cases[],
	shape_cases[], known_cases[];

#endif
