// SPDX-License-Identifier: MIT
/*
 * Settle: which freed blocks nobody can be using any more, by what state knows (state/proof.h) and by asking the driver. Called by the hooks
 * when the program asks for memory that may be had that way.
 *
 * A pointer to pinned memory can be anywhere: in a queued copy, in a kernel's parameters, in a structure on the device. So the suspects of
 * a freed block are all streams of all contexts that had unfinished work at its free, and it is ready when each of them is known complete
 * up to the number it had then. Blocks are proven in batches: those freed since the last batch was closed share one list of marks, taken
 * after the last of them was freed; so the cost goes with the streams, not with the blocks.
 *
 * What another thread is about to submit at that moment may be at work already without a number (state_flights()). The marks are taken when all of those
 * calls have theirs.
 *
 * Most marks are passed by what the program waits for itself. Where they are not, the driver is asked, in the relaxed capture mode, in
 * the stream's own context, which must be this thread's current one:
 *	a query of the stream: if all of it is done, so is what was submitted before the query;
 *	else an event behind what it has now, one a stream at a time, asked for later. Never on the legacy stream: a record there is an
 *	operation that other streams wait for. Never into a long queue: the record could wait for room.
 * What cannot be asked (streams of other contexts and threads, destroyed ones, ones that no wrapper saw made) waits for the program.
 *
 * Everything here is between state_asking_begin() and _end(), but what was learned is told to state after it, since the trace hears of that.
 */
#include <errno.h>
#include <string.h>

#include "clock.h"
#include "driver/driver.h"
#include "emit/emit.h"
#include "legacy/legacy.h"
#include "rewrite/internal.h"
#include "state/proof.h"
#include "state/state.h"
#include "uncancelled.h"

#define MARKS_MAX   64
#define FLIGHTS_MAX 1024
#define EVENTS_MAX  64
/* Operations in a queue behind which no event is recorded; drivers were seen to wait from 1024 on. */
#define QUEUE_MAX 256
/* For want of memory: how long the device may take to come to rest. What works longer may be waiting for this very thread. */
#define SETTLE_NS UINT64_C(1000000000)

/* What a closed batch of the pool waits for. Batch numbers go round from 1 to POOL_BATCHES - 1, the oldest is `first`. */
static struct batch {
	bool asked; /* what was in flight is known; false: there was too much, asked again */
	bool known; /* the marks are; false: something is in flight, or there were too many streams; looked at again */
	uint32_t count, flight_count;
	struct state_mark marks[MARKS_MAX];
	struct state_flight flights[FLIGHTS_MAX];
} batches[POOL_BATCHES];
static unsigned int first = 1, closed;

/* Events of ours. `covers.stream` NULL: not in use. */
static struct own_event {
	CUevent event;
	uint64_t context; /* 0: no event */
	struct state_mark covers;
} events[EVENTS_MAX];

static unsigned int batch_at(unsigned int index)
{
	return (first - 1 + index) % (POOL_BATCHES - 1) + 1;
}

/* Have all calls their numbers that were under way when the batch was closed? */
static bool has_landed(struct batch *batch)
{
	uint32_t i, kept = 0;

	if (!batch->asked)
		batch->asked = state_flights(batch->flights, FLIGHTS_MAX, &batch->flight_count);
	if (!batch->asked) {
		emit_note(NOTE_REWRITE, "too many threads submit at once to prove anything");
		return false;
	}
	for (i = 0; i < batch->flight_count; i++)
		if (!state_flight_is_over(&batch->flights[i]))
			batch->flights[kept++] = batch->flights[i];
	batch->flight_count = kept;
	return !kept;
}

static void look(struct batch *batch)
{
	if (!has_landed(batch))
		return;
	batch->known = state_unfinished(batch->marks, MARKS_MAX, &batch->count);
	if (!batch->known)
		emit_note(NOTE_REWRITE, "too many streams at work to prove anything");
}

static void close_open(void)
{
	unsigned int number;

	if (pool_batch_is_empty(0) || closed == POOL_BATCHES - 1)
		return;
	number = batch_at(closed++);
	pool_close(number);
	/* After it: all that was submitted before the last of these frees is among it. */
	batches[number].asked = batches[number].known = false;
	batches[number].count = 0;
	look(&batches[number]);
}

static bool is_proven(struct batch *batch)
{
	uint32_t i, kept = 0;

	if (!batch->known)
		look(batch);
	for (i = 0; i < batch->count; i++)
		if (!state_is_complete(&batch->marks[i]))
			batch->marks[kept++] = batch->marks[i];
	batch->count = kept;
	return batch->known && !kept && !state_objection();
}

static void release_proven(void)
{
	while (closed && is_proven(&batches[first])) {
		pool_release(first);
		first = batch_at(1);
		closed--;
	}
}

_Static_assert(HELD_BATCHES == POOL_BATCHES - 1, "batches");

/* For who looks at a process that hangs. The oldest first. */
static void show_batches(void)
{
	struct record_held *held = counts_held;
	const struct batch *batch;
	unsigned int i;

	for (i = 0; i < closed; i++) {
		batch = &batches[batch_at(i)];
		__atomic_store_n(&held->batch[i].streams, batch->known ? batch->count : 0,
				 __ATOMIC_RELAXED);
		__atomic_store_n(&held->batch[i].stream,
				 batch->known && batch->count
					 ? state_stream_number(batch->marks[0].stream)
					 : 0,
				 __ATOMIC_RELAXED);
	}
	__atomic_store_n(&held->closed, closed, __ATOMIC_RELAXED);
}

/* The event that was recorded on this stream; or with NULL, one to record. */
static struct own_event *event_of(const struct state_stream *stream, uint64_t context)
{
	unsigned int i;

	for (i = 0; i < EVENTS_MAX; i++)
		if (events[i].context == context && events[i].covers.stream == stream)
			return &events[i];
	return NULL;
}

/* The event of a context that has ended, which took it along. No context gets its id, so until here it was never asked for again. */
static struct own_event *event_of_the_dead(void)
{
	unsigned int i;

	for (i = 0; i < EVENTS_MAX; i++) {
		if (state_context_lives(events[i].context))
			continue;
		memset(&events[i], 0, sizeof(events[i]));
		return &events[i];
	}
	return NULL;
}

static struct own_event *event_to_record(uint64_t context)
{
	struct own_event *own = event_of(NULL, context);
	CUresult result;

	if (own)
		return own;
	own = event_of(NULL, 0);
	if (!own)
		own = event_of_the_dead();
	if (!own)
		return NULL;
	result = QUIETLY(driver.cuEventCreate(&own->event, CU_EVENT_DISABLE_TIMING));
	if (result != CUDA_SUCCESS) {
		emit_note(NOTE_REWRITE, "an event could not be made");
		state_failed(result);
		return NULL;
	}
	own->context = context;
	return own;
}

static void record(CUstream handle, const struct state_mark *covers, uint64_t context)
{
	struct own_event *own;
	CUresult result;

	if (handle == CU_STREAM_LEGACY || state_queued(covers->stream) > QUEUE_MAX)
		return;
	own = event_to_record(context);
	if (!own)
		return;
	result = driver.cuEventRecord(own->event, handle);
	if (result != CUDA_SUCCESS) {
		emit_note(NOTE_REWRITE, "an event could not be recorded");
		state_failed(result);
		return;
	}
	own->covers = *covers;
	COUNT(events, 1);
}

/*
 * Is the stream done, and up to where is that known? The legacy stream's work may be on its substitute (legacy/legacy.h): what is asked there
 * holds only if its turn did not change meanwhile.
 */
static CUresult query(CUstream handle, struct state_stream *stream, uint64_t context,
		      struct state_mark *ret_learned)
{
	bool is_legacy = handle == CU_STREAM_LEGACY;
	uint64_t turn = 0, turn_now = 0;
	CUresult result;

	if (is_legacy)
		handle = legacy_handle(context, &turn);
	/* Before the query: what is submitted meanwhile is not covered. */
	*ret_learned = (struct state_mark){stream, state_newest(stream)};
	COUNT(queries, 1);
	result = driver.cuStreamQuery(handle);
	if (is_legacy)
		(void)legacy_handle(context, &turn_now);
	return turn == turn_now ? result : CUDA_ERROR_NOT_READY;
}

/* True: *ret_learned is known complete. */
static bool ask(const struct state_mark *mark, uint64_t context, struct state_mark *ret_learned)
{
	struct own_event *own = event_of(mark->stream, context);
	CUstream handle;
	CUresult result;

	if (own) {
		result = driver.cuEventQuery(own->event);
		if (result == CUDA_SUCCESS) {
			*ret_learned = own->covers;
			own->covers.stream = NULL;
			return true;
		}
		if (result != CUDA_ERROR_NOT_READY)
			state_failed(result);
		return false;
	}
	handle = state_handle(mark->stream, context);
	if (!handle)
		return false;
	result = query(handle, mark->stream, context, ret_learned);
	if (result == CUDA_SUCCESS)
		return true;
	if (result == CUDA_ERROR_NOT_READY)
		record(handle, ret_learned, context);
	else
		state_failed(result);
	return false;
}

static uint32_t ask_all(const struct batch *batch, uint64_t context, struct state_mark *ret_learned)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	uint32_t i, count = 0;

	if (!driver.cuStreamQuery || !driver.cuEventQuery || !driver.cuEventRecord ||
	    !driver.cuEventCreate || !driver.cuThreadExchangeStreamCaptureMode ||
	    driver.cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS)
		return 0;
	for (i = 0; i < batch->count; i++)
		if (ask(&batch->marks[i], context, &ret_learned[count]))
			count++;
	driver.cuThreadExchangeStreamCaptureMode(&mode);
	return count;
}

void settle_known(void)
{
	if (!state_asking_begin())
		return;
	close_open();
	release_proven();
	show_batches();
	state_asking_end();
}

/* Nothing is proven now; but of contexts that do not end the numbers are as good as ever. Of marks that are not known, not this says. */
static bool is_used_elsewhere(const struct batch *batch)
{
	uint32_t i;

	for (i = 0; i < batch->count; i++)
		if (!state_is_complete_or_ends(&batch->marks[i]))
			return true;
	return false;
}

bool settle_used_elsewhere(void)
{
	bool open = !pool_batch_is_empty(0);
	const struct batch *batch;
	struct state_mark mark;
	uint32_t count;
	unsigned int i;

	/* Batches change under the asking lock only, which nobody gets while a context ends. */
	for (i = 0; i < closed; i++) {
		batch = &batches[batch_at(i)];
		if (!batch->known)
			open = true;
		else if (is_used_elsewhere(batch))
			return true;
	}
	return open && (state_is_flying() || !state_unfinished(&mark, 1, &count) || count);
}

void settle_batches(uint64_t context)
{
	struct state_mark learned[MARKS_MAX];
	uint32_t i, count = 0;
	int before;

	if (!state_asking_begin())
		return;
	before = uncancelled_begin();
	close_open();
	release_proven();
	if (closed)
		count = ask_all(&batches[first], context, learned);
	show_batches();
	state_asking_end();
	uncancelled_end(before);
	for (i = 0; i < count; i++)
		state_observed(&learned[i]);
	if (!count || !state_asking_begin())
		return;
	release_proven();
	show_batches();
	state_asking_end();
}

/* One question to each stream with unfinished work that can be asked. False: one of them is at work. */
static bool ask_unfinished(uint64_t context)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	struct state_mark marks[MARKS_MAX], learned[MARKS_MAX];
	uint32_t i, count = 0, done = 0;
	bool busy = false;
	CUstream handle;
	CUresult result;
	int before;

	if (!driver.cuStreamQuery || !driver.cuThreadExchangeStreamCaptureMode)
		return true;
	/* A context that ends counts as idle too early; in a moment it has ended. */
	if (!state_asking_begin())
		return !state_context_is_ending();
	before = uncancelled_begin();
	if (!state_unfinished(marks, MARKS_MAX, &count) ||
	    driver.cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS) {
		state_asking_end();
		uncancelled_end(before);
		return true;
	}
	for (i = 0; i < count; i++) {
		handle = state_handle(marks[i].stream, context);
		if (!handle)
			continue;
		result = query(handle, marks[i].stream, context, &learned[done]);
		if (result == CUDA_SUCCESS)
			done++;
		else if (result == CUDA_ERROR_NOT_READY)
			busy = true;
		else
			state_failed(result);
	}
	driver.cuThreadExchangeStreamCaptureMode(&mode);
	state_asking_end();
	uncancelled_end(before);
	for (i = 0; i < done; i++)
		state_observed(&learned[i]);
	return !busy;
}

bool settle_work(uint64_t context)
{
	uint64_t end = clock_now_ns() + SETTLE_NS;
	int saved = errno;

	while (!state_is_idle() && !ask_unfinished(context)) {
		if (clock_now_ns() > end)
			return false;
		uncancelled_nap(50000);
		errno = saved;
	}
	return true;
}

bool settle_has_event(uint64_t context)
{
	unsigned int i;

	for (i = 0; i < EVENTS_MAX; i++)
		if (__atomic_load_n(&events[i].context, __ATOMIC_RELAXED) == context &&
		    __atomic_load_n(&events[i].covers.stream, __ATOMIC_RELAXED))
			return true;
	return false;
}
