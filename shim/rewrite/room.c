// SPDX-License-Identifier: MIT
/*
 * Room: what is held goes back to the driver where it has no memory for a call, or where nothing will use it again. Called by the wrappers of calls that
 * found none and had no effect (the catalogue's `retry`), and by the rewrites of allocations and frees. Relies on frees_held.c and pinned.c for the blocks, on settle.c for the moment.
 *
 * What others are doing at this moment matters, too. Blocks that they give back, and those of a context that they end, have left the pool before the
 * driver has them; the program had freed them, so it is not told that there is no memory: they are waited for.
 *
 *	returning, returned	whoever gives back; read by anyone. `returning` goes up before blocks leave the pool, `returned` changes
 *				before it goes down
 */
#include <errno.h>

#include "call.h"
#include "catalogue/catalogue.h"
#include "clock.h"
#include "config.h"
#include "driver/driver.h"
#include "emit/emit.h"
#include "pool/pool.h"
#include "rewrite/events.h"
#include "rewrite/frees.h"
#include "rewrite/internal.h"
#include "rewrite/pinned.h"
#include "rewrite/rewrite.h"
#include "state/proof.h"
#include "state/state.h"
#include "uncancelled.h"

/* How long others are waited for that give back, behind settle_work(): they wait for the device. A choice. */
#define PATIENCE_NS UINT64_C(10000000000)
/* And others that end a context, whose work may wait for this thread, so as long as settle_work() does. */
#define ENDING_NS UINT64_C(1000000000)
/* What comes back is taken by other threads, perhaps; but not for ever. A choice. */
#define TIMES_MAX 32

/*
 * Sequentially consistent, so that the pool's lock need not be reasoned about: room_giving_begin() stands before the blocks are out of the pool,
 * room_giving_end() behind the driver's free, and pairs with others_are_busy() and wait_for_others(): who finds nobody returning sees when the
 * last one had.
 */
static uint32_t returning; /* threads */
static uint64_t returned;  /* clock ticks */

void room_giving_begin(void)
{
	__atomic_add_fetch(&returning, 1, __ATOMIC_SEQ_CST);
}

void room_giving_end(bool some)
{
	if (some)
		__atomic_store_n(&returned, clock_ticks(), __ATOMIC_SEQ_CST);
	__atomic_sub_fetch(&returning, 1, __ATOMIC_SEQ_CST);
}

static bool others_are_busy(uint64_t waited_ns)
{
	if (__atomic_load_n(&returning, __ATOMIC_SEQ_CST))
		return waited_ns < PATIENCE_NS;
	return state_context_is_ending() && waited_ns < ENDING_NS;
}

/* True: some came back since then. */
static bool wait_for_others(uint64_t since)
{
	uint64_t begun = clock_ticks();
	int saved = errno;

	while (others_are_busy(clock_duration_ns(begun, clock_ticks())))
		uncancelled_nap(50000);
	errno = saved;
	return __atomic_load_n(&returned, __ATOMIC_SEQ_CST) >= since ||
	       state_context_ended() >= since;
}

static bool makes_host_memory(const struct call *call)
{
	uint8_t kind = catalogue_rows[call->function].makes;

	return kind == MEMORY_PINNED || kind == MEMORY_REGISTERED;
}

/* Which device has no memory for the call: its stream's, or the current one's. -1: any, since these say themselves which they are about. */
static bool device_of(const struct call *call, CUdevice *ret_device)
{
	enum catalogue_kind kind = catalogue_rows[call->function].kind;

	*ret_device = -1;
	if (kind == CATALOGUE_KIND_CONTEXT || kind == CATALOGUE_KIND_VMM)
		return true;
	*ret_device = state_context_device(call->context);
	return *ret_device >= 0 ||
	       (driver.cuCtxGetDevice && driver.cuCtxGetDevice(ret_device) == CUDA_SUCCESS);
}

/* Of all devices and contexts. */
static uint64_t all_held(void)
{
	struct pool_bytes device, arrays;

	pool_bytes(POOL_DEVICE, &device);
	pool_bytes(POOL_ARRAY, &arrays);
	return device.held + arrays.held;
}

static bool is_pinned_held(void)
{
	struct pool_bytes bytes;

	pool_bytes(POOL_PINNED, &bytes);
	return bytes.held || bytes.reserved;
}

/* More than there is, even with all that is held: nothing is given back for it. */
static bool is_hopeless(const struct call *call)
{
	size_t free_bytes = 0, total = 0;

	return call->bytes && driver.cuMemGetInfo_v2 &&
	       driver.cuMemGetInfo_v2(&free_bytes, &total) == CUDA_SUCCESS &&
	       call->bytes > free_bytes + all_held();
}

static uint32_t give_device_back(const struct call *call, CUdevice device, uint64_t current)
{
	uint32_t freed = held_give_back_everywhere(device, current, held_give_all_back);

	COUNT_FREES(purges, freed != 0);
	events_real_free(call, CONFIG_FIX_FREES, "the driver had no memory", freed, call->bytes);
	return freed;
}

static uint32_t give_pinned_back(const struct call *call, uint64_t current)
{
	uint32_t freed = held_give_back_everywhere(-1, current, pinned_give_all_back);

	COUNT(purges, freed != 0);
	events_real_free(call, CONFIG_FIX_PINNED, "the driver had no memory", freed, call->bytes);
	return freed;
}

/* Device memory first: the driver pins pages of the host for hardly any call but those that ask for such memory. */
static bool make_room(const struct call *call, uint64_t since)
{
	/* A stream's context need not be current. Without ids none but the call's own can be told. */
	uint64_t current =
		driver.cuCtxGetId ? state_current_context() : state_context_id(call->context);
	bool host = makes_host_memory(call), device, pinned;
	CUdevice number = -1;
	uint32_t freed = 0;

	if (!host && is_hopeless(call))
		return wait_for_others(since);
	device = !host && all_held() && device_of(call, &number);
	pinned = is_pinned_held();
	if (!device && !pinned)
		return wait_for_others(since);
	if (current && !settle_work(current)) {
		emit_note(NOTE_REWRITE, "held memory stays, since work does not end");
		return wait_for_others(since);
	}
	if (device)
		freed = give_device_back(call, number, current);
	if (pinned && !freed)
		freed = give_pinned_back(call, current);
	if (freed)
		counts_bytes();
	return wait_for_others(since) || freed;
}

bool rewrite_make_room(struct call *call, struct rewrite_room *room)
{
	bool found;

	if (room->times++ == TIMES_MAX)
		return false;
	found = make_room(call, room->since ? room->since : call->entered);
	/* Before the driver is asked again. */
	room->since = clock_ticks();
	return found;
}

bool room_is_to_leave(void)
{
	return state_is_doubted() && (is_pinned_held() || all_held());
}

void room_leave(struct call *call, CUresult result)
{
	static const char why[] = "off for good";
	uint64_t context = state_context_id(call->context);

	if (result != CUDA_SUCCESS || !room_is_to_leave() || !context ||
	    state_current_context() != context)
		return;
	events_real_free(call, CONFIG_FIX_PINNED, why, pinned_give_some_back(context, 0), 0);
	events_real_free(call, CONFIG_FIX_FREES, why,
			 held_give_some_back(POOL_DEVICE, context, 0) +
				 held_give_some_back(POOL_ARRAY, context, 0),
			 0);
	counts_bytes();
}
