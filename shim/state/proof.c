// SPDX-License-Identifier: MIT
/*
 * Proof (proof.h). Called by the rewrites, and by the files of this room that learn of what cannot be proven. Relies on pending.c's lists
 * and on order.c's numbers.
 *
 * Who writes, who reads:
 *	doubt		whoever finds a reason first; read by anyone, for ever
 *	captures	up before the real begin, under LOCK_ATTRIBUTE, down behind the end; read by anyone. A capture that ends unseen
 *			leaves it up: then the rewrites stay off
 *	endings		up before a context's streams are forgotten, down when the driver has ended it; sequentially consistent with
 *			the numbers, see state_is_complete()
 *	ended		before `endings` goes down; read by anyone. Of two at once either time will do
 */
#include "state/proof.h"

#include "clock.h"
#include "config.h"
#include "emit/emit.h"
#include "state/internal.h"
#include "state/state.h"

/* Lines of their own: every rewrite reads them, and hardly anybody writes. */
static const char *doubt __attribute__((aligned(64)));
static uint32_t captures __attribute__((aligned(64))), endings;
static uint64_t ended;

void state_doubt(const char *why)
{
	const char *none = NULL;

	/* No note: who asks for an objection tells of it, at a place where anything may be called. */
	if (config.mode == CONFIG_FIX && !STATE_LOAD(&doubt))
		__atomic_compare_exchange_n(&doubt, &none, why, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED);
}

bool state_is_doubted(void)
{
	return STATE_LOAD(&doubt) != NULL;
}

void state_unseen(void)
{
	state_doubt("off: calls may go past the rooms");
}

const char *state_objection(void)
{
	if (__builtin_expect(STATE_LOAD(&doubt) != NULL, 0))
		return STATE_LOAD(&doubt);
	/* Acquire: pairs with the adds of who begins a capture or ends a context. */
	if (__builtin_expect(__atomic_load_n(&captures, __ATOMIC_ACQUIRE), 0))
		return "driver: a capture is going on";
	if (__builtin_expect(__atomic_load_n(&endings, __ATOMIC_ACQUIRE), 0))
		return "driver: a context is ending";
	return NULL;
}

bool state_unfinished(struct state_mark *ret_marks, uint32_t most, uint32_t *ret_count)
{
	return pending_unfinished(ret_marks, most, ret_count);
}

bool state_is_idle(void)
{
	struct state_mark mark;
	uint32_t count;

	/* What is in flight before its number; the objections afterwards, as in state_is_complete(). */
	return !state_is_flying() && pending_unfinished(&mark, 1, &count) && !count &&
	       !state_objection();
}

enum state_glance state_at_a_glance(void)
{
	/* Before the numbers. */
	bool flying = state_is_flying();
	enum state_glance seen = pending_at_a_glance();

	if (flying && seen == STATE_IDLE)
		seen = STATE_WORKS;
	/* The objections afterwards, as in state_is_complete(). */
	return state_objection() ? STATE_UNCLEAR : seen;
}

bool state_is_complete(const struct state_mark *mark)
{
	bool complete = __atomic_load_n(&mark->stream->completed, __ATOMIC_SEQ_CST) >= mark->number;

	/*
	 * Afterwards: whoever forgets the streams of a context has raised `endings` before, so a number that was raised by that is not
	 * believed while the context may still work. And doubt comes before the number that an entry without work is given.
	 */
	return complete && !__atomic_load_n(&endings, __ATOMIC_SEQ_CST) &&
	       !__atomic_load_n(&doubt, __ATOMIC_SEQ_CST);
}

bool state_is_complete_or_ends(const struct state_mark *mark)
{
	struct state_context *context = stream_context(mark->stream);

	if (!context || !state_context_lives(state_context_id(context)))
		return true;
	return __atomic_load_n(&mark->stream->completed, __ATOMIC_ACQUIRE) >= mark->number &&
	       !__atomic_load_n(&doubt, __ATOMIC_SEQ_CST);
}

void state_observed(const struct state_mark *mark)
{
	order_complete(mark->stream, mark->number);
}

uint64_t state_newest(const struct state_stream *stream)
{
	return stream_submitted(stream);
}

uint64_t state_queued(const struct state_stream *stream)
{
	uint64_t submitted = stream_submitted(stream);
	uint64_t completed = STATE_LOAD(&stream->completed);

	return submitted > completed ? submitted - completed : 0;
}

bool state_asking_begin(void)
{
	if (!lock_take(&attribute_lock))
		return false;
	if (state_objection()) {
		lock_give(&attribute_lock);
		return false;
	}
	return true;
}

bool state_contexts_begin(void)
{
	if (!lock_take(&attribute_lock))
		return false;
	/* Under the lock: who ends a context raises `endings` under it, before the driver ends it. */
	if (state_is_doubted() || __atomic_load_n(&endings, __ATOMIC_ACQUIRE)) {
		lock_give(&attribute_lock);
		return false;
	}
	return true;
}

void state_asking_end(void)
{
	lock_give(&attribute_lock);
}

CUstream state_handle(const struct state_stream *stream, uint64_t id)
{
	struct state_context *context = stream_context(stream);
	enum stream_kind kind = stream_kind(stream);

	if (!context || state_context_id(context) != id)
		return NULL;
	if (kind == STREAM_LEGACY)
		return CU_STREAM_LEGACY;
	if (kind == STREAM_PER_THREAD)
		return state_thread.serial && STATE_LOAD(&stream->owner) == state_thread.serial
			       ? CU_STREAM_PER_THREAD
			       : NULL;
	if (kind != STREAM_BLOCKING && kind != STREAM_NON_BLOCKING)
		return NULL;
	return (CUstream)(uintptr_t)__atomic_load_n(&stream->handle, __ATOMIC_ACQUIRE);
}

void state_capture_beginning(struct call *call)
{
	/* Behind the lock: nobody is asking the driver now, and who asks from now on sees the number. */
	bool locked = config.mode == CONFIG_FIX && lock_take(&attribute_lock);

	__atomic_add_fetch(&captures, 1, __ATOMIC_SEQ_CST);
	if (locked)
		lock_give(&attribute_lock);
}

void state_capture_began(struct call *call, CUresult result)
{
	if (result != CUDA_SUCCESS)
		proof_capture_over();
}

void proof_capture_over(void)
{
	uint32_t seen = STATE_LOAD(&captures);

	while (seen && !__atomic_compare_exchange_n(&captures, &seen, seen - 1, true,
						    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
}

void proof_context_ending(struct call *call)
{
	if (!(call->flags & CALL_CONTEXT_ENDING))
		__atomic_add_fetch(&endings, 1, __ATOMIC_SEQ_CST);
	call->flags |= CALL_CONTEXT_ENDING;
}

/* The time first: who finds none ending finds the time of the last end. */
static void ending_over(void)
{
	__atomic_store_n(&ended, clock_ticks(), __ATOMIC_SEQ_CST);
	__atomic_sub_fetch(&endings, 1, __ATOMIC_SEQ_CST);
}

void proof_context_stays(struct call *call)
{
	call->flags &= (uint16_t)~CALL_CONTEXT_ENDING;
	ending_over();
}

void proof_context_ended(struct call *call, CUresult result)
{
	/* Its streams were forgotten, but it may still be there. */
	if (result != CUDA_SUCCESS)
		state_doubt("off: a context did not end");
	ending_over();
}

bool state_context_is_ending(void)
{
	return __atomic_load_n(&endings, __ATOMIC_SEQ_CST) != 0;
}

uint64_t state_context_ended(void)
{
	return __atomic_load_n(&ended, __ATOMIC_SEQ_CST);
}

bool state_is_refusal(CUresult result)
{
	switch (result) {
	case CUDA_ERROR_INVALID_VALUE:
	case CUDA_ERROR_INVALID_HANDLE:
	case CUDA_ERROR_INVALID_CONTEXT:
	case CUDA_ERROR_NOT_SUPPORTED:
	case CUDA_ERROR_NOT_PERMITTED:
	case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
		return true;
	default:
		return false;
	}
}

void state_failed(CUresult result)
{
	switch (result) {
	case CUDA_ERROR_INVALID_VALUE:
	case CUDA_ERROR_INVALID_HANDLE:
	case CUDA_ERROR_INVALID_CONTEXT:
	case CUDA_ERROR_INVALID_DEVICE:
	case CUDA_ERROR_NOT_INITIALIZED:
	case CUDA_ERROR_DEINITIALIZED:
	case CUDA_ERROR_NOT_SUPPORTED:
	case CUDA_ERROR_NOT_PERMITTED:
	case CUDA_ERROR_NOT_FOUND:
	case CUDA_ERROR_NOT_READY:
	case CUDA_ERROR_OUT_OF_MEMORY:
	case CUDA_ERROR_INVALID_IMAGE:
	case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
	case CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
	case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
	case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
	case CUDA_ERROR_STREAM_CAPTURE_MERGE:
	case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED:
	case CUDA_ERROR_STREAM_CAPTURE_UNJOINED:
	case CUDA_ERROR_STREAM_CAPTURE_ISOLATION:
	case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
	case CUDA_ERROR_CAPTURED_EVENT:
	case CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD:
		return;
	default:
		state_doubt("off: a call failed in a way that may last");
	}
}

/* Only for a forked child: nobody else is there. */
void proof_clear(void)
{
	STATE_STORE(&doubt, NULL);
	STATE_STORE(&captures, 0);
	STATE_STORE(&endings, 0);
}
