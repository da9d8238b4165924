// SPDX-License-Identifier: MIT
/*
 * Synthetic: small programs of threads, streams, kernels and waits with known durations; a scheduler that runs
 * them, with or without the waits of one site; and the events that a trace of the run would have. It
 * shares nothing with the analysis but the events, whose truth it is.
 */
#ifndef SYNTHETIC_H
#define SYNTHETIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracing/analysis/consumer.h"

#define SYNTHETIC_THREADS 3
#define SYNTHETIC_STREAMS 4 /* 0 is the legacy stream; its number in the trace is 1 more */
#define SYNTHETIC_EVENTS  4
#define SYNTHETIC_ACTIONS 400
#define SYNTHETIC_SITES   8

enum action_kind {
	ACTION_WORK,         /* of the host */
	ACTION_LAUNCH,       /* of a kernel */
	ACTION_RECORD,       /* of an event */
	ACTION_STREAM_WAIT,  /* cuStreamWaitEvent */
	ACTION_STREAM_SYNC,  /* waits: its stream */
	ACTION_EVENT_SYNC,   /* waits: what the event recorded */
	ACTION_CONTEXT_SYNC, /* waits: all streams */
	ACTION_FREE,         /* waits: all streams; the host learns nothing by it */
	ACTION_COPY_BACK,    /* a copy on its stream, waits until it is done */
	ACTION_COPY_THERE,   /* waits for its stream, then puts a copy on it */
	ACTION_KINDS
};

struct action {
	enum action_kind kind;
	uint32_t stream, event, site;
	int64_t work_ns; /* of the host, or of the operation */
	int64_t own_ns;  /* the call's own cost */
	int64_t wake_ns;
	int64_t late_ns;  /* returns that much later where it had nothing to wait for */
	int64_t start_ns; /* until an idle device begins */
	int64_t idle_ns;  /* what the tracer takes for its own cost */
};

struct program {
	uint64_t seed;
	unsigned int threads;
	size_t count[SYNTHETIC_THREADS];
	struct action action[SYNTHETIC_THREADS][SYNTHETIC_ACTIONS];
};

/* What is left out of the trace on purpose: the tests of the test. */
enum omission {
	OMIT_NOTHING,
	OMIT_STREAM_WAIT,
	OMIT_JOIN,
	OMIT_COMPLETED,
	OMIT_CANDIDATES,
	OMIT_LAUNCHES /* of one stream in two */
};

/* Every third seed: each thread has one stream; every third: much order between streams, few waits. */
void program_generate(struct program *program, uint64_t seed, unsigned int threads, size_t size);
void program_print(const struct program *program);

/* When the run ends, with the waits of `removed` missing (site 0: all are there). */
int64_t program_run(const struct program *program, uint32_t removed);

/* The events of the whole run into the consumer, and its end. `model` is synthetic_model(). */
void program_trace(const struct program *program, enum omission omission,
		   const struct consumer_ops *ops, void *consumer);

/* A model with the definitions that the events name (synthetic_model.c). */
const struct model *synthetic_model(void);
uint32_t synthetic_wait_id(enum action_kind kind, uint32_t site);
uint32_t synthetic_candidates_id(unsigned int streams); /* one bit a stream */

#endif
