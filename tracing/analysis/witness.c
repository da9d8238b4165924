// SPDX-License-Identifier: MIT
/*
 * What the kernel saw (witness.h). Names are looked up when an event comes: slipstream-witness writes what
 * an event names before it.
 */
#include "tracing/analysis/witness.h"

#include "memory.h"
#include "report_witness.h"
#include "witness_summary.h"

#define FRAMES_MAX 64

static const char *function_name(const struct model *model, uint32_t process, uint32_t number)
{
	const struct trace_def_function *function =
		model_find(model, process, TRACE_DEF_FUNCTION, number);
	const char *name = function ? model_string(model, process, function->name) : NULL;

	return name ? name : "unknown";
}

static struct witness_stack stack_of(const struct model *model, uint32_t process, uint32_t site,
				     struct witness_frame frames[FRAMES_MAX])
{
	struct witness_stack stack = {.frames = frames};
	const struct trace_def_frame *parts;
	size_t count = 0;

	parts = site ? model_parts(model, process, TRACE_DEF_FRAME, site, &count) : NULL;
	while (stack.count < count && stack.count < FRAMES_MAX && parts[stack.count].site == site) {
		const struct trace_def_frame *part = &parts[stack.count];
		const struct trace_def_module *module =
			part->module ? model_find(model, process, TRACE_DEF_MODULE, part->module)
				     : NULL;

		frames[stack.count++] = (struct witness_frame){
			.module = module ? model_string(model, process, module->path) : NULL,
			.build_id = module && *module->build_id ? module->build_id : NULL,
			.offset = part->offset,
		};
	}
	return stack;
}

static void take_call(struct witness_summary *summary, const struct model *model,
		      const struct analysis_event *event)
{
	const struct trace_witnessed *from = event->payload;
	struct witness_frame frames[FRAMES_MAX];
	struct witness_call call = {
		.function = function_name(model, event->process, from->function),
		.stack = stack_of(model, event->process, from->site, frames),
		.by = from->by < WITNESS_BYS ? (uint8_t)from->by : WITNESS_BY_UNKNOWN,
		.stream_class = from->stream_class < WITNESS_STREAM_CLASSES
					? (uint8_t)from->stream_class
					: 0,
		.direction = from->direction < WITNESS_DIRECTIONS ? (uint8_t)from->direction
								  : WITNESS_DIRECTIONS - 1,
		.returned = from->flags & TRACE_WITNESSED_RETURNED,
		.nested = from->flags & TRACE_WITNESSED_NESTED,
		.shim = from->flags & TRACE_WITNESSED_SHIM,
		.bytes = from->bytes,
		.call_ns = from->call_ns,
		.blocked_ns = from->blocked_ns,
		.off_cpu_ns = from->off_cpu_ns,
		.futex_ns = from->futex_ns,
		.poll_ns = from->poll_ns,
		.ioctl_ns = from->ioctl_ns,
		.yield_ns = from->yield_ns,
		.preempted_ns = from->preempted_ns,
		.other_ns = from->other_ns,
		.switches = from->switches,
		.preemptions = from->preemptions,
		.yields = from->yields,
		.system_call = from->system_call,
		.system_calls = from->system_calls,
	};

	witness_summary_call(summary, &call);
}

static void take_claim(struct witness_summary *summary, const struct model *model,
		       const struct analysis_event *event)
{
	const struct trace_claimed *from = event->payload;
	struct witness_frame frames[FRAMES_MAX];
	struct witness_claim claim = {
		.function = function_name(model, event->process, from->function),
		.how = from->how,
		.stack = stack_of(model, event->process, from->site, frames),
		.call_ns = from->call_ns,
		.off_cpu_ns = from->off_cpu_ns,
		.driver_ns = from->driver_ns,
	};

	witness_summary_claim(summary, &claim);
}

void witness_take(struct witness_summary *summary, const struct model *model,
		  const struct analysis_event *event)
{
	if (event->id == TRACE_WITNESSED)
		take_call(summary, model, event);
	else if (event->id == TRACE_CLAIMED)
		take_claim(summary, model, event);
}

static bool stop(void *context, const void *definition)
{
	(void)definition;
	*(bool *)context = true;
	return false;
}

bool witness_is_source(const struct model *model, uint32_t process)
{
	bool found = false;

	model_each(model, process, TRACE_DEF_WITNESS, stop, &found);
	return found;
}

struct counting {
	struct witness_summary *summary;
	const struct model *model;
	uint32_t process;
};

static bool take_count(void *context, const void *definition)
{
	const struct counting *counting = context;
	const struct trace_def_witness *from = definition;
	struct witness_count count = {
		.function = function_name(counting->model, counting->process, from->function),
		.shim = from->shim,
		.by =
			{
				[WITNESS_BY_UNKNOWN] = from->unknown,
				[WITNESS_BY_WRAPPER] = from->wrapper,
				[WITNESS_BY_SHIM] = from->own,
				[WITNESS_BY_LIBRARY] = from->inside,
				[WITNESS_BY_PROGRAM] = from->program,
			},
	};

	witness_summary_count(counting->summary, &count);
	return true;
}

static bool take_loss(void *context, const void *definition)
{
	const struct counting *counting = context;
	const struct trace_def_witness_loss *from = definition;
	struct witness_loss loss = {
		.processes = from->processes,
		.entries = from->entries,
		.records = from->records,
		.lost_records = from->lost_records,
		.lost_calls = from->lost_calls,
		.deep_calls = from->deep_calls,
		.left_calls = from->left_calls,
		.late_returns = from->late_returns,
		.lost_callers = from->lost_callers,
		.least_ns = from->least_ns,
		.lost_processes = from->lost_processes,
		.lost_process_records = from->lost_process_records,
		.lost_mappings = from->lost_mappings,
		.unwatched_libraries = from->unwatched_libraries,
		.unwatched_functions = from->unwatched_functions,
		.unheard_shims = from->unheard_shims,
		.unseen_switches = from->unseen_switches,
		.missed_runs = from->missed_runs,
	};

	witness_summary_loss(counting->summary, &loss);
	return true;
}

void witness_finish(struct witness_summary *summary, const struct model *model,
		    bool (*is_wanted)(void *context, uint32_t process), void *context,
		    struct report *report)
{
	struct counting counting = {.summary = summary, .model = model};

	for (size_t i = 0; i < model_process_count(model); i++) {
		counting.process = (uint32_t)i;
		if (!is_wanted(context, counting.process))
			continue;
		model_each(model, counting.process, TRACE_DEF_WITNESS, take_count, &counting);
		model_each(model, counting.process, TRACE_DEF_WITNESS_LOSS, take_loss, &counting);
	}
	if (!witness_summary_is_empty(summary))
		report_witness_set(report, witness_summary_json(summary));
}
