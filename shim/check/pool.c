// SPDX-License-Identifier: MIT
/*
 * Check, for L17: an allocation finds no memory while pools hold at least as much that was given back to them since anything was waited for. A pool gives
 * memory back to the device inside a wait only, and a query is none.
 *
 * given, given_side	under check_lock()
 * freeing		each thread's own
 */
#include "check/internal.h"

/* Bytes given back by cuMemFreeAsync since the last wait, less what pools gave out again. */
static uint64_t given;
static struct check_side given_side; /* the last such call */

/* Of the call that this thread is in. */
static __thread uint64_t freeing __attribute__((tls_model("initial-exec")));

static void give_back(const struct call *call)
{
	struct check_side side;

	if (!freeing)
		return;
	side = check_side_take(call);
	if (!check_lock())
		return;
	given += freeing;
	given_side = side;
	check_unlock();
}

static void take_off(uint64_t bytes)
{
	if (!__atomic_load_n(&given, __ATOMIC_RELAXED) || !check_lock())
		return;
	given -= bytes < given ? bytes : given;
	check_unlock();
}

static void found_none(const struct call *call)
{
	struct check_side side;
	bool enough;

	if (!call->bytes || !check_lock())
		return;
	enough = given >= call->bytes;
	side = given_side;
	check_unlock();
	if (enough)
		check_remark(call, RULE_POOL_NOT_TRIMMED, &side);
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
	if (row->kind == CATALOGUE_KIND_ALLOC && result == CUDA_ERROR_OUT_OF_MEMORY)
		found_none(call);
	if (result != CUDA_SUCCESS)
		return;
	if (row->kind == CATALOGUE_KIND_FREE && call->operation == OPERATION_ALLOCATION)
		give_back(call);
	else if (row->kind == CATALOGUE_KIND_ALLOC && call->operation == OPERATION_ALLOCATION)
		take_off(call->bytes);
	else if (row->kind == CATALOGUE_KIND_WAIT || row->kind == CATALOGUE_KIND_POOL)
		take_off(UINT64_MAX);
}

static void forget(void)
{
	given = 0;
}

const struct check_rule check_pool_rule = {.before = before, .after = after, .forget = forget};
