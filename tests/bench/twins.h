/* SPDX-License-Identifier: MIT
 *
 * Twins: three programs that pay for implicit waits, each in several forms that do the same work on the same bytes (twins.c starts them; one file a
 * program). All forms of a program leave the same digest.
 *
 *	naive		what people write: it is the form that is run under the shim, too
 *	ordered		by hand what a sound rewrite may do at most: the same memory of the program, as many copy threads as the shim has, everything on
 *			the legacy stream in the program's order, and every wait that is documented, at its place; no allocation, pinning or free in the loop
 *	unwaited	the same without the wait of a synchronous copy to the device for what its stream did before (relax=order)
 *	free		no order kept: streams of its own, pinned memory of its own, two buffers of each
 *
 * One thread, but for the copy threads (shim/stage/copy_threads.h), which call nothing of the driver.
 */
#ifndef SLIPSTREAM_BENCH_TWINS_H
#define SLIPSTREAM_BENCH_TWINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu.h"

enum form { NAIVE, ORDERED, UNWAITED, FREE, FORMS };

/* Bytes at a frame's begin that differ from frame to frame, and that the order of frames is told by. */
#define TWINS_STAMP  4096
#define TWINS_HASHED 256

struct twins {
	size_t bytes;               /* of a frame */
	uint64_t kernel_ns, cpu_ns; /* of a frame's kernel, and of the host's work on it */
	enum form form;
	CUfunction spin, saxpy, fill, hash;
};

extern struct twins twins;

struct twin {
	const char *name;
	/* Everything that is there before the loop. */
	void (*prepare)(void);
	/* The loop, with its last copy or wait: what is timed. May run again; starts from the same state. */
	void (*run)(uint64_t frames);
	/* Of what the last run() left. */
	uint64_t (*digest)(void);
};

extern const struct twin twins_upload, twins_churn, twins_download;

/* Ends the program unless `result` is CUDA_SUCCESS. */
void twins_check(CUresult result, const char *what);
#define DO(call) twins_check(call, #call)

CUdeviceptr twins_device(size_t bytes); /* cleared */
void *twins_pinned(size_t bytes);
void *twins_pageable(size_t bytes); /* touched */
CUstream twins_stream(void);        /* non-blocking */
CUevent twins_event(void);          /* without timing, recorded on the legacy stream once */

void twins_spin(CUstream stream, uint64_t ns);
void twins_saxpy(CUstream stream, float a, CUdeviceptr x, CUdeviceptr y, size_t words);
void twins_fill(CUstream stream, CUdeviceptr to, uint32_t value, size_t words);
void twins_hash(CUstream stream, CUdeviceptr state, CUdeviceptr data, uint32_t bytes,
		uint32_t salt);

/* Floats that are small whole numbers; the stamp alone. */
void twins_write(void *memory, size_t bytes);
void twins_stamp(void *memory, uint64_t frame);

/* FNV-1a of words. */
uint64_t twins_fold(uint64_t digest, const void *memory, size_t bytes);

/* twins_staging.c: hand-written copies of ordinary memory on the legacy stream, through pinned chunks. */
void staging_open(void);
/* Returns when the source may be written again, and, with `waits`, all work that was on the legacy stream before is done. */
void staging_upload(CUdeviceptr to, const void *from, size_t bytes, bool waits);
/* Returns when the bytes are there. */
void staging_download(void *to, CUdeviceptr from, size_t bytes);

#endif
