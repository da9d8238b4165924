// SPDX-License-Identifier: MIT
/*
 * Pending: which streams have work not known complete when a call begins. Called by state_before().
 *
 * Two bit lists over all streams keep that cheap. pending_bits has a bit for every stream that may
 * have work not known complete; unjoined_bits for every blocking stream that may have work the
 * legacy stream is not yet ordered behind. A submission sets them if they are not set, a scan takes
 * out what it found idle.
 *
 * Taking out: clear the bit, look at the number again, and set the bit again if there is new work.
 * A submission adds to the number first and looks at the bit then (all four sequentially
 * consistent), so one of the two sees the other, and no bit is missing for good. For the moment
 * between clearing and setting one can be missing: `outs_begun` and `outs_done` count the
 * clearings, and a scan that overlapped one looks at every stream instead.
 */
#include <string.h>

#include "catalogue/catalogue.h"
#include "config.h"
#include "driver/driver.h"
#include "emit/emit.h"
#include "state/internal.h"
#include "state/state.h"

uint64_t pending_bits[STREAM_WORDS];
uint64_t unjoined_bits[STREAM_WORDS] __attribute__((aligned(64)));

struct lock attribute_lock = LOCK_INITIALIZER(LOCK_ATTRIBUTE);

void pending_list(struct state_stream *stream)
{
	uint64_t bit = UINT64_C(1) << stream->index % 64;
	uint32_t word = stream->index / 64;

	if (!(__atomic_load_n(&pending_bits[word], __ATOMIC_SEQ_CST) & bit))
		__atomic_fetch_or(&pending_bits[word], bit, __ATOMIC_SEQ_CST);
	if (stream_joins(stream) &&
	    !(__atomic_load_n(&unjoined_bits[word], __ATOMIC_SEQ_CST) & bit))
		__atomic_fetch_or(&unjoined_bits[word], bit, __ATOMIC_SEQ_CST);
}

void pending_forget(struct state_stream *stream)
{
	uint64_t bit = UINT64_C(1) << stream->index % 64;

	__atomic_fetch_and(&pending_bits[stream->index / 64], ~bit, __ATOMIC_SEQ_CST);
	__atomic_fetch_and(&unjoined_bits[stream->index / 64], ~bit, __ATOMIC_SEQ_CST);
}

static uint64_t outs_begun, outs_done;

void pending_begin_out(void)
{
	__atomic_fetch_add(&outs_begun, 1, __ATOMIC_SEQ_CST);
}

void pending_end_out(void)
{
	__atomic_fetch_add(&outs_done, 1, __ATOMIC_SEQ_CST);
}

/* The bit is cleared: must it come back? Pairs with the claim of the launcher, which looks at the bit afterwards, and with order_number(). */
static bool must_stay(const struct state_stream *stream, uint64_t known)
{
	return __atomic_load_n(&stream->launcher, __ATOMIC_SEQ_CST) ||
	       STATE_LOAD(&stream->launched) +
			       __atomic_load_n(&stream->submitted, __ATOMIC_SEQ_CST) >
		       known;
}

/* Between the two above. `known`: up to here the stream is no reason to be on the list. */
void pending_take_out(uint64_t *list, struct state_stream *stream, const uint64_t *known)
{
	uint64_t bit = UINT64_C(1) << stream->index % 64;
	uint64_t *word = &list[stream->index / 64];

	/* Whose launches are counted without a lock does not look at the bit: it stays (launch.c). */
	if (STATE_LOAD(&stream->launcher))
		return;
	__atomic_fetch_and(word, ~bit, __ATOMIC_SEQ_CST);
	if (must_stay(stream, STATE_LOAD(known)))
		__atomic_fetch_or(word, bit, __ATOMIC_SEQ_CST);
}

void pending_take_out_joined(uint32_t word, uint64_t bits)
{
	const struct state_stream *stream;
	uint64_t left, back = 0;

	__atomic_fetch_and(&unjoined_bits[word], ~bits, __ATOMIC_SEQ_CST);
	for (left = bits; left; left &= left - 1) {
		stream = stream_at(word * 64 + (uint32_t)__builtin_ctzll(left));
		if (must_stay(stream, STATE_LOAD(&stream->joined)))
			back |= left & -left;
	}
	if (back)
		__atomic_fetch_or(&unjoined_bits[word], back, __ATOMIC_SEQ_CST);
}

/* Returns how many there are now; CALL_PENDING_MAX + 1: more than fit. */
static inline uint32_t add_to(struct call_pending *all, uint32_t count, struct state_stream *stream)
{
	struct call_pending *pending = &all[count];
	uint64_t youngest;

	if (__builtin_expect(count >= CALL_PENDING_MAX, 0))
		return CALL_PENDING_MAX + 1;
	youngest = STATE_LOAD(&stream->youngest);
	pending->stream = stream;
	pending->submitted = stream_submitted(stream);
	pending->name = (uint32_t)youngest;
	pending->operation = (uint32_t)(youngest >> 32);
	pending->certain = 0;
	return count + 1;
}

static void add(struct call *call, struct state_stream *stream)
{
	call->pending_count = add_to(call->pending, call->pending_count, stream);
}

bool state_in_scope(const struct call *call, const struct state_stream *stream, unsigned int scope)
{
	enum stream_kind own = call->stream_kind;
	enum stream_kind kind = stream_kind(stream);
	uint64_t number;

	switch (scope) {
	case CATALOGUE_SCOPE_STREAM:
		if (stream == call->stream)
			return true;
		if (own != STREAM_LEGACY)
			return false;
		/* The legacy stream stands for all blocking ones. */
		__attribute__((fallthrough));
	case CATALOGUE_SCOPE_LEGACY:
		return stream_context(stream) == call->context && kind != STREAM_NON_BLOCKING;
	case CATALOGUE_SCOPE_JOIN:
		return order_is_unjoined(call, stream);
	case CATALOGUE_SCOPE_CONTEXT:
		return stream_context(stream) == call->context;
	case CATALOGUE_SCOPE_DEVICE:
		return true;
	case CATALOGUE_SCOPE_EVENT:
		return event_covers(call->event_record, &number) == stream;
	default:
		return false;
	}
}

bool state_has_pending(const struct call *call, unsigned int scope)
{
	uint32_t count = state_pending_stored(call), i;

	for (i = 0; i < count; i++)
		if (state_in_scope(call, call->pending[i].stream, scope))
			return true;
	return false;
}

#define BIT(scope) (1U << CATALOGUE_SCOPE_##scope)

/* In one of the scopes, as state_in_scope() says? Each synchronous copy asks it of every stream with work. On the legacy stream STREAM comes with LEGACY. */
static inline bool is_wanted(const struct call *call, const struct state_stream *stream,
			     unsigned int scopes)
{
	uint64_t number;

	if (scopes & BIT(DEVICE) || (scopes & BIT(STREAM) && stream == call->stream))
		return true;
	if (scopes & (BIT(CONTEXT) | BIT(LEGACY)) && stream_context(stream) == call->context &&
	    (scopes & BIT(CONTEXT) || stream_kind(stream) != STREAM_NON_BLOCKING))
		return true;
	return (scopes & BIT(JOIN) && order_is_unjoined(call, stream)) ||
	       (scopes & BIT(EVENT) && event_covers(call->event_record, &number) == stream);
}

static void take_out_idle(uint64_t *list)
{
	uint32_t words = (stream_count() + 63) / 64;
	struct state_stream *stream;
	uint32_t word;
	uint64_t bits;

	pending_begin_out();
	for (word = 0; word < words; word++) {
		for (bits = STATE_LOAD(&list[word]); bits; bits &= bits - 1) {
			stream = stream_at(word * 64 + (uint32_t)__builtin_ctzll(bits));
			if (!stream_is_pending(stream))
				pending_take_out(list, stream, &stream->completed);
		}
	}
	pending_end_out();
}

void pending_tidy_unjoined(void)
{
	take_out_idle(unjoined_bits);
}

/* By itself, as add_unjoined() is: most calls look at their own stream only. */
static __attribute__((noinline)) void scan(struct call *call, unsigned int scopes)
{
	uint64_t done = __atomic_load_n(&outs_done, __ATOMIC_SEQ_CST);
	uint32_t words = (stream_count() + 63) / 64;
	uint32_t before = call->pending_count;
	/* The call's own would come back at once, which costs more than to look at it does. */
	const struct state_stream *kept = call->stream;
	struct state_stream *stream;
	bool idle = false;
	uint32_t word, i;
	uint64_t bits;

	for (word = 0; word < words; word++) {
		for (bits = __atomic_load_n(&pending_bits[word], __ATOMIC_SEQ_CST); bits;
		     bits &= bits - 1) {
			stream = stream_at(word * 64 + (uint32_t)__builtin_ctzll(bits));
			if (stream_is_pending(stream)) {
				if (is_wanted(call, stream, scopes))
					add(call, stream);
			} else if (stream != kept && !STATE_LOAD(&stream->launcher)) {
				idle = true;
			}
		}
	}
	if (__builtin_expect(__atomic_load_n(&outs_begun, __ATOMIC_SEQ_CST) != done, 0)) {
		call->pending_count = before;
		for (i = 0; i < stream_count(); i++) {
			stream = stream_at(i);
			if (stream_is_pending(stream) && is_wanted(call, stream, scopes))
				add(call, stream);
		}
	}
	if (idle)
		take_out_idle(pending_bits);
}

bool pending_unfinished(struct state_mark *ret_marks, uint32_t most, uint32_t *ret_count)
{
	uint64_t done = __atomic_load_n(&outs_done, __ATOMIC_SEQ_CST);
	uint32_t words = (stream_count() + 63) / 64;
	struct state_stream *stream;
	uint32_t word, i, count = 0;
	uint64_t bits;

	for (word = 0; word < words; word++) {
		for (bits = __atomic_load_n(&pending_bits[word], __ATOMIC_SEQ_CST); bits;
		     bits &= bits - 1) {
			stream = stream_at(word * 64 + (uint32_t)__builtin_ctzll(bits));
			if (!stream_is_pending(stream))
				continue;
			if (count == most)
				return false;
			ret_marks[count++] = (struct state_mark){stream, stream_submitted(stream)};
		}
	}
	if (__builtin_expect(__atomic_load_n(&outs_begun, __ATOMIC_SEQ_CST) != done, 0)) {
		/* A bit may have been missing: as in scan(). */
		for (i = 0, count = 0; i < stream_count(); i++) {
			stream = stream_at(i);
			if (!stream_is_pending(stream))
				continue;
			if (count == most)
				return false;
			ret_marks[count++] = (struct state_mark){stream, stream_submitted(stream)};
		}
	}
	*ret_count = count;
	return true;
}

/* What pending_at_a_glance() looks at, at most; the long way takes longer than so many streams, whose lines are at hand while nobody works. */
#define GLANCE_WORDS   4
#define GLANCE_STREAMS 16

enum state_glance pending_at_a_glance(void)
{
	uint64_t done = __atomic_load_n(&outs_done, __ATOMIC_SEQ_CST);
	uint32_t words = (stream_count() + 63) / 64, word, looked = 0;
	const struct state_stream *stream;
	uint64_t bits, completed;

	if (words > GLANCE_WORDS)
		return STATE_UNCLEAR;
	for (word = 0; word < words; word++) {
		for (bits = __atomic_load_n(&pending_bits[word], __ATOMIC_SEQ_CST); bits;
		     bits &= bits - 1) {
			if (looked++ == GLANCE_STREAMS)
				return STATE_UNCLEAR;
			stream = stream_at(word * 64 + (uint32_t)__builtin_ctzll(bits));
			/* Acquire: what the caller asks for afterwards is asked for after this (proof.c). */
			completed = __atomic_load_n(&stream->completed, __ATOMIC_ACQUIRE);
			if (stream_submitted(stream) > completed)
				return STATE_WORKS;
		}
	}
	/* A bit may have been missing. */
	return __atomic_load_n(&outs_begun, __ATOMIC_SEQ_CST) == done ? STATE_IDLE : STATE_UNCLEAR;
}

/* What the driver is asked with; NULL: it cannot be, or would not know. */
static CUstream name_of(const struct call *call, const struct state_stream *stream)
{
	/* The legacy stream's work may be elsewhere (legacy/legacy.h), of which its own answer says nothing. */
	if (call->context && stream == call->context->legacy)
		return config.mode == CONFIG_FIX && config.fix & CONFIG_FIX_STREAMS
			       ? NULL
			       : CU_STREAM_LEGACY;
	if (STATE_LOAD(&stream->owner) && STATE_LOAD(&stream->owner) == state_thread.serial &&
	    stream_context(stream) == call->context)
		return CU_STREAM_PER_THREAD;
	return (CUstream)(uintptr_t)STATE_LOAD(&stream->handle);
}

/*
 * Asks the driver whether each candidate is still at work; those that are not are known complete
 * from now on. Skipped: what cannot be named here (streams of other contexts' defaults and other
 * threads, the legacy one while it is rewritten), what captures, and everything where the legacy stream is drawn into a capture.
 */
static void attribute(struct call *call)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUstreamCaptureStatus status;
	struct call_pending done[CALL_PENDING_MAX];
	struct call_pending *pending;
	struct state_stream *stream;
	uint32_t i, kept = 0, done_count = 0;
	CUresult result;
	CUstream handle;

	if (call->pending_count > CALL_PENDING_MAX || !driver.cuStreamQuery ||
	    !driver.cuStreamIsCapturing || !driver.cuThreadExchangeStreamCaptureMode)
		return;
	if (driver.cuStreamIsCapturing(CU_STREAM_LEGACY, &status) != CUDA_SUCCESS)
		return;
	if (driver.cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS)
		return;
	/* Held over the queries, which do not wait: no stream is destroyed under them. */
	if (lock_take(&attribute_lock)) {
		for (i = 0; i < call->pending_count; i++) {
			pending = &call->pending[i];
			stream = pending->stream;
			handle = name_of(call, stream);
			if (handle && !STATE_LOAD(&stream->capture) &&
			    driver.cuStreamIsCapturing(handle, &status) == CUDA_SUCCESS &&
			    status == CU_STREAM_CAPTURE_STATUS_NONE) {
				result = driver.cuStreamQuery(handle);
				if (result == CUDA_SUCCESS) {
					done[done_count++] = *pending;
					continue;
				}
				pending->certain = result == CUDA_ERROR_NOT_READY;
			}
			call->pending[kept++] = *pending;
		}
		call->pending_count = kept;
		lock_give(&attribute_lock);
	}
	driver.cuThreadExchangeStreamCaptureMode(&mode);
	/* Not under the lock: the trace hears of it. */
	for (i = 0; i < done_count; i++)
		order_complete(done[i].stream, done[i].submitted);
}

/* What order_is_unjoined() says of an operation of the context's legacy stream, where the stream is known to be pending. */
static inline bool is_new_to_legacy(const struct state_stream *stream,
				    const struct state_context *context)
{
	return stream_joins(stream) && stream_context(stream) == context &&
	       stream_submitted(stream) > STATE_LOAD(&stream->joined);
}

/* As scan() does with the list of unjoined streams; of every stream of a program with many, so one condition and no call for each. */
static __attribute__((noinline)) uint32_t
add_unjoined(const struct state_context *context, struct call_pending *pending, uint32_t before)
{
	uint64_t done = __atomic_load_n(&outs_done, __ATOMIC_SEQ_CST);
	uint32_t words = (stream_count() + 63) / 64;
	uint32_t count = before, word, i;
	struct state_stream *stream;
	bool idle = false;
	uint64_t bits;

	for (word = 0; word < words; word++) {
		for (bits = __atomic_load_n(&unjoined_bits[word], __ATOMIC_SEQ_CST); bits;
		     bits &= bits - 1) {
			stream = stream_at(word * 64 + (uint32_t)__builtin_ctzll(bits));
			if (!stream_is_pending(stream))
				idle = idle || !STATE_LOAD(&stream->launcher);
			else if (is_new_to_legacy(stream, context))
				count = add_to(pending, count, stream);
		}
	}
	if (__builtin_expect(__atomic_load_n(&outs_begun, __ATOMIC_SEQ_CST) != done, 0)) {
		count = before;
		for (i = 0; i < stream_count(); i++) {
			stream = stream_at(i);
			if (stream_is_pending(stream) && is_new_to_legacy(stream, context))
				count = add_to(pending, count, stream);
		}
	}
	if (idle)
		take_out_idle(unjoined_bits);
	return count;
}

static inline uint32_t add_joins(const struct state_stream *own, struct state_context *context,
				 struct call_pending *pending, uint32_t count)
{
	struct state_stream *legacy;

	if (!context)
		return count;
	legacy = context->legacy;
	if (stream_kind(own) == STREAM_LEGACY)
		return add_unjoined(context, pending, count);
	if (stream_joins(own) && stream_is_pending(legacy) &&
	    stream_submitted(legacy) > STATE_LOAD(&own->legacy_joined))
		count = add_to(pending, count, legacy);
	return count;
}

uint32_t pending_with_joins(struct state_stream *own, struct state_context *context,
			    struct call_pending *pending)
{
	uint32_t count = stream_is_pending(own) ? add_to(pending, 0, own) : 0;

	return stream_kind(own) == STREAM_NON_BLOCKING ? count
						       : add_joins(own, context, pending, count);
}

void pending_glance(struct call *call)
{
	if (call->stream)
		call->pending_count =
			pending_with_joins(call->stream, call->context, call->pending);
}

void pending_snapshot(struct call *call, unsigned int scopes, bool ask)
{
	bool is_legacy = call->stream && stream_kind(call->stream) == STREAM_LEGACY;
	struct state_stream *stream;
	uint64_t number;

	if (is_legacy && scopes & BIT(STREAM))
		scopes |= BIT(LEGACY);
	if (scopes & (BIT(LEGACY) | BIT(CONTEXT) | BIT(DEVICE))) {
		scan(call, scopes);
	} else {
		if (scopes & BIT(STREAM) && call->stream && stream_is_pending(call->stream))
			add(call, call->stream);
		if (scopes & BIT(JOIN) && call->stream)
			call->pending_count = add_joins(call->stream, call->context, call->pending,
							call->pending_count);
		if (scopes & BIT(EVENT)) {
			stream = event_covers(call->event_record, &number);
			if (stream && STATE_LOAD(&stream->completed) < number)
				add(call, stream);
		}
	}
	if (ask && call->pending_count)
		attribute(call);
}

void state_candidate(const struct call_pending *pending, struct emit_candidate *ret_candidate)
{
	const struct state_stream *stream = pending->stream;
	enum stream_kind kind = stream_kind(stream);

	*ret_candidate = (struct emit_candidate){
		.context = state_context_id(stream_context(stream)),
		.stream = kind == STREAM_LEGACY ? 0 : stream->index + 1,
		.stream_kind = kind,
		.operation = pending->operation,
		.name = (uint32_t)pending->name,
		.certain = pending->certain,
	};
}

void pending_clear(void)
{
	memset(pending_bits, 0, sizeof(pending_bits));
	memset(unjoined_bits, 0, sizeof(unjoined_bits));
	lock_reset(&attribute_lock);
}
