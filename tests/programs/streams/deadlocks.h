/* SPDX-License-Identifier: MIT */
/*
 * What the programs that must end share: words in device memory that tell the order of the work on them, and gates, behind which a stream stands still.
 */
#ifndef STREAMS_DEADLOCKS_H
#define STREAMS_DEADLOCKS_H

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "check.h"

extern CUcontext deadlocks_context; /* primary, of device 0; current in the first thread */
extern CUdeviceptr words;           /* one each 64 bytes, 8 KiB; from 2 KiB on other things */
extern volatile uint32_t *gates;    /* of the host: 1 lets go */

CUstream make_stream(unsigned int flags);
/* Folds `salt` into the word, on any stream: its value at the end tells the order. put(): by another handle of the kernel. */
void work(CUstream stream, unsigned int index, uint32_t salt);
CUresult put(CUfunction function, CUstream stream, unsigned int index, uint32_t salt);
/* The same, on the host: what a word must become. */
uint64_t folded(uint64_t state, uint32_t salt);
/* Waits for the legacy stream. */
uint64_t get(unsigned int index);
void shut(CUstream stream, unsigned int index);
/* A blocking stream; the context is in the state in which the legacy stream is rewritten, where it is. */
CUstream mixed(void);
void start(pthread_t *thread, void *(*run)(void *), void *data);
/* A thread: lets go after 0.2 s. */
void *open_later(void *index);

struct named_case {
	const char *name;
	void (*run)(void);
};
extern const struct named_case queue_programs[], wait_programs[], thread_programs[];

#endif
