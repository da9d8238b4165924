// SPDX-License-Identifier: MIT
/*
 * What waits for its turn in the writer: calls and claims of all processors, which come in the order in which each processor has them, and go
 * by their times. One thread.
 */
#ifndef SLIPSTREAM_BPF_COMMAND_HELD_H
#define SLIPSTREAM_BPF_COMMAND_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watch.h"

struct told;
struct site;

struct held {
	uint64_t ns, number; /* equal times stay in the order in which they came */
	struct told *process;
	struct site *site;
	bool is_claim;
	union {
		struct watch_call call;
		struct watch_claim claim;
	};
};

struct held_queue {
	struct held **items; /* a heap, the oldest first */
	size_t count, capacity;
	uint64_t taken;
};

/* A copy; its number is given here. */
void held_push(struct held_queue *queue, const struct held *item);
/* The oldest, if it is older than that; NULL: none. The caller frees. */
struct held *held_pop(struct held_queue *queue, uint64_t before_ns);
void held_done(struct held_queue *queue);

#endif
