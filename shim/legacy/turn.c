// SPDX-License-Identifier: MIT
/*
 * Turn: which way a call goes, and what comes before it. Called by the generated wrappers.
 *
 * NATIVE and SUBSTITUTE. In NATIVE the driver orders everything, so calls take no lock; each is counted in flight while it is on its way. The turn
 * changes to SUBSTITUTE only while nothing is: who counts itself looks at `shut` afterwards, who shuts looks at the count
 * afterwards, both sequentially consistent, so one of them sees the other. `turn` itself changes when the barrier is placed: who asks about the
 * legacy stream (legacy_handle()) never looks at a substitute that is not behind it yet. In SUBSTITUTE an operation on a blocking stream that may wait is
 * counted, too; until it is back, the next legacy operation changes the turn to NATIVE, where it needs no barrier of ours.
 *
 * Launches that take the short way are not seen here. They are native, and there are none on legacy and blocking streams of a context in turn
 * SUBSTITUTE: before it, they are sent the long way (state_launch_bar()), and those under way are waited for, which never wait themselves for long.
 */
#include <stddef.h>
#include <string.h>

#include "catalogue/catalogue.h"
#include "config.h"
#include "driver/driver.h"
#include "emit/usdt.h"
#include "legacy/internal.h"
#include "legacy/legacy.h"
#include "state/launch.h"
#include "state/proof.h"
#include "state/state.h"

/*
 * Operations in a queue, as far as is known, up to which nothing that is submitted waits for room; drivers were seen to wait from 1024 on. Few: each may
 * bring a barrier along, which the program's own depth must not suffer from (1023 behind a gate that it opens itself).
 */
#define QUEUE_MAX 64
/* Most operations in a row that a context is asked for before its turn changes again. */
#define PATIENCE_MAX 1024
/*
 * What a turn may cost. A barrier takes as long as is gained by five operations that need none (H200: record and wait 0.58 us; a launch on another stream than the
 * legacy one is 0.1 to 0.15 us cheaper), and in NATIVE there are none.
 */
#define CREDIT_START   16
#define CREDIT_MAX     64
#define CREDIT_BARRIER 5

static bool is_device_kind(uint8_t kind)
{
	return kind == MEMORY_DEVICE || kind == MEMORY_POOL;
}

static bool is_pinned_kind(uint8_t kind)
{
	return kind == MEMORY_PINNED || kind == MEMORY_REGISTERED;
}

/* Never waits, but for room in its queue (sync-catalogue: what the driver was measured to do). */
static bool is_quick(const struct call *call)
{
	if (call->flags & (CALL_SYNC_MEMOPS | CALL_TWO_CONTEXTS))
		return false;
	switch (call->operation) {
	case OPERATION_KERNEL:
		/* The first launch of a function loads it, and may wait for the context. */
		return !(call->flags & (CALL_FIRST_USE | CALL_FIRST_HERE));
	case OPERATION_COPY:
		return (is_device_kind(call->source_kind) &&
			(is_device_kind(call->destination_kind) ||
			 is_pinned_kind(call->destination_kind))) ||
		       (is_pinned_kind(call->source_kind) &&
			is_device_kind(call->destination_kind));
	case OPERATION_MEMSET:
		return is_device_kind(call->destination_kind);
	case OPERATION_HOST_FUNCTION:
	case OPERATION_GRAPH:
	case OPERATION_MEMORY_OP:
	case OPERATION_EVENT_WAIT:
		return true;
	default:
		/* A record has no operation of its own. */
		return catalogue_rows[call->function].kind == CATALOGUE_KIND_EVENT;
	}
}

static bool is_short(const struct call *call)
{
	return call->backlog < QUEUE_MAX;
}

static CUstream handle_of(const struct call *call)
{
	return call->stream_kind == STREAM_PER_THREAD ? CU_STREAM_PER_THREAD : call->stream_handle;
}

/* ---- turns, under the lock ---- */

static void turned(struct legacy_context *context, struct legacy_pass *pass, uint32_t place)
{
	if (pass->turns == LEGACY_TURNS)
		return;
	pass->turn[pass->turns++] = (struct trace_order_turn){
		.context = context->number,
		.sequence = legacy_sequence(context, pass),
		.place = place,
	};
}

static void all_joined(struct legacy_context *context)
{
	context->dirty = false;
}

/* The substitute has work that the legacy stream itself is not behind? */
static bool is_ahead(const struct legacy_context *context)
{
	return context->epoch != context->turn_epoch;
}

/* The legacy stream has its name in its own context only, and a call on another stream may come from any. */
static bool make_current(const struct legacy_context *context, bool *ret_pushed)
{
	bool is_current = state_current_context() == context->id;

	*ret_pushed = !is_current && driver.cuCtxPushCurrent_v2(context->handle) == CUDA_SUCCESS;
	return is_current || *ret_pushed;
}

static void make_current_again(bool pushed)
{
	CUcontext popped;

	if (pushed)
		(void)driver.cuCtxPopCurrent_v2(&popped);
}

static bool back(struct legacy_context *context, struct legacy_pass *pass)
{
	bool pushed, is_placed;

	/* A barrier there would end the capture of a blocking stream, which the program's own call does not have to. */
	is_placed = make_current(context, &pushed) && !legacy_is_refused() &&
		    barrier_back(context, pass);
	make_current_again(pushed);
	return is_placed;
}

/* SLIPSTREAM_LEGACY_AFTER=0: every operation that can go to the substitute does, so launches must be seen in NATIVE, too. */
static bool is_eager(void)
{
	return !config.legacy_after;
}

static void stay_native(struct legacy_context *context)
{
	__atomic_store_n(&context->shut, 0, __ATOMIC_SEQ_CST);
	state_launch_bar(context->of, is_eager());
}

/* The order is kept by now. */
static void now_native(struct legacy_context *context)
{
	/* Launches that join look at both without the lock (legacy_lets_join()). */
	if (is_ahead(context) && context->patience < PATIENCE_MAX)
		__atomic_store_n(&context->patience,
				 context->patience ? 2 * context->patience : config.legacy_after,
				 __ATOMIC_RELAXED);
	__atomic_store_n(&context->row, 0, __ATOMIC_RELAXED);
	all_joined(context);
	/* Pairs with legacy_handle(): the barrier is there. */
	__atomic_store_n(&context->turn, context->turn + 1, __ATOMIC_SEQ_CST);
	stay_native(context);
	legacy_show_turn(context);
}

/* True: by a barrier, and the lock was held all the time. */
static bool back_to_native(struct legacy_context *context, struct legacy_pass *pass)
{
	if (!back(context, pass))
		return false;
	turned(context, pass, TRACE_ORDER_NATIVE);
	now_native(context);
	return true;
}

/* True: what was on the substitute is done, and nothing came to it, for who finds somebody in flight goes native. The lock is given back meanwhile. */
static bool wait_without_lock(struct legacy_context *context, struct legacy_pass *pass)
{
	bool pushed, is_done;

	__atomic_add_fetch(&context->in_flight, 1, __ATOMIC_SEQ_CST);
	legacy_unlock(context);
	is_done = make_current(context, &pushed) && barrier_host(context, pass, context->legacy);
	make_current_again(pushed);
	/* Not refused: it was held before. */
	(void)legacy_lock(context);
	__atomic_sub_fetch(&context->in_flight, 1, __ATOMIC_SEQ_CST);
	return is_done;
}

/*
 * The driver refuses to let the legacy stream wait: then the host waits, which is as good.
 */
bool legacy_to_native(struct legacy_context *context, struct legacy_pass *pass)
{
	uint64_t id = __atomic_load_n(&context->id, __ATOMIC_ACQUIRE);
	bool is_done;

	if (back_to_native(context, pass))
		return true;
	is_done = wait_without_lock(context, pass);
	if (__atomic_load_n(&context->id, __ATOMIC_ACQUIRE) != id)
		return false;
	/* Another thread was here. */
	if (!legacy_is_substitute(context))
		return true;
	if (!is_done)
		return false;
	turned(context, pass, TRACE_ORDER_NATIVE);
	now_native(context);
	return true;
}

/* True: the turn is SUBSTITUTE now. */
static bool to_substitute(struct legacy_context *context, struct legacy_pass *pass)
{
	/* Under the lock: behind legacy_retreat() there is no turn of ours. */
	if (state_is_doubted() || !legacy_make_substitute(context))
		return false;
	/* Pairs with count_in_native(): whoever counted itself before is seen here, who does it later sees this. */
	__atomic_store_n(&context->shut, 1, __ATOMIC_SEQ_CST);
	state_launch_bar(context->of, true);
	if (__atomic_load_n(&context->in_flight, __ATOMIC_SEQ_CST) || !state_launch_settled()) {
		stay_native(context);
		return false;
	}
	turned(context, pass, TRACE_ORDER_SUBSTITUTE);
	if (!barrier_join(context, pass)) {
		/* Nothing is on the substitute that the legacy stream would have to wait for. */
		turned(context, pass, TRACE_ORDER_NATIVE);
		stay_native(context);
		return false;
	}
	/* Pairs with legacy_handle(): the barrier is there. */
	__atomic_store_n(&context->turn, context->turn + 1, __ATOMIC_SEQ_CST);
	all_joined(context);
	legacy_show_turn(context);
	context->turn_epoch = context->epoch;
	context->credit = CREDIT_START;
	return true;
}

/*
 * Everything that the substitute's next operation must come behind. False: the barrier could not be placed. It is a join also for one stream: that costs no more than
 * an event recorded there would, and a record on a stream of the program's could be found under way by who asks that stream, which had done all it was given.
 */
static bool join(struct legacy_context *context, struct legacy_pass *pass)
{
	if (!context->dirty) {
		pass->elided = TRACE_ORDER_CLEAN;
		context->credit += context->credit < CREDIT_MAX;
		return true;
	}
	if (!barrier_join(context, pass))
		return false;
	context->credit -= CREDIT_BARRIER;
	all_joined(context);
	return true;
}

/* ---- in flight ---- */

/* True: counted, and the turn is NATIVE. */
static bool count_in_native(struct legacy_context *context, struct legacy_pass *pass)
{
	/* Pairs with to_substitute(). */
	__atomic_add_fetch(&context->in_flight, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&context->shut, __ATOMIC_SEQ_CST)) {
		__atomic_sub_fetch(&context->in_flight, 1, __ATOMIC_SEQ_CST);
		return false;
	}
	busy_in_flight(0, context->number);
	pass->counted = true;
	return true;
}

static void count_in(struct legacy_context *context, struct legacy_pass *pass)
{
	__atomic_add_fetch(&context->in_flight, 1, __ATOMIC_SEQ_CST);
	busy_in_flight(0, context->number);
	pass->counted = true;
}

/* ---- one call ---- */

/* Why a legacy operation may not go to the substitute now; 0: it may. */
static uint8_t reason(struct legacy_context *context, const struct call *call,
		      enum legacy_class class)
{
	if (state_is_doubted() || __atomic_load_n(&context->barred, __ATOMIC_RELAXED))
		return TRACE_ORDER_DOUBT;
	if (state_objection())
		return TRACE_ORDER_CAPTURE;
	if (class != LEGACY_REDIRECT || !is_quick(call))
		return TRACE_ORDER_SLOW;
	if (!is_short(call))
		return TRACE_ORDER_QUEUE;
	return legacy_denied(call) ? TRACE_ORDER_DENIED : 0;
}

bool legacy_is_refused(void)
{
	CUstreamCaptureStatus status;

	return state_objection() &&
	       driver.cuStreamIsCapturing(CU_STREAM_LEGACY, &status) != CUDA_SUCCESS;
}

/* The same of a context that may not be the current one. */
static bool is_refused_in(const struct legacy_context *context)
{
	bool pushed, is_refused;

	if (!state_objection())
		return false;
	is_refused = make_current(context, &pushed) && legacy_is_refused();
	make_current_again(pushed);
	return is_refused;
}

static void in_substitute(struct legacy_context *context, struct legacy_pass *pass)
{
	pass->stream = context->substitute;
	pass->redirected = true;
}

/* Under the lock, which stays held where the pass says so. */
static void legacy_in_substitute(struct legacy_context *context, struct legacy_pass *pass,
				 uint8_t why)
{
	if (!why && __atomic_load_n(&context->in_flight, __ATOMIC_SEQ_CST))
		why = TRACE_ORDER_QUEUE;
	if (!why && context->credit < 0 && !is_eager())
		why = TRACE_ORDER_PREFERRED;
	if (!why && !legacy_make_substitute(context))
		why = TRACE_ORDER_DOUBT;
	if (!why && join(context, pass)) {
		in_substitute(context, pass);
		pass->held = true;
		return;
	}
	pass->reason = why ? why : TRACE_ORDER_DOUBT;
	if (legacy_is_refused())
		return;
	(void)legacy_to_native(context, pass);
	count_in(context, pass);
}

/*
 * No barrier of its own can be placed in front of an operation of a blocking stream: the legacy stream goes back, and the driver orders it; else the
 * host waits, behind the lock (post_late()).
 */
static void replace_post(struct legacy_context *context, struct legacy_pass *pass)
{
	if (!back_to_native(context, pass)) {
		pass->hosts = true;
		pass->posts = context->epoch;
		context->dirty = true;
	}
	count_in(context, pass);
}

static void blocking_in_substitute(struct legacy_context *context, const struct call *call,
				   struct legacy_pass *pass, bool quick)
{
	uint64_t *epoch = state_legacy_epoch(call->stream);
	uint64_t known = *epoch > context->turn_epoch ? *epoch : context->turn_epoch;
	/*
	 * In a queue that may be full the barrier waits for room: without the lock, and in flight. Not on the legacy stream instead: that would be behind all blocking
	 * streams, of which one may wait for what comes here.
	 */
	bool is_late = known != context->epoch && !is_short(call);

	/* Of a stream that nobody saw made only the driver knows whether it is ordered with the legacy one. */
	if (call->stream_kind == STREAM_UNKNOWN)
		is_late = is_refused_in(context);
	if (is_late ? !barrier_begin_post(context, pass) : call->stream_kind == STREAM_UNKNOWN) {
		replace_post(context, pass);
		return;
	}
	if (is_late) {
		pass->posts = context->epoch;
		context->credit -= CREDIT_BARRIER;
		context->dirty = true;
		count_in(context, pass);
		return;
	}
	if (known == context->epoch) {
		pass->elided = TRACE_ORDER_ORDERED;
	} else if (barrier_post(context, pass, call->stream, handle_of(call))) {
		*epoch = context->epoch;
		context->credit -= CREDIT_BARRIER;
	} else {
		replace_post(context, pass);
		return;
	}
	context->dirty = true;
	if (quick)
		pass->held = true;
	else
		count_in(context, pass);
}

/* Where only one kind of streams is in use there is nothing to order. */
static void note_use(struct legacy_context *context, const struct call *call)
{
	uint32_t use =
		call->stream_kind == STREAM_LEGACY ? LEGACY_USED_LEGACY : LEGACY_USED_BLOCKING;

	if (call->stream_kind == STREAM_UNKNOWN)
		__atomic_store_n(&context->barred, 1, __ATOMIC_RELAXED);
	if (!(__atomic_load_n(&context->used, __ATOMIC_RELAXED) & use) &&
	    __atomic_or_fetch(&context->used, use, __ATOMIC_RELAXED) == LEGACY_USED_BOTH &&
	    is_eager())
		state_launch_bar(context->of, true);
}

/* Is it worth it? */
static bool is_wanted(struct legacy_context *context)
{
	if (__atomic_load_n(&context->used, __ATOMIC_RELAXED) != LEGACY_USED_BOTH)
		return false;
	if (__atomic_load_n(&context->row, __ATOMIC_RELAXED) <
	    __atomic_load_n(&context->patience, __ATOMIC_RELAXED)) {
		__atomic_add_fetch(&context->row, 1, __ATOMIC_RELAXED);
		return false;
	}
	return true;
}

/* An operation on a blocking stream. */
static void end_row(struct legacy_context *context)
{
	if (__atomic_load_n(&context->row, __ATOMIC_RELAXED))
		__atomic_store_n(&context->row, 0, __ATOMIC_RELAXED);
}

static uint8_t why_unwanted(const struct legacy_context *context)
{
	return __atomic_load_n(&context->used, __ATOMIC_RELAXED) == LEGACY_USED_BOTH
		       ? TRACE_ORDER_PREFERRED
		       : TRACE_ORDER_UNMIXED;
}

/* The lock is held by this thread further out: a call from a signal handler, or that the driver made. */
static void nested(struct legacy_pass *pass)
{
	state_unseen();
	pass->context = NULL;
}

static void enter_legacy(struct legacy_context *context, const struct call *call,
			 struct legacy_pass *pass, enum legacy_class class)
{
	uint8_t why = reason(context, call, class);

	if (why)
		__atomic_store_n(&context->row, 0, __ATOMIC_RELAXED);
	if (!legacy_is_substitute(context) && (why || !is_wanted(context))) {
		pass->reason = why ? why : why_unwanted(context);
		if (count_in_native(context, pass)) {
			legacy_number(call, pass);
			return;
		}
	}
	if (!legacy_lock(context)) {
		nested(pass);
		return;
	}
	pass->reason = why;
	if (legacy_is_dead(context, call)) {
		pass->context = NULL;
	} else if (legacy_is_substitute(context)) {
		legacy_in_substitute(context, pass, why);
	} else if (!why && to_substitute(context, pass)) {
		legacy_in_substitute(context, pass, why);
	} else {
		pass->reason = why ? why : TRACE_ORDER_QUEUE;
		count_in(context, pass);
	}
	legacy_number(call, pass);
	if (!pass->held)
		legacy_unlock(context);
}

/* Until the barrier is there, other operations of this stream get one of their own. */
static void post_late(struct legacy_context *context, const struct call *call,
		      struct legacy_pass *pass)
{
	uint64_t *epoch = state_legacy_epoch(call->stream);

	if (!barrier_end_post(context, pass, call->stream, handle_of(call)) ||
	    !legacy_lock(context))
		return;
	if (!legacy_is_dead(context, call) && *epoch < pass->posts)
		*epoch = pass->posts;
	legacy_unlock(context);
}

static void enter_blocking(struct legacy_context *context, const struct call *call,
			   struct legacy_pass *pass, enum legacy_class class)
{
	bool quick;

	end_row(context);
	if (count_in_native(context, pass)) {
		legacy_number(call, pass);
		return;
	}
	if (!legacy_lock(context)) {
		nested(pass);
		return;
	}
	quick = class == LEGACY_REDIRECT && is_quick(call) && is_short(call);
	if (legacy_is_dead(context, call))
		pass->context = NULL;
	else if (legacy_is_substitute(context))
		blocking_in_substitute(context, call, pass, quick);
	else
		count_in(context, pass);
	if (pass->late || pass->hosts) {
		legacy_unlock(context);
		post_late(context, call, pass);
		legacy_number(call, pass);
		return;
	}
	legacy_number(call, pass);
	if (!pass->held)
		legacy_unlock(context);
}

/*
 * A copy between two contexts is ordered in both, of which the current one may be neither: native in the others, too, which are made current for as
 * long as that takes. Returns the context, if the call is counted there.
 */
static struct legacy_context *enter_peer(uint64_t context, const struct legacy_pass *pass)
{
	struct state_context *of = state_context_by_handle(context);
	struct legacy_context *peer = of ? legacy_of(of) : NULL;
	struct legacy_pass other = {.tells = pass->tells};
	CUcontext handle = (CUcontext)(uintptr_t)context, popped;

	if (!peer || peer == pass->context)
		return NULL;
	if (count_in_native(peer, &other))
		return peer;
	if (driver.cuCtxPushCurrent_v2(handle) != CUDA_SUCCESS)
		return NULL;
	if (legacy_lock(peer)) {
		other.context = peer;
		if (legacy_is_substitute(peer) && !legacy_is_refused())
			(void)legacy_to_native(peer, &other);
		count_in(peer, &other);
		legacy_unlock(peer);
		legacy_tell(&other);
	} else {
		peer = NULL;
	}
	(void)driver.cuCtxPopCurrent_v2(&popped);
	return peer;
}

static void enter_peers(const struct call *call, struct legacy_pass *pass)
{
	unsigned int i;

	/* On a stream of the program's it is an operation of that stream only. */
	if (call->stream_kind != STREAM_LEGACY && call->stream_form != CALL_STREAM_IMPLICIT)
		return;
	pass->peers[0] = enter_peer(call->peer_context, pass);
	legacy_number_peer(call, pass, 0);
	pass->peers[1] = enter_peer(call->peer_to, pass);
	legacy_number_peer(call, pass, 1);
	for (i = 0; i < 2; i++)
		if (pass->peers[i])
			busy_in_flight(1 + i, pass->peers[i]->number);
}

static void leave_peers(struct legacy_pass *pass)
{
	unsigned int i;

	legacy_tell_peers(pass);
	for (i = 0; i < 2; i++) {
		if (!pass->peers[i])
			continue;
		/* It was counted in as an operation of its own, too. */
		busy_in_flight(0, 0);
		busy_in_flight(1 + i, 0);
		__atomic_sub_fetch(&pass->peers[i]->in_flight, 1, __ATOMIC_SEQ_CST);
	}
}

bool legacy_lets_join(struct state_context *of, bool is_legacy)
{
	struct legacy_context *context = legacy_of(of);

	if (!context || is_eager() || legacy_is_substitute(context) ||
	    __atomic_load_n(&context->used, __ATOMIC_RELAXED) != LEGACY_USED_BOTH)
		return false;
	/* As in enter_blocking() and enter_legacy(). A deny list goes by the call. */
	if (!is_legacy) {
		end_row(context);
		return true;
	}
	return !config.deny && !state_is_doubted() &&
	       !__atomic_load_n(&context->barred, __ATOMIC_RELAXED) && !state_objection() &&
	       !is_wanted(context);
}

void legacy_enter(struct call *call, struct legacy_pass *pass, enum legacy_class class)
{
	struct legacy_context *context;
	bool is_legacy = call->stream_kind == STREAM_LEGACY;

	memset(pass, 0, offsetof(struct legacy_pass, newcomer));
	pass->submit.sequence = 0;
	if (!call->stream || !call->context || call->stream_kind == STREAM_NON_BLOCKING ||
	    call->flags & CALL_CAPTURED || state_draws_into_capture(call))
		return;
	context = legacy_of(call->context);
	if (!context)
		return;
	pass->context = context;
	pass->tells = emit_traces_full();
	note_use(context, call);
	if (call->flags & CALL_TWO_CONTEXTS)
		enter_peers(call, pass);
	legacy_meet(call, pass);
	if (is_legacy)
		enter_legacy(context, call, pass, class);
	else
		enter_blocking(context, call, pass, class);
	/* Then legacy_leave() does not follow. */
	if (!pass->context)
		leave_peers(pass);
}

void legacy_leave(struct call *call, struct legacy_pass *pass, CUresult result)
{
	pass->failed = result != CUDA_SUCCESS;
	/* What the driver refused is nothing that blocking streams would have to wait for. */
	if (pass->held && pass->redirected && !state_was_refused(call, result))
		pass->context->epoch++;
	if (pass->held)
		legacy_unlock(pass->context);
	legacy_tell(pass);
	if (pass->tells)
		call->order = pass->submit.sequence;
	if (pass->redirected)
		USDT_REWRITE(CONFIG_FIX_STREAMS, USDT_REWRITE_REDIRECTED, call->function,
			     call->bytes);
	if (pass->counted)
		busy_in_flight(0, 0);
	/* Behind the call: who finds nobody in flight comes after it. */
	if (pass->counted)
		__atomic_sub_fetch(&pass->context->in_flight, 1, __ATOMIC_SEQ_CST);
	leave_peers(pass);
}
