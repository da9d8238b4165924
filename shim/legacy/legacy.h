// SPDX-License-Identifier: MIT
/*
 * Legacy: the legacy default stream of a context, rewritten into a non-blocking stream of ours (the substitute) with event barriers. README.md one level
 * up tells how (chapter Default stream). Called by the generated wrappers of what puts work on a stream or waits for one, in mode fix with
 * the switch `legacy`; by other rooms for the handle that stands for the legacy stream. Relies on state for streams, captures and doubt.
 *
 * In turn NATIVE, where every context begins and ends, calls go to the driver as the program made them, and the driver orders them. In
 * turn SUBSTITUTE what the program puts on the legacy stream goes to the substitute, and barriers are placed here, under the context's
 * submission lock. What cannot be placed under it, since it may wait, goes native.
 *
 * Any thread, inside the rooms. Never fails visibly: whatever goes wrong ends in NATIVE.
 */
#ifndef SLIPSTREAM_LEGACY_LEGACY_H
#define SLIPSTREAM_LEGACY_LEGACY_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#include "call.h"
#include "emit/emit.h"
#include "tracing/event.h"

struct legacy_context;
struct record_rewrite;

/* Not 0: mode fix with this rewrite, and cuInit has succeeded. Written once; read by every wrapper whose row has a stream. */
extern uint32_t legacy_on;

static inline bool legacy_active(void)
{
	return __builtin_expect(__atomic_load_n(&legacy_on, __ATOMIC_RELAXED) != 0, 0);
}

/* What a row of the catalogue is; the generator says so. */
enum legacy_class {
	LEGACY_REDIRECT, /* its stream is an argument, and it may be one that never waits but for a full queue */
	LEGACY_NATIVE, /* it may wait, or has no stream argument */
};

/* Barriers of one call, for the trace. */
#define LEGACY_BARRIERS 4
/* Turns of one call: there, back, and there again where that could not be. */
#define LEGACY_TURNS 3

/* A lane in records: `place` is TRACE_ORDER_SUBSTITUTE of what is on the substitute, which has the legacy stream's number. */
struct barrier_lane {
	uint32_t stream, place;
};

/* What an event stands for, as far as records tell: barrier.c writes it where the driver has recorded the event. */
struct barrier_event {
	uint64_t of; /* context; 0: nothing */
	CUevent event;
	struct barrier_lane lane;
	uint64_t covered; /* all up to this record */
};

/* One call on its way; on the caller's stack. */
struct legacy_pass {
	struct legacy_context *context; /* NULL: the call has nothing to do with legacy order */
	struct legacy_context
		*peers[2]; /* of a peer copy, but for the own one: counted there, too */
	CUstream stream;   /* what the driver is given for the program's handle, if ... */
	bool redirected;   /* ... so: the substitute */
	bool held;         /* the submission lock is */
	bool counted;      /* as in flight, without the lock */
	bool failed;       /* the driver refused it */
	bool tells;        /* the trace wants what follows */
	bool hosts;        /* in front of it comes without the lock: a wait of the host, or ... */
	CUevent late;      /* ... a barrier, by this event, ... */
	uint64_t posts;    /* ... behind this epoch */
	uint8_t reason, elided;             /* of the operation: TRACE_ORDER_... */
	uint8_t turns, noted;               /* how many of these records there are */
	uint8_t barriers;                   /* the driver took */
	bool is_first;                      /* operation of its stream: `newcomer` tells */
	struct trace_order_stream newcomer; /* the first that is not cleared */
	struct trace_order_turn turn[LEGACY_TURNS];
	struct trace_order_barrier barrier[LEGACY_BARRIERS];
	struct barrier_event late_stands;         /* of `late` */
	struct trace_order_submit submit;         /* sequence 0: none */
	struct trace_order_submit peer_submit[2]; /* in `peers`; the same */
};

/*
 * After a successful cuInit, once. Also registers the process with membarrier(2); without that the rewrite stays off, with a note. `denied`: must
 * this call be left where it is (the deny list)? `counts`: where to count.
 */
void legacy_start(bool (*denied)(const struct call *call), struct record_rewrite *counts);

/*
 * Before the driver's call: places what has to be in front of it. Fills *pass; pass->stream is what the driver is to be given where
 * pass->redirected. legacy_leave() must follow, behind the call, if pass->context is set; it says in call->order which record is the call's.
 */
void legacy_enter(struct call *call, struct legacy_pass *pass, enum legacy_class class);
void legacy_leave(struct call *call, struct legacy_pass *pass, CUresult result);

/*
 * May a short launch that joins (state/launch.h), on the legacy stream (`is_legacy`) or a blocking one of this context, go past legacy_enter()? Where the turn is NATIVE and the
 * launch would not change it: then it counts in a row of operations that could go to the substitute, or ends one, as on the long way, and would be counted in flight, which short
 * launches are by themselves. False: it has to take the long way.
 */
bool legacy_lets_join(struct state_context *of, bool is_legacy);

/*
 * cuStreamQuery and cuStreamSynchronize: answered here where the work of the legacy stream is on the substitute. True: *ret_result is the answer, with the
 * driver's clock in the call; false: the driver is to be asked.
 */
bool legacy_observe(struct call *call, CUresult *ret_result);

/* Contexts have ended, and their substitutes with them. `lives`: is there a context of this id? */
void legacy_drop(bool (*lives)(uint64_t id));

/*
 * Where the work of the legacy stream of this context (its id, the current one) is: the handle to ask about it, and the number of the turn.
 * What was learned by asking holds only if the number is the same afterwards.
 */
CUstream legacy_handle(uint64_t context, uint64_t *ret_turn);

/*
 * Calls may go past the rooms from now on, and must find the work of the legacy stream in its place: what is on a substitute, the legacy stream itself is
 * put behind. Before the first of those calls; state_doubt() came first.
 */
void legacy_retreat(void);

/* In a forked child: nothing is there any more. */
void legacy_forked(void);

#endif
