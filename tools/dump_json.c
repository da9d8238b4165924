// SPDX-License-Identifier: MIT
/*
 * Dump, JSON: one object, described by slipstream-dump.schema.json beside this file (a test keeps the two in step). Times and sizes are
 * integers; what is not known is null. Called by the dump.
 */
#include "dump.h"
#include "memory.h"
#include "report.h"
#include "text.h"

/* JSON integers are signed 64 bits in jansson. */
static json_t *integer(uint64_t value)
{
	return memory_check(json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value));
}

static json_t *string(const char *raw)
{
	_cleanup_free_ char *text = raw ? text_printable(raw, true) : NULL;

	return text ? memory_check(json_string(text)) : json_null();
}

static void set(json_t *object, const char *key, json_t *value)
{
	memory_check(json_object_set_new(object, key, value) ? NULL : object);
}

static json_t *append_object(json_t *array)
{
	json_t *object = memory_check(json_object());

	memory_check(json_array_append_new(array, object) ? NULL : array);
	return object;
}

static json_t *new_array(json_t *object, const char *key)
{
	json_t *array = memory_check(json_array());

	set(object, key, array);
	return array;
}

static void set_setting(json_t *object, const char *key, const struct dump *dump, const char *name)
{
	_cleanup_free_ char *value = dump_setting(dump->file, name);

	set(object, key, string(value));
}

/* When, and how long ago that is for who still runs. */
static void set_since(json_t *object, const char *at, const char *ago, const struct dump *dump,
		      const struct dump_since *since)
{
	uint64_t ns = since->known && dump->now_ns > since->at_ns ? dump->now_ns - since->at_ns : 0;

	set(object, at, since->known ? integer(since->at_ns) : json_null());
	set(object, ago, since->known && dump->runs ? integer(ns) : json_null());
}

static void set_process(json_t *all, const struct dump *dump)
{
	const struct record_file *file = dump->file;
	const struct record_header *header = file->header;
	json_t *process = memory_check(json_object());

	set(all, "process", process);
	set(process, "pid", integer(dump->pid));
	set(process, "command", string(record_string_text(file, header->command)));
	set(process, "exe", string(record_string_text(file, header->exe)));
	set(process, "state",
	    string(dump->runs                             ? "running"
		   : header->state == RECORD_STATE_EXITED ? "exited"
							  : "gone"));
	set(process, "start_ns", integer(header->start_ns));
	set(process, "threads", dump->runs ? integer(dump->tasks.count) : json_null());
	set(process, "driver", string(record_string_text(file, header->driver)));
	set(process, "driver_version",
	    header->driver_version > 0 ? integer((uint64_t)header->driver_version) : json_null());
	set(process, "shim_version", string(record_string_text(file, header->shim_version)));
	set(process, "record", string(dump->path));
	set_setting(process, "mode", dump, "MODE");
	set_setting(process, "fix", dump, "FIX");
	set_setting(process, "relax", dump, "RELAX");
}

static void set_notes(json_t *all, const struct dump *dump)
{
	const struct record_list *list = &dump->file->notes;
	json_t *notes = new_array(all, "notes");

	for (size_t i = 0; i < list->count; i++) {
		const struct record_note *note = (const void *)list->records[i];
		const char *text = record_string_text(dump->file, note->text);
		json_t *object;

		if (!dump_note_matters(note))
			continue;
		object = append_object(notes);
		set(object, "kind", string(report_note_code(note->code)));
		set(object, "text", string(text ? text : ""));
		set(object, "count", integer(note->count));
	}
}

static void set_kernel(json_t *object, const struct dump_task *task)
{
	json_t *kernel;
	char state[2] = {task ? task->state : '?', '\0'};

	if (!task) {
		set(object, "kernel", json_null());
		return;
	}
	kernel = memory_check(json_object());
	set(object, "kernel", kernel);
	set(kernel, "name", string(task->name));
	set(kernel, "state", task->state == '?' ? json_null() : string(state));
	set(kernel, "wchan", string(task->wchan));
	set(kernel, "syscall", string(task->syscall));
}

static void set_threads(json_t *all, const struct dump *dump)
{
	json_t *threads = new_array(all, "threads");

	for (size_t i = 0; i < dump->thread_count; i++) {
		const struct dump_thread *thread = &dump->threads[i];
		json_t *object = append_object(threads), *flight;

		set(object, "thread", integer(thread->thread));
		set(object, "function", string(thread->function));
		set(object, "in_driver", json_boolean(thread->in_driver));
		set_since(object, "since_ns", "for_ns", dump, &thread->since);
		set(object, "lock",
		    thread->lock ? string(thread->lock == RECORD_LOCK_HOLDS ? "holds" : "waits")
				 : json_null());
		set(object, "lock_context",
		    thread->lock ? integer(thread->lock_context) : json_null());
		set_since(object, "lock_since_ns", "lock_for_ns", dump, &thread->lock_since);
		set(object, "waits_for_gates", json_boolean(thread->drains));
		set_since(object, "gates_since_ns", "gates_for_ns", dump, &thread->drains_since);
		flight = new_array(object, "in_flight");
		for (size_t k = 0; k < ARRAY_SIZE(thread->in_flight); k++)
			if (thread->in_flight[k])
				memory_check(
					json_array_append_new(flight, integer(thread->in_flight[k]))
						? NULL
						: flight);
		set_kernel(object, thread->task);
	}
}

static bool is_shown(const struct dump *dump, const struct dump_task *task)
{
	for (size_t i = 0; i < dump->thread_count; i++)
		if (dump->threads[i].task == task)
			return true;
	return false;
}

static void set_others(json_t *all, const struct dump *dump)
{
	json_t *others = new_array(all, "other_threads");

	for (size_t i = 0; i < dump->tasks.count; i++) {
		const struct dump_task *task = &dump->tasks.items[i];
		json_t *object;

		if (is_shown(dump, task))
			continue;
		object = append_object(others);
		set(object, "thread", integer(task->thread));
		set_kernel(object, task);
	}
}

static void set_contexts(json_t *all, const struct dump *dump)
{
	json_t *contexts = new_array(all, "contexts");

	for (size_t i = 0; i < dump->context_count; i++) {
		const struct dump_context *context = &dump->contexts[i];
		json_t *object = append_object(contexts);

		set(object, "context", integer(context->number));
		set(object, "device",
		    context->device >= 0 ? integer((uint64_t)context->device) : json_null());
		set(object, "turn", string(context->in_substitute ? "substitute" : "native"));
		set(object, "turns", integer(context->turns));
		set(object, "in_flight", integer(context->in_flight));
		set(object, "lock_holder",
		    context->holder ? integer(context->holder->thread) : json_null());
		set(object, "lock_waiters", integer(context->waiting));
	}
}

static void set_gates(json_t *all, const struct dump *dump)
{
	json_t *gates = new_array(all, "gates");

	for (size_t i = 0; i < dump->gate_count; i++) {
		const struct record_gate *gate = dump->gates[i].record;
		const struct dump_since since = {.known = true, .at_ns = gate->begin_ns};
		json_t *object = append_object(gates);

		set(object, "thread", integer(dump->gates[i].thread));
		set(object, "state", string(dump_gate_state(gate->state)));
		set(object, "context",
		    dump->gates[i].context ? integer(dump->gates[i].context) : json_null());
		set(object, "stream", string(dump_gate_stream(dump, gate)));
		set(object, "direction", string(gate->to_device ? "to-device" : "from-device"));
		set(object, "bytes", integer(gate->bytes));
		set_since(object, "since_ns", "for_ns", dump, &since);
		set(object, "pieces", integer(gate->pieces));
		set(object, "submitted", integer(gate->submitted));
		set(object, "confirmed", integer(gate->confirmed));
	}
}

static void set_batches(json_t *held, const struct dump *dump)
{
	json_t *batches = new_array(held, "batches");

	for (uint32_t i = 0; dump->held && i < dump->held->closed && i < HELD_BATCHES; i++) {
		const struct record_stream *stream = dump_stream(dump, dump->held->batch[i].stream);
		json_t *object = append_object(batches);

		set(object, "streams",
		    dump->held->batch[i].streams ? integer(dump->held->batch[i].streams)
						 : json_null());
		set(object, "stream",
		    dump->held->batch[i].stream ? integer(dump->held->batch[i].stream)
						: json_null());
		set(object, "stream_kind",
		    stream ? string(report_stream_kind(stream->kind)) : json_null());
	}
}

static void set_held(json_t *all, const struct dump *dump)
{
	json_t *held;

	if (!dump->held) {
		set(all, "held", json_null());
		return;
	}
	held = memory_check(json_object());
	set(all, "held", held);
	for (enum held_kind kind = 0; kind < HELD_KINDS; kind++) {
		json_t *object = memory_check(json_object());

		set(held, dump_held_kind(kind), object);
		set(object, "blocks", integer(dump->held->kind[kind].blocks));
		set(object, "bytes", integer(dump->held->kind[kind].bytes));
		set(object, "parked", integer(dump->held->kind[kind].parked));
	}
	set(held, "cached_bytes", integer(dump->cached_bytes));
	set_batches(held, dump);
}

json_t *dump_json(const struct dump *dump)
{
	json_t *all = memory_check(json_object());

	set(all, "version", string(SLIPSTREAM_VERSION));
	set_process(all, dump);
	set_notes(all, dump);
	set_threads(all, dump);
	set_contexts(all, dump);
	set_gates(all, dump);
	set_held(all, dump);
	set_others(all, dump);
	return all;
}
