// SPDX-License-Identifier: MIT
/*
 * Stream: entries for streams, found by handle without a lock. Called by the rest of state. Relies
 * on table.h; entries are never unmapped (internal.h says who writes what).
 *
 * An entry whose stream was destroyed is taken over by the next stream, but not before its work is
 * known complete: a destroyed stream goes on working, and a free can wait for it.
 */
#include <string.h>

#include "catalogue/catalogue.h"
#include "config.h"
#include "emit/emit.h"
#include "emit/table.h"
#include "state/internal.h"
#include "state/state.h"

#define LOOKED_AT 16 /* retired entries looked at for one to take over */

static bool is_current(const void *value, uint64_t hash);

static struct table streams = {.bound = 4 * STREAM_MAX, .current = is_current};
/* Stored once with release order, under LOCK_STATE; read by anyone below count. */
struct state_stream *stream_chunks[STREAM_MAX / STREAM_CHUNK];
static uint32_t count;
/* Retired entries, oldest first; under LOCK_STATE. */
static struct state_stream *retired, **retired_end = &retired;
static uint64_t threads; /* serials given */

__thread struct state_thread state_thread __attribute__((tls_model("initial-exec"), aligned(64)));

static bool is_current(const void *value, uint64_t hash)
{
	uint64_t handle = STATE_LOAD(&((const struct state_stream *)value)->handle);

	return handle && table_mix(handle) == hash;
}

uint32_t stream_count(void)
{
	/* Pairs with the release store in make(): who sees the count sees the chunks. */
	return __atomic_load_n(&count, __ATOMIC_ACQUIRE);
}

static struct state_stream *look_up(uint64_t handle)
{
	uint64_t hash = table_mix(handle);
	uint64_t index = hash;
	struct state_stream *stream;

	while ((stream = table_next(&streams, hash, &index)))
		/* Pairs with the release store in stream_new(). */
		if (__atomic_load_n(&stream->handle, __ATOMIC_ACQUIRE) == handle)
			return stream;
	return NULL;
}

struct state_stream *stream_find(uint64_t handle)
{
	struct thread_stream *slot = thread_stream_slot(&state_thread, handle);
	struct state_stream *stream = slot->stream;

	/* Pairs as in look_up(). */
	if (stream && slot->handle == handle &&
	    __atomic_load_n(&stream->handle, __ATOMIC_ACQUIRE) == handle)
		return stream;
	stream = look_up(handle);
	if (stream) {
		slot->stream = stream;
		slot->handle = handle;
	}
	return stream;
}

static struct state_stream *take_over(void)
{
	struct state_stream **link, *stream;
	int looked_at = 0;

	for (link = &retired; *link && looked_at < LOOKED_AT; link = &(*link)->next, looked_at++)
		if (!stream_is_pending(*link))
			break;
	if (!*link || looked_at == LOOKED_AT) {
		if (count < STREAM_MAX || !retired)
			return NULL;
		/* No more entries: what the oldest retired stream still does is forgotten. */
		state_doubt("off: more streams than can be followed");
		link = &retired;
		state_lost("work of destroyed streams");
	}
	stream = *link;
	*link = stream->next;
	if (!*link)
		retired_end = link;
	return stream;
}

static struct state_stream *make(void)
{
	struct state_stream *chunk, *stream;
	uint32_t i;

	if (count == STREAM_MAX)
		return NULL;
	if (count % STREAM_CHUNK == 0) {
		chunk = arena_take(&state_arena, STREAM_CHUNK * sizeof(*chunk));
		if (!chunk)
			return NULL;
		for (i = 0; i < STREAM_CHUNK; i++)
			chunk[i].index = count + i;
		__atomic_store_n(&stream_chunks[count / STREAM_CHUNK], chunk, __ATOMIC_RELEASE);
	}
	stream = stream_at(count);
	__atomic_store_n(&count, count + 1, __ATOMIC_RELEASE);
	return stream;
}

void stream_tell(struct state_stream *stream)
{
	stream->record =
		emit_stream(stream->record, state_stream_number(stream), stream_kind(stream),
			    state_context_id(stream_context(stream)), STATE_LOAD(&stream->handle));
}

struct state_stream *stream_new(struct state_context *context, enum stream_kind kind,
				uint64_t handle)
{
	struct state_stream *stream = take_over();
	uint64_t submitted;

	if (!stream)
		stream = make();
	if (!stream) {
		state_lost("streams");
		return NULL;
	}
	submitted = stream_submitted(stream);
	STATE_STORE(&stream->launcher, 0);
	order_forget(stream);
	pending_forget(stream);
	STATE_STORE(&stream->joined, submitted);
	STATE_STORE(&stream->joined_by, 0);
	STATE_STORE(&stream->legacy_joined, 0);
	STATE_STORE(&stream->legacy_at, 0);
	STATE_STORE(&stream->youngest, 0);
	STATE_STORE(&stream->capture, 0);
	STATE_STORE(&stream->owner, 0);
	STATE_STORE(&stream->legacy_epoch, 0);
	STATE_STORE(&stream->legacy_told, 0);
	STATE_STORE(&stream->context, context);
	STATE_STORE(&stream->kind, kind);
	live_stream_made(kind);
	/* Pairs with the acquire loads in look_up(), stream_find() and known_stream(). */
	__atomic_store_n(&stream->handle, handle, __ATOMIC_RELEASE);
	if (handle && !table_insert(&streams, &state_arena, table_mix(handle), stream)) {
		stream_retire(stream);
		state_lost("streams");
		return NULL;
	}
	/* A legacy stream's context is not there yet (context.c). */
	if (kind != STREAM_LEGACY)
		stream_tell(stream);
	return stream;
}

void stream_retire(struct state_stream *stream)
{
	__atomic_store_n(&stream->handle, 0, __ATOMIC_RELEASE);
	STATE_STORE(&stream->owner, 0);
	stream->next = NULL;
	*retired_end = stream;
	retired_end = &stream->next;
	launch_forget_all();
}

void stream_retire_context(struct state_context *context)
{
	struct state_stream *stream;
	uint32_t i;

	for (i = 0; i < count; i++) {
		stream = stream_at(i);
		if (stream_context(stream) != context)
			continue;
		/* The context's end is the end of its work, all of which is looked at here. */
		order_forget(stream);
		if (stream == context->legacy)
			continue;
		STATE_STORE(&stream->context, NULL);
		if (STATE_LOAD(&stream->handle) || STATE_LOAD(&stream->owner))
			stream_retire(stream);
	}
	/* Its modules are gone, too: handles of functions come back. */
	kernel_unloaded();
}

struct state_stream *state_stream_of(CUstream handle)
{
	return stream_find((uintptr_t)handle);
}

struct state_context *state_context_of(const struct state_stream *stream)
{
	return stream_context(stream);
}

uint64_t *state_legacy_epoch(struct state_stream *stream)
{
	return &stream->legacy_epoch;
}

uint32_t *state_legacy_told(struct state_stream *stream)
{
	return &stream->legacy_told;
}

struct state_stream *stream_unseen(uint64_t handle)
{
	struct state_context *context = context_current();
	struct state_stream *stream;

	if (!context || !lock_take(&state_lock))
		return NULL;
	stream = look_up(handle);
	if (!stream)
		stream = stream_new(context, STREAM_UNKNOWN, handle);
	lock_give(&state_lock);
	return stream;
}

void state_stream_created(struct call *call, CUstream handle, unsigned int flags)
{
	enum stream_kind kind =
		flags & CU_STREAM_NON_BLOCKING ? STREAM_NON_BLOCKING : STREAM_BLOCKING;
	struct state_context *context = call->context ? call->context : context_current();
	struct state_stream *old;

	if (!handle || !context || !lock_take(&state_lock))
		return;
	/* A handle that comes back without a destroy that was seen. */
	old = look_up((uintptr_t)handle);
	if (old)
		stream_retire(old);
	stream_new(context, kind, (uintptr_t)handle);
	lock_give(&state_lock);
}

void state_stream_destroying(struct call *call, CUstream handle)
{
	struct state_stream *stream;
	bool attribute =
		(config.attribute || config.mode == CONFIG_FIX) && lock_take(&attribute_lock);

	/* Behind the attribute lock: nobody is asking the driver about this stream now. */
	if (lock_take(&state_lock)) {
		stream = look_up((uintptr_t)handle);
		if (stream)
			stream_retire(stream);
		lock_give(&state_lock);
	}
	if (attribute)
		lock_give(&attribute_lock);
}

static struct state_stream *per_thread_slow(struct state_context *context)
{
	struct state_thread *thread = &state_thread;
	struct state_stream *stream = NULL;
	uint32_t i;

	if (!lock_take(&state_lock))
		return NULL;
	if (!thread->serial)
		thread->serial = ++threads;
	for (i = 0; i < count; i++) {
		stream = stream_at(i);
		if (STATE_LOAD(&stream->owner) == thread->serial &&
		    stream_context(stream) == context)
			break;
	}
	if (i == count) {
		stream = stream_new(context, STREAM_PER_THREAD, 0);
		if (stream)
			STATE_STORE(&stream->owner, thread->serial);
	}
	lock_give(&state_lock);
	i = (uint32_t)state_context_id(context) % PER_THREAD_CACHE;
	thread->per_thread[i].context = context;
	thread->per_thread[i].stream = stream;
	return stream;
}

struct state_stream *stream_per_thread(struct state_context *context)
{
	struct state_thread *thread = &state_thread;
	uint32_t i = (uint32_t)state_context_id(context) % PER_THREAD_CACHE;
	struct state_stream *stream = thread->per_thread[i].stream;

	if (stream && thread->per_thread[i].context == context &&
	    STATE_LOAD(&stream->owner) == thread->serial && stream_context(stream) == context)
		return stream;
	return per_thread_slow(context);
}

void state_thread_exit(void)
{
	struct state_thread *thread = &state_thread;
	struct state_stream *stream;
	bool has_launched = launch_thread.row.returned != 0;
	uint32_t i;

	state_launch_forget();
	if ((!thread->serial && !has_launched) || !lock_take(&state_lock))
		return;
	for (i = 0; i < count; i++) {
		stream = stream_at(i);
		launch_release(stream);
		if (thread->serial && STATE_LOAD(&stream->owner) == thread->serial)
			stream_retire(stream);
	}
	lock_give(&state_lock);
	memset(thread, 0, sizeof(*thread));
	memset(&launch_thread, 0, sizeof(launch_thread));
}

void stream_clear(void)
{
	table_clear(&streams);
	memset(stream_chunks, 0, sizeof(stream_chunks));
	__atomic_store_n(&count, 0, __ATOMIC_RELEASE);
	retired = NULL;
	retired_end = &retired;
	memset(&state_thread, 0, sizeof(state_thread));
	launch_clear();
}
