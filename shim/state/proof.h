// SPDX-License-Identifier: MIT
/*
 * Proof: what the rewrites may rely on. A block of memory is given out again only when all work that was submitted before its free
 * is known complete, on the streams of all contexts; this header says what is unfinished, what is complete, and when neither can be known.
 *
 * Submitted is what has reached the driver, also where another thread's call has not returned yet: such calls have no number, and are told by
 * state_flights().
 *
 * Nothing is known for good (state_doubt()) once work may have been submitted that no number stands for: a call past the rooms, a
 * call whose stream could not be stored, a submission that failed half-way, an error that sticks to a context, a green context. For the
 * moment it is not known while a context ends (its streams count as complete a little early), and while anything captures every call
 * goes to the driver, so that its statuses stay.
 *
 * Any thread; no lock is held on return.
 */
#ifndef SLIPSTREAM_STATE_PROOF_H
#define SLIPSTREAM_STATE_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

struct state_stream;

/* "everything up to this number of this stream" */
struct state_mark {
	struct state_stream *stream;
	uint64_t number;
};

/* A call of another thread that submits, and has not its number yet (flight.h). */
struct state_flight {
	uint32_t place, serial, begun, entered;
};

/* Why a rewrite must not be made now; NULL: it may. A constant text. */
const char *state_objection(void);

/* Nothing is proven any more; the first reason stays. A constant text. */
void state_doubt(const char *why);

/* Has something gone past the rooms, for good? Then handles that are remembered may name nothing any more. */
bool state_is_doubted(void);

/* A submission, wait or query failed: may the driver have taken half of it, or is the context broken? Then nothing is proven any more. */
void state_failed(CUresult result);
/* With this status nothing of one operation was submitted, for certain. */
bool state_is_refusal(CUresult result);

/* Streams with unfinished work; false: more than `most`. What was submitted before this call began is among it. */
bool state_unfinished(struct state_mark *ret_marks, uint32_t most, uint32_t *ret_count);

/*
 * Calls of other threads that are under way: the device may have their work already, and no stream's number stands for it. False: more than `most`,
 * or it is not to be known now. Asked before numbers are looked at: what is not among these and came before has its number by then.
 */
bool state_flights(struct state_flight *ret_flights, uint32_t most, uint32_t *ret_count);
/* Its thread's calls of that time have their numbers. */
bool state_flight_is_over(const struct state_flight *flight);
/* Is there any? */
bool state_is_flying(void);
/* From now on they are counted: before any other here, at cuInit. */
void state_flights_start(void);

/* Is everything known complete that was submitted before this call, and is there no objection? */
bool state_is_idle(void);

/*
 * The same in constant time, for a call that must be short: unclear where more than a few streams would have to be looked at, or something
 * objects. "Idle" is sound
 * without a lock or a word that launches would have to write: a stream with unfinished work is on the list (its bit is set before the
 * call that submitted returns, and cleared by nobody while there is work, pending.c), and of each listed one the numbers are read.
 */
enum state_glance { STATE_IDLE, STATE_WORKS, STATE_UNCLEAR };
enum state_glance state_at_a_glance(void);

/* Id of this thread's current context, asked of the driver (13 ns), since not every change of it is seen; 0: none, or it has no ids. */
uint64_t state_current_context(void);

/* Known complete, and no context that ends makes it look so. */
bool state_is_complete(const struct state_mark *mark);

/* What the host has learned of a stream by asking the driver itself. With no lock held: the trace hears of it. */
void state_observed(const struct state_mark *mark);

/* The same while contexts end, of those that do not; true of those that do. */
bool state_is_complete_or_ends(const struct state_mark *mark);

/* Is there a context of this id? */
bool state_context_lives(uint64_t id);

/* Is a context ending, or may one be? And when one had ended, or stayed, the last time: clock ticks; 0: never. */
bool state_context_is_ending(void);
uint64_t state_context_ended(void);

/* These have ended without a call that told of it, and their work with them. */
void state_contexts_gone(bool (*lives)(uint64_t id));

/*
 * For questions to the driver about streams of the current context. Between begin and end no stream that was seen is destroyed, no context ends
 * and no capture begins; false: this thread is inside already, or something captures.
 */
bool state_asking_begin(void);
/*
 * The same for what is asked about contexts other than the current one, by their handles: also while something captures; false: a context
 * is ending, nothing is known, or this thread is inside. Ends with state_asking_end().
 */
bool state_contexts_begin(void);
void state_asking_end(void);
/*
 * A stream's handle for calls of this thread in its current context, whose id is given; between state_asking_begin() and _end() only. NULL: it has
 * none here (another thread's, another context's, destroyed, unseen).
 */
CUstream state_handle(const struct state_stream *stream, uint64_t context);
/* Newest number at this moment. */
uint64_t state_newest(const struct state_stream *stream);
/* Operations that may still be in its queue. */
uint64_t state_queued(const struct state_stream *stream);

#endif
