// SPDX-License-Identifier: MIT
/*
 * Check, the engine of accesses: each call as operations, edges between them, and accesses to memory; two that are not ordered and of which one
 * writes are a remark (L03, S07, S09), and so is a block that is freed on a stream that is not behind its last use (L16). Called through the table
 * of check.c.
 *
 * What waits follows the catalogue: each rule that is documented or measured counts, since an order that is there by luck must not be called a race
 * here (L12 tells of it). Synchronous copies are looked at more closely: what the host has of them is known.
 *
 * What is not followed makes no remark: nodes of graphs, batches, arrays, kernels whose parameters are not known, host code. Of copies of rectangles
 * only the first row is. Where an edge was missed for certain (lane_give_up()) nothing is remarked any more.
 */
#include "check/access.h"
#include "check/internal.h"
#include "check/kinds.h"
#include "check/lane.h"
#include "check/map.h"
#include "check/memory_kinds.h"

#include <string.h>

#include "state/proof.h"
#include "state/state.h"

/* Between before and after of one call. */
static __thread struct {
	uint64_t freed_address, freed_bytes; /* as state took them out; it forgets what succeeded */
	uint64_t accesses;                   /* made before the block can be anybody else's */
} under_way __attribute__((tls_model("initial-exec")));

/* What one operation does. */
struct use {
	struct access accesses[ACCESSES_AT_ONCE];
	uint32_t count;
	bool has_unseen; /* it may write what is not among them */
	enum lane_meeting meeting;
	struct check_side side;
};

struct found {
	struct access_conflict conflict[ACCESSES_AT_ONCE];
	uint32_t rule[ACCESSES_AT_ONCE];
	uint32_t count;
};

/* ---- operands ---- */

/* What the device reaches by an address. Pageable memory it does not: such copies go by memory of the driver's. */
static bool is_followed_memory(uint8_t kind)
{
	return check_is_device(kind) || check_is_common(kind);
}

/* Bytes that are touched for certain from the operand's address on: of a rectangle its first row; 0: not known. */
static uint64_t bytes_in_a_row(const struct call *call, const uint64_t *arguments)
{
	const char *name = function_names[call->function];
	const char *rows = strstr(name, "D2D");

	if (catalogue_rows[call->function].flags & CATALOGUE_SEVERAL)
		return 0;
	if (rows && call->operation == OPERATION_MEMSET)
		return arguments[3] * (rows[3] == '8' ? 1 : rows[3] == '1' ? 2 : 4);
	if (!strstr(name, "2D") && !strstr(name, "3D"))
		return call->bytes;
	/* The first versions have other structures. */
	if (!strstr(name, "_v2") || !call->bytes)
		return 0;
	if (strstr(name, "2D"))
		return ((const CUDA_MEMCPY2D *)(uintptr_t)arguments[0])->WidthInBytes;
	return strstr(name, "Peer")
		       ? 0
		       : ((const CUDA_MEMCPY3D *)(uintptr_t)arguments[0])->WidthInBytes;
}

static void add_access(struct access *accesses, uint32_t *ret_count, uint64_t begin, uint64_t bytes,
		       enum access_how how)
{
	if (begin && bytes && *ret_count < ACCESSES_AT_ONCE)
		accesses[(*ret_count)++] =
			(struct access){.begin = begin, .end = begin + bytes, .how = how};
}

static uint32_t accesses_of_copy(const struct call *call, const uint64_t *arguments,
				 struct access *ret_accesses, bool *ret_unseen)
{
	uint64_t bytes = bytes_in_a_row(call, arguments);
	uint32_t count = 0;

	*ret_unseen |= !bytes && call->bytes;
	if (call->operation == OPERATION_COPY && is_followed_memory(call->source_kind))
		add_access(ret_accesses, &count, call->source, bytes, ACCESS_READ);
	if (is_followed_memory(call->destination_kind))
		add_access(ret_accesses, &count, call->destination, bytes, ACCESS_WRITE);
	return count;
}

/* Without the lock, since the driver is asked. */
static uint32_t accesses_of_kernel(const struct call *call, const uint64_t *arguments,
				   struct access *ret_accesses, bool *ret_unseen)
{
	uint64_t addresses[POINTERS_MAX];
	struct state_range range;
	uint32_t count = 0, found, i;

	*ret_unseen = !parameters_of(call, arguments, addresses, &found);
	if (*ret_unseen)
		check_lost("kernels whose parameters are not known");
	for (i = 0; i < found && !*ret_unseen; i++)
		if (state_range_of(addresses[i], &range))
			add_access(ret_accesses, &count, addresses[i],
				   range.address + range.bytes - addresses[i], ACCESS_KERNEL);
	if (found == POINTERS_MAX) {
		check_lost("kernels with eight addresses or more among their parameters");
		*ret_unseen = true;
	}
	return count;
}

static uint32_t accesses_of(const struct call *call, const uint64_t *arguments,
			    struct access *ret_accesses, bool *ret_unseen)
{
	*ret_unseen = call->operation == OPERATION_GRAPH ||
		      catalogue_rows[call->function].flags & CATALOGUE_SEVERAL;
	switch (call->operation) {
	case OPERATION_COPY:
	case OPERATION_MEMSET:
		return accesses_of_copy(call, arguments, ret_accesses, ret_unseen);
	case OPERATION_KERNEL:
		return accesses_of_kernel(call, arguments, ret_accesses, ret_unseen);
	default:
		return 0;
	}
}

/* ---- under the lock: what is found ---- */

static uint32_t rule_of(uint32_t one, uint32_t other)
{
	const struct check_lane *l = lane_at(one), *r = lane_at(other);

	if (l->context == r->context &&
	    ((l->kind == STREAM_LEGACY && r->kind == STREAM_NON_BLOCKING) ||
	     (r->kind == STREAM_LEGACY && l->kind == STREAM_NON_BLOCKING)))
		return RULE_LEGACY_BEFORE_NON_BLOCKING;
	if (l->context && r->context &&
	    state_context_device(l->context) != state_context_device(r->context))
		return RULE_OPERANDS_OF_TWO_DEVICES;
	return RULE_DEVICE_RACE;
}

static void add_found(struct found *found, const struct access_conflict *conflict, uint32_t rule)
{
	if (found->count == ACCESSES_AT_ONCE)
		return;
	found->conflict[found->count] = *conflict;
	found->rule[found->count++] = rule;
}

static void use_memory(uint32_t lane, struct use *use, struct found *found)
{
	struct access_conflict conflict;
	struct state_range range;
	uint32_t i;

	for (i = 0; i < use->count; i++) {
		struct access *access = &use->accesses[i];

		access->lane = lane;
		access->number = lane_at(lane)->number;
		access->is_unknown = lane_at(lane)->clock.is_unknown;
		access->side = use->side;
		if (access->how != ACCESS_READ && state_range_of(access->begin, &range) &&
		    block_is_first(range.address) && access->how == ACCESS_KERNEL)
			access->how = ACCESS_PRODUCER;
		if (access_add(access, &conflict))
			add_found(found, &conflict, rule_of(lane, conflict.lane));
	}
}

static void free_memory(uint32_t lane, struct found *found)
{
	struct access_conflict conflict;
	uint64_t begin = under_way.freed_address, end = begin + under_way.freed_bytes;

	if (!under_way.freed_bytes)
		return;
	if (lane == CHECK_NONE)
		access_drop(begin, end, under_way.accesses);
	else if (access_free(begin, end, under_way.accesses, lane, &conflict))
		add_found(found, &conflict, RULE_FREE_ON_UNORDERED_STREAM);
	block_gone(begin);
}

/* ---- under the lock: edges ---- */

static bool is_free(const struct call *call)
{
	return catalogue_rows[call->function].kind == CATALOGUE_KIND_FREE;
}

static void wait_for_event(const struct call *call, uint32_t lane)
{
	if (state_event_is_foreign(call->subject))
		event_is_foreign(call->subject);
	event_joins(call->subject, lane);
}

/* A copy between contexts that is one of the legacy streams of both: behind all work of their devices, and before all that comes. */
static bool is_between_devices(const struct call *call)
{
	return call->flags & CALL_TWO_CONTEXTS &&
	       (call->stream_kind == STREAM_LEGACY || call->stream_form == CALL_STREAM_IMPLICIT);
}

/*
 * What a synchronous copy or memset has proven when it returns. Inside the device nothing; from pageable memory all but itself. Where an operand's
 * kind is in doubt: all.
 */
static void observe_synchronous(const struct call *call, uint32_t lane)
{
	const uint16_t either = CALL_SOURCE_HOST | CALL_DESTINATION_HOST;
	bool guessed = (call->flags & either) == either;

	if (call->flags & CALL_SYNC_MEMOPS)
		lane_observed(lane);
	else if (check_stays_inside(call->source_kind) &&
		 check_stays_inside(call->destination_kind))
		return;
	else if (call->source_kind == MEMORY_PAGEABLE &&
		 check_stays_inside(call->destination_kind) && !guessed)
		lane_observed_before(lane);
	else
		lane_observed(lane);
}

static void observe_event(uint64_t handle)
{
	if (state_event_is_foreign(handle))
		event_is_foreign(handle);
	event_observed(handle);
}

static void observe_scope(const struct call *call, uint32_t scope)
{
	uint32_t lane;

	switch (scope) {
	case CATALOGUE_SCOPE_STREAM:
		lane = call->stream ? lane_of(call) : CHECK_NONE;
		if (lane == CHECK_NONE)
			lane_observed_all();
		else if (call->operation == OPERATION_COPY && call->source_kind == MEMORY_PAGEABLE)
			lane_observed_before(lane);
		else
			lane_observed(lane);
		return;
	case CATALOGUE_SCOPE_LEGACY:
		lane_observed_context(call->context, true);
		return;
	case CATALOGUE_SCOPE_CONTEXT:
		lane_observed_context(call->context, false);
		return;
	case CATALOGUE_SCOPE_DEVICE:
		lane_observed_all();
		return;
	case CATALOGUE_SCOPE_EVENT:
		observe_event(call->subject);
		return;
	default:
		return;
	}
}

static bool is_wait(const struct catalogue_rule *rule)
{
	return rule->wait_class == WAIT_EXPLICIT ||
	       (rule->wait_class == WAIT_IMPLICIT && rule->measured);
}

/* By the rules of the catalogue that hold for this call. */
static void observe_rules(const struct call *call, const struct catalogue_row *row)
{
	uint32_t held = call->held ? call->held : row->held(call);

	for (held &= CATALOGUE_HELD_RULES; held; held &= held - 1) {
		const struct catalogue_rule *rule =
			&catalogue_rules[row->rules[__builtin_ctz(held)] - 1U];

		if (is_wait(rule))
			observe_scope(call, rule->scope);
	}
}

/* The call has returned: what does the host know by that? */
static void observe(const struct call *call, uint32_t lane)
{
	const struct catalogue_row *row = &catalogue_rows[call->function];

	if (is_between_devices(call))
		lane_observed_all();
	else if (call->stream_form == CALL_STREAM_IMPLICIT && lane != CHECK_NONE &&
		 (call->operation == OPERATION_COPY || call->operation == OPERATION_MEMSET))
		observe_synchronous(call, lane);
	else if (row->kind == CATALOGUE_KIND_QUERY && row->flags & CATALOGUE_HAS_RESULT)
		observe_scope(call, call->stream_form == CALL_STREAM_ARGUMENT
					    ? CATALOGUE_SCOPE_STREAM
					    : CATALOGUE_SCOPE_EVENT);
	else
		observe_rules(call, row);
}

/* ---- events, streams, contexts, blocks ---- */

static bool is_record(const struct call *call)
{
	return catalogue_rows[call->function].kind == CATALOGUE_KIND_EVENT && !call->operation &&
	       call->subject && call->stream_form == CALL_STREAM_ARGUMENT;
}

static void record_event(const struct call *call)
{
	uint32_t lane;

	if (call->flags & CALL_CAPTURED) {
		/* A node of a graph, each launch of which may record it. */
		event_records(call->subject, CHECK_NONE);
		return;
	}
	lane = lane_of(call);
	if (lane == CHECK_NONE)
		return;
	lane_join(lane);
	event_records(call->subject, lane);
}

static uint64_t output(uint64_t argument)
{
	return argument ? *(const uint64_t *)(uintptr_t)argument : 0;
}

/* Another process, or a card, may write to the block from now on. */
static void shared(uint64_t address)
{
	struct state_range range;

	if (state_range_of(address, &range))
		(void)block_is_first(range.address);
}

static void follow_object(const struct call *call, const uint64_t *arguments)
{
	if (check_exports_block(call)) {
		shared(arguments[1]);
	} else if (check_takes_time(call)) {
		observe_event(arguments[1]);
		observe_event(arguments[2]);
	} else if (check_ends_context(call)) {
		/* Events and blocks of other contexts are forgotten with those of this one. */
		lane_forget_streams();
		event_forget();
	}
	switch (call->function) {
	case FUNCTION_cuEventCreate:
		event_made(output(arguments[0]));
		return;
	case FUNCTION_cuIpcOpenEventHandle:
		event_made(output(arguments[0]));
		event_is_foreign(output(arguments[0]));
		return;
	case FUNCTION_cuIpcGetEventHandle:
		event_is_foreign(arguments[1]);
		return;
	case FUNCTION_cuCtxRecordEvent:
		event_records(call->subject, CHECK_NONE);
		return;
	case FUNCTION_cuCtxWaitEvent:
		lane_give_up("order: a wait of a whole context" NOTE_CHECK_HIDES);
		return;
	case FUNCTION_cuMemAlloc_v2:
	case FUNCTION_cuMemAllocAsync:
	case FUNCTION_cuMemAllocAsync_ptsz:
	case FUNCTION_cuMemAllocFromPoolAsync:
	case FUNCTION_cuMemAllocFromPoolAsync_ptsz:
		block_made(output(arguments[0]), call->bytes);
		return;
	default:
		return;
	}
}

/* ---- a call ---- */

static void before(const struct call *call, const uint64_t *arguments)
{
	under_way.freed_address = call->freed_address;
	under_way.freed_bytes = call->freed_bytes;
	if (call->freed_bytes)
		under_way.accesses = access_count();
	/* What it stands for is gone with its name; the handle may come again at once. */
	if (check_destroys_event(call) && check_lock()) {
		event_gone(arguments[0]);
		check_unlock();
	}
}

/* What is captured is no operation now. */
static bool puts_work(const struct call *call)
{
	return call->operation && !(call->flags & CALL_CAPTURED);
}

static void follow(const struct call *call, const uint64_t *arguments, struct use *use,
		   struct found *found)
{
	uint32_t lane = CHECK_NONE;

	if (is_record(call)) {
		record_event(call);
	} else if (puts_work(call)) {
		lane = lane_of(call);
		if (lane == CHECK_NONE)
			return;
		lane_join(lane);
		if (is_between_devices(call))
			lane_join_all(lane);
		if (call->operation == OPERATION_EVENT_WAIT)
			wait_for_event(call, lane);
		if (is_free(call))
			free_memory(lane, found);
		(void)lane_submit(lane);
		use_memory(lane, use, found);
		lane_meets(lane, use->meeting);
	}
	if (call->flags & CALL_CAPTURED)
		return;
	observe(call, lane);
	if (!call->operation)
		free_memory(CHECK_NONE, found);
	follow_object(call, arguments);
}

static void tell(const struct call *call, const struct check_side *side, const struct found *found)
{
	uint32_t i;

	for (i = 0; i < found->count; i++)
		check_remark_at(side, call->bytes, found->rule[i], &found->conflict[i].side);
}

static void after(const struct call *call, const uint64_t *arguments, CUresult result)
{
	struct use use = {.side = {.function = call->function}};
	struct found found = {.count = 0};

	if (result != CUDA_SUCCESS)
		return;
	parameters_named(call, arguments);
	if (lane_has_given_up())
		return;
	if (state_is_doubted()) {
		lane_give_up("order: calls went past the library" NOTE_CHECK_HIDES);
		return;
	}
	if (puts_work(call)) {
		use.count = accesses_of(call, arguments, use.accesses, &use.has_unseen);
		use.meeting = meeting_of(call, arguments);
		pointers_look(call);
		if (use.count || (is_free(call) && under_way.freed_bytes))
			use.side = check_side_take(call);
	}
	if (!check_lock()) {
		lane_give_up("order: a call of a signal handler" NOTE_CHECK_HIDES);
		return;
	}
	if (use.has_unseen)
		block_unseen();
	follow(call, arguments, &use, &found);
	if (call->operation == OPERATION_KERNEL && pointers_are_uploaded())
		block_unseen();
	check_unlock();
	tell(call, &use.side, &found);
}

static void forget(void)
{
	lane_forget();
	event_forget();
	access_forget();
	parameters_forget();
	pointers_forget();
}

const struct check_rule check_follow_rule = {.before = before, .after = after, .forget = forget};
