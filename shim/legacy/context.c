// SPDX-License-Identifier: MIT
/*
 * Context: what is kept of each context, from its first operation to its end, and the start of the rewrite. Called by turn.c and by the hooks of what ends
 * contexts and streams. An entry is never freed, since a thread that lost the race with the end of its context may still hold it: it finds another id.
 */
#include "config.h"
#include "driver/driver.h"
#include "emit/arena.h"
#include "legacy/internal.h"
#include "state/launch.h"
#include "state/proof.h"
#include "state/state.h"

uint32_t legacy_on;
bool (*legacy_denied)(const struct call *call);
struct record_rewrite *legacy_counts;

/* Under made_lock. */
static struct arena arena = {.bound = (size_t)4 << 20};
static struct lock made_lock = LOCK_INITIALIZER(LOCK_LEGACY);
static struct legacy_context *all;

/* The process ends, and its contexts with it. */
static void legacy_tell_ends(void)
{
	struct legacy_context *context = __atomic_load_n(&all, __ATOMIC_ACQUIRE);
	struct trace_order_end end;

	for (; context; context = context->next) {
		if (!__atomic_load_n(&context->id, __ATOMIC_ACQUIRE))
			continue;
		end = legacy_number_end(context);
		legacy_tell_end(&end);
	}
}

void legacy_start(bool (*denied)(const struct call *call), struct record_rewrite *counts)
{
	if (!(config.fix & CONFIG_FIX_STREAMS))
		return;
	if (!driver.cuEventCreate || !driver.cuEventRecord || !driver.cuStreamWaitEvent ||
	    !driver.cuStreamCreateWithPriority || !driver.cuStreamGetPriority ||
	    !driver.cuStreamIsCapturing || !driver.cuStreamSynchronize || !driver.cuStreamQuery ||
	    !driver.cuEventSynchronize || !driver.cuEventDestroy_v2 ||
	    !driver.cuThreadExchangeStreamCaptureMode || !driver.cuCtxGetCurrent ||
	    !driver.cuCtxPushCurrent_v2 || !driver.cuCtxPopCurrent_v2) {
		emit_note(NOTE_REWRITE, "legacy: off: the driver lacks a function");
		return;
	}
	if (!state_launch_watch()) {
		emit_note(NOTE_REWRITE, "legacy: off: the kernel has no membarrier");
		return;
	}
	legacy_denied = denied;
	legacy_counts = counts;
	emit_trace_at_end(legacy_tell_ends);
	/* Release: who sees the switch sees these. */
	__atomic_store_n(&legacy_on, 1, __ATOMIC_RELEASE);
}

/* Under made_lock. One whose context has ended and that nobody is inside. */
static struct legacy_context *take(void)
{
	struct legacy_context *context;

	for (context = all; context; context = context->next)
		if (!__atomic_load_n(&context->id, __ATOMIC_ACQUIRE) &&
		    !__atomic_load_n(&context->in_flight, __ATOMIC_ACQUIRE))
			return context;
	context = arena_take(&arena, sizeof(*context));
	if (!context)
		return NULL;
	context->lock = (struct lock)LOCK_INITIALIZER(LOCK_SUBMISSION);
	context->next = all;
	/* Pairs with the acquire load in legacy_handle(). */
	__atomic_store_n(&all, context, __ATOMIC_RELEASE);
	return context;
}

/* A record is made once and stays with the entry. */
static void show(struct legacy_context *context)
{
	struct record_order *shown = context->shown;

	if (shown) {
		__atomic_store_n(&shown->context, context->number, __ATOMIC_RELAXED);
		legacy_show_turn(context);
		return;
	}
	shown = emit_reserve(sizeof(*shown));
	if (!shown)
		return;
	shown->context = context->number;
	emit_publish(shown, RECORD_ORDER);
	context->shown = shown;
}

void legacy_show_turn(const struct legacy_context *context)
{
	struct record_order *shown = context->shown;

	if (!shown)
		return;
	__atomic_store_n(&shown->in_substitute, context->turn & 1, __ATOMIC_RELAXED);
	__atomic_store_n(&shown->turns, context->turn, __ATOMIC_RELAXED);
}

/* Under the lock: the context ends. */
static void hide(const struct legacy_context *context)
{
	if (context->shown)
		__atomic_store_n(&context->shown->context, 0, __ATOMIC_RELAXED);
}

static void begin(struct legacy_context *context, struct state_context *of)
{
	__atomic_store_n(&context->number, state_context_number(of), __ATOMIC_RELAXED);
	context->legacy = state_legacy_of(of);
	context->turn += context->turn & 1;
	context->shut = 0;
	context->used = 0;
	context->barred = 0;
	context->ending = 0;
	context->attributes = 0; /* a new context's, a new stream's */
	context->of = of;
	context->row = 0;
	context->patience = config.legacy_after;
	context->sequence = 0;
	context->substitute = NULL;
	context->before = NULL;
	context->after = NULL;
	context->epoch = 0;
	context->turn_epoch = 0;
	context->recorded = 0;
	context->dirty = false;
	/* Pairs with the acquire load of who holds an old pointer. */
	__atomic_store_n(&context->id, state_context_id(of), __ATOMIC_RELEASE);
	show(context);
}

struct legacy_context *legacy_of(struct state_context *of)
{
	struct legacy_context **slot = state_legacy_slot(of);
	struct legacy_context *context = __atomic_load_n(slot, __ATOMIC_ACQUIRE);

	if (context && __atomic_load_n(&context->id, __ATOMIC_ACQUIRE) == state_context_id(of))
		return context;
	if (!lock_take(&made_lock))
		return NULL;
	context = *slot;
	if (!context || context->id != state_context_id(of)) {
		context = take();
		if (context) {
			begin(context, of);
			/* Pairs with the acquire load above. */
			__atomic_store_n(slot, context, __ATOMIC_RELEASE);
		}
	}
	lock_give(&made_lock);
	if (!context)
		state_doubt("off: more contexts than the default stream is rewritten in");
	return context;
}

static bool create(struct legacy_context *context)
{
	int priority = 0;

	if (driver.cuCtxGetCurrent(&context->handle) != CUDA_SUCCESS ||
	    driver.cuStreamGetPriority(CU_STREAM_LEGACY, &priority) != CUDA_SUCCESS)
		return false;
	if (!context->before && QUIETLY(driver.cuEventCreate(
					&context->before, CU_EVENT_DISABLE_TIMING)) != CUDA_SUCCESS)
		return false;
	if (!context->after &&
	    QUIETLY(driver.cuEventCreate(&context->after, CU_EVENT_DISABLE_TIMING)) != CUDA_SUCCESS)
		return false;
	return QUIETLY(driver.cuStreamCreateWithPriority(
		       &context->substitute, CU_STREAM_NON_BLOCKING, priority)) == CUDA_SUCCESS;
}

bool legacy_make_substitute(struct legacy_context *context)
{
	uint32_t set = state_legacy_attributes(context->of);

	if (!context->substitute) {
		if (!create(context)) {
			context->substitute = NULL;
			context->barred = 1;
			emit_note(NOTE_REWRITE, "legacy: a substitute could not be made");
			return false;
		}
	}
	if (context->attributes == set)
		return true;
	context->attributes = set;
	if (driver.cuStreamCopyAttributes &&
	    driver.cuStreamCopyAttributes(context->substitute, CU_STREAM_LEGACY) == CUDA_SUCCESS)
		return true;
	context->barred = 1;
	emit_note(NOTE_REWRITE, "legacy: attributes of the stream could not be copied");
	return false;
}

/* A primary context may have ended unseen, by its last release; its handle stays, and names another one, perhaps (rewrite/contexts.c). */
static bool is_there(const struct legacy_context *context)
{
	unsigned long long id = 0;

	if (state_current_context() == context->id)
		return true;
	return driver.cuCtxGetId(context->handle, &id) == CUDA_SUCCESS && id == context->id;
}

/* Under the lock. The driver may refuse to end it, so the turn is NATIVE first. */
static struct trace_order_end drop(struct legacy_context *context, struct legacy_pass *pass)
{
	struct trace_order_end end;

	/* The lock may be given back in between. */
	context->ending = context->id;
	if (legacy_is_substitute(context) && is_there(context))
		(void)legacy_to_native(context, pass);
	/* Before its entry is free for another context (take()). */
	end = legacy_number_end(context);
	/* What is on its way in there finds no turn of ours. */
	context->turn += context->turn & 1;
	__atomic_store_n(&context->shut, 0, __ATOMIC_SEQ_CST);
	legacy_show_turn(context);
	hide(context);
	/* Pairs with take() and begin(), which need no lock: nothing of the entry is written behind it. */
	__atomic_store_n(&context->id, 0, __ATOMIC_RELEASE);
	return end;
}

void legacy_drop(bool (*lives)(uint64_t id))
{
	struct legacy_pass pass = {.tells = emit_traces_full()};
	struct legacy_context *context;
	struct trace_order_end end;
	uint64_t id;

	if (!legacy_active() || !lock_take(&made_lock))
		return;
	context = all;
	lock_give(&made_lock);
	for (; context; context = context->next) {
		id = __atomic_load_n(&context->id, __ATOMIC_ACQUIRE);
		if (!id || lives(id) || !legacy_lock(context))
			continue;
		/* Another thread that ends contexts is at it, or was: then it is another context's by now, perhaps. */
		if (__atomic_load_n(&context->id, __ATOMIC_ACQUIRE) != id ||
		    context->ending == id) {
			legacy_unlock(context);
			continue;
		}
		pass.turns = pass.barriers = pass.noted = 0;
		pass.context = context;
		end = drop(context, &pass);
		legacy_unlock(context);
		legacy_tell(&pass);
		legacy_tell_end(&end);
	}
}

void legacy_retreat(void)
{
	struct legacy_context *context;
	struct legacy_pass pass = {.tells = emit_traces_full()};

	if (!legacy_active())
		return;
	/* Pairs with the release store in take(). */
	for (context = __atomic_load_n(&all, __ATOMIC_ACQUIRE); context; context = context->next) {
		if (!legacy_is_substitute(context) || !legacy_lock(context))
			continue;
		pass.turns = pass.barriers = pass.noted = 0;
		pass.context = context;
		if (__atomic_load_n(&context->id, __ATOMIC_ACQUIRE) &&
		    legacy_is_substitute(context) && is_there(context))
			(void)legacy_to_native(context, &pass);
		legacy_unlock(context);
		legacy_tell(&pass);
	}
}

CUstream legacy_handle(uint64_t id, uint64_t *ret_turn)
{
	const struct legacy_context *context;

	*ret_turn = 0;
	if (!legacy_active())
		return CU_STREAM_LEGACY;
	/* Pairs with the release store in take(). */
	context = __atomic_load_n(&all, __ATOMIC_ACQUIRE);

	for (; context; context = context->next) {
		if (__atomic_load_n(&context->id, __ATOMIC_ACQUIRE) != id)
			continue;
		*ret_turn = __atomic_load_n(&context->turn, __ATOMIC_SEQ_CST);
		return *ret_turn & 1 ? context->substitute : CU_STREAM_LEGACY;
	}
	return CU_STREAM_LEGACY;
}

void legacy_forked(void)
{
	__atomic_store_n(&legacy_on, 0, __ATOMIC_RELAXED);
	all = NULL;
	lock_reset(&made_lock);
	arena_done(&arena);
}
