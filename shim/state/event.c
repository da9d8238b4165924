// SPDX-License-Identifier: MIT
/*
 * Event: what a successful wait for an event proves. Called by the hooks of the event functions and
 * by state_before() / state_after().
 *
 * event.record is one word, changed by compare-and-swap:
 *	settled		stream index + 1 in bits 48 to 62, its number below; 0: nothing known
 *	busy		bit 63, with the number of threads that are recording the event now in the
 *			low bits, and bit 62 once there was more than one at a time
 * A record takes the stream's number before the real call, and is settled after it. While several
 * threads record one event, nobody knows whose record the driver took last, so all of them settle
 * as "nothing known". A wait counts only if the same settled word stood there before and after it,
 * and no record was begun in between: another one may have come and gone.
 *
 * Records in a capture, events of other processes, and events that graphs or launches record prove
 * nothing.
 */
#include <string.h>

#include "catalogue/catalogue.h"
#include "emit/emit.h"
#include "emit/table.h"
#include "state/internal.h"
#include "state/state.h"

#define EVENT_MAX (1 << 18)

#define BUSY        (UINT64_C(1) << 63)
#define CONFLICT    (UINT64_C(1) << 62)
#define INDEX_SHIFT 48
#define NUMBER_MASK ((UINT64_C(1) << INDEX_SHIFT) - 1)

static bool is_current(const void *value, uint64_t hash);

static struct table events = {.bound = EVENT_MAX, .current = is_current};
static struct state_event *spare; /* destroyed ones; under LOCK_STATE */

static bool is_current(const void *value, uint64_t hash)
{
	uint64_t handle = STATE_LOAD(&((const struct state_event *)value)->handle);

	return handle && table_mix(handle) == hash;
}

struct state_event *event_find(uint64_t handle)
{
	uint64_t hash = table_mix(handle);
	uint64_t index = hash;
	struct state_event *event;

	while ((event = table_next(&events, hash, &index)))
		if (__atomic_load_n(&event->handle, __ATOMIC_ACQUIRE) == handle)
			return event;
	return NULL;
}

uint64_t event_record_at(const struct state_event *event)
{
	return __atomic_load_n(&event->record, __ATOMIC_ACQUIRE);
}

struct state_stream *event_covers(uint64_t record, uint64_t *ret_number)
{
	*ret_number = record & NUMBER_MASK;
	if (!record || record & BUSY)
		return NULL;
	return stream_at((uint32_t)(record >> INDEX_SHIFT) - 1);
}

static void retire(struct state_event *event)
{
	__atomic_store_n(&event->handle, 0, __ATOMIC_RELEASE);
	event->next = spare;
	spare = event;
}

void state_event_created(struct call *call, CUevent handle, unsigned int flags)
{
	struct state_event *event;

	if (!handle || !lock_take(&state_lock))
		return;
	event = event_find((uintptr_t)handle);
	if (event)
		retire(event);
	event = spare;
	if (event)
		spare = event->next;
	else
		event = arena_take(&state_arena, sizeof(*event));
	if (event) {
		__atomic_store_n(&event->record, 0, __ATOMIC_RELEASE);
		STATE_STORE(&event->capture, 0);
		STATE_STORE(&event->foreign, !!(flags & CU_EVENT_INTERPROCESS));
		__atomic_store_n(&event->handle, (uintptr_t)handle, __ATOMIC_RELEASE);
		if (!table_insert(&events, &state_arena, table_mix((uintptr_t)handle), event)) {
			retire(event);
			event = NULL;
		}
	}
	if (!event)
		state_lost("events");
	lock_give(&state_lock);
}

void state_event_destroying(struct call *call, CUevent handle)
{
	struct state_event *event;

	if (!handle || !lock_take(&state_lock))
		return;
	event = event_find((uintptr_t)handle);
	if (event)
		retire(event);
	lock_give(&state_lock);
}

void state_event_foreign(struct call *call, CUevent handle)
{
	struct state_event *event = event_find((uintptr_t)handle);

	if (event)
		STATE_STORE(&event->foreign, 1);
}

void state_event_recording(struct call *call, CUevent handle)
{
	struct state_event *event = event_find((uintptr_t)handle);
	uint64_t seen, busy;

	if (!event || call->flags & CALL_EVENT_RECORDED)
		return;
	call->event = event;
	call->flags |= CALL_EVENT_RECORDING;
	/* Before the driver records it: who waited for what this record makes of the event sees the count. */
	__atomic_fetch_add(&event->recordings, 1, __ATOMIC_SEQ_CST);
	seen = event_record_at(event);
	do {
		busy = seen & BUSY ? (seen | CONFLICT) + 1 : BUSY | 1;
	} while (!__atomic_compare_exchange_n(&event->record, &seen, busy, true, __ATOMIC_ACQ_REL,
					      __ATOMIC_ACQUIRE));
}

void state_event_recorded(struct call *call, CUevent handle)
{
	call->flags |= CALL_EVENT_RECORDED;
}

void state_event_recorded_with(struct call *call, CUevent handle, unsigned int flags)
{
	if (!(flags & CU_EVENT_RECORD_EXTERNAL)) {
		state_event_recorded(call, handle);
		return;
	}
	state_event_foreign(call, handle);
	call->flags &= (uint16_t)~CALL_CAPTURED;
}

/* For the trace: what the event stands for from now on. */
static void trace_record(const struct call *call, const struct state_event *event, uint64_t record)
{
	struct trace_record traced = {
		.event = STATE_LOAD(&event->handle),
		.kind = call->stream_kind,
		.order = call->order,
	};

	if (__builtin_expect(!emit_traces_full(), 1))
		return;
	traced.stream = state_stream_number(event_covers(record, &traced.number));
	traced.context = call->context ? state_context_number(call->context) : 0;
	emit_trace(TRACE_RECORD, &traced);
}

/* The call's stream goes on behind what the event stands for, if that is known. */
static void trace_stream_wait(const struct call *call, const struct state_event *event)
{
	struct trace_stream_wait traced = {
		.stream = state_stream_number(call->stream),
		.number = call->entry_number,
		.event = STATE_LOAD(&event->handle),
	};

	if (__builtin_expect(!emit_traces_full(), 1) || STATE_LOAD(&event->foreign))
		return;
	traced.of_stream =
		state_stream_number(event_covers(event_record_at(event), &traced.of_number));
	if (traced.of_stream)
		emit_trace(TRACE_STREAM_WAIT, &traced);
}

/* From state_after(): the record that state_event_recording() began has been made, or failed. */
void event_settle(struct call *call, CUresult result)
{
	struct state_event *event = call->event;
	struct state_stream *stream = call->stream;
	uint64_t capture = stream ? STATE_LOAD(&stream->capture) : 0;
	uint64_t record = 0;
	uint64_t seen, settled;

	if (!event || !(call->flags & CALL_EVENT_RECORDING))
		return;
	if (!(call->flags & CALL_CAPTURED))
		capture = 0;
	STATE_STORE(&event->capture, capture);
	if (result == CUDA_SUCCESS && call->flags & CALL_EVENT_RECORDED && stream && !capture &&
	    call->entry_number <= NUMBER_MASK)
		record = (uint64_t)(stream->index + 1) << INDEX_SHIFT | call->entry_number;
	seen = event_record_at(event);
	do {
		/* Created anew under our feet: the program destroyed what it records. */
		if (!(seen & BUSY))
			return;
		if ((seen & ~(BUSY | CONFLICT)) > 1)
			settled = seen - 1;
		else
			settled = seen & CONFLICT ? 0 : record;
	} while (!__atomic_compare_exchange_n(&event->record, &seen, settled, true,
					      __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
	if (settled && !(settled & BUSY))
		trace_record(call, event, settled);
}

void state_event_observed(struct call *call, CUresult result)
{
	struct state_event *event = event_find(call->subject);
	struct state_stream *stream;
	uint64_t number;

	/* As in state_stream_observed(). */
	if (result == CUDA_ERROR_NOT_READY)
		live_changed();
	if (result != CUDA_SUCCESS || !event || event != call->event ||
	    STATE_LOAD(&event->foreign) || event_record_at(event) != call->event_record ||
	    __atomic_load_n(&event->recordings, __ATOMIC_ACQUIRE) != call->event_recordings)
		return;
	stream = event_covers(call->event_record, &number);
	if (stream)
		order_complete(stream, number);
}

bool state_draws_into_capture(const struct call *call)
{
	const struct state_event *event;
	uint64_t capture;

	if (call->operation != OPERATION_EVENT_WAIT)
		return false;
	event = event_find(call->subject);
	capture = event ? STATE_LOAD(&event->capture) : 0;
	return capture && capture_is_active(capture);
}

void state_event_waited(struct call *call, CUevent handle)
{
	struct state_event *event = event_find((uintptr_t)handle);
	uint64_t capture;

	/* Waiting for an event that was recorded in a capture draws the stream into it. */
	if (!event || !call->stream)
		return;
	capture = STATE_LOAD(&event->capture);
	if (capture && capture_is_active(capture)) {
		STATE_STORE(&call->stream->capture, capture);
		launch_forget_all();
		call->flags |= CALL_CAPTURED; /* this wait is the first operation in it */
	} else if (!capture) {
		trace_stream_wait(call, event);
	}
}

struct state_stands_for state_event_stands_for(uint64_t handle)
{
	const struct state_event *event = event_find(handle);
	struct state_stands_for stands_for = {NULL, 0, false};
	uint64_t record;

	if (!event || STATE_LOAD(&event->foreign))
		return stands_for;
	record = event_record_at(event);
	stands_for.stream = event_covers(record, &stands_for.number);
	/* The entry of an event that is gone may have been recorded; of this one nobody knows then. */
	stands_for.is_known = stands_for.stream ||
			      (!record && !__atomic_load_n(&event->recordings, __ATOMIC_ACQUIRE));
	return stands_for;
}

bool state_event_is_foreign(uint64_t handle)
{
	const struct state_event *event = event_find(handle);

	return !event || STATE_LOAD(&event->foreign);
}

void event_clear(void)
{
	table_clear(&events);
	spare = NULL;
}
