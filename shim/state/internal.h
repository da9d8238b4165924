// SPDX-License-Identifier: MIT
/*
 * Internal: the objects of the state room and what its files need of each other.
 *
 * Numbers. Every operation that a call puts on a stream gets the stream's next number after the
 * real call returned (state_after). So whatever is numbered is in the driver's hands, and a wait or
 * record that begins when `submitted` is n covers at least the operations 1 to n. `completed` is
 * raised only by what the host observed of them. Numbers never go back, not even when an entry is
 * taken over by another stream: what an old event record proves is then long known.
 *
 * Who writes and who reads:
 *	handle, kind, context		inserter under LOCK_STATE; read by anyone. handle is stored
 *					last (release) and read first (acquire): who sees the handle
 *					sees the rest. Entries are never unmapped, so a stale pointer
 *					is harmless: its handle no longer fits.
 *	submitted			whoever submits, atomic add; read by anyone
 *	launcher			claimed by compare and swap from 0; 0 again by its thread's exit
 *					or by whoever takes the entry over
 *	launched			the launcher, plain stores; read by anyone
 *	completed			whoever observed, atomic maximum; read by anyone
 *	youngest			whoever submits; one word, so kind and name fit each other
 *	joined, joined_by,		under `joining`, a try-lock of the entry: who does not get it
 *	legacy_joined, legacy_at	does without (knows less, claims nothing)
 *	pending_bits, unjoined_bits	set by who submits, cleared by who looks; see pending.c
 *	capture, capture_sequence	the calls of a capture, which the program orders itself, but
 *					for ends: compare and swap; read by anyone
 *	owner				its thread at its first use; 0 by whoever retires the entry
 *	next, record			under LOCK_STATE
 */
#ifndef SLIPSTREAM_STATE_INTERNAL_H
#define SLIPSTREAM_STATE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#include "call.h"
#include "emit/arena.h"
#include "emit/lock.h"
#include "state/launch.h"
#include "state/proof.h"
#include "state/stream.h"

#define STREAM_MAX   16384
#define STREAM_WORDS (STREAM_MAX / 64)
#define STREAM_CHUNK 64 /* entries made at a time */

struct state_context {
	uint64_t id;     /* cuCtxGetId; stored last (release), read first (acquire) */
	uint64_t handle; /* drivers before 12.0: the handle stands for the id while it lives */
	struct state_stream *legacy; /* set before id, for good */
	struct state_context *next;  /* all contexts ever; constant once published */
	int device;                  /* -1 unknown; constant while id is */
	bool created;                /* by a cuCtxCreate; else a primary context */
	uint32_t sync_memops;
	/*
	 * Who worked last: 1 the legacy stream, 0 a blocking one. Any thread; a lost change is one
	 * memo or one conclusion less (launch.c).
	 */
	uint32_t legacy_turn;
	/* 1: its legacy and blocking streams are launched on the long way only (launch.c). */
	uint32_t launches_long;
	uint32_t
		attributes; /* of the legacy stream: how often they were set; atomic add by anyone */
	struct legacy_context *legacy_rewrite; /* of the legacy room, which writes and reads it */
	struct record_context *record;         /* NULL: not written; under LOCK_STATE */
};

/* What a thread used last. Its own; checked against the entries, which may have changed. */
#define PER_THREAD_CACHE 4
#define THREAD_STREAMS   16 /* powers of two */
#define THREAD_KERNELS   64
struct state_thread {
	uint64_t serial; /* from 1; 0: none yet */
	uint64_t context_key;
	struct state_context *context;
	struct thread_stream {
		uint64_t handle;
		struct state_stream *stream;
	} streams[THREAD_STREAMS];
	struct thread_kernel {
		uint64_t handle;
		struct state_kernel *kernel;
	} kernels[THREAD_KERNELS];
	struct {
		struct state_context *context;
		struct state_stream *stream;
	} per_thread[PER_THREAD_CACHE];
};
extern __thread struct state_thread state_thread
	__attribute__((tls_model("initial-exec"), aligned(64)));

/* kernel.c says who writes what. */
struct state_kernel {
	uint64_t handle;
	uint32_t name;
	uint32_t launched;
	uint32_t unloads; /* seen when it was named */
	uint64_t context; /* id: launched there last, as far as the long way saw */
};

static inline uint32_t thread_slot(uint64_t handle, uint32_t slots)
{
	/*
	 * Handles are addresses in steps: 16 of them a step apart fall into 15 to 16 of 64 slots for
	 * all steps tried from 0x20 to 0x2310. (A multiplication, high or middle bits, gave 6 to 16.)
	 */
	return (uint32_t)(handle >> 4 ^ handle >> 10 ^ handle >> 17) & (slots - 1);
}

static inline struct thread_stream *thread_stream_slot(struct state_thread *thread, uint64_t handle)
{
	return &thread->streams[thread_slot(handle, THREAD_STREAMS)];
}

static inline struct thread_kernel *thread_kernel_slot(struct state_thread *thread, uint64_t handle)
{
	return &thread->kernels[thread_slot(handle, THREAD_KERNELS)];
}

struct state_event {
	uint64_t handle;  /* stored last (release), read first (acquire); 0 by its destroy */
	uint64_t record;  /* stream, number, marks: event.c; compare-and-swap by those who record */
	uint64_t capture; /* recorded inside this capture; 0: not; written by the recorder */
	uint64_t recordings; /* begun so far, of all events that this entry was; atomic add */
	uint32_t foreign;    /* 1, for good: recorded by something unseen; set and read by anyone */
	struct state_event *next; /* retired entries; under LOCK_STATE */
};

#define STATE_LOAD(pointer)         __atomic_load_n(pointer, __ATOMIC_RELAXED)
#define STATE_STORE(pointer, value) __atomic_store_n(pointer, value, __ATOMIC_RELAXED)

/* One lock and one arena for everything but allocations. */
extern struct lock state_lock;
extern struct arena state_arena;
/* Something did not fit; `what` becomes the text of a NOTE_LOST. */
void state_lost(const char *what);

/* context.c */
struct state_context *context_current(void);
/* By handle; NULL: not known. */
struct state_context *context_of(uint64_t handle);
/* Is any other live, as far as was seen? */
bool context_others(const struct state_context *context);
/* Under LOCK_STATE: the streams of the context are gone with it. */
void stream_retire_context(struct state_context *context);
/* The context's copies are those of SYNC_MEMOPS; and, has any context that? */
void context_set_sync_memops(struct state_context *context);
bool context_has_sync_memops(void);
void context_clear(void);

/* stream.c: NULL where it cannot be stored. */
struct state_stream *stream_find(uint64_t handle);
/* A handle that no wrapper saw made: kind unknown, in the current context. */
struct state_stream *stream_unseen(uint64_t handle);
struct state_stream *stream_per_thread(struct state_context *context);
/* Under LOCK_STATE. */
struct state_stream *stream_new(struct state_context *context, enum stream_kind kind,
				uint64_t handle);
/* Under LOCK_STATE: writes down what the entry is now. */
void stream_tell(struct state_stream *stream);
/* Under LOCK_STATE: the entry may be taken over, once its work is known complete. */
void stream_retire(struct state_stream *stream);
extern struct state_stream *stream_chunks[STREAM_MAX / STREAM_CHUNK];
static inline struct state_stream *stream_at(uint32_t index)
{
	/* Pairs with the release store of the chunk in make(): its indices are set. */
	return __atomic_load_n(&stream_chunks[index / STREAM_CHUNK], __ATOMIC_ACQUIRE) +
	       index % STREAM_CHUNK;
}
uint32_t stream_count(void);
void stream_clear(void);

/*
 * How many operations the stream was given. Two counters, each only growing, so the sum may lag behind what is true at the end of this
 * call, but never behind what was true at its beginning: what is counted is in the driver's hands.
 * `launched` first: order_number() looks at them the other way round, so no sum without its operation reaches that one's number.
 */
static inline uint64_t stream_submitted(const struct state_stream *stream)
{
	uint64_t launched = __atomic_load_n(&stream->launched, __ATOMIC_ACQUIRE);

	return launched + STATE_LOAD(&stream->submitted);
}

static inline bool stream_is_pending(const struct state_stream *stream)
{
	/* Acquire: what makes a number untrue for a while (proof.c) is asked for after it. */
	return stream_submitted(stream) > __atomic_load_n(&stream->completed, __ATOMIC_ACQUIRE);
}

static inline enum stream_kind stream_kind(const struct state_stream *stream)
{
	return STATE_LOAD(&stream->kind);
}

static inline struct state_context *stream_context(const struct state_stream *stream)
{
	return STATE_LOAD(&stream->context);
}

/* Does the stream take part in legacy order, for certain? */
static inline bool stream_joins(const struct state_stream *stream)
{
	enum stream_kind kind = stream_kind(stream);

	return kind == STREAM_BLOCKING || kind == STREAM_PER_THREAD;
}

/* order.c: completion and legacy order. */
/* The driver took the call's operation: number it, note whom it is ordered behind. */
void order_submitted(struct call *call);
/* The same for a short launch that joins (launch.h), of which the trace is told nothing. */
void order_launched(const struct state_launch *launch);
/* The stream's next number for an operation that the driver took. */
uint64_t order_number(struct state_stream *stream, uint64_t youngest);
/* The host has observed the operations up to `number`: draws every conclusion from that. */
void order_complete(struct state_stream *stream, uint64_t number);
/* Nothing of it counts as pending any more; no conclusion is drawn. */
void order_forget(struct state_stream *stream);
/* All that call->pending held at entry and that lies in the scope. */
void order_complete_pending(struct call *call, unsigned int scope);
/* Is there work on `stream` that the call's own operation is the first to be ordered behind? */
bool order_is_unjoined(const struct call *call, const struct state_stream *stream);

/* pending.c */
extern uint64_t pending_bits[STREAM_WORDS];  /* may have work not known complete */
extern uint64_t unjoined_bits[STREAM_WORDS]; /* and the legacy stream may not be behind it */
/* The stream has a new operation. After the number went up: pairs with pending_take_out(). */
void pending_list(struct state_stream *stream);
/* For launches and records: the call's own stream, and the streams it is the first to join. */
void pending_glance(struct call *call);
/*
 * The same for who has no call. `pending` has room for CALL_PENDING_MAX. Returns how many there are, CALL_PENDING_MAX + 1 for more; the own stream, if it is one of
 * them, is the first.
 */
uint32_t pending_with_joins(struct state_stream *own, struct state_context *context,
			    struct call_pending *pending);
/*
 * `scopes`: bits 1 << enum catalogue_scope. `ask`: make the candidates certain by queries
 * (--attribute).
 */
void pending_snapshot(struct call *call, unsigned int scopes, bool ask);
/* Off both lists. */
void pending_forget(struct state_stream *stream);
/* Takes idle streams out of unjoined_bits, as a scan does that comes upon them. */
void pending_tidy_unjoined(void);
/*
 * Between begin and end: the stream goes off the list unless it has work above *known. Clears the
 * bit, then reads the number; pairs with order_number(), which adds to the number, then sets the
 * bit.
 */
void pending_begin_out(void);
void pending_take_out(uint64_t *list, struct state_stream *stream, const uint64_t *known);
/* The same of several streams of one word of the list of unjoined ones, up to what each is joined. No launcher had one of them a moment ago. */
void pending_take_out_joined(uint32_t word, uint64_t bits);
void pending_end_out(void);
void pending_clear(void);
/* state_unfinished() */
bool pending_unfinished(struct state_mark *ret_marks, uint32_t most, uint32_t *ret_count);
/* The same for "is there none?", in constant time. */
enum state_glance pending_at_a_glance(void);
extern struct lock attribute_lock;

/* event.c */
/* The record that state_event_recording() began has been made, or failed. */
void event_settle(struct call *call, CUresult result);
/* What a settled record covers; NULL: nothing that can be known. */
struct state_stream *event_covers(uint64_t record, uint64_t *ret_number);
/* What the event holds now, for event_covers(). */
uint64_t event_record_at(const struct state_event *event);
void event_clear(void);
/* NULL: not known. */
struct state_event *event_find(uint64_t handle);

/*
 * memory.c: both operands of a call in one look; 0: no such operand. MEMORY_NONE: in no known range; MEMORY_UNKNOWN: nobody could look. True:
 * one of them has SYNC_MEMOPS.
 */
bool memory_look_up(const uint64_t addresses[2], enum memory_kind ret_kinds[2]);
void memory_clear(void);

/* Is there memory that the device can write and the host read, or may there be? */
bool memory_host_reads(void);
/* Is there memory that other processes see? */
bool memory_others_read(void);

/* live.c */
void live_stream_made(enum stream_kind kind);
/* The call's operation, which has its number. */
void live_host_function(const struct call *call);
/* Something was made by which work elsewhere can go on, or that others see; before the call returns. */
void live_changed(void);
void live_clear(void);

/* kernel.c */
/* String id, 0 unknown; *ret_launched: a launch of this handle succeeded before; *ret_context: the last context it was launched in, by its id. */
uint32_t kernel_name(uint64_t handle, bool *ret_launched, uint64_t *ret_context);
void kernel_launched(uint64_t handle, uint64_t context);
/* Modules went: function handles named again from now on are new functions. */
void kernel_unloaded(void);
void kernel_clear(void);

/* capture.c: does the capture of this name (state_stream.capture) still go on? */
bool capture_is_active(uint64_t capture);

/* proof.c: what the other files tell it. */
void proof_capture_over(void);
/* Before the streams of the call's context are forgotten; state_after() tells the end. */
void proof_context_ending(struct call *call);
/* None was forgotten. */
void proof_context_stays(struct call *call);
void proof_context_ended(struct call *call, CUresult result);
void proof_clear(void);

/* launch.c: this thread is done with the stream. */
void launch_release(struct state_stream *stream);
/*
 * What remembered launches rely on has changed: none of any thread is good any more. After the change, which they then see.
 */
void launch_forget_all(void);
/* The stream got an operation: from now on launches of the other side of legacy order have something to join. */
void launch_turn(const struct state_stream *stream);
/* Under LOCK_STATE: this thread ends. */
void launch_clear(void);

#endif
