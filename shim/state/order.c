// SPDX-License-Identifier: MIT
/*
 * Order: numbers of submission and completion, and what legacy order lets one conclude. Called by
 * state_after() and the `result` hooks.
 *
 * Only what the host observed counts as complete, and only conclusions that no schedule of the
 * device can break are drawn from it:
 *
 * 1. A stream runs its operations in order: n complete means all below n are.
 * 2. An operation of the legacy stream runs after all work that its context's blocking streams had
 *    been given before. So if the legacy operation `joined_by` is complete, the blocking stream is
 *    up to `joined`.
 * 3. An operation of a blocking stream runs after the legacy operations given before it. So if the
 *    blocking stream is complete up to `legacy_at`, the legacy stream is up to `legacy_joined`.
 *
 * 2 and 3 hold only for operations that are really put on the device: a copy of no bytes, a wait
 * for an event that is done, or an allocation from a pool may be none. They are not chained. Event
 * waits (cuStreamWaitEvent) are not followed. What is not concluded stays a candidate: "submitted,
 * not known complete" is all a candidate says.
 */
#include "catalogue/catalogue.h"
#include "clock.h"
#include "emit/emit.h"
#include "state/internal.h"
#include "state/state.h"

/* The acquire pairs with the release in end_joining(): who holds `joining` sees what it guards. */
static bool try_joining(struct state_stream *stream)
{
	return !__atomic_exchange_n(&stream->joining, 1, __ATOMIC_ACQUIRE);
}

static void end_joining(struct state_stream *stream)
{
	__atomic_store_n(&stream->joining, 0, __ATOMIC_RELEASE);
}

/* False: it was known. */
static bool raise_completed(struct state_stream *stream, uint64_t number)
{
	uint64_t seen = STATE_LOAD(&stream->completed);

	/* Release: who sees the number sees why it may not be believed yet (`endings`, doubt: proof.c). */
	while (seen < number &&
	       !__atomic_compare_exchange_n(&stream->completed, &seen, number, true,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
	return seen < number;
}

/*
 * For the trace; never while `joining` or a lock is held. An entry that goes (order_forget) is not
 * told: nothing was observed.
 */
static void trace_completed(const struct state_stream *stream, uint64_t number)
{
	struct trace_completed event;

	if (__builtin_expect(!emit_traces_full(), 1))
		return;
	event = (struct trace_completed){.stream = state_stream_number(stream), .number = number};
	emit_trace(TRACE_COMPLETED, &event);
}

/* A copy between two contexts, of which the current one may be neither, is one of the legacy streams of both. */
static void trace_submit_peers(const struct call *call)
{
	uint64_t handles[] = {call->peer_context, call->peer_to};
	const struct state_context *contexts[2];
	struct trace_submit_peer event = {
		.stream = state_stream_number(call->stream),
		.number = call->submission,
		.function = call->function,
		.of_context = call->context ? state_context_number(call->context) : 0,
		.order = call->order,
	};
	unsigned int i;

	/* On a stream of the program's it is an operation of that one only. */
	if (call->stream_kind != STREAM_LEGACY && call->stream_form != CALL_STREAM_IMPLICIT)
		return;
	for (i = 0; i < 2; i++) {
		contexts[i] = state_context_by_handle(handles[i]);
		if (!contexts[i] || contexts[i] == call->context ||
		    (i && contexts[i] == contexts[0]))
			continue;
		event.context = state_context_number(contexts[i]);
		emit_trace(TRACE_SUBMIT_PEER, &event);
	}
}

/* No bytes, or the free of no address. What lacks anything else the driver refuses. */
static bool puts_nothing(const struct call *call)
{
	if (catalogue_rows[call->function].flags & CATALOGUE_SIZED)
		return !call->bytes;
	return call->operation == OPERATION_ALLOCATION && !call->subject;
}

static void trace_submit(const struct call *call)
{
	struct trace_submit event;

	if (__builtin_expect(!emit_traces_full(), 1))
		return;
	event = (struct trace_submit){
		.stream = state_stream_number(call->stream),
		.operation = call->operation,
		.function = call->function,
		.name = call->name,
		.number = call->submission,
		.bytes = call->bytes,
		.call_ns = clock_duration_ns(call->entered, call->left),
		.kind = call->stream_kind,
		.context = call->context ? state_context_number(call->context) : 0,
		.order = call->order,
		.nothing = puts_nothing(call),
	};
	emit_trace(TRACE_SUBMIT, &event);
	if (call->flags & CALL_TWO_CONTEXTS && !event.nothing)
		trace_submit_peers(call);
}

/* The call's operation is behind what `of` had been given. */
static void trace_join(const struct call *call, const struct state_stream *of, uint64_t of_number)
{
	struct trace_join event;

	if (__builtin_expect(!emit_traces_full(), 1))
		return;
	event = (struct trace_join){
		.stream = state_stream_number(call->stream),
		.number = call->submission,
		.of_stream = state_stream_number(of),
		.of_number = of_number,
	};
	emit_trace(TRACE_JOIN, &event);
}

/* Conclusion 2, for every stream that may have something to gain. */
static void legacy_complete(struct state_stream *legacy, uint64_t number)
{
	struct state_context *context = stream_context(legacy);
	uint32_t words = (stream_count() + 63) / 64;
	struct state_stream *stream;
	uint64_t bits, joined;
	uint32_t word;
	bool is_news;

	for (word = 0; word < words; word++) {
		for (bits = STATE_LOAD(&pending_bits[word]); bits; bits &= bits - 1) {
			stream = stream_at(word * 64 + (uint32_t)__builtin_ctzll(bits));
			if (stream_context(stream) != context || !stream_joins(stream) ||
			    !try_joining(stream))
				continue;
			joined = STATE_LOAD(&stream->joined);
			is_news = STATE_LOAD(&stream->joined_by) &&
				  STATE_LOAD(&stream->joined_by) <= number &&
				  raise_completed(stream, joined);
			end_joining(stream);
			if (is_news)
				trace_completed(stream, joined);
		}
	}
}

void order_forget(struct state_stream *stream)
{
	(void)raise_completed(stream, stream_submitted(stream));
}

void order_complete(struct state_stream *stream, uint64_t number)
{
	struct state_context *context = stream_context(stream);
	uint64_t legacy_joined;
	bool is_news;

	if (number <= STATE_LOAD(&stream->completed)) {
		/* No news, but the trace tells by it what a wait was for (what-if). */
		if (number)
			trace_completed(stream, number);
		return;
	}
	if (raise_completed(stream, number))
		trace_completed(stream, number);
	if (stream_kind(stream) == STREAM_LEGACY) {
		legacy_complete(stream, number);
	} else if (stream_joins(stream) && context && try_joining(stream)) {
		legacy_joined = STATE_LOAD(&stream->legacy_joined);
		is_news = STATE_LOAD(&stream->legacy_at) &&
			  STATE_LOAD(&stream->legacy_at) <= number &&
			  raise_completed(context->legacy, legacy_joined);
		end_joining(stream);
		if (is_news)
			trace_completed(context->legacy, legacy_joined);
	}
}

void order_complete_pending(struct call *call, unsigned int scope)
{
	uint32_t count = call->pending_count;
	struct state_stream *stream;
	uint32_t i;

	if (count > CALL_PENDING_MAX)
		count = CALL_PENDING_MAX;
	for (i = 0; i < count; i++) {
		stream = call->pending[i].stream;
		/*
		 * A candidate, but it may be non-blocking: the legacy stream proves nothing of it.
		 */
		if (scope == CATALOGUE_SCOPE_STREAM && stream != call->stream &&
		    stream_kind(stream) == STREAM_UNKNOWN)
			continue;
		if (state_in_scope(call, stream, scope))
			order_complete(stream, call->pending[i].submitted);
	}
}

/* Joined streams leave the list of unjoined ones together: one locked instruction for 64 of them, which pending[] names in rising order. */
struct leaving {
	uint32_t word;
	uint64_t bits;
};

static void leave(struct leaving *leaving, const struct state_stream *stream)
{
	uint32_t word = stream->index / 64;

	/* Whose launches are counted without a lock does not look at the bit: it stays (launch.c). */
	if (STATE_LOAD(&stream->launcher))
		return;
	if (word != leaving->word && leaving->bits) {
		pending_take_out_joined(leaving->word, leaving->bits);
		leaving->bits = 0;
	}
	leaving->word = word;
	leaving->bits |= UINT64_C(1) << stream->index % 64;
}

/*
 * The operation `number` of the context's legacy stream is behind what was pending on the blocking streams. Returns bit i for the i-th of them where
 * that is news.
 */
static uint64_t join_blocking(const struct state_context *context,
			      const struct call_pending *pending, uint32_t count, uint64_t number)
{
	struct leaving leaving = {0};
	struct state_stream *stream;
	bool taking_out = false;
	uint64_t joined = 0;
	uint32_t i;

	_Static_assert(CALL_PENDING_MAX <= 64, "bits of joined");
	if (count > CALL_PENDING_MAX)
		count = CALL_PENDING_MAX;
	for (i = 0; i < count; i++) {
		stream = pending[i].stream;
		if (!stream_joins(stream) || stream_context(stream) != context ||
		    !try_joining(stream))
			continue;
		if (!taking_out)
			pending_begin_out();
		taking_out = true;
		if (pending[i].submitted > STATE_LOAD(&stream->joined)) {
			STATE_STORE(&stream->joined, pending[i].submitted);
			STATE_STORE(&stream->joined_by, number);
			joined |= UINT64_C(1) << i;
		}
		end_joining(stream);
		leave(&leaving, stream);
	}
	if (leaving.bits)
		pending_take_out_joined(leaving.word, leaving.bits);
	if (taking_out)
		pending_end_out();
	return joined;
}

/* Has a blocking stream something to conclude from an operation behind so much of the legacy stream? */
static inline bool is_behind_news(const struct state_stream *stream, uint64_t legacy_number)
{
	return legacy_number != STATE_LOAD(&stream->legacy_joined) && legacy_number;
}

/* The operation `number` of a blocking stream is behind what the legacy stream had been given. True: that is news. */
static bool join_legacy(struct state_stream *stream, uint64_t legacy_number, uint64_t number)
{
	bool is_joined = false;

	if (!try_joining(stream))
		return false;
	if (legacy_number > STATE_LOAD(&stream->legacy_joined)) {
		STATE_STORE(&stream->legacy_joined, legacy_number);
		STATE_STORE(&stream->legacy_at, number);
		is_joined = true;
	}
	end_joining(stream);
	return is_joined;
}

static void join_blocking_of(const struct call *call, uint64_t number)
{
	uint64_t joined = join_blocking(call->context, call->pending, call->pending_count, number);
	const struct call_pending *pending;

	for (; joined; joined &= joined - 1) {
		pending = &call->pending[__builtin_ctzll(joined)];
		trace_join(call, pending->stream, pending->submitted);
	}
}

/* Surely becomes work on the device that takes its place in legacy order. */
static bool is_real_work(const struct call *call)
{
	switch (call->operation) {
	case OPERATION_COPY:
	case OPERATION_MEMSET:
		return call->bytes > 0;
	case OPERATION_KERNEL:
	case OPERATION_HOST_FUNCTION:
	case OPERATION_MEMORY_OP:
		return true;
	default:
		return false;
	}
}

uint64_t order_number(struct state_stream *stream, uint64_t youngest)
{
	uint64_t number;

	STATE_STORE(&stream->youngest, youngest);
	/* Pairs with the clearing of the bits, which looks at the number afterwards. */
	number = __atomic_add_fetch(&stream->submitted, 1, __ATOMIC_SEQ_CST);
	/* Afterwards, as stream_submitted() relies on. */
	number += STATE_LOAD(&stream->launched);
	pending_list(stream);
	return number;
}

void order_submitted(struct call *call)
{
	struct state_stream *stream = call->stream;
	uint64_t number;

	number = order_number(stream, (uint64_t)call->operation << 32 | call->name);
	launch_turn(stream);
	call->submission = number;
	trace_submit(call);
	/*
	 * What was pending was seen after the launch: what is older is not known, so nothing is
	 * concluded.
	 */
	if (call->flags & CALL_LATE)
		return;
	if (stream_kind(stream) == STREAM_LEGACY) {
		if (call->pending_count && is_real_work(call))
			join_blocking_of(call, number);
	} else if (is_behind_news(stream, call->legacy_number) && is_real_work(call) &&
		   join_legacy(stream, call->legacy_number, number)) {
		trace_join(call, call->context->legacy, call->legacy_number);
	}
}

void order_launched(const struct state_launch *launch)
{
	struct state_stream *stream = launch->stream;
	uint64_t number = order_number(stream, launch->youngest);

	launch_turn(stream);
	if (stream_kind(stream) != STREAM_LEGACY && is_behind_news(stream, launch->legacy_number))
		(void)join_legacy(stream, launch->legacy_number, number);
	else if (stream_kind(stream) == STREAM_LEGACY && launch->pending_count)
		(void)join_blocking(stream_context(stream), launch->pending, launch->pending_count,
				    number);
}

/* Is there work on `stream` that the call's own operation is the first to be ordered behind? */
bool order_is_unjoined(const struct call *call, const struct state_stream *stream)
{
	const struct state_stream *own = call->stream;

	if (!own || own == stream || !stream_is_pending(stream))
		return false;
	if (stream_kind(own) == STREAM_LEGACY)
		return stream_joins(stream) && stream_context(stream) == call->context &&
		       stream_submitted(stream) > STATE_LOAD(&stream->joined);
	return stream_joins(own) && call->context && stream == call->context->legacy &&
	       stream_submitted(stream) > STATE_LOAD(&own->legacy_joined);
}
