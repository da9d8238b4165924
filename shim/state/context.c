// SPDX-License-Identifier: MIT
/*
 * Context: which context a call works in. Called by state_before() and the stream files. Relies on
 * driver.cuCtxGetId (13 ns): a context is known by its id, since cudart takes and resets the
 * primary context through a private table, and its handle comes back for another context.
 *
 * Drivers before 12.0 have no ids. The handle then stands for the context until a destroy or reset
 * that the shim sees; after that the same handle is a new context with a number of our own.
 */
#include <string.h>

#include "catalogue/catalogue.h"
#include "config.h"
#include "driver/driver.h"
#include "emit/emit.h"
#include "emit/table.h"
#include "state/internal.h"
#include "state/state.h"

#define CONTEXT_MAX 4096
#define OWN_IDS     (UINT64_C(1) << 48) /* above any id a driver gives */

static bool is_current(const void *value, uint64_t hash);

/* Under LOCK_STATE; entries live for ever, so that streams may point at them. */
static struct table contexts = {.bound = CONTEXT_MAX, .current = is_current};
static struct state_context *all;
static uint64_t own_ids;
static uint32_t sync_memops; /* a context has it; for good */

/* By device: the id of its primary context, as it was retained last. Ids do not come back. */
#define PRIMARIES 64
static uint64_t primaries[PRIMARIES];

static uint64_t key_of(const struct state_context *context)
{
	uint64_t handle = STATE_LOAD(&context->handle);

	return handle ? handle : __atomic_load_n(&context->id, __ATOMIC_ACQUIRE);
}

static bool is_current(const void *value, uint64_t hash)
{
	uint64_t key = key_of(value);

	return key && table_mix(key) == hash;
}

static struct state_context *find(uint64_t key)
{
	uint64_t hash = table_mix(key);
	uint64_t index = hash;
	struct state_context *context;

	while ((context = table_next(&contexts, hash, &index)))
		if (key_of(context) == key)
			return context;
	return NULL;
}

bool context_others(const struct state_context *context)
{
	const struct state_context *other = __atomic_load_n(&all, __ATOMIC_ACQUIRE);

	for (; other; other = other->next)
		if (other != context && key_of(other))
			return true;
	return false;
}

void context_set_sync_memops(struct state_context *context)
{
	STATE_STORE(&context->sync_memops, 1);
	STATE_STORE(&sync_memops, 1);
}

bool context_has_sync_memops(void)
{
	return STATE_LOAD(&sync_memops);
}

bool state_is_alone(const struct state_context *context)
{
	return context && !context_others(context);
}

/* Under LOCK_STATE. An entry whose context is gone is taken over with its legacy stream. */
static struct state_context *add(uint64_t key, bool is_handle, int device)
{
	struct state_context *context;

	for (context = all; context; context = context->next)
		if (!key_of(context) && !stream_is_pending(context->legacy))
			break;
	if (!context) {
		context = arena_take(&state_arena, sizeof(*context));
		if (!context)
			return NULL;
		context->legacy = stream_new(context, STREAM_LEGACY, 0);
		if (!context->legacy)
			return NULL;
		context->next = all;
		__atomic_store_n(&all, context, __ATOMIC_RELEASE);
	}
	STATE_STORE(&context->device, device);
	STATE_STORE(&context->created, false);
	STATE_STORE(&context->sync_memops, 0);
	STATE_STORE(&context->launches_long, 0);
	STATE_STORE(&context->attributes, 0);
	STATE_STORE(&context->legacy->legacy_told, 0);
	STATE_STORE(&context->handle, is_handle ? key : 0);
	/* Pairs with the acquire load in key_of(): who sees the id sees the legacy stream. */
	__atomic_store_n(&context->id, is_handle ? OWN_IDS + ++own_ids : key, __ATOMIC_RELEASE);
	if (!table_insert(&contexts, &state_arena, table_mix(key), context)) {
		STATE_STORE(&context->handle, 0);
		STATE_STORE(&context->id, 0);
		return NULL;
	}
	context->record = emit_context(context->record, STATE_LOAD(&context->id), device);
	stream_tell(context->legacy);
	live_changed();
	return context;
}

static struct state_context *find_or_add(uint64_t key, bool is_handle, bool current)
{
	struct state_context *context = find(key);
	CUdevice device = -1;
	unsigned int flags = 0;

	if (context)
		return context;
	/*
	 * To tell contexts apart at a primary reset, and for the flags of one that was made out of
	 * sight; plain getters.
	 */
	if (current && driver.cuCtxGetDevice && driver.cuCtxGetDevice(&device) != CUDA_SUCCESS)
		device = -1;
	if (current && driver.cuCtxGetFlags && driver.cuCtxGetFlags(&flags) != CUDA_SUCCESS)
		flags = 0;
	if (!lock_take(&state_lock))
		return NULL;
	context = find(key);
	if (!context) {
		context = add(key, is_handle, device);
		if (!context)
			state_lost("contexts");
		else if (flags & CU_CTX_SYNC_MEMOPS)
			context_set_sync_memops(context);
	}
	lock_give(&state_lock);
	return context;
}

/* The id of a context, NULL: the current one. Handles where the driver has no ids. */
static bool ask(CUcontext handle, uint64_t *ret_key, bool *ret_is_handle)
{
	unsigned long long id = 0;

	*ret_is_handle = !driver.cuCtxGetId;
	if (driver.cuCtxGetId) {
		if (driver.cuCtxGetId(handle, &id) != CUDA_SUCCESS)
			return false;
		*ret_key = id;
		return id != 0;
	}
	if (!handle && (!driver.cuCtxGetCurrent || driver.cuCtxGetCurrent(&handle) != CUDA_SUCCESS))
		return false;
	*ret_key = (uintptr_t)handle;
	return handle != NULL;
}

uint64_t state_current_context(void)
{
	unsigned long long id = 0;

	/* Without ids what a handle stands for changes (own_ids): that is the long way's business. */
	if (!driver.cuCtxGetId || driver.cuCtxGetId(NULL, &id) != CUDA_SUCCESS)
		return 0;
	return id;
}

struct state_context *context_current(void)
{
	struct state_thread *thread = &state_thread;
	struct state_context *context = thread->context;
	bool is_handle;
	uint64_t key;

	if (!ask(NULL, &key, &is_handle))
		return NULL;
	if (context && thread->context_key == key && key_of(context) == key)
		return context;
	context = find_or_add(key, is_handle, true);
	thread->context = context;
	thread->context_key = key;
	return context;
}

struct state_context *state_context_current(void)
{
	return context_current();
}

struct state_context *context_of(uint64_t handle)
{
	bool is_handle;
	uint64_t key;

	if (!ask((CUcontext)(uintptr_t)handle, &key, &is_handle))
		return NULL;
	return find(key);
}

uint64_t state_context_id(const struct state_context *context)
{
	return context ? STATE_LOAD(&context->id) : 0;
}

int state_context_device(const struct state_context *context)
{
	return context ? STATE_LOAD(&context->device) : -1;
}

uint32_t state_context_number(const struct state_context *context)
{
	const struct record_context *record = __atomic_load_n(&context->record, __ATOMIC_ACQUIRE);

	return record ? record->number : 0;
}

void state_stream_attributes(struct call *call)
{
	if (call->context && call->stream_kind == STREAM_LEGACY)
		__atomic_add_fetch(&call->context->attributes, 1, __ATOMIC_RELAXED);
}

uint32_t state_legacy_attributes(const struct state_context *context)
{
	return STATE_LOAD(&context->attributes);
}

struct state_stream *state_legacy_of(const struct state_context *context)
{
	return context->legacy;
}

struct state_context *state_context_by_handle(uint64_t handle)
{
	return context_of(handle);
}

struct legacy_context **state_legacy_slot(struct state_context *context)
{
	return &context->legacy_rewrite;
}

/* As a new context is on the thread that made it. */
static bool is_current_key(uint64_t key)
{
	bool is_handle;
	uint64_t current;

	return ask(NULL, &current, &is_handle) && current == key;
}

void state_context_created(struct call *call, CUcontext handle)
{
	struct state_context *context;
	bool is_handle;
	uint64_t key;

	if (!handle || !ask(handle, &key, &is_handle))
		return;
	context = find_or_add(key, is_handle, is_current_key(key));
	if (context)
		STATE_STORE(&context->created, true);
}

void state_primary_retained(struct call *call, CUcontext handle, CUdevice device)
{
	bool is_handle;
	uint64_t key;

	if (device >= 0 && device < PRIMARIES && handle && ask(handle, &key, &is_handle) &&
	    !is_handle)
		STATE_STORE(&primaries[device], key);
}

static bool is_primary(uint64_t key)
{
	for (unsigned int i = 0; i < PRIMARIES; i++)
		if (STATE_LOAD(&primaries[i]) == key)
			return true;
	return false;
}

/* Under LOCK_STATE. */
static void retire(struct state_context *context)
{
	stream_retire_context(context);
	launch_forget_all();
	STATE_STORE(&context->handle, 0);
	__atomic_store_n(&context->id, 0, __ATOMIC_RELEASE);
}

void state_context_flags(struct call *call, CUcontext handle, unsigned int flags)
{
	struct state_context *context;
	bool is_handle;
	uint64_t key;

	if (!(flags & CU_CTX_SYNC_MEMOPS) || !handle || !ask(handle, &key, &is_handle))
		return;
	context = find_or_add(key, is_handle, false);
	if (context)
		context_set_sync_memops(context);
}

/* Nobody asks the driver about the streams of a context from here on. True: LOCK_ATTRIBUTE is held. */
static bool begin_ending(struct call *call)
{
	bool asking = config.mode == CONFIG_FIX && lock_take(&attribute_lock);

	proof_context_ending(call);
	return asking;
}

void state_context_destroying(struct call *call, CUcontext handle)
{
	struct state_context *context = NULL;
	bool asking;
	bool is_handle;
	uint64_t key;

	if (!handle || !ask(handle, &key, &is_handle))
		return;
	asking = begin_ending(call);
	if (lock_take(&state_lock)) {
		context = find(key);
		/* The driver refuses to end a primary one this way, and all of it stays. Did it end, its id would tell (rewrite/contexts.c). */
		if (context && is_primary(key))
			context = NULL;
		if (context) {
			call->ended = STATE_LOAD(&context->id);
			retire(context);
		}
		lock_give(&state_lock);
	}
	if (!context)
		proof_context_stays(call);
	if (asking)
		lock_give(&attribute_lock);
}

void state_primary_resetting(struct call *call, CUdevice device)
{
	struct state_context *context;
	bool asking = begin_ending(call);
	bool ends = false;

	if (lock_take(&state_lock)) {
		for (context = all; context; context = context->next) {
			if (!key_of(context) || STATE_LOAD(&context->created) ||
			    STATE_LOAD(&context->device) != device)
				continue;
			call->ended = STATE_LOAD(&context->id);
			retire(context);
			ends = true;
		}
		lock_give(&state_lock);
	}
	if (!ends)
		proof_context_stays(call);
	if (asking)
		lock_give(&attribute_lock);
}

bool state_context_lives(uint64_t id)
{
	struct state_context *context;

	for (context = __atomic_load_n(&all, __ATOMIC_ACQUIRE); context; context = context->next)
		if (STATE_LOAD(&context->id) == id)
			return true;
	return false;
}

void state_contexts_gone(bool (*lives)(uint64_t id))
{
	struct state_context *context;

	if (!lock_take(&state_lock))
		return;
	for (context = all; context; context = context->next)
		if (key_of(context) && !lives(STATE_LOAD(&context->id)))
			retire(context);
	lock_give(&state_lock);
}

/* Whether it is the last one is known afterwards. Until then nothing is proven: its work may not have ended when it cannot be found any more. */
void state_primary_releasing(struct call *call)
{
	if (begin_ending(call))
		lock_give(&attribute_lock);
}

void state_primary_released(struct call *call, CUresult result)
{
	if (result != CUDA_SUCCESS)
		proof_context_stays(call);
}

void context_clear(void)
{
	table_clear(&contexts);
	memset(primaries, 0, sizeof(primaries));
	all = NULL;
	own_ids = 0;
}
