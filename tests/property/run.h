/* SPDX-License-Identifier: MIT */
/*
 * Internal: what execute.c (a program's world and threads) shares with actions.c (the calls of each action).
 *
 * A world is made before the threads of a program and ended behind them. In it a thread writes what the plan lets it write at that moment
 * only; its own log is its own.
 */
#ifndef PROPERTY_RUN_H
#define PROPERTY_RUN_H

#include "program.h"

#include <cuda.h>
#include <pthread.h>

enum { KERNEL_hash, KERNEL_fill, KERNEL_copy, KERNEL_saxpy, KERNEL_gate, KERNELS };

#define ALL_EXECS OPERATIONS
#define SUM       16 /* floats of the sum that threads add to */

struct context {
	CUcontext handle;
	CUmodule module;
	CUfunction kernel[KERNELS];
	CUstream stream[LANES];
	CUevent event[EVENTS];
	CUdeviceptr scratch, sum, one, part[THREADS]; /* of `add` */
};

/* What a host function works on, and what it saw. */
struct host_work {
	unsigned char *to, *from;
	uint16_t value;
	CUstream stream;        /* a callback: the handle that the program gave */
	int wrong;              /* a callback: another handle, or a bad status */
	pthread_mutex_t *mutex; /* of the program, taken in the function; NULL: none */
};

struct log {
	uint64_t digest;
	FILE *to;
	unsigned int thread, action;
};

struct world {
	const struct plan *plan;
	struct context context[CONTEXTS];
	CUdeviceptr buffer[BUFFERS]; /* device addresses, or the host's */
	uint32_t *words;
	CUgraphExec exec[EXECS], all_execs[ALL_EXECS];
	CUgraph graphs[ALL_EXECS];
	unsigned int execs;
	struct host_work host[ACTIONS];
	struct log log[THREADS];
	CUcontext current[THREADS];
	pthread_mutex_t mutex;        /* the program's: `add`, and some host functions */
	unsigned int flooded;         /* launches so far; atomic, any thread */
	bool armed, flood_over;       /* the same */
	pthread_mutex_t capture_lock; /* a wait for a context ends the captures in it */
	pthread_mutex_t turn_lock;
	pthread_cond_t turned;
	unsigned int
		turn; /* actions that are done, up to the next one beside others; under turn_lock */
	unsigned int arrived;  /* threads that are through with the segment; the same */
	unsigned int together; /* and that began one, of all segments; atomic, any thread */
};

/* Calls of one action, by its thread. */
void action_run(struct world *world, const struct action *action);

void log_number(struct log *log, const char *what, uint64_t value);
uint64_t bytes_digest(const void *bytes, size_t size);
void paint(void *bytes, unsigned int value);
void must(CUresult result, const char *what);

#define MUST(call) must(call, #call)

#endif
