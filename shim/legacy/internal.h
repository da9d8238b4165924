// SPDX-License-Identifier: MIT
/*
 * Internal: what the files of the legacy room share.
 *
 * Who writes and who reads:
 *	id		stored last by who makes the entry (release), read first by anyone (acquire); 0 by who drops it, under `lock`
 *	number, legacy, of, next	constant while id is
 *	turn		under `lock`; read by anyone. Odd: SUBSTITUTE. One more at each change
 *	in_flight, shut	any thread; under `lock`; sequentially consistent with each other (turn.c)
 *	used, barred	any thread; each only rises
 *	sequence	any thread, atomic add; in turn SUBSTITUTE operations take theirs under `lock`
 *	row, patience	any thread, without order: they only say when it pays
 *	all others	under `lock`
 */
#ifndef SLIPSTREAM_LEGACY_INTERNAL_H
#define SLIPSTREAM_LEGACY_INTERNAL_H

#include "emit/busy.h"
#include "emit/lock.h"
#include "legacy/legacy.h"
#include "state/state.h"

struct state_context;
struct record_rewrite;
struct state_stream;

struct legacy_context {
	struct lock lock; /* the submission lock */
	uint64_t id;      /* of the context; 0: of none any more */
	uint64_t ending;  /* the id again, once a thread drops the entry */
	uint32_t number;  /* of the context in the trace */
	struct state_stream *legacy;
	struct state_context *of;
	struct legacy_context *next; /* all entries ever */
	struct record_order *shown;  /* whose turn it is, for `slipstream dump`; NULL: no room */

	uint64_t turn;
	uint32_t in_flight; /* operations on their way to the driver without the lock */
	uint32_t
		shut; /* nobody comes in without the lock: the turn is SUBSTITUTE, or about to be */
	uint32_t used;   /* LEGACY_USED_...: by which streams the context was used */
	uint32_t barred; /* NATIVE for good: a stream that nobody saw made, or no substitute */
	uint32_t
		row; /* operations in NATIVE, one after the other, that could have gone to the substitute */
	uint32_t patience; /* how many it takes until the turn changes */
	uint64_t sequence; /* of order_* records */

	CUcontext handle;      /* of the context, while there is a substitute */
	CUstream substitute;   /* NULL: not made yet */
	CUevent before, after; /* recorded in front of it; behind it */
	uint32_t
		attributes; /* how often those of the legacy stream had been set when they were copied */
	uint64_t epoch; /* operations of the substitute so far */
	uint64_t
		turn_epoch; /* the same when the turn began: what is older the driver has ordered */
	uint64_t recorded;  /* `after` stands for the operations up to here */
	struct barrier_event before_stands, after_stands;
	int credit; /* what the turn may still cost (turn.c) */
	bool dirty; /* blocking streams have work that the substitute is not behind */
};

enum { LEGACY_USED_LEGACY = 1, LEGACY_USED_BLOCKING = 2, LEGACY_USED_BOTH = 3 };

static inline bool legacy_is_substitute(const struct legacy_context *context)
{
	return __atomic_load_n(&context->turn, __ATOMIC_SEQ_CST) & 1;
}

/* The submission lock. What a thread has to do with it stands in its record (busy.h). False: as lock_take(). */
static inline bool legacy_lock(struct legacy_context *context)
{
	/* Of another context by the time that it has the lock, perhaps; then it is let go at once. */
	uint32_t number = __atomic_load_n(&context->number, __ATOMIC_RELAXED);

	if (!lock_take_telling(&context->lock, busy_lock_waits, number))
		return false;
	busy_lock_holds(number);
	return true;
}

static inline void legacy_unlock(struct legacy_context *context)
{
	busy_lock_given();
	lock_give(&context->lock);
}

/* Under the lock: is the entry another context's by now, or none's? */
static inline bool legacy_is_dead(const struct legacy_context *context, const struct call *call)
{
	return __atomic_load_n(&context->id, __ATOMIC_ACQUIRE) != state_context_id(call->context);
}

/* turn.c: a blocking stream captures: the driver refuses whatever touches the legacy stream, and a barrier there would end the capture. */
bool legacy_is_refused(void);
/*
 * turn.c, under the lock: the legacy stream itself comes behind the substitute, and has its turn. Where no barrier can be placed the host waits, and the lock is given back
 * meanwhile. False: the turn stays, since this thread may neither place a barrier nor wait (it runs a host function, or the context is broken; then the driver takes
 * nothing else from it either), or the entry is none's any more.
 */
bool legacy_to_native(struct legacy_context *context, struct legacy_pass *pass);

/* context.c, under the lock: the turn has changed. */
void legacy_show_turn(const struct legacy_context *context);

/* context.c: what legacy_start() was given; constant once legacy_on is set. */
extern bool (*legacy_denied)(const struct call *call);
extern struct record_rewrite *legacy_counts;

/* context.c: the entry of a context, made if need be; NULL: there is no room, and doubt. */
struct legacy_context *legacy_of(struct state_context *context);
/* Under the lock, in the context: makes substitute and events, and copies attributes that were set. False: barred. */
bool legacy_make_substitute(struct legacy_context *context);

/*
 * barrier.c, all under the lock; false: the driver refused.
 *	join		the substitute comes behind all blocking streams, and behind what the legacy stream itself was given
 *	post		a blocking stream, by its handle, behind the substitute
 *	begin_post	the same in two steps, of which the second, end_post, may wait for room in the stream's queue: without the lock, while in flight
 *	back		the legacy stream itself, and with it all blocking streams, behind the substitute
 */
bool barrier_join(struct legacy_context *context, struct legacy_pass *pass);
bool barrier_post(struct legacy_context *context, struct legacy_pass *pass,
		  const struct state_stream *stream, CUstream handle);
bool barrier_begin_post(struct legacy_context *context, struct legacy_pass *pass);
bool barrier_end_post(struct legacy_context *context, struct legacy_pass *pass,
		      const struct state_stream *stream, CUstream handle);
bool barrier_back(struct legacy_context *context, struct legacy_pass *pass);
/*
 * Where an event cannot be had: the host waits for the substitute before anything comes to `stream`, with a note. Without the lock, since what the substitute waits for
 * may need it, and in flight, so that nothing more comes to the substitute. False: it may not wait.
 */
bool barrier_host(struct legacy_context *context, struct legacy_pass *pass,
		  const struct state_stream *stream);

/*
 * tell.c. Numbers are taken in the order of submission; 0 where the trace does not want them. legacy_meet: the stream's first operation in this
 * context, if it is; legacy_number: the operation itself. legacy_tell() sends what the pass holds, with no lock held, behind the call.
 */
uint64_t legacy_sequence(struct legacy_context *context, const struct legacy_pass *pass);
void legacy_meet(const struct call *call, struct legacy_pass *pass);
void legacy_number(const struct call *call, struct legacy_pass *pass);
void legacy_tell(const struct legacy_pass *pass);
/* Of a copy between contexts, in the other one, pass->peers[index]; and behind the call. */
void legacy_number_peer(const struct call *call, struct legacy_pass *pass, unsigned int index);
void legacy_tell_peers(const struct legacy_pass *pass);
/* The context's last record: numbered before its entry can be another's, told behind all others. */
struct trace_order_end legacy_number_end(struct legacy_context *context);
void legacy_tell_end(const struct trace_order_end *end);

#endif
