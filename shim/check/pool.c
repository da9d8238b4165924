// SPDX-License-Identifier: MIT
/*
 * Check, for L17: an allocation finds no memory on a device while the pools there hold at least as much that was given back to them since anything was
 * waited for. A pool gives memory back to the device inside a wait only, and a query is none.
 *
 * pools		under check_lock()
 * freeing	each thread's own: bytes that its call frees
 */
#include "check/internal.h"

#include <string.h>

#include "check/memory_kinds.h"
#include "state/state.h"

#define DEVICES_MAX 64

/* By device: bytes given back by cuMemFreeAsync since the last wait, less what pools gave out again, and the last such call. */
static struct {
	uint64_t given;
	struct check_side side;
} pools[DEVICES_MAX];

static __thread uint64_t freeing __attribute__((tls_model("initial-exec")));

/* Of the stream, or of the current context; -1: not known. */
static int device_of(const struct call *call)
{
	int device = state_context_device(call->context);

	return device < DEVICES_MAX ? device : -1;
}

static void give_back(const struct call *call)
{
	int device = device_of(call);
	struct check_side side;

	if (!freeing || device < 0)
		return;
	side = check_side_take(call);
	if (!check_lock())
		return;
	__atomic_store_n(&pools[device].given, pools[device].given + freeing, __ATOMIC_RELAXED);
	pools[device].side = side;
	check_unlock();
}

static void take_off(int device, uint64_t bytes)
{
	uint64_t given;

	if (device < 0 || !__atomic_load_n(&pools[device].given, __ATOMIC_RELAXED) || !check_lock())
		return;
	given = pools[device].given;
	__atomic_store_n(&pools[device].given, bytes < given ? given - bytes : 0, __ATOMIC_RELAXED);
	check_unlock();
}

/* A wait, and whatever else may make pools give back, on any device. */
static void take_off_all(void)
{
	int device;

	for (device = 0; device < DEVICES_MAX; device++)
		take_off(device, UINT64_MAX);
}

static void found_none(const struct call *call)
{
	int device = device_of(call);
	struct check_side side;
	bool enough;

	if (!call->bytes || device < 0 || !check_lock())
		return;
	enough = pools[device].given >= call->bytes;
	side = pools[device].side;
	check_unlock();
	if (enough)
		check_remark(call, RULE_POOL_NOT_TRIMMED, &side);
}

static bool makes_device_memory(const struct catalogue_row *row)
{
	return row->kind == CATALOGUE_KIND_ALLOC && check_is_device(row->makes);
}

/* What it frees is not known any more behind it. */
static void before(const struct call *call, const uint64_t *arguments)
{
	(void)arguments;
	freeing = call->freed_bytes;
}

static void after(const struct call *call, const uint64_t *arguments, CUresult result)
{
	const struct catalogue_row *row = &catalogue_rows[call->function];

	(void)arguments;
	if (call->flags & CALL_CAPTURED)
		return;
	if (makes_device_memory(row) && result == CUDA_ERROR_OUT_OF_MEMORY)
		found_none(call);
	if (result != CUDA_SUCCESS)
		return;
	if (row->kind == CATALOGUE_KIND_FREE && call->operation == OPERATION_ALLOCATION)
		give_back(call);
	else if (row->kind == CATALOGUE_KIND_ALLOC && call->operation == OPERATION_ALLOCATION)
		take_off(device_of(call), call->bytes);
	else if (row->kind == CATALOGUE_KIND_WAIT || row->kind == CATALOGUE_KIND_POOL)
		take_off_all();
}

static void forget(void)
{
	memset(pools, 0, sizeof(pools));
}

const struct check_rule check_pool_rule = {.before = before, .after = after, .forget = forget};
