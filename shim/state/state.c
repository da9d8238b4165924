// SPDX-License-Identifier: MIT
/*
 * State: what happens before and after every classified call. Called by the generated wrappers
 * (call.h gives the order). Relies on the other files of this room and on the catalogue's rows.
 *
 * The launch path takes no lock and makes no driver call on a stream with a handle: the stream is
 * the one this thread used last or one table look-up away, the kernel too, and of other streams
 * only the legacy one's number is looked at.
 */
#include "state/state.h"

#include <string.h>

#include "catalogue/catalogue.h"
#include "config.h"
#include "emit/emit.h"
#include "state/flight.h"
#include "state/internal.h"
#include "state/launch.h"
#include "state/place.h"

struct lock state_lock = LOCK_INITIALIZER(LOCK_STATE);
struct arena state_arena = {.bound = (size_t)256 << 20};

void state_lost(const char *what)
{
	emit_note(NOTE_LOST, what);
}

static void resolve_stream(struct call *call, const struct catalogue_row *row)
{
	uint64_t handle = (uintptr_t)call->stream_handle;

	if (call->stream_form == CALL_STREAM_ARGUMENT && !call_is_own_handle(call->stream_handle)) {
		call->stream = stream_find(handle);
		if (__builtin_expect(!call->stream, 0))
			call->stream = stream_unseen(handle);
		if (call->stream)
			call->context = stream_context(call->stream);
		return;
	}
	/* cuCtxSynchronize_v2 waits for the context it is given. */
	if (call->stream_form == CALL_STREAM_CONTEXT && row->kind == CATALOGUE_KIND_WAIT &&
	    call->subject)
		call->context = context_of(call->subject);
	else
		call->context = context_current();
	if (!call->context || (call->stream_form != CALL_STREAM_ARGUMENT &&
			       call->stream_form != CALL_STREAM_IMPLICIT))
		return;
	if (handle == 2 || (handle == 0 && call->flags & CALL_PER_THREAD))
		call->stream = stream_per_thread(call->context);
	else
		call->stream = call->context->legacy;
}

static uint8_t operand_kind(const struct call *call, enum memory_kind kind, uint16_t host_flag)
{
	if (kind == MEMORY_NONE)
		kind = call->flags & host_flag ? MEMORY_PAGEABLE : MEMORY_UNKNOWN;
	return (uint8_t)kind;
}

static void look_at_operands(struct call *call)
{
	const uint64_t addresses[] = {call->source, call->destination};
	enum memory_kind kinds[2];

	if (memory_look_up(addresses, kinds))
		call->flags |= CALL_SYNC_MEMOPS;
	if (call->source)
		call->source_kind = operand_kind(call, kinds[0], CALL_SOURCE_HOST);
	if (call->destination)
		call->destination_kind = operand_kind(call, kinds[1], CALL_DESTINATION_HOST);
}

/* "HtoD" and the like, by what the operands are. Written by whoever comes first; same value. */
static uint32_t copy_name(const struct call *call)
{
	static const char *const names[2][2] = {{"DtoD", "DtoH"}, {"HtoD", "HtoH"}};
	static uint32_t ids[2][2];
	static uint32_t made_for; /* the record file they are ids of */
	unsigned int source, destination;
	uint32_t id;

#define IS_HOST(kind)                                                                              \
	((kind) == MEMORY_PAGEABLE || (kind) == MEMORY_PINNED || (kind) == MEMORY_REGISTERED)
	source = IS_HOST(call->source_kind);
	destination = IS_HOST(call->destination_kind);
#undef IS_HOST
	if (STATE_LOAD(&made_for) != emit_generation()) {
		memset(ids, 0, sizeof(ids));
		STATE_STORE(&made_for, emit_generation());
	}
	id = STATE_LOAD(&ids[source][destination]);
	if (!id) {
		id = emit_string(names[source][destination], 4);
		STATE_STORE(&ids[source][destination], id);
	}
	return id;
}

static void describe_operation(struct call *call)
{
	bool launched;
	uint64_t context;

	switch (call->operation) {
	case OPERATION_KERNEL:
		call->name = kernel_name(call->subject, &launched, &context);
		if (!launched)
			call->flags |= CALL_FIRST_USE;
		if (context != state_context_id(call->context))
			call->flags |= CALL_FIRST_HERE;
		break;
	case OPERATION_COPY:
		call->name = copy_name(call);
		break;
	default:
		break;
	}
}

/* The widest look the rules of the row need for this very call. */
static unsigned int scopes_wanted(struct call *call, const struct catalogue_row *row)
{
	call->held = row->held(call);
	return call->held >> CATALOGUE_HELD_SCOPE_SHIFT & CATALOGUE_HELD_SCOPES &
	       ~(1U << CATALOGUE_SCOPE_HOST);
}

static void look_at_event(struct call *call, const struct catalogue_row *row)
{
	if (row->kind != CATALOGUE_KIND_WAIT && row->kind != CATALOGUE_KIND_QUERY &&
	    row->kind != CATALOGUE_KIND_EVENT)
		return;
	call->event = event_find(call->subject);
	if (!call->event)
		return;
	call->event_recordings = __atomic_load_n(&call->event->recordings, __ATOMIC_ACQUIRE);
	call->event_record = event_record_at(call->event);
}

void state_before(struct call *call)
{
	const struct catalogue_row *row = &catalogue_rows[call->function];
	struct state_stream *stream;
	unsigned int scopes;
	bool full;

	call->flight = 0;
	call->ended = 0;
	if (call->operation)
		flight_begins(call);
	call->stream_kind = STREAM_UNKNOWN;
	call->backlog = 0;
	state_launch_end_row();
	call->entry_number = 0;
	call->legacy_number = 0;
	call->event = NULL;
	call->event_record = 0;
	call->freed_bytes = 0;
	call->held = 0;
	call->name = 0;
	call->pending_count = 0;
	resolve_stream(call, row);
	stream = call->stream;
	if (stream) {
		uint64_t completed = STATE_LOAD(&stream->completed);

		call->stream_kind = stream_kind(stream);
		call->entry_number = stream_submitted(stream);
		if (call->entry_number > completed)
			call->backlog = call->entry_number - completed;
		if (stream_joins(stream) && call->context)
			call->legacy_number = stream_submitted(call->context->legacy);
		if (__builtin_expect(STATE_LOAD(&stream->capture) != 0, 0) &&
		    row->flags & CATALOGUE_CAPTURABLE &&
		    capture_is_active(STATE_LOAD(&stream->capture)))
			call->flags |= CALL_CAPTURED;
	}
	if (call->source || call->destination)
		look_at_operands(call);
	if (call->context && STATE_LOAD(&call->context->sync_memops))
		call->flags |= CALL_SYNC_MEMOPS;
	if (call->operation)
		describe_operation(call);
	else if (call->subject)
		look_at_event(call, row);
	if (call->flags & CALL_CAPTURED)
		return;
	/*
	 * Frequent and short: a rule that waits for more (a full queue) gets the call's own stream
	 * as its candidate, and nobody looks through all of them, nor asks the rules one by one.
	 */
	if (row->kind == CATALOGUE_KIND_LAUNCH || row->kind == CATALOGUE_KIND_EVENT) {
		/* Of a late one launch.c knows (state_launch_late()). */
		if (__builtin_expect(!(call->flags & CALL_LATE), 1))
			pending_glance(call);
		return;
	}
	full = row->level == CATALOGUE_LEVEL_FULL;
	scopes = full ? scopes_wanted(call, row) : 0;
	/* A query of the legacy stream that says "done" says it of all blocking streams. */
	if (row->flags & CATALOGUE_HAS_RESULT && call->stream_kind == STREAM_LEGACY)
		scopes |= 1U << CATALOGUE_SCOPE_STREAM;
	if (scopes)
		pending_snapshot(call, scopes, config.attribute && full);
}

static bool is_host_kind(uint8_t kind)
{
	return kind == MEMORY_PAGEABLE || kind == MEMORY_PINNED || kind == MEMORY_REGISTERED;
}

/*
 * Up to where a call's stream is complete whose own operation is. Numbers are given behind the driver's calls: what another thread has submitted meanwhile may
 * come behind that operation and have the lower number all the same. Then only what had its number before the call is.
 */
static uint64_t complete_with(const struct call *call)
{
	return call->submission == call->entry_number + 1 ? call->submission : call->entry_number;
}

/* A synchronous memset of pinned host memory has finished when it returns (same page). */
static void observe_memset(struct call *call)
{
	if (!call->bytes || (call->destination_kind != MEMORY_PINNED &&
			     call->destination_kind != MEMORY_REGISTERED))
		return;
	order_complete_pending(call, CATALOGUE_SCOPE_STREAM);
	order_complete(call->stream, complete_with(call));
}

/*
 * What a synchronous copy proves by returning (NVIDIA's page on API synchronization): to host
 * memory and from pinned memory it has finished; from pageable memory its stream was waited for
 * before the copy began. Where both operands may be host or device, a guessed kind proves nothing.
 */
static void observe_copy(struct call *call)
{
	const uint16_t either = CALL_SOURCE_HOST | CALL_DESTINATION_HOST;
	bool guessed =
		(call->flags & either) == either &&
		(call->source_kind == MEMORY_PAGEABLE || call->destination_kind == MEMORY_PAGEABLE);

	if (!call->bytes || guessed || call->flags & (CALL_TWO_CONTEXTS | CALL_UNWAITED))
		return;
	if (!is_host_kind(call->destination_kind) && !is_host_kind(call->source_kind))
		return;
	order_complete_pending(call, CATALOGUE_SCOPE_STREAM);
	if (is_host_kind(call->destination_kind) || call->source_kind != MEMORY_PAGEABLE)
		order_complete(call->stream, complete_with(call));
	else
		order_complete(call->stream, call->entry_number);
}

/* One operation that was refused is none; of several some may be there. */
bool state_was_refused(const struct call *call, CUresult result)
{
	return state_is_refusal(result) && call->operation != OPERATION_GRAPH &&
	       !(catalogue_rows[call->function].flags & CATALOGUE_SEVERAL);
}

/*
 * What failed had an effect, perhaps: a graph or a batch may be half submitted. For the proofs (proof.h) it counts as an operation; a wait tells
 * of its end in any case. A kernel is there or not.
 */
static void number_half_done(const struct call *call, CUresult result)
{
	if (state_was_refused(call, result))
		return;
	if (config.mode == CONFIG_FIX && call->operation && call->operation != OPERATION_KERNEL &&
	    call->stream && !(call->flags & CALL_CAPTURED)) {
		/* Parts of it may write memory of the host; nobody knows until when. */
		if (call->operation == OPERATION_GRAPH ||
		    catalogue_rows[call->function].flags & CATALOGUE_SEVERAL)
			state_host_code("order: a graph or a batch was half submitted");
		(void)order_number(call->stream, (uint64_t)call->operation << 32 | call->name);
	}
}

static void settle_call(struct call *call, CUresult result)
{
	const struct catalogue_row *row = &catalogue_rows[call->function];

	if (call->flags & CALL_EVENT_RECORDING)
		event_settle(call, result);
	if (__builtin_expect(call->flags & CALL_CONTEXT_ENDING, 0))
		proof_context_ended(call, result);
	if (__builtin_expect(result != CUDA_SUCCESS, 0)) {
		if (call->operation || row->kind == CATALOGUE_KIND_WAIT ||
		    row->kind == CATALOGUE_KIND_QUERY)
			state_failed(result);
		number_half_done(call, result);
		return;
	}
	if (!call->operation)
		return;
	if (call->operation == OPERATION_KERNEL && call->flags & (CALL_FIRST_USE | CALL_FIRST_HERE))
		kernel_launched(call->subject, state_context_id(call->context));
	if (!call->stream && !(call->flags & CALL_CAPTURED))
		state_doubt("off: work on a stream that is not known");
	if (call->stream && !(call->flags & CALL_CAPTURED))
		order_submitted(call);
	/* What writes memory of the host: nodes of graphs, and parts of batches, may copy to it. */
	if (call->operation == OPERATION_HOST_FUNCTION || call->operation == OPERATION_GRAPH ||
	    row->flags & CATALOGUE_SEVERAL)
		live_host_function(call);
	/* Whether these wait for the legacy stream is not known of all drivers. */
	if (call->operation == OPERATION_MEMORY_OP)
		live_changed();
	if (!call->stream || call->flags & CALL_CAPTURED)
		return;
	if (call->stream_form != CALL_STREAM_IMPLICIT)
		return;
	if (row->kind == CATALOGUE_KIND_COPY)
		observe_copy(call);
	else if (row->kind == CATALOGUE_KIND_MEMSET)
		observe_memset(call);
}

void state_after(struct call *call, CUresult result)
{
	settle_call(call, result);
	if (call->flight)
		flight_is_over(call);
}

void state_stream_observed(struct call *call, CUresult result)
{
	/* Who asks while another waits knows that its work has not ended: what it did before came before that. */
	if (result == CUDA_ERROR_NOT_READY)
		live_changed();
	if (result != CUDA_SUCCESS || !call->stream || call->flags & CALL_CAPTURED)
		return;
	order_complete_pending(call, CATALOGUE_SCOPE_STREAM);
	order_complete(call->stream, call->entry_number);
}

void state_context_observed(struct call *call, CUresult result)
{
	if (result == CUDA_SUCCESS)
		order_complete_pending(call, CATALOGUE_SCOPE_CONTEXT);
}

uint32_t state_stream_number(const struct state_stream *stream)
{
	return stream ? stream->index + 1 : 0;
}

uint64_t state_completed(const struct state_stream *stream)
{
	return __atomic_load_n(&stream->completed, __ATOMIC_ACQUIRE);
}

bool state_may_join(const struct state_stream *stream)
{
	return stream_kind(stream) != STREAM_NON_BLOCKING;
}

void state_forked(void)
{
	lock_reset(&state_lock);
	context_clear();
	stream_clear();
	event_clear();
	kernel_clear();
	memory_clear();
	live_clear();
	pending_clear();
	proof_clear();
	arena_done(&state_arena);
}
