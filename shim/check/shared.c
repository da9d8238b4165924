// SPDX-License-Identifier: MIT
/*
 * Check, memory that other processes reach (L05): a synchronous copy to it that may return before its bytes are there - from pageable memory, or inside
 * the device - and then nothing that would say when they are: no event record, no wait, no SYNC_MEMOPS, by any thread. Told when its thread goes on
 * to give up what it worked with (an event, a stream, a mapping, a context), or when the program ends: until then somebody may still record an
 * event before he tells the others.
 *
 * Not known is what a network card was given the address of, which takes no call of the driver, and memory that is exported by its handle before
 * it has an address (cuMemExportToShareableHandle).
 *
 * shared, opened, open_count	under check_lock()
 */
#include "check/internal.h"

#include "check/access.h"
#include "check/kinds.h"
#include "check/lane.h"
#include "check/map.h"
#include "check/memory_kinds.h"
#include "state/state.h"

#define SHARED_MAX 1024

CHECK_MAP(shared, SHARED_MAX); /* by the address of the block */

/* Such copies that nothing has settled yet: the last of each thread, of so many threads. */
#define OPEN_MAX 64
static struct open_copy {
	uint64_t thread, bytes;
	struct check_side side;
} opened[OPEN_MAX];
static uint32_t open_count;

static __thread uint64_t freed __attribute__((tls_model("initial-exec"))); /* by this call */

static uint64_t block_of(uint64_t address)
{
	struct state_range range;

	return address && state_range_of(address, &range) ? range.address : 0;
}

static void share(uint64_t address)
{
	uint64_t block = block_of(address);
	bool is_full = false;

	if (!block || !check_lock())
		return;
	if (check_map_find(&shared, block) == CHECK_NONE)
		is_full = check_map_add(&shared, block) == CHECK_NONE;
	check_unlock();
	if (is_full)
		check_lost("blocks that other processes reach: too many" NOTE_CHECK_HIDES);
}

static void forget_block(uint64_t address)
{
	if (!check_lock())
		return;
	check_map_remove(&shared, address);
	check_unlock();
}

/* Which ended with a context is not known here; those of others are forgotten with them. */
static void forget_all_blocks(void)
{
	if (!check_lock())
		return;
	check_map_clear(&shared);
	check_unlock();
}

static bool is_shared(uint64_t address)
{
	uint64_t block;
	bool found;

	if (!__atomic_load_n(&shared.used, __ATOMIC_RELAXED))
		return false;
	block = block_of(address);
	if (!block || !check_lock())
		return false;
	found = check_map_find(&shared, block) != CHECK_NONE;
	check_unlock();
	return found;
}

static bool is_synchronous_copy(const struct call *call)
{
	return call->operation == OPERATION_COPY && call->stream_form == CALL_STREAM_IMPLICIT;
}

/* Its bytes may come later. */
static bool returns_early(const struct call *call)
{
	return call->bytes && check_is_device(call->destination_kind) &&
	       (check_is_device(call->source_kind) || call->source_kind == MEMORY_PAGEABLE) &&
	       !(call->flags & (CALL_SYNC_MEMOPS | CALL_TWO_CONTEXTS));
}

/* All that the legacy stream was given before has ended, or an event stands for it, when this returns; may be so is enough. */
static bool is_settled_by(const struct call *call)
{
	switch (catalogue_rows[call->function].kind) {
	case CATALOGUE_KIND_WAIT:
	case CATALOGUE_KIND_QUERY:
	case CATALOGUE_KIND_FREE:
	case CATALOGUE_KIND_MODULE:
	case CATALOGUE_KIND_REGISTER:
		return true;
	case CATALOGUE_KIND_EVENT:
		return call->stream_form != CALL_STREAM_NONE;
	case CATALOGUE_KIND_COPY:
		return is_synchronous_copy(call) && !(check_is_device(call->source_kind) &&
						      check_is_device(call->destination_kind));
	case CATALOGUE_KIND_HOSTFUNC:
		return true;
	default:
		return call->function == FUNCTION_cuPointerSetAttribute;
	}
}

/*
 * Work behind the copy, in legacy order, that may tell others of it: a value or a few bytes, a kernel that is given memory which they see, a graph.
 */
static bool is_told_by(const struct call *call, const uint64_t *arguments)
{
	if (!call->operation || call->flags & CALL_CAPTURED || is_synchronous_copy(call) ||
	    call->stream_kind == STREAM_NON_BLOCKING)
		return false;
	if (meeting_of(call, arguments) != MEETING_NONE)
		return true;
	if (call->operation == OPERATION_KERNEL)
		return parameters_may_hold(call, arguments, is_shared);
	return call->bytes <= FLAG_BYTES && is_shared(call->destination);
}

/* Not a detach, which may leave the context, nor a reset, behind which the thread may go on with it: what is open then is told later. */
static bool gives_up(const struct call *call)
{
	if (check_destroys_event(call) || check_destroys_stream(call))
		return true;
	switch (call->function) {
	case FUNCTION_cuIpcCloseMemHandle:
	case FUNCTION_cuCtxDestroy:
	case FUNCTION_cuCtxDestroy_v2:
	case FUNCTION_cuDevicePrimaryCtxRelease:
	case FUNCTION_cuDevicePrimaryCtxRelease_v2:
		return true;
	default:
		return false;
	}
}

/* Those of a thread, 0: of all, are open no more. */
static uint32_t take_out(uint64_t thread, struct open_copy *ret_copies)
{
	uint32_t taken = 0, i;

	if (!__atomic_load_n(&open_count, __ATOMIC_RELAXED) || !check_lock())
		return 0;
	for (i = 0; i < open_count; i++)
		if (!thread || opened[i].thread == thread) {
			ret_copies[taken++] = opened[i];
			opened[i--] = opened[check_hint_add(&open_count, -1)];
		}
	check_unlock();
	return taken;
}

static void tell_of(uint64_t thread)
{
	struct open_copy copies[OPEN_MAX];
	uint32_t count = take_out(thread, copies), i;

	for (i = 0; i < count; i++)
		check_remark_at(&copies[i].side, copies[i].bytes, RULE_SYNCHRONOUS_COPY_FOR_OTHERS,
				NULL);
}

static void tell_all(void)
{
	tell_of(0);
}

static void put_in(const struct open_copy *copy)
{
	bool is_full;
	uint32_t i;

	if (!check_lock())
		return;
	for (i = 0; i < open_count && opened[i].thread != copy->thread; i++)
		;
	is_full = i == OPEN_MAX;
	if (!is_full)
		opened[i] = *copy;
	if (i == open_count && !is_full)
		(void)check_hint_add(&open_count, 1);
	check_unlock();
	if (is_full)
		check_lost("copies for other processes: too many threads" NOTE_CHECK_HIDES);
}

static void before(const struct call *call, const uint64_t *arguments)
{
	struct open_copy copies[OPEN_MAX];

	freed = call->freed_bytes ? call->freed_address : 0;
	if (!__atomic_load_n(&open_count, __ATOMIC_RELAXED))
		return;
	if (gives_up(call))
		tell_of(check_thread());
	else if (is_settled_by(call) || is_told_by(call, arguments))
		(void)take_out(0, copies);
}

static void after(const struct call *call, const uint64_t *arguments, CUresult result)
{
	if (result != CUDA_SUCCESS)
		return;
	if (freed)
		forget_block(freed);
	if (check_exports_block(call)) {
		share(arguments[1]);
		return;
	}
	if (check_ends_context(call)) {
		forget_all_blocks();
		return;
	}
	switch (call->function) {
	case FUNCTION_cuIpcOpenMemHandle:
	case FUNCTION_cuIpcOpenMemHandle_v2:
		share(*(const uint64_t *)(uintptr_t)arguments[0]);
		return;
	default:
		break;
	}
	if (!is_synchronous_copy(call) || !returns_early(call) || !is_shared(call->destination))
		return;
	put_in(&(struct open_copy){
		.thread = check_thread(), .bytes = call->bytes, .side = check_side_take(call)});
}

static void forget(void)
{
	check_map_clear(&shared);
	open_count = 0;
}

const struct check_rule check_shared_rule = {
	.before = before, .after = after, .ends = tell_all, .forget = forget};
