// SPDX-License-Identifier: MIT
/*
 * Cells: driver calls to be timed one by one, idle or while a kernel is pending on a stream. Shared
 * by `slipstream calibrate` and the table test, so that both look at the very same calls.
 *
 * A bench belongs to one thread, but for `bench.gate`, which the GPU reads and the host writes.
 */
#ifndef SLIPSTREAM_CALIBRATE_CELLS_H
#define SLIPSTREAM_CALIBRATE_CELLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#define BENCH_BUFFER (UINT64_C(64) << 20) /* bytes of every buffer */

enum bench_stream { BENCH_NULL, BENCH_BLOCKING, BENCH_NON_BLOCKING, BENCH_STREAMS };
extern const char *const bench_stream_name[BENCH_STREAMS];

enum operand {
	OPERAND_NONE,
	OPERAND_PAGEABLE,
	OPERAND_PINNED,
	OPERAND_WRITE_COMBINED,
	OPERAND_REGISTERED,
	OPERAND_MANAGED,
	OPERAND_DEVICE,
	OPERAND_COUNT
};
extern const char *const operand_name[OPERAND_COUNT];

struct bench {
	CUdevice device;
	CUcontext context,
		kernel_context; /* where the call runs, where the kernel runs: mostly one */
	CUmodule module;
	CUfunction spin;
	CUstream stream[BENCH_STREAMS]; /* of kernel_context */
	CUstream call_stream; /* of context, non-blocking: where the asynchronous calls go */
	CUstream observer[BENCH_STREAMS]; /* of context: blocking and non-blocking */
	CUevent observed;
	void *host[OPERAND_COUNT]; /* buffers, made at first use */
	CUdeviceptr device_buffer[2];
	volatile uint32_t *gate; /* mapped: the GPU waits until it is at least gate_value */
	CUdeviceptr gate_device;
	uint32_t gate_value;

	/* What a cell prepared before its call, and what its call made. */
	CUdeviceptr memory;
	void *block;
	CUstream new_stream;
	CUevent new_event;
	CUmodule new_module;
	CUfunction new_function;
	size_t stack_limit;

	void (*around)(bool begin); /* called just before and after the timed call; may be NULL */
};

struct cell {
	const char *name;
	const char *function; /* exported name of the timed call */
	enum operand source, destination;
	size_t bytes;
	CUresult (*before)(struct bench *bench,
			   const struct cell *cell); /* idle, untimed; may be NULL */
	CUresult (*call)(struct bench *bench, const struct cell *cell);
	CUresult (*after)(struct bench *bench,
			  const struct cell *cell); /* idle, untimed; may be NULL */
};

/* The rows of the measured table; the last has a NULL name. */
extern const struct cell cells[];
/* More sizes and memory kinds. */
extern const struct cell cells_full[];
/* Calls whose idle costs the shim can use, besides the above. */
extern const struct cell cells_idle[];

const struct cell *cell_find(const char *name);

enum bench_variant { BENCH_PLAIN, BENCH_SCHEDULE_BLOCKING, BENCH_SECOND_CONTEXT };

/* Needs gpu_open(). Returns 0 or -EIO after a line on stderr. */
int bench_open(struct bench *bench, enum bench_variant variant);

uint64_t bench_now(void); /* CLOCK_MONOTONIC, ns */

CUresult bench_kernel(struct bench *bench, enum bench_stream stream, uint64_t ns);
CUresult bench_park(struct bench *bench, enum bench_stream stream);
void bench_open_gate(struct bench *bench);
/* Waits until every context of the bench is idle. */
CUresult bench_idle(struct bench *bench);

/*
 * One run of a cell: before, kernel of `kernel_ns` on `stream` (0: none), the call, idle, after.
 * The call's own time goes to ret_ns. Returns the first status that is no success.
 */
CUresult cell_run(struct bench *bench, const struct cell *cell, enum bench_stream stream,
		  uint64_t kernel_ns, uint64_t *ret_ns);

/*
 * Behind a closed gate: whether the call returns before the gate opens, and if so, whether later
 * work of another blocking stream and of another non-blocking stream is held back too (1, 0; -1 not
 * known since the call blocked).
 */
struct cell_gate {
	bool blocks;
	int joins_blocking, joins_non_blocking;
};
CUresult cell_gate(struct bench *bench, const struct cell *cell, enum bench_stream stream,
		   struct cell_gate *ret_gate);

#endif
