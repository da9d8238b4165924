// SPDX-License-Identifier: MIT
/*
 * Trace: the door to the LTTng provider (tracing/provider/provider.h), and when its definitions are
 * sent. Internal to emit; emit.h has what other rooms call. Every function may be called from any
 * thread. While events are sent no lock of the shim is held: a tracer whose user made a blocking
 * channel may block there.
 */
#ifndef SLIPSTREAM_EMIT_TRACE_H
#define SLIPSTREAM_EMIT_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "emit/emit.h"
#include "tracing/provider/provider.h"

/* The provider's; NULL while there is none. Release in trace.c, acquire in trace_is_loaded(). */
extern const struct trace_emitter *trace_emitters;

static inline bool trace_is_loaded(void)
{
	return __atomic_load_n(&trace_emitters, __ATOMIC_ACQUIRE) != NULL;
}

/*
 * Sends an event if a session records it, without its definitions. `payload`: struct
 * trace_<event>.
 */
void trace_send(enum trace_event event, const void *payload);

/* A session had its definitions sent, and nobody has noticed its end yet. trace.c */
extern int trace_recording;

/*
 * The tracer's word on whether a session records waits; a zero of our own while there is no provider,
 * so that a call takes the same way with one and without. Never NULL.
 */
extern const int *trace_wait_state;

/* Is there anything to do about a wait? Most of the time no session records. */
static inline bool trace_wants_waits(void)
{
	/* Pairs with the release store in load_provider(): the word is there. */
	const int *state = __atomic_load_n(&trace_wait_state, __ATOMIC_ACQUIRE);

	return __atomic_load_n(state, __ATOMIC_RELAXED) |
	       __atomic_load_n(&trace_recording, __ATOMIC_RELAXED);
}

/*
 * One call that waited, and the ids of its candidates. After its records were made. Sends what
 * definitions are new before. Where trace_wants_waits().
 */
void trace_wait(const struct emit_finding *finding, uint32_t wait, const uint32_t *candidates,
		uint32_t count);

/*
 * The record has changed, or may lie before what was sent: it is sent again before the next event.
 * Lock-free; with or without emit's lock.
 */
void trace_again(const void *record);

/* A record was published: is it behind what was sent? */
void trace_published(const void *record);

/* The record file was opened: sets emit_full; a forked child of a traced process says who it is. */
void trace_opened(void);

/* In a forked child, after the file was given up. */
void trace_forked(void);

/* ---- dump.c: records as definitions. One thread at a time, who holds trace.c's token ---- */

/* A walk over all records begins: counts are summed up from here. */
void dump_start(void);

#define DUMP_SKIPPED_MAX 32

/* Records that were taken but not published when the walk came to them. */
struct dump_skipped {
	uint64_t offset[DUMP_SKIPPED_MAX];
	uint32_t count; /* DUMP_SKIPPED_MAX + 1: more */
};

/*
 * Sends the records from this offset up to the end of what the file has by now; returns that end.
 * What the file holds is checked: others can write to it.
 */
uint64_t dump_records(uint64_t from, struct dump_skipped *ret_skipped);

/* Sends the record at this offset, if it is published. */
void dump_record(uint64_t offset);

/* The sums of the walk since dump_start(). */
void dump_coverage(void);

/* ---- set.c: lists of candidates ---- */

/*
 * The number that stands for this list, its top bit set; made and sent if there is none. 0: no room,
 * which a note says.
 */
uint32_t set_of(const uint32_t *candidates, uint32_t count);
void set_send_all(void);
/* In a forked child. */
void set_clear(void);

#endif
