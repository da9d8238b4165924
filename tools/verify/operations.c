// SPDX-License-Identifier: MIT
/* Operations and their records (operations.h). A pair that is complete is forgotten, so memory grows with what waits only. */
#include "verify/operations.h"

#include <inttypes.h>
#include <stdlib.h>

#include "emit/record.h"
#include "memory.h"
#include "verify/findings.h"

#define SWEEP_FROM 4096

enum { MARK_DONE, MARK_WAITS };

/* What is known of one record of legacy order. */
struct pair {
	bool has_record, has_operation;
	bool is_other; /* the two do not tell of the same call, or there are several operations */
	bool may_be_alone; /* the record of an event: where nobody knows what it stands for, the trace has none */
	uint32_t stream, function; /* as the record says */
	struct bare_operation operation;
};

void operations_start(struct operations *operations)
{
	operations->pairs.data_size = sizeof(struct pair);
}

void operations_done(struct operations *operations)
{
	table_done(&operations->pairs);
	free(operations->bare);
}

static struct pair *pair_of(struct operations *operations, uint64_t sequence, uint32_t context)
{
	bool is_new;
	struct pair *pair = table_add(&operations->pairs, sequence, context, &is_new);

	if (is_new)
		table_entry_of(pair)->mark = MARK_WAITS;
	return pair;
}

static void forget(struct operations *operations, struct pair *pair)
{
	table_entry_of(pair)->mark = MARK_DONE;
	operations->paired++;
	if (operations->paired < SWEEP_FROM || operations->paired < operations->pairs.count / 2)
		return;
	table_sweep(&operations->pairs, MARK_WAITS);
	operations->paired = 0;
}

static void match(struct operations *operations, struct pair *pair)
{
	const struct bare_operation *operation = &pair->operation;

	if (!pair->has_record || !pair->has_operation || pair->is_other)
		return;
	if ((!operation->is_peer && pair->stream != operation->stream) ||
	    (!operation->is_event && pair->function != operation->function))
		pair->is_other = true;
	else
		forget(operations, pair);
}

/* `context`: 0, or of a copy between contexts that where its stream is. */
static void take(struct operations *operations, const struct bare_operation *operation,
		 uint64_t order, uint32_t context)
{
	struct pair *pair;

	operations->counts.ordered++;
	if (order) {
		pair = pair_of(operations, order, context);
		/* Also one that was complete. */
		pair->is_other |= pair->has_operation;
		table_entry_of(pair)->mark = MARK_WAITS;
		pair->has_operation = true;
		pair->operation = *operation;
		match(operations, pair);
		return;
	}
	operations->bare_all++;
	if (operations->bare_count == VERIFY_FINDINGS_MAX)
		return;
	operations->bare = memory_grow(operations->bare, operations->bare_count,
				       &operations->bare_capacity, sizeof(operations->bare[0]));
	operations->bare[operations->bare_count++] = *operation;
}

/* Whether the legacy stream is ordered with it. Of a stream that nobody saw made only the driver knows; traces before there were `kind` and `context` tell nothing. */
static bool is_ordered(uint32_t kind, uint32_t context)
{
	return kind != STREAM_NON_BLOCKING && (kind != STREAM_UNKNOWN || context);
}

void operations_take_submit(struct operations *operations, const struct trace_submit *submit)
{
	if (!submit->order && !is_ordered(submit->kind, submit->context)) {
		operations->counts.elsewhere++;
		return;
	}
	if (!submit->order && submit->nothing) {
		operations->counts.without_effect++;
		return;
	}
	take(operations,
	     &(struct bare_operation){.stream = submit->stream,
				      .function = submit->function,
				      .number = submit->number},
	     submit->order, 0);
}

void operations_take_event(struct operations *operations, const struct trace_record *record)
{
	if (record->order || is_ordered(record->kind, record->context))
		take(operations,
		     &(struct bare_operation){
			     .is_event = true, .stream = record->stream, .number = record->number},
		     record->order, 0);
}

void operations_take_peer(struct operations *operations, const struct trace_submit_peer *peer)
{
	take(operations,
	     &(struct bare_operation){.is_peer = true,
				      .stream = peer->stream,
				      .function = peer->function,
				      .number = peer->number},
	     peer->order, peer->of_context);
}

void operations_take_order(struct operations *operations, const struct trace_order_submit *order)
{
	struct pair *pair;

	if (order->failed)
		return;
	pair = order->peer_of ? pair_of(operations, order->peer_of, order->peer_of_context)
			      : pair_of(operations, order->sequence, 0);
	pair->has_record = true;
	pair->may_be_alone = order->operation == OPERATION_UNKNOWN;
	pair->stream = order->stream;
	pair->function = order->function;
	match(operations, pair);
}

void operations_take_return(struct operations *operations,
			    const struct trace_order_return *returned)
{
	struct pair *pair = table_find(&operations->pairs, returned->of, 0);

	if (returned->failed && pair && pair->has_record && !pair->has_operation)
		forget(operations, pair);
}

/* ---- the end ---- */

static char *operation_words(const struct bare_operation *operation, const struct names *names)
{
	_cleanup_free_ char *function = NULL;

	if (operation->is_event)
		return memory_format("the record of an event on stream %" PRIu32
				     " behind its operation %" PRIu64,
				     operation->stream, operation->number);
	function = names_words(names, operation->function);
	return memory_format("operation %" PRIu64 " of stream %" PRIu32 " in %s%s",
			     operation->number, operation->stream, function,
			     operation->is_peer ? ", a copy between contexts," : "");
}

static void say_pair(struct verify_result *result, uint32_t process, uint32_t context,
		     const struct names *names, uint64_t sequence, uint32_t of_context,
		     const struct pair *pair)
{
	_cleanup_free_ char *of =
		of_context ? memory_format(" of context %" PRIu32, of_context) : memory_copy("");
	_cleanup_free_ char *operation = operation_words(&pair->operation, names);
	_cleanup_free_ char *function = names_words(names, pair->function);

	if (!pair->has_operation)
		findings_say(result, VERIFY_INCOMPLETE, process, context,
			     "incomplete: %s %" PRIu64 " of context %" PRIu32
			     ", %s on stream %" PRIu32 ", is of no operation in the trace",
			     of_context ? "a record that names record" : "record", sequence,
			     of_context ?: context, function, pair->stream);
	else if (pair->has_record)
		findings_say(result, VERIFY_CONTRADICTION, process, context,
			     "context %" PRIu32 ": %s names record %" PRIu64 "%s"
			     ", which is another one's: %s on stream %" PRIu32,
			     context, operation, sequence, of, function, pair->stream);
	else
		findings_say(result, VERIFY_OPERATION, process, context,
			     "context %" PRIu32 ": %s has no order record, though it names %" PRIu64
			     "%s: nothing proves its place",
			     context, operation, sequence, of);
}

void operations_finish(const struct operations *operations, struct verify_result *result,
		       uint32_t process, uint32_t context, const struct names *names, bool is_whole)
{
	result->submissions.ordered += operations->counts.ordered;
	result->submissions.elsewhere += operations->counts.elsewhere;
	result->submissions.without_effect += operations->counts.without_effect;
	for (size_t i = 0; i < operations->bare_count; i++) {
		_cleanup_free_ char *words = operation_words(&operations->bare[i], names);

		findings_say(result, VERIFY_OPERATION, process, context,
			     "context %" PRIu32
			     ": %s has no order record: nothing proves its place",
			     context, words);
	}
	result->counts[VERIFY_OPERATION] += operations->bare_all - operations->bare_count;
	for (size_t i = 0; i < operations->pairs.count; i++) {
		const struct pair *pair = table_at(&operations->pairs, i);
		const struct table_entry *entry = table_entry_of(pair);

		if (entry->mark == MARK_DONE || (!pair->has_operation && pair->may_be_alone) ||
		    (!pair->has_record && !is_whole))
			continue;
		say_pair(result, process, context, names, entry->key, (uint32_t)entry->key2, pair);
	}
}
