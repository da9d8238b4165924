// SPDX-License-Identifier: MIT
/*
 * Records: the events of a trace to complete sequences of records, one for each context, which order.c
 * takes (verify.h). Knows the definitions. A record is held until those before it and the definitions of
 * its streams have come, so it does not matter in which order they do; what is still held at the end tells what
 * is missing.
 */
#include "verify/verify.h"

#include <inttypes.h>

#include "emit/record.h"
#include "memory.h"
#include "tracing/analysis/table.h"
#include "tracing/event_table.h"
#include "verify/findings.h"
#include "verify/held.h"
#include "verify/names.h"
#include "verify/operations.h"
#include "verify/order.h"

struct stream {
	struct trace_def_stream definition;
	uint32_t version;
};

struct context {
	uint32_t number;
	bool is_defined;
	struct order *order; /* NULL: no record yet */
	uint64_t next;       /* number of the record that order takes next */
	uint64_t end;        /* as order_end says; 0: it has not come */
	struct held held;
	struct operations operations;
};

struct process {
	char *name;
	struct table contexts, streams;
	struct names names;
	bool is_rewritten; /* there is a record of legacy order */
	struct trace_dump_begin dump;
	uint64_t dump_seen; /* events since then */
	bool is_dumping;
};

struct verify {
	struct verify_result result;
	struct process **processes;
	size_t process_count, process_capacity;
};

struct verify *verify_new(void)
{
	return memory_new(sizeof(struct verify));
}

static void free_process(struct process *process)
{
	for (size_t i = 0; i < process->contexts.count; i++) {
		struct context *context = table_at(&process->contexts, i);

		order_free(context->order);
		free(context->held.records);
		operations_done(&context->operations);
	}
	names_done(&process->names);
	table_done(&process->contexts);
	table_done(&process->streams);
	free(process->name);
	free(process);
}

struct verify *verify_free(struct verify *verify)
{
	if (!verify)
		return NULL;
	for (size_t i = 0; i < verify->process_count; i++)
		free_process(verify->processes[i]);
	for (size_t i = 0; i < verify->result.finding_count; i++)
		free(verify->result.findings[i].text);
	free(verify->result.findings);
	free(verify->processes);
	free(verify);
	return NULL;
}

static struct process *process_of(struct verify *verify, uint32_t number)
{
	while (number >= verify->process_count) {
		struct process *process = memory_new(sizeof(*process));

		process->contexts.data_size = sizeof(struct context);
		process->streams.data_size = sizeof(struct stream);
		names_start(&process->names);
		verify->processes =
			memory_grow(verify->processes, verify->process_count,
				    &verify->process_capacity, sizeof(verify->processes[0]));
		verify->processes[verify->process_count++] = process;
	}
	return verify->processes[number];
}

void verify_name_process(struct verify *verify, uint32_t number, const char *name)
{
	struct process *process = process_of(verify, number);

	free(process->name);
	process->name = memory_copy(name);
}

const char *verify_process_name(const struct verify *verify, uint32_t number)
{
	if (verify->process_count < 2 || number >= verify->process_count)
		return "";
	return verify->processes[number]->name ?: "";
}

const struct verify_result *verify_result(const struct verify *verify)
{
	return &verify->result;
}

static struct context *context_of(struct process *process, uint32_t number)
{
	bool is_new;
	struct context *context = table_add(&process->contexts, number, 0, &is_new);

	if (is_new) {
		context->number = number;
		context->next = 1;
		operations_start(&context->operations);
	}
	return context;
}

/* Is the stream known, so that the record that names it can be taken? */
static bool define(const struct process *process, struct context *context, uint64_t sequence,
		   uint32_t number)
{
	const struct stream *stream = table_find(&process->streams, number, 0);

	if (order_knows(context->order, number))
		return true;
	if (!stream)
		return false;
	order_define(context->order, sequence,
		     &(struct order_stream){.number = number,
					    .kind = stream->definition.kind,
					    .version = stream->version});
	return true;
}

/* Are all streams that it names known? Else one that is not is in *ret_unknown. */
static bool can_be_taken(const struct process *process, struct context *context,
			 const struct order_record *record, uint32_t *ret_unknown)
{
	switch (record->event) {
	case TRACE_ORDER_SUBMIT:
		*ret_unknown = record->submit.stream;
		return define(process, context, record->sequence, record->submit.stream);
	case TRACE_ORDER_BARRIER:
		*ret_unknown = record->barrier.from_stream;
		if (!define(process, context, record->sequence, record->barrier.from_stream))
			return false;
		*ret_unknown = record->barrier.to_stream;
		return define(process, context, record->sequence, record->barrier.to_stream);
	default:
		return true;
	}
}

static void take_ready(struct verify *verify, uint32_t process, struct context *context)
{
	uint32_t unknown;

	while (context->held.count && context->held.records[0].sequence <= context->next) {
		struct order_record record = context->held.records[0];

		if (record.sequence < context->next) {
			findings_say(&verify->result, VERIFY_CONTRADICTION, process,
				     context->number,
				     "record %" PRIu64 " of context %" PRIu32 " is there twice",
				     record.sequence, context->number);
		} else {
			if (!can_be_taken(verify->processes[process], context, &record, &unknown))
				return;
			order_take(context->order, &record);
			context->next++;
		}
		held_drop(&context->held);
	}
}

/* A definition has come that some may wait for. */
static void take_all_ready(struct verify *verify, uint32_t process)
{
	const struct table *contexts = &verify->processes[process]->contexts;

	for (size_t i = 0; i < contexts->count; i++)
		take_ready(verify, process, table_at(contexts, i));
}

static void take_end(struct verify *verify, uint32_t process, struct context *context,
		     uint64_t sequence)
{
	if (context->end)
		findings_say(&verify->result, VERIFY_CONTRADICTION, process, context->number,
			     "context %" PRIu32 " ends twice: records %" PRIu64 " and %" PRIu64,
			     context->number, context->end, sequence);
	else if (!sequence)
		findings_say(&verify->result, VERIFY_CONTRADICTION, process, context->number,
			     "the end of context %" PRIu32 " has number 0", context->number);
	else
		context->end = sequence;
}

static void take_record(struct verify *verify, uint32_t process, struct context *context,
			const struct order_record *record)
{
	held_add(&context->held, record);
	take_ready(verify, process, context);
}

/* ---- events ---- */

static void take_stream(struct process *process, const struct trace_def_stream *definition)
{
	bool is_new;
	struct stream *stream = table_add(&process->streams, definition->stream, 0, &is_new);

	if (!is_new && stream->definition.kind == definition->kind &&
	    stream->definition.handle == definition->handle &&
	    stream->definition.context == definition->context)
		return;
	stream->definition = *definition;
	stream->version++;
}

static void end_dump(struct verify *verify, uint32_t number, const struct trace_dump_end *end)
{
	struct process *process = verify->processes[number];

	if (!process->is_dumping || process->dump.dump != end->dump ||
	    process->dump_seen < end->events)
		findings_say(&verify->result, VERIFY_INCOMPLETE, number, 0,
			     "incomplete: dump %" PRIu32 " has %" PRIu64 " of %" PRIu32
			     " definitions and its end",
			     end->dump,
			     process->is_dumping && process->dump.dump == end->dump
				     ? process->dump_seen
				     : 0,
			     end->events);
	process->is_dumping = false;
}

/* False: it is none of the order. */
static bool take_order(struct verify *verify, uint32_t process, enum trace_event event,
		       const union trace_payload *payload)
{
	struct order_record record = {.event = event};
	struct context *context;
	uint32_t number;

	switch (event) {
	case TRACE_ORDER_TURN:
		record.turn = payload->order_turn;
		break;
	case TRACE_ORDER_BARRIER:
		record.barrier = payload->order_barrier;
		break;
	case TRACE_ORDER_SUBMIT:
		record.submit = payload->order_submit;
		break;
	case TRACE_ORDER_STREAM:
		record.stream = payload->order_stream;
		break;
	case TRACE_ORDER_RETURN:
		record.returned = payload->order_return;
		break;
	case TRACE_ORDER_END:
		break;
	default:
		return false;
	}
	/* All begin alike. */
	number = payload->order_end.context;
	record.sequence = payload->order_end.sequence;
	context = context_of(verify->processes[process], number);
	if (!context->order) {
		verify->processes[process]->is_rewritten = true;
		context->order = order_new(&verify->result, process, number);
		verify->result.contexts++;
	}
	if (event == TRACE_ORDER_SUBMIT)
		operations_take_order(&context->operations, &record.submit);
	else if (event == TRACE_ORDER_RETURN)
		operations_take_return(&context->operations, &record.returned);
	if (event == TRACE_ORDER_END)
		take_end(verify, process, context, record.sequence);
	else
		take_record(verify, process, context, &record);
	return true;
}

void verify_take(struct verify *verify, uint32_t number, enum trace_event event, const void *data)
{
	const union trace_payload *payload = data;
	struct process *process = process_of(verify, number);

	if (event != TRACE_DUMP_BEGIN && event != TRACE_DUMP_END)
		process->dump_seen++;
	if (take_order(verify, number, event, payload))
		return;
	switch (event) {
	case TRACE_DEF_STREAM:
		take_stream(process, &payload->def_stream);
		take_all_ready(verify, number);
		break;
	case TRACE_DEF_CONTEXT:
		context_of(process, payload->def_context.context)->is_defined = true;
		break;
	case TRACE_DEF_STRING:
		names_take_string(&process->names, &payload->def_string);
		break;
	case TRACE_DEF_FUNCTION:
		names_take_function(&process->names, &payload->def_function);
		break;
	case TRACE_SUBMIT:
		operations_take_submit(&context_of(process, payload->submit.context)->operations,
				       &payload->submit);
		break;
	case TRACE_SUBMIT_PEER:
		operations_take_peer(&context_of(process, payload->submit_peer.context)->operations,
				     &payload->submit_peer);
		break;
	case TRACE_RECORD:
		operations_take_event(&context_of(process, payload->record.context)->operations,
				      &payload->record);
		break;
	case TRACE_DUMP_BEGIN:
		process->dump = payload->dump_begin;
		process->dump_seen = 0;
		process->is_dumping = true;
		break;
	case TRACE_DUMP_END:
		end_dump(verify, number, &payload->dump_end);
		break;
	default:
		break;
	}
}

void verify_incomplete(struct verify *verify, char *text)
{
	findings_add(&verify->result,
		     &(struct verify_finding){.kind = VERIFY_INCOMPLETE, .text = text});
}

/* ---- the end ---- */

static void say_missing(struct verify *verify, uint32_t process, const struct context *context,
			uint64_t first, uint64_t last)
{
	if (first == last)
		findings_say(&verify->result, VERIFY_INCOMPLETE, process, context->number,
			     "incomplete: record %" PRIu64 " of context %" PRIu32 " is missing",
			     first, context->number);
	else
		findings_say(&verify->result, VERIFY_INCOMPLETE, process, context->number,
			     "incomplete: records %" PRIu64 " to %" PRIu64 " of context %" PRIu32
			     " are missing",
			     first, last, context->number);
}

/* Order has not come to this record: those before it, or the definitions of its streams, are missing. */
static void say_held(struct verify *verify, uint32_t process, struct context *context)
{
	const struct order_record *record = &context->held.records[0];
	uint32_t unknown = 0;

	if (record->sequence > context->next) {
		say_missing(verify, process, context, context->next, record->sequence - 1);
		return;
	}
	(void)can_be_taken(verify->processes[process], context, record, &unknown);
	findings_say(&verify->result, VERIFY_INCOMPLETE, process, context->number,
		     "incomplete: record %" PRIu64 " of context %" PRIu32 " names stream %" PRIu32
		     ", which is not defined",
		     record->sequence, context->number, unknown);
}

/* True: no record is missing. */
static bool finish_context(struct verify *verify, uint32_t process, struct context *context)
{
	struct verify_result *result = &verify->result;

	if (!context->order)
		return true;
	if (!context->is_defined)
		findings_say(result, VERIFY_INCOMPLETE, process, context->number,
			     "incomplete: context %" PRIu32 " is not defined", context->number);
	if (context->held.count)
		say_held(verify, process, context);
	else
		order_finish(context->order);
	if (!context->end)
		findings_say(result, VERIFY_INCOMPLETE, process, context->number,
			     "incomplete: the end of context %" PRIu32 " is missing",
			     context->number);
	else if (!context->held.count && context->next < context->end)
		say_missing(verify, process, context, context->next, context->end - 1);
	else if (context->next > context->end)
		findings_say(result, VERIFY_CONTRADICTION, process, context->number,
			     "record %" PRIu64 " of context %" PRIu32 " is behind its end",
			     context->next - 1, context->number);
	return context->end && !context->held.count && context->next >= context->end;
}

static void word_edges(struct verify *verify)
{
	for (size_t i = 0; i < verify->result.finding_count; i++) {
		struct verify_finding *finding = &verify->result.findings[i];
		_cleanup_free_ char *before = NULL, *after = NULL;
		const struct process *process;

		if (finding->text)
			continue;
		process = verify->processes[finding->process];
		before = names_words(&process->names, finding->before.function);
		after = names_words(&process->names, finding->after.function);
		finding->text = findings_words(finding, before, after);
	}
}

void verify_finish(struct verify *verify)
{
	for (size_t i = 0; i < verify->process_count; i++) {
		struct process *process = verify->processes[i];

		if (process->is_dumping)
			findings_say(&verify->result, VERIFY_INCOMPLETE, (uint32_t)i, 0,
				     "incomplete: the end of dump %" PRIu32 " is missing",
				     process->dump.dump);
		for (size_t k = 0; k < process->contexts.count; k++) {
			struct context *context = table_at(&process->contexts, k);
			bool is_whole = finish_context(verify, (uint32_t)i, context);

			/* Of a process that does not rewrite nothing is asked. */
			if (process->is_rewritten)
				operations_finish(&context->operations, &verify->result,
						  (uint32_t)i, context->number, &process->names,
						  is_whole);
		}
	}
	word_edges(verify);
}

bool verify_is_proved(const struct verify *verify, bool may_be_empty)
{
	uint64_t findings = 0;

	for (size_t i = 0; i < VERIFY_FINDING_KINDS; i++)
		findings += verify->result.counts[i];
	return !findings && (verify->result.contexts || may_be_empty);
}
