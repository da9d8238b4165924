// SPDX-License-Identifier: MIT
/*
 * Check, S05: a thread waits for a stream whose work since the last wait touched nothing but memory of the device, and next submits to another stream
 * what uses that memory, again and again at the same two places. The host got nothing out of the wait but the order.
 *
 * works	under check_lock(): what each stream was given since it was waited for
 * waited	each thread's own: its last call, if that was such a wait
 * pairs	under check_lock()
 */
#include "check/internal.h"

#include <string.h>

#include "check/access.h"
#include "check/kinds.h"
#include "check/memory_kinds.h"
#include "check/pairs.h"
#include "state/state.h"

#define WORKS_MAX  128
#define RANGES_MAX 8
/* So often at one pair of places: once may be the end of a phase, or a measurement. */
#define LEAST_COUNT 3

struct range {
	uint64_t address, bytes;
};

/* By one operation. */
struct touched {
	bool is_host; /* or nobody knows */
	uint32_t count;
	struct range ranges[RANGES_MAX];
};

struct work {
	const struct state_stream *stream; /* NULL: not in use */
	bool is_host;                      /* the host may want to wait for it */
	uint32_t count;
	struct range writes[RANGES_MAX];
};

struct waited {
	struct work work; /* its stream NULL: the last call was no such wait */
	struct check_side wait;
};

static struct work works[WORKS_MAX];
static __thread struct waited waited __attribute__((tls_model("initial-exec")));
static struct check_pairs pairs;

/* Of one piece, its operands and bytes as the call says. */
static bool is_linear(const struct call *call)
{
	switch (call->function) {
	case FUNCTION_cuMemcpyAsync:
	case FUNCTION_cuMemcpyAsync_ptsz:
	case FUNCTION_cuMemcpyDtoDAsync_v2:
	case FUNCTION_cuMemcpyDtoDAsync_v2_ptsz:
	case FUNCTION_cuMemcpyDtoHAsync_v2:
	case FUNCTION_cuMemcpyDtoHAsync_v2_ptsz:
	case FUNCTION_cuMemcpyHtoDAsync_v2:
	case FUNCTION_cuMemcpyHtoDAsync_v2_ptsz:
	case FUNCTION_cuMemsetD8Async:
	case FUNCTION_cuMemsetD8Async_ptsz:
	case FUNCTION_cuMemsetD16Async:
	case FUNCTION_cuMemsetD16Async_ptsz:
	case FUNCTION_cuMemsetD32Async:
	case FUNCTION_cuMemsetD32Async_ptsz:
		return call->bytes;
	default:
		return false;
	}
}

static void touches(struct touched *touched, uint64_t address, uint64_t bytes)
{
	if (touched->count < RANGES_MAX)
		touched->ranges[touched->count++] =
			(struct range){.address = address, .bytes = bytes};
	else
		touched->is_host = true;
}

/* What a kernel is given an address of it may write, to the end of the block. */
static void touched_by_kernel(const struct call *call, const uint64_t *arguments,
			      struct touched *ret_touched)
{
	uint64_t addresses[POINTERS_MAX];
	struct state_range range;
	uint32_t count = 0, i;

	if (!parameters_of(call, arguments, addresses, &count) || count == POINTERS_MAX) {
		ret_touched->is_host = true;
		return;
	}
	for (i = 0; i < count; i++) {
		if (state_range_of(addresses[i], &range) && check_is_device(range.kind))
			touches(ret_touched, addresses[i],
				range.address + range.bytes - addresses[i]);
		else
			ret_touched->is_host = true;
	}
}

/* With no lock held. */
static void look_at(const struct call *call, const uint64_t *arguments, struct touched *ret_touched)
{
	*ret_touched = (struct touched){0};
	if (call->operation == OPERATION_KERNEL) {
		touched_by_kernel(call, arguments, ret_touched);
		return;
	}
	if (!is_linear(call)) {
		ret_touched->is_host = true;
		return;
	}
	touches(ret_touched, call->destination, call->bytes);
	if (call->source)
		touches(ret_touched, call->source, call->bytes);
	ret_touched->is_host = !check_is_device(call->destination_kind) ||
			       (call->source && !check_is_device(call->source_kind));
}

static bool overlap(const struct range *left, const struct range *right)
{
	return left->address < right->address + right->bytes &&
	       right->address < left->address + left->bytes;
}

static bool uses(const struct touched *touched, const struct work *work)
{
	uint32_t i, k;

	for (i = 0; i < work->count; i++)
		for (k = 0; k < touched->count; k++)
			if (overlap(&work->writes[i], &touched->ranges[k]))
				return true;
	return false;
}

/* Of this stream, or one that is free; NULL: none. */
static struct work *find(const struct state_stream *stream)
{
	struct work *unused = NULL;
	uint32_t i;

	for (i = 0; i < WORKS_MAX; i++) {
		if (works[i].stream == stream)
			return &works[i];
		if (!works[i].stream)
			unused = &works[i];
	}
	return unused;
}

/* A copy or memset writes the first of its ranges. */
static void add(struct work *work, const struct call *call, const struct touched *touched)
{
	uint32_t count = call->operation == OPERATION_KERNEL ? touched->count : 1, i;

	work->stream = call->stream;
	work->is_host |= touched->is_host || work->count + count > RANGES_MAX;
	for (i = 0; !work->is_host && i < count; i++)
		work->writes[work->count++] = touched->ranges[i];
}

/* Has any stream work that the host may want to wait for? Under check_lock(). */
static bool any_for_host(void)
{
	bool any = false;
	uint32_t i;

	for (i = 0; i < WORKS_MAX && !any; i++)
		any = works[i].stream && works[i].is_host;
	return any;
}

static void submitted(const struct call *call, const struct touched *touched)
{
	struct work *work;

	/* What a stream does for a pool tells the host nothing. */
	if (call->operation == OPERATION_ALLOCATION)
		return;
	if (!check_lock())
		return;
	work = find(call->stream);
	if (work && call->operation != OPERATION_EVENT_WAIT) {
		add(work, call, touched);
	} else if (work && any_for_host()) {
		/* A wait for this stream is one for that work, too. */
		work->stream = call->stream;
		work->is_host = true;
	}
	check_unlock();
	if (!work)
		check_lost("waits of the host for order: too many streams");
}

/* What it was given is known complete; *ret_work: what that was. */
static void take(const struct state_stream *stream, uint32_t kind, struct work *ret_work)
{
	struct work *work;

	ret_work->stream = NULL;
	if (!check_lock())
		return;
	work = find(stream);
	if (work && work->stream) {
		*ret_work = *work;
		memset(work, 0, sizeof(*work));
		/* It may come behind the legacy stream's. */
		if (kind != STREAM_NON_BLOCKING)
			ret_work->is_host |= any_for_host();
	}
	check_unlock();
}

static void take_all(void)
{
	if (!check_lock())
		return;
	memset(works, 0, sizeof(works));
	check_unlock();
}

static void judge(const struct call *call, const struct touched *touched)
{
	struct check_side submission;
	uint32_t made;

	if (call->stream == waited.work.stream || call->stream_kind == STREAM_LEGACY ||
	    !uses(touched, &waited.work))
		return;
	submission = check_side_take(call);
	made = check_pairs_seen(&pairs, &waited.wait, &submission, LEAST_COUNT,
				"waits of the host for order: too many places");
	for (; made; made--)
		check_remark_at(&waited.wait, 0, RULE_HOST_WAIT_FOR_DEVICE_ORDER, &submission);
}

static void after(const struct call *call, const uint64_t *arguments, CUresult result)
{
	const struct catalogue_row *row = &catalogue_rows[call->function];
	struct touched touched;

	if (result == CUDA_SUCCESS && call->operation && call->stream &&
	    !(call->flags & CALL_CAPTURED)) {
		look_at(call, arguments, &touched);
		if (waited.work.stream)
			judge(call, &touched);
		submitted(call, &touched);
	}
	waited.work.stream = NULL;
	if (result != CUDA_SUCCESS ||
	    (row->kind != CATALOGUE_KIND_WAIT && row->kind != CATALOGUE_KIND_QUERY))
		return;
	if (!check_waits_for_stream(call) || !call->stream || call->stream_kind == STREAM_LEGACY) {
		take_all();
		return;
	}
	take(call->stream, call->stream_kind, &waited.work);
	if (!waited.work.stream)
		return;
	if (waited.work.is_host || !waited.work.count)
		waited.work.stream = NULL;
	else
		waited.wait = check_side_take(call);
}

static void forget(void)
{
	memset(works, 0, sizeof(works));
	memset(&pairs, 0, sizeof(pairs));
	waited.work.stream = NULL;
}

const struct check_rule check_host_order_rule = {.after = after, .forget = forget};
