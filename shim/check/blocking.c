// SPDX-License-Identifier: MIT
/*
 * Check, S02: a blocking stream gets work in a context in which nothing ever touches the legacy default stream. Its remark is made with its first work,
 * and taken back when the legacy stream is used after all, be it by a synchronous copy: so what the record says is right whenever the process ends.
 *
 * streams, used	under check_lock()
 */
#include "check/internal.h"

#include <string.h>

#include "check/kinds.h"
#include "state/state.h"

#define STREAMS_MAX  512
#define CONTEXTS_MAX 64

struct blocking {
	uint64_t handle;  /* 0: destroyed */
	uint64_t context; /* id */
	struct check_side made;
	struct record_remark
		*remark; /* NULL: it has had no work yet, or its context uses the legacy stream */
	bool worked;
};

static struct blocking streams[STREAMS_MAX];
static uint32_t count, unworked;
/* Ids of contexts whose legacy stream was used. */
static uint64_t used[CONTEXTS_MAX];
static uint32_t used_count;

static bool is_used(uint64_t context)
{
	uint32_t i;

	/* More contexts than we know: any of them may use it. */
	for (i = 0; i < used_count; i++)
		if (used[i] == context)
			return true;
	return used_count == CONTEXTS_MAX;
}

static bool creates(const struct call *call)
{
	return call->function == FUNCTION_cuStreamCreate ||
	       call->function == FUNCTION_cuStreamCreateWithPriority;
}

static void add(const struct call *call, uint64_t handle)
{
	struct blocking made = {
		.handle = handle,
		.context = state_context_id(call->context),
		.made = check_side_take(call),
	};
	bool fits;

	if (!check_lock())
		return;
	fits = count < STREAMS_MAX;
	if (fits) {
		streams[count] = made;
		(void)check_hint_add(&count, 1);
		(void)check_hint_add(&unworked, 1);
	}
	check_unlock();
	if (!fits)
		check_lost("blocking streams: too many");
}

/* The handle may be another stream's from now on. */
static void remove_stream(uint64_t handle)
{
	uint32_t i;

	if (!__atomic_load_n(&count, __ATOMIC_RELAXED) || !check_lock())
		return;
	for (i = 0; i < count; i++)
		if (streams[i].handle == handle) {
			/* What was said may have to be taken back yet. */
			(void)check_hint_add(&unworked, -!streams[i].worked);
			streams[i].handle = 0;
			if (!streams[i].remark)
				streams[i--] = streams[check_hint_add(&count, -1)];
		}
	check_unlock();
}

static void works(uint64_t handle)
{
	struct check_side made;
	struct record_remark *remark;
	uint64_t context = 0;
	bool first = false;
	uint32_t i;

	if (!__atomic_load_n(&unworked, __ATOMIC_RELAXED) || !check_lock())
		return;
	for (i = 0; i < count && !first; i++)
		if (streams[i].handle == handle && !streams[i].worked) {
			streams[i].worked = true;
			(void)check_hint_add(&unworked, -1);
			context = streams[i].context;
			made = streams[i].made;
			first = !is_used(context);
		}
	check_unlock();
	if (!first)
		return;
	remark = check_remark_open(&made, RULE_NEEDLESS_BLOCKING_STREAM, NULL);
	if (!check_lock())
		return;
	/* The legacy stream may have been used meanwhile. */
	for (i = 0; i < count; i++)
		if (streams[i].handle == handle && !streams[i].remark && !is_used(context)) {
			streams[i].remark = remark;
			check_remark_count(remark, 1);
			break;
		}
	check_unlock();
}

static void legacy_is_used(uint64_t context)
{
	uint32_t i;

	if (!check_lock())
		return;
	if (!is_used(context)) {
		used[used_count++] = context;
		for (i = 0; i < count; i++)
			if (streams[i].remark &&
			    (streams[i].context == context || used_count == CONTEXTS_MAX)) {
				check_remark_count(streams[i].remark, -1);
				streams[i].remark = NULL;
			}
	}
	check_unlock();
}

static void before(const struct call *call, const uint64_t *arguments)
{
	/* Whatever comes of it. */
	if (call->stream_kind == STREAM_LEGACY)
		legacy_is_used(state_context_id(call->context));
	if (check_destroys_stream(call))
		remove_stream(arguments[0]);
}

static void after(const struct call *call, const uint64_t *arguments, CUresult result)
{
	if (result != CUDA_SUCCESS)
		return;
	if (!creates(call)) {
		if (call->operation && !call_is_own_handle(call->stream_handle))
			works((uintptr_t)call->stream_handle);
	} else if (!(arguments[1] & CU_STREAM_NON_BLOCKING)) {
		add(call, *(const uint64_t *)arguments[0]);
	}
}

static void forget(void)
{
	memset(streams, 0, sizeof(streams));
	count = unworked = used_count = 0;
}

const struct check_rule check_blocking_rule = {.before = before, .after = after, .forget = forget};
