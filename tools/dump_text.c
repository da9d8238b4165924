// SPDX-License-Identifier: MIT
/*
 * Dump, text: what people read. Called by the dump. Names come from the program, so all of them are escaped.
 */
#include <inttypes.h>

#include "dump.h"
#include "memory.h"
#include "report.h"
#include "text.h"

#define OTHERS_SHOWN 16

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

/* "for 3.20 s"; of a process that ended, when it began; "" if not known. The caller frees. */
static char *duration(const struct dump *dump, const struct dump_since *since)
{
	uint64_t start_ns = dump->file->header->start_ns;
	char figure[TEXT_FIGURE];

	if (!since->known)
		return memory_copy("");
	if (dump->runs)
		return memory_format(
			" for %s",
			text_ns(dump->now_ns > since->at_ns ? dump->now_ns - since->at_ns : 0,
				figure));
	return memory_format(
		" since %s after the start",
		text_ns(since->at_ns > start_ns ? since->at_ns - start_ns : 0, figure));
}

static void print_setting(const struct dump *dump, const char *name, const char *words, FILE *out)
{
	_cleanup_free_ char *raw = dump_setting(dump->file, name);
	_cleanup_free_ char *value = raw && *raw ? text_printable(raw, false) : NULL;

	if (value)
		(void)fprintf(out, "%s%s", words, value);
}

static void print_process(const struct dump *dump, FILE *out)
{
	const struct record_header *header = dump->file->header;
	const char *raw = record_string_text(dump->file, header->command);
	_cleanup_free_ char *command = text_printable(raw ? raw : "unknown", false);
	_cleanup_free_ char *path = text_printable(dump->path, false);
	char figure[TEXT_FIGURE];

	(void)fprintf(out, "Process %" PRIu32 ": %s\n", dump->pid, command);
	if (dump->runs)
		(void)fprintf(out, "  runs, with %zu thread%s; its first driver call was %s ago\n",
			      dump->tasks.count, plural(dump->tasks.count),
			      text_ns(dump->now_ns > header->start_ns
					      ? dump->now_ns - header->start_ns
					      : 0,
				      figure));
	else
		(void)fprintf(out, "  %s; this is what stood there at its end\n",
			      header->state == RECORD_STATE_EXITED
				      ? "exited"
				      : "is gone, without its exit handlers");
	print_setting(dump, "MODE", "  mode ", out);
	print_setting(dump, "FIX", ", rewrites ", out);
	print_setting(dump, "RELAX", ", relaxed ", out);
	(void)fprintf(out, "\n  record file %s\n", path);
}

static void print_notes(const struct dump *dump, FILE *out)
{
	const struct record_list *list = &dump->file->notes;
	bool any = false;

	for (size_t i = 0; i < list->count; i++) {
		const struct record_note *note = (const void *)list->records[i];
		const char *raw = record_string_text(dump->file, note->text);
		_cleanup_free_ char *text = text_printable(raw ? raw : "", false);

		if (!dump_note_matters(note))
			continue;
		if (!any)
			(void)fputs("\nOff, left to the driver, not seen\n", out);
		any = true;
		(void)fprintf(out, "  %s: %s (%" PRIu64 "x)\n", report_note_code(note->code), text,
			      note->count);
	}
}

/* "python3, state S, waits in futex_wait_queue, system call futex"; the caller frees. */
static char *kernel_words(const struct dump_task *task)
{
	_cleanup_free_ char *wchan = task->wchan ? text_printable(task->wchan, false) : NULL;
	_cleanup_free_ char *name = task->name ? text_printable(task->name, false) : NULL;

	return memory_format("%s, state %c%s%s%s%s", name ? name : "?", task->state,
			     wchan ? ", waits in " : "", wchan ? wchan : "",
			     task->syscall ? ", system call " : "",
			     task->syscall ? task->syscall : "");
}

static void print_lock(const struct dump *dump, const struct dump_thread *thread, FILE *out)
{
	_cleanup_free_ char *waits = duration(dump, &thread->lock_since);

	if (thread->lock == RECORD_LOCK_HOLDS)
		(void)fprintf(out, "    holds the submission lock of context %" PRIu32 "\n",
			      thread->lock_context);
	if (thread->lock == RECORD_LOCK_WAITS)
		(void)fprintf(out, "    waits%s for the submission lock of context %" PRIu32 "\n",
			      waits, thread->lock_context);
	for (size_t i = 0; i < ARRAY_SIZE(thread->in_flight); i++)
		if (thread->in_flight[i])
			(void)fprintf(out,
				      "    in flight in context %" PRIu32
				      ", without its submission lock\n",
				      thread->in_flight[i]);
}

static void print_thread(const struct dump *dump, const struct dump_thread *thread, FILE *out)
{
	_cleanup_free_ char *function =
		text_printable(thread->function ? thread->function : "no call", false);
	_cleanup_free_ char *since = duration(dump, &thread->since);
	_cleanup_free_ char *drains = duration(dump, &thread->drains_since);
	_cleanup_free_ char *kernel = thread->task ? kernel_words(thread->task) : NULL;

	(void)fprintf(out, "  thread %" PRIu32 ": %s, in the %s%s\n", thread->thread, function,
		      thread->in_driver ? "driver" : "library", since);
	print_lock(dump, thread, out);
	if (thread->drains)
		(void)fprintf(out, "    waits%s until no staged copy is behind its gate\n", drains);
	if (kernel)
		(void)fprintf(out, "    kernel: %s\n", kernel);
	else if (dump->runs)
		(void)fputs("    kernel: there is no such thread any more\n", out);
}

static bool records_calls(const struct dump *dump)
{
	return dump->file->clocks.count != 0;
}

static void print_threads(const struct dump *dump, FILE *out)
{
	(void)fprintf(out, "\nInside driver calls%s\n", dump->runs ? " now" : "");
	if (!records_calls(dump))
		(void)fputs("  not recorded: that is done in mode fix only\n", out);
	else if (!dump->thread_count)
		(void)fputs("  no thread (short launches and functions that are only counted are "
			    "not recorded)\n",
			    out);
	for (size_t i = 0; i < dump->thread_count; i++)
		print_thread(dump, &dump->threads[i], out);
}

static void print_contexts(const struct dump *dump, FILE *out)
{
	if (!dump->context_count)
		return;
	(void)fputs("\nRewritten default streams\n", out);
	for (size_t i = 0; i < dump->context_count; i++) {
		const struct dump_context *context = &dump->contexts[i];

		(void)fprintf(out, "  context %" PRIu32, context->number);
		if (context->device >= 0)
			(void)fprintf(out, ", device %" PRId32, context->device);
		(void)fprintf(out,
			      ": turn %s after %" PRIu64 " change%s, %zu operation%s in flight, "
			      "submission lock ",
			      context->in_substitute ? "substitute" : "native", context->turns,
			      plural(context->turns), context->in_flight,
			      plural(context->in_flight));
		if (context->holder)
			(void)fprintf(out, "held by thread %" PRIu32, context->holder->thread);
		else
			(void)fprintf(out, "free");
		if (context->waiting)
			(void)fprintf(out, ", %zu thread%s for it", context->waiting,
				      context->waiting == 1 ? " waits" : "s wait");
		(void)fputs("\n", out);
	}
}

static void print_gates(const struct dump *dump, FILE *out)
{
	static const char *const states[] = {
		[GATE_WAITS] = "its gate is not in the stream yet",
		[GATE_PLACED] = "its gate is in the stream, which has not come to it",
		[GATE_ARRIVED] = "the stream stands at its gate",
		[GATE_GIVEN_UP] = "it is given up, and waits for what was submitted",
	};

	if (!dump->gate_count)
		return;
	(void)fputs("\nStaged copies of many pieces\n", out);
	for (size_t i = 0; i < dump->gate_count; i++) {
		const struct record_gate *gate = dump->gates[i].record;
		const struct dump_since since = {.known = true, .at_ns = gate->begin_ns};
		_cleanup_free_ char *age = duration(dump, &since);
		char bytes[TEXT_FIGURE];

		(void)fprintf(out,
			      "  thread %" PRIu32 ":%s, %s %s the device, %" PRIu32 " of %" PRIu32
			      " pieces confirmed, %" PRIu32 " submitted; %s (%s stream",
			      dump->gates[i].thread, age, text_bytes(gate->bytes, bytes),
			      gate->to_device ? "to" : "from", gate->confirmed, gate->pieces,
			      gate->submitted,
			      gate->state < ARRAY_SIZE(states) && states[gate->state]
				      ? states[gate->state]
				      : "the state of its gate is not known",
			      dump_gate_stream(dump, gate));
		if (dump->gates[i].context)
			(void)fprintf(out, " of context %" PRIu32, dump->gates[i].context);
		(void)fputs(")\n", out);
	}
}

static void print_batches(const struct dump *dump, FILE *out)
{
	for (uint32_t i = 0; i < dump->held->closed && i < HELD_BATCHES; i++) {
		uint32_t streams = dump->held->batch[i].streams;
		const struct record_stream *stream = dump_stream(dump, dump->held->batch[i].stream);

		(void)fprintf(out, "  batch %" PRIu32 " waits for ", i + 1);
		if (!streams)
			(void)fprintf(out, "more streams than can be told\n");
		else
			(void)fprintf(out, "%" PRIu32 " stream%s, %s%s stream %" PRIu32 "\n",
				      streams, plural(streams), streams > 1 ? "one of them " : "",
				      report_stream_kind(stream ? stream->kind : STREAM_UNKNOWN),
				      dump->held->batch[i].stream);
	}
}

static void print_held(const struct dump *dump, FILE *out)
{
	char bytes[TEXT_FIGURE];
	bool any = dump->cached_bytes;

	for (enum held_kind kind = 0; dump->held && kind < HELD_KINDS; kind++)
		any |= dump->held->kind[kind].blocks != 0;
	if (!any)
		return;
	(void)fputs("\nFreed memory that is held\n", out);
	for (enum held_kind kind = 0; dump->held && kind < HELD_KINDS; kind++)
		if (dump->held->kind[kind].blocks)
			(void)fprintf(out,
				      "  %s: %" PRIu64 " block%s, %s; %" PRIu64
				      " not yet proven to be unused\n",
				      dump_held_kind(kind), dump->held->kind[kind].blocks,
				      plural(dump->held->kind[kind].blocks),
				      text_bytes(dump->held->kind[kind].bytes, bytes),
				      dump->held->kind[kind].parked);
	if (dump->cached_bytes)
		(void)fprintf(out, "  pinned, in caches of threads: %s\n",
			      text_bytes(dump->cached_bytes, bytes));
	if (dump->held)
		print_batches(dump, out);
}

static bool is_inside(const struct dump *dump, const struct dump_task *task)
{
	for (size_t i = 0; i < dump->thread_count; i++)
		if (dump->threads[i].task == task)
			return true;
	return false;
}

static void print_others(const struct dump *dump, FILE *out)
{
	size_t shown = 0, others = 0;

	for (size_t i = 0; i < dump->tasks.count; i++) {
		const struct dump_task *task = &dump->tasks.items[i];
		_cleanup_free_ char *words = NULL;

		if (is_inside(dump, task))
			continue;
		if (!others++)
			(void)fputs("\nOther threads, as the kernel sees them\n", out);
		if (shown == OTHERS_SHOWN)
			continue;
		words = kernel_words(task);
		(void)fprintf(out, "  thread %" PRIu32 ": %s\n", task->thread, words);
		shown++;
	}
	if (others > shown)
		(void)fprintf(out, "  [... %zu more]\n", others - shown);
}

void dump_write_text(const struct dump *dump, FILE *out)
{
	print_process(dump, out);
	print_notes(dump, out);
	print_threads(dump, out);
	print_contexts(dump, out);
	print_gates(dump, out);
	print_held(dump, out);
	if (records_calls(dump) && !dump->thread_count && !dump->gate_count)
		(void)fputs("\nNothing of mode fix is held up.\n", out);
	print_others(dump, out);
}
