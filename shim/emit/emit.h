// SPDX-License-Identifier: MIT
/*
 * Emit: the only door out. Owns the record file (record.h) of this process, or anonymous memory of
 * the same layout where SLIPSTREAM_OUT is unset or cannot be written. Interns strings, candidates,
 * waits. Every function may be called from any thread, never blocks on the driver, leaves errno
 * alone; on a full disk or cap it counts in header.dropped and returns 0.
 */
#ifndef SLIPSTREAM_EMIT_EMIT_H
#define SLIPSTREAM_EMIT_EMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emit/record.h"
#include "tracing/event.h"

/*
 * Opens the record file; idempotent; the first thread does it, others wait for it briefly. False:
 * nothing can be recorded at all.
 */
bool emit_open(void);

/*
 * In a forked child: forget the parent's mapping (it is shared!) and start a file of its own at the
 * next emit_open().
 */
void emit_forked(void);

/*
 * Which record file this is in this memory: 0 none open, else a number of its own. String ids of
 * another one mean nothing.
 */
uint32_t emit_generation(void);

/* Exit handlers: state EXITED and end_ns. The mapping stays, since calls may still come. */
void emit_finish(void);

/*
 * A block of counters for a thread: FUNCTION_COUNT + 1 words (function numbers index it), zero or
 * carrying a dead thread's counts on. NULL while nothing is open (before emit_open(), or after a
 * fork): ask again. Where the file is full, one private block that all such threads share; its
 * counts are lost, which a note says.
 */
uint64_t *emit_counters_take(uint32_t thread);
void emit_counters_give_back(uint64_t *counters);
/* The process-wide block of the thunks' counters. */
uint64_t *emit_thunk_counters(void);

/*
 * Room for a record of `size` bytes with its payload, not yet published (type 0), zeroed; NULL:
 * dropped and counted.
 */
void *emit_reserve(size_t size);
void emit_publish(void *record, enum record_type type);

uint32_t emit_string(const char *bytes, size_t length); /* interned; 0 on loss */
/* The bytes of an interned string and their number, with no end mark; NULL: no such id. Slow. */
const char *emit_string_bytes(uint32_t id, size_t *ret_length);
void emit_note(enum note_code code, const char *text); /* interned by code and text; counts up */

/* What one entry of a region spent so far. */
struct emit_spent {
	uint64_t implicit, explicit; /* waits */
	uint64_t blocked_ns;
};
/* The region of this name inside `parent` (id, 0 none), interned, with its id. NULL on loss, or while nothing is open. */
struct record_region *emit_region(uint32_t parent, const char *name, uint32_t *ret_id);
/* The same for a region that need not have a record, since nothing waited in it yet: where there are many, new ones get none (NULL). A program may make up names without end. */
struct record_region *emit_region_early(uint32_t parent, const char *name, uint32_t *ret_id);
/* The entry's `number` of a region has spent so much: a new maximum of any figure is kept, with the number. */
void emit_region_raise(struct record_region *record, uint64_t number,
		       const struct emit_spent *spent);

/* By enum function_number; before emit_open() too, which writes down what came earlier. */
void emit_function_handed_out(uint32_t function);
void emit_function_in_driver(uint32_t function);
void emit_driver(const char *path, int version); /* path NULL: keep */

/* The fields of record_candidate. */
struct emit_candidate {
	uint64_t context, stream;
	uint32_t stream_kind, operation, name, certain;
};

/* Of one call, at most, that the trace names (CALL_PENDING_MAX). */
#define EMIT_CANDIDATES_MAX 64

/* One call that waited, as sync found it; the fields are record_wait's. The caller keeps it. */
struct emit_finding {
	uint32_t function, rule, site, region;
	uint32_t stream; /* its number, 0 none; for the trace */
	uint8_t source_kind, destination_kind, idle_basis, allowed;
	uint64_t blocked_ns, call_ns, bytes, returned_ns;
	const struct emit_candidate *candidates;
	uint32_t candidate_count;
};
/* Adds one finding to its wait record, and to the candidates' records. */
void emit_wait(const struct emit_finding *finding);

/* One call that broke a rule of class order, as check found it; the fields are record_remark's. */
struct emit_remark {
	uint32_t rule, function, site, stream, region, allowed;
	uint32_t other_function, other_site, other_stream;
	uint64_t bytes, ns;
};
/* Adds it to the record of its sites and rule. */
void emit_remark(const struct emit_remark *remark);
/* Its record with no call added, NULL on loss; calls are added to it, or taken back, by the second. Neither the trace nor a probe is told. */
struct record_remark *emit_remark_open(const struct emit_remark *remark);
void emit_remark_count(struct record_remark *record, int64_t calls);

/*
 * Contexts and streams, made known by their record: `record` is what an earlier call for the same
 * entry returned, NULL the first time; returned is what to keep for the next, NULL where it could not
 * be stored. Numbers of contexts are emit's own.
 */
struct record_context *emit_context(struct record_context *record, uint64_t id, int device);
struct record_stream *emit_stream(struct record_stream *record, uint32_t number,
				  enum stream_kind kind, uint64_t context, uint64_t handle);

/* ---- the trace (trace.c). Not under any lock of the shim: a tracer may block. ---- */

struct emit_allocation {
	uint64_t address, bytes;
	uint32_t memory; /* enum memory_kind */
};
/* Fills in up to `most` blocks above address `after`, in rising order. Returns how many. */
typedef size_t emit_allocations(uint64_t after, struct emit_allocation *ret_found, size_t most);

/*
 * Opens the provider if the settings name one, once. After a successful cuInit. May take as long as
 * LTTng waits for its session daemon. `allocations` is asked by dumps.
 */
void emit_trace_start(emit_allocations *allocations);
/* `tell` is called when the trace of the process ends, in front of its last definitions. Once, before the first event. */
void emit_trace_at_end(void (*tell)(void));

/* Set by emit_open(), cleared where no provider can be opened; read by anyone. */
extern bool emit_full;

/* Does the trace want every operation? Then no call may take a way past the rooms. */
static inline bool emit_traces_full(void)
{
	return __atomic_load_n(&emit_full, __ATOMIC_RELAXED);
}

/* Does a session record this event? For who would have to work for it. */
bool emit_records(enum trace_event event);

/*
 * An event that is not `wait`, struct trace_<event>; one of level full where emit_traces_full(). Keeps errno.
 */
void emit_trace(enum trace_event event, const void *payload);

#endif
