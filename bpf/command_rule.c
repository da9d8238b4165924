// SPDX-License-Identifier: MIT
/*
 * What a witnessed call waited for (command_rule.h). As shim/sync/sync.c where no work is known to be
 * pending: an explicit wait always counts; an implicit one, by the first rule of the row whose
 * condition holds for what a tracer can know, where it stands far out from the call's own cost; a
 * call's own cost above the rule's minimum. Kinds of host memory are not known: conditions about them hold
 * as for unknown memory. Time in which the thread was ready to run is the scheduler's doing, and makes
 * no finding.
 */
#include "command_rule.h"

#include "call.h"
#include "catalogue/catalogue.h"

#define THRESHOLD_NS 5000 /* as SLIPSTREAM_THRESHOLD */
/* These four as in shim/sync/sync.c, which says why. */
#define UNEXPLAINED_NS 50000
#define UNSEEN_NS      1000000
#define ALONE_TIMES    3
#define UNSEEN_TIMES   20
#define BYTES_MAX      (UINT64_C(1) << 32) /* of a size, so that no product of it wraps */

static const uint8_t stream_kinds[] = {
	[WATCH_STREAM_NONE] = STREAM_UNKNOWN,
	[WATCH_STREAM_LEGACY] = STREAM_LEGACY,
	[WATCH_STREAM_PER_THREAD] = STREAM_PER_THREAD,
	[WATCH_STREAM_OTHER] = STREAM_UNKNOWN,
};

static void set_kinds(const struct watch_call *watched, const struct catalogue_row *row,
		      struct call *call)
{
	switch (watched->direction) {
	case WATCH_H2D:
		call->source_kind = MEMORY_UNKNOWN;
		call->destination_kind = MEMORY_DEVICE;
		break;
	case WATCH_D2H:
		call->source_kind = MEMORY_DEVICE;
		call->destination_kind = MEMORY_UNKNOWN;
		break;
	case WATCH_D2D:
		call->source_kind = call->destination_kind = MEMORY_DEVICE;
		break;
	case WATCH_H2H:
	case WATCH_UNKNOWN:
		call->source_kind = call->destination_kind = MEMORY_UNKNOWN;
		break;
	default:
		call->destination_kind = row->makes;
	}
}

static uint64_t threshold(const struct catalogue_rule *rule)
{
	return rule->minimum_ns ? rule->minimum_ns : THRESHOLD_NS;
}

static bool is_known_slow(const struct catalogue_row *row)
{
	return row->kind == CATALOGUE_KIND_INIT || row->kind == CATALOGUE_KIND_CONTEXT ||
	       row->kind == CATALOGUE_KIND_MODULE;
}

static bool finds_explicit(const struct call *call, const struct catalogue_row *row,
			   struct verdict *verdict)
{
	for (const uint8_t *number = row->rules; *number; number++) {
		const struct catalogue_rule *rule = &catalogue_rules[*number - 1];

		if (rule->wait_class != WAIT_EXPLICIT || !rule->when(call))
			continue;
		verdict->rule = *number - 1U;
		return true;
	}
	return false;
}

static bool finds(const struct call *call, const struct catalogue_row *row, uint64_t call_ns,
		  uint64_t idle_ns, uint64_t ready_ns, struct verdict *verdict)
{
	uint64_t waited_ns = verdict->blocked_ns > ready_ns ? verdict->blocked_ns - ready_ns : 0;
	uint64_t least_ns = row->flags & CATALOGUE_ASYNC ? UNSEEN_NS : UNEXPLAINED_NS;
	bool holds = false;

	for (const uint8_t *number = row->rules; *number; number++) {
		const struct catalogue_rule *rule = &catalogue_rules[*number - 1];

		if (rule->wait_class != WAIT_IMPLICIT || !rule->when(call))
			continue;
		holds = true;
		verdict->rule = *number - 1U;
		if (rule->flags & RECORD_RULE_OWN_COST) {
			if (call_ns <= threshold(rule) + ready_ns)
				continue;
			verdict->blocked_ns = call_ns;
			verdict->idle_basis = IDLE_NONE;
			return true;
		}
		if (waited_ns > threshold(rule) && waited_ns > least_ns &&
		    waited_ns > idle_ns * (ALONE_TIMES - 1))
			return true;
	}
	verdict->rule = RULE_OBSERVED_UNKNOWN;
	return !holds && !is_known_slow(row) && row->level != CATALOGUE_LEVEL_COUNT &&
	       waited_ns > UNSEEN_NS && waited_ns > idle_ns * (UNSEEN_TIMES - 1);
}

struct verdict rule_judge(const struct watch_call *watched)
{
	const struct catalogue_row *row = &catalogue_rows[watched->function];
	uint64_t call_ns =
		watched->left_ns > watched->entered_ns ? watched->left_ns - watched->entered_ns : 0;
	/* Sizes are the program's own words: no product of them wraps. */
	uint64_t bytes = watched->bytes < BYTES_MAX ? watched->bytes : BYTES_MAX;
	uint64_t idle_ns = row->idle_fixed_ns + bytes * row->idle_ps_per_byte / 1000;
	struct verdict verdict = {
		.blocked_ns = call_ns > idle_ns ? call_ns - idle_ns : 0,
		.idle_basis = idle_ns ? IDLE_DEFAULT : IDLE_NONE,
	};
	struct call call = {
		.function = (uint16_t)watched->function,
		.flags = row->flags & CATALOGUE_ASYNC ? CALL_ASYNC : 0,
		.stream_form = row->stream_form,
		.operation = row->submits,
		.bytes = watched->bytes,
		.stream_kind = watched->stream_class < sizeof(stream_kinds)
				       ? stream_kinds[watched->stream_class]
				       : STREAM_UNKNOWN,
	};

	set_kinds(watched, row, &call);
	verdict.source_kind = call.source_kind;
	verdict.destination_kind = call.destination_kind;
	verdict.waited =
		watched->returned && (finds_explicit(&call, row, &verdict) ||
				      finds(&call, row, call_ns, idle_ns,
					    watched->off_cpu_by[WATCH_PREEMPTED], &verdict));
	return verdict;
}
