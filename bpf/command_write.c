// SPDX-License-Identifier: MIT
/* Writer (command_write.h). Called by the watch mode of slipstream-witness and by its unit test. */
#include "command_write.h"

#include "command_held.h"
#include "command_process.h"
#include "command_rule.h"
#include "emit/record.h"
#include "emit/usdt_how.h"
#include "memory.h"
#include "sum.h"
#include "witness_summary.h"

/* What goes from the watch into the trace and the summary as it is. */
_Static_assert((int)WATCH_BY_UNKNOWN == (int)WITNESS_BY_UNKNOWN &&
		       (int)WATCH_BY_WRAPPER == (int)WITNESS_BY_WRAPPER &&
		       (int)WATCH_BY_SHIM == (int)WITNESS_BY_SHIM &&
		       (int)WATCH_BY_LIBRARY == (int)WITNESS_BY_LIBRARY &&
		       (int)WATCH_BY_PROGRAM == (int)WITNESS_BY_PROGRAM &&
		       (int)WATCH_BYS == (int)WITNESS_BYS,
	       "both name callers alike");
_Static_assert((int)WATCH_STREAM_OTHER + 1 == (int)WITNESS_STREAM_CLASSES &&
		       (int)WATCH_UNKNOWN + 1 == (int)WITNESS_DIRECTIONS,
	       "the summary has words for every kind");
_Static_assert((int)USDT_REWRITE_HIT == (int)TRACE_REWRITTEN_HIT &&
		       (int)USDT_REWRITE_PARKED == (int)TRACE_REWRITTEN_PARKED &&
		       (int)USDT_REWRITE_STAGED == (int)TRACE_REWRITTEN_STAGED,
	       "claims are told alike by probes and in a trace");

struct writer {
	struct writer_options options;
	struct text_out text;
	struct module_files files;
	struct told **processes; /* by id */
	size_t process_count, process_capacity;
	struct held_queue held;
	uint64_t last_ns;
};

struct writer *writer_new(const struct writer_options *options)
{
	struct writer *writer = memory_new(sizeof(*writer));

	writer->options = *options;
	if (options->file)
		text_out_init(&writer->text, options->file, options->host);
	return writer;
}

struct writer *writer_free(struct writer *writer)
{
	if (!writer)
		return NULL;
	held_done(&writer->held);
	for (size_t i = 0; i < writer->process_count; i++)
		told_free(writer->processes[i]);
	free(writer->processes);
	module_files_done(&writer->files);
	free(writer);
	return NULL;
}

/* ---- processes ---- */

static struct told *process_of(struct writer *writer, pid_t id)
{
	size_t low = 0, high = writer->process_count;
	struct told *process;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (writer->processes[middle]->id < id)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < writer->process_count && writer->processes[low]->id == id)
		return writer->processes[low];
	process = told_new(id, watch_process_of(writer->options.watch, id));
	writer->processes = memory_grow(writer->processes, writer->process_count,
					&writer->process_capacity, sizeof(writer->processes[0]));
	memmove(&writer->processes[low + 1], &writer->processes[low],
		(writer->process_count++ - low) * sizeof(writer->processes[0]));
	return writer->processes[low] = process;
}

static struct told_out out_of(struct writer *writer, struct told *process, uint64_t ns,
			      pid_t thread)
{
	struct told_out out = {
		.process = process,
		.text = writer->options.file ? &writer->text : NULL,
		.ns = ns,
		.thread = (uint32_t)thread,
	};
	const struct watch_library *libraries;

	if (!process->is_written) {
		size_t count = watch_libraries(writer->options.watch, &libraries);

		told_write_begin(&out, count ? libraries[0].path : NULL, writer->options.whole);
	}
	return out;
}

/* ---- calls ---- */

void writer_call(struct writer *writer, const struct watch_call *call)
{
	struct told *process;
	struct held item = {.ns = call->left_ns, .call = *call};

	if (call->function >= WATCH_FUNCTION_COUNT)
		return;
	process = process_of(writer, call->process);
	process->shim |= call->shim;
	item.process = process;
	item.site = told_site(process, writer->options.watch, &writer->files, call->frames,
			      call->frame_count, call->entered_ns);
	held_push(&writer->held, &item);
}

void writer_claim(struct writer *writer, const struct watch_claim *claim)
{
	struct held item = {.ns = claim->ns, .is_claim = true, .claim = *claim};

	if (claim->function >= WATCH_FUNCTION_COUNT)
		return;
	item.process = process_of(writer, claim->process);
	item.process->shim = true;
	item.site = told_site(item.process, writer->options.watch, &writer->files, claim->frames,
			      claim->frame_count, claim->ns);
	held_push(&writer->held, &item);
}

static uint64_t call_ns(const struct watch_call *call)
{
	return call->left_ns > call->entered_ns ? call->left_ns - call->entered_ns : 0;
}

static void summarize_call(struct writer *writer, const struct held *item,
			   const struct verdict *verdict)
{
	const struct watch_call *from = &item->call;
	struct witness_frame frames[WATCH_FRAMES];
	struct witness_call call = {
		.function = watch_functions[from->function].name,
		.stack = {frames, told_frames(item->process, item->site, frames)},
		.by = from->by,
		.stream_class = from->stream_class,
		.direction = from->direction,
		.shim = from->shim,
		.returned = from->returned,
		.nested = from->nested,
		.bytes = from->bytes,
		.call_ns = call_ns(from),
		.blocked_ns = verdict->blocked_ns,
		.off_cpu_ns = from->off_cpu_ns,
		.futex_ns = from->off_cpu_by[WATCH_FUTEX],
		.poll_ns = from->off_cpu_by[WATCH_POLL],
		.ioctl_ns = from->off_cpu_by[WATCH_IOCTL],
		.yield_ns = from->off_cpu_by[WATCH_YIELD],
		.preempted_ns = from->off_cpu_by[WATCH_PREEMPTED],
		.other_ns = from->off_cpu_by[WATCH_OTHER],
		.switches = from->switches,
		.preemptions = from->preemptions,
		.yields = from->yields,
		.system_call = from->top_system_call,
		.system_calls = from->top_system_calls,
	};

	witness_summary_call(writer->options.summary, &call);
}

static void write_witnessed(const struct told_out *out, const struct held *item,
			    const struct verdict *verdict)
{
	const struct watch_call *call = &item->call;
	struct trace_witnessed event = {
		.function = call->function,
		.site = told_write_site(out, item->site),
		.stream = told_write_stream(out, call),
		.flags = (call->returned ? TRACE_WITNESSED_RETURNED : 0) |
			 (call->nested ? TRACE_WITNESSED_NESTED : 0) |
			 (call->shim ? TRACE_WITNESSED_SHIM : 0),
		.stream_class = call->stream_class,
		.direction = call->direction,
		.by = call->by,
		.scope = call->scope,
		.handle = call->stream,
		.bytes = call->bytes,
		.source = call->source,
		.destination = call->destination,
		.call_ns = call_ns(call),
		.blocked_ns = verdict->blocked_ns,
		.off_cpu_ns = call->off_cpu_ns,
		.futex_ns = call->off_cpu_by[WATCH_FUTEX],
		.poll_ns = call->off_cpu_by[WATCH_POLL],
		.ioctl_ns = call->off_cpu_by[WATCH_IOCTL],
		.yield_ns = call->off_cpu_by[WATCH_YIELD],
		.preempted_ns = call->off_cpu_by[WATCH_PREEMPTED],
		.other_ns = call->off_cpu_by[WATCH_OTHER],
		.switches = call->switches,
		.preemptions = call->preemptions,
		.yields = call->yields,
		.system_call = call->top_system_call,
		.system_calls = call->top_system_calls,
	};

	told_write_function(out, call->function);
	told_write(out, TRACE_WITNESSED, &event);
}

/* What the preload library would have said; where it is, it has. */
static void write_wait(const struct told_out *out, const struct held *item,
		       const struct verdict *verdict)
{
	const struct watch_call *call = &item->call;
	struct told_wait kind = {
		.function = call->function,
		.rule = verdict->rule,
		.site = item->site ? item->site->id : 0,
		.source_kind = verdict->source_kind,
		.destination_kind = verdict->destination_kind,
		.idle_basis = verdict->idle_basis,
	};
	struct trace_wait event = {
		.bytes = call->bytes,
		.blocked_ns = verdict->blocked_ns,
		.call_ns = call_ns(call),
	};

	if (!verdict->waited || call->shim || call->nested || call->by == WATCH_BY_LIBRARY)
		return;
	event.wait = told_write_wait(out, &kind);
	event.stream = told_write_stream(out, call);
	told_write(out, TRACE_WAIT, &event);
}

static void put_call(struct writer *writer, const struct held *item)
{
	struct told_out out = out_of(writer, item->process, item->call.left_ns, item->call.thread);
	struct verdict verdict = rule_judge(&item->call);

	if (writer->options.file) {
		write_witnessed(&out, item, &verdict);
		write_wait(&out, item, &verdict);
	}
	if (writer->options.summary)
		summarize_call(writer, item, &verdict);
}

static void put_claim(struct writer *writer, const struct held *item)
{
	const struct watch_claim *from = &item->claim;
	struct told_out out = out_of(writer, item->process, from->ns, from->thread);
	struct witness_frame frames[WATCH_FRAMES];
	struct trace_claimed event = {
		.function = from->function,
		.how = from->how,
		.scope = from->scope,
		.site = told_write_site(&out, item->site),
		.call_ns = from->call_ns,
		.off_cpu_ns = from->off_cpu_ns,
		.driver_ns = from->driver_ns,
	};
	struct witness_claim claim = {
		.function = watch_functions[from->function].name,
		.how = from->how,
		.stack = {frames, told_frames(item->process, item->site, frames)},
		.call_ns = from->call_ns,
		.off_cpu_ns = from->off_cpu_ns,
		.driver_ns = from->driver_ns,
	};

	told_write_function(&out, from->function);
	told_write(&out, TRACE_CLAIMED, &event);
	if (writer->options.summary)
		witness_summary_claim(writer->options.summary, &claim);
}

void writer_flush(struct writer *writer, uint64_t before_ns)
{
	struct held *item;

	while ((item = held_pop(&writer->held, before_ns))) {
		if (item->is_claim)
			put_claim(writer, item);
		else
			put_call(writer, item);
		if (item->ns > writer->last_ns)
			writer->last_ns = item->ns;
		free(item);
	}
}

/* ---- the end ---- */

/* Calls of one function in one process, by who made them. */
struct count {
	struct told *process;
	uint64_t by[WATCH_FUNCTION_COUNT][WATCH_BYS];
};

struct counting {
	struct writer *writer;
	struct count **counts;
	size_t count, capacity;
};

static int take_caller(const struct watch_caller *caller, void *data)
{
	struct counting *counting = data;
	struct told *process = process_of(counting->writer, caller->process);
	size_t at = 0;

	if (caller->function >= WATCH_FUNCTION_COUNT || caller->by >= WATCH_BYS)
		return 0;
	process->shim |= caller->shim;
	while (at < counting->count && counting->counts[at]->process != process)
		at++;
	if (at == counting->count) {
		counting->counts = memory_grow(counting->counts, counting->count,
					       &counting->capacity, sizeof(counting->counts[0]));
		counting->counts[counting->count++] = memory_new(sizeof(struct count));
		counting->counts[at]->process = process;
	}
	sum_add(&counting->counts[at]->by[caller->function][caller->by], caller->calls);
	return 0;
}

static void put_count(struct writer *writer, const struct told_out *out, uint32_t function,
		      const uint64_t by[WATCH_BYS])
{
	struct witness_count count = {
		.function = watch_functions[function].name,
		.shim = out->process->shim,
	};
	struct trace_def_witness definition = {
		.function = function,
		.shim = out->process->shim,
		.wrapper = by[WATCH_BY_WRAPPER],
		.own = by[WATCH_BY_SHIM],
		.inside = by[WATCH_BY_LIBRARY],
		.program = by[WATCH_BY_PROGRAM],
		.unknown = by[WATCH_BY_UNKNOWN],
	};
	struct trace_def_coverage coverage = {
		.function = function,
		.calls = by[WATCH_BY_PROGRAM] + by[WATCH_BY_UNKNOWN],
	};

	told_write_function(out, function);
	told_write(out, TRACE_DEF_WITNESS, &definition);
	if (!out->process->shim && coverage.calls)
		told_write(out, TRACE_DEF_COVERAGE, &coverage);
	memcpy(count.by, by, sizeof(count.by));
	if (writer->options.summary)
		witness_summary_count(writer->options.summary, &count);
}

static void put_counts(struct writer *writer, const struct count *count, uint64_t now_ns)
{
	struct told_out out = out_of(writer, count->process, now_ns, count->process->id);
	struct trace_dump_begin begin = {.dump = ++count->process->dump, .reason = TRACE_DUMP_LAST};
	struct trace_dump_end end = {.dump = begin.dump};
	uint64_t lines;

	told_write(&out, TRACE_DUMP_BEGIN, &begin);
	lines = writer->text.lines;
	for (uint32_t function = 0; function < WATCH_FUNCTION_COUNT; function++) {
		uint64_t all = 0;

		for (int by = 0; by < WATCH_BYS; by++)
			sum_add(&all, count->by[function][by]);
		if (all)
			put_count(writer, &out, function, count->by[function]);
	}
	end.events = (uint32_t)(writer->text.lines - lines);
	told_write(&out, TRACE_DUMP_END, &end);
}

/* Of the whole watch; it stands in the first process. */
static void put_loss(struct writer *writer, const struct watch_stats *stats, uint64_t now_ns)
{
	struct trace_def_witness_loss loss = {
		.witness = 1,
		.processes = stats->processes,
		.records = stats->records,
		.lost_records = stats->lost_records,
		.lost_calls = stats->lost_calls,
		.deep_calls = stats->deep_calls,
		.left_calls = stats->left_calls,
		.late_returns = stats->late_returns,
		.lost_callers = stats->lost_callers,
		.least_ns = writer->options.least_ns,
		.lost_processes = stats->lost_processes,
		.lost_process_records = stats->lost_process_records,
		.lost_mappings = stats->lost_mappings,
		.unwatched_libraries = stats->unwatched_libraries,
		.unwatched_functions = stats->unwatched_functions,
		.unheard_shims = stats->unheard_shims,
		.unseen_switches = stats->unseen_switches,
		.missed_runs = stats->missed_runs,
	};

	for (uint32_t i = 0; i < WATCH_FUNCTION_COUNT; i++)
		sum_add(&loss.entries, stats->functions[i].calls);
	if (writer->process_count) {
		struct told *first = writer->processes[0];
		struct told_out out = out_of(writer, first, now_ns, first->id);

		told_write(&out, TRACE_DEF_WITNESS_LOSS, &loss);
	}
	if (writer->options.summary)
		witness_summary_loss(writer->options.summary,
				     &(struct witness_loss){
					     .processes = loss.processes,
					     .entries = loss.entries,
					     .records = loss.records,
					     .lost_records = loss.lost_records,
					     .lost_calls = loss.lost_calls,
					     .deep_calls = loss.deep_calls,
					     .left_calls = loss.left_calls,
					     .late_returns = loss.late_returns,
					     .lost_callers = loss.lost_callers,
					     .least_ns = loss.least_ns,
					     .lost_processes = loss.lost_processes,
					     .lost_process_records = loss.lost_process_records,
					     .lost_mappings = loss.lost_mappings,
					     .unwatched_libraries = loss.unwatched_libraries,
					     .unwatched_functions = loss.unwatched_functions,
					     .unheard_shims = loss.unheard_shims,
					     .unseen_switches = loss.unseen_switches,
					     .missed_runs = loss.missed_runs,
				     });
}

static void put_end(struct writer *writer, struct told *process, uint64_t now_ns)
{
	const struct watch_process *known = watch_process_of(writer->options.watch, process->id);
	struct told_out out = out_of(writer, process, now_ns, process->id);
	struct trace_process_end end = {.end_ns = known ? known->ended_ns : 0};

	if (end.end_ns)
		told_write(&out, TRACE_PROCESS_END, &end);
}

void writer_finish(struct writer *writer, const struct watch_stats *stats, uint64_t now_ns)
{
	struct counting counting = {.writer = writer};

	writer_flush(writer, UINT64_MAX);
	/* Nobody called anything: the trace says so, of one process at least. */
	if (!writer->process_count) {
		const struct watch_process *first = watch_process_at(writer->options.watch, 0);

		if (first)
			(void)process_of(writer, first->id);
	}
	(void)watch_callers(writer->options.watch, take_caller, &counting);
	for (size_t i = 0; i < counting.count; i++) {
		put_counts(writer, counting.counts[i], now_ns);
		free(counting.counts[i]);
	}
	free(counting.counts);
	put_loss(writer, stats, now_ns);
	for (size_t i = 0; i < writer->process_count; i++)
		put_end(writer, writer->processes[i], now_ns);
}
