// SPDX-License-Identifier: MIT
/*
 * Parts (report_part.h). What a trace says of its own limits: a first dump that knows of earlier waits, a first dump of
 * a later number, dumps that are not whole (model.h); buffers that were overwritten, and when a snapshot was saved
 * (trace_part.h).
 */
#include "tracing/analysis/report_part.h"

#include <inttypes.h>

#include "memory.h"
#include "text.h"

/* A process that is asked for its definitions has its answer in the snapshot unless it is saved much later. */
#define ANSWER_NS INT64_C(1000000000)
/* Where saving took long, one that answered and went on until then has one not older than that. */
#define SAVING_NS INT64_C(60000000000)

static uint64_t host_time(const struct model_process *process, int64_t ns)
{
	return ns > process->clock_offset_ns ? (uint64_t)(ns - process->clock_offset_ns) : 0;
}

/* When the snapshot was saved; events that came while it was are in it or not. */
static int64_t saved_ns(const struct model_process *process, const struct trace_part *part)
{
	int64_t ns = (int64_t)part->end_ns + process->clock_offset_ns;

	return ns > process->last_ns ? ns : process->last_ns;
}

/* It said for this snapshot what it had until then: so it lived. */
static bool has_answered(const struct model_process *process, int64_t saved)
{
	if (!process->asked_ns || !process->dump.whole)
		return false;
	return saved - process->asked_ns < ANSWER_NS ||
	       (saved - process->last_ns < ANSWER_NS && saved - process->asked_ns < SAVING_NS);
}

static void set_begin(struct record_span *span, const struct model_process *process,
		      const struct trace_part *part, uint64_t start_ns, int64_t first_wait_ns)
{
	span->begin_ns = start_ns;
	if (process->began_late || (process->no_first_dump && !(part && part->is_snapshot))) {
		span->is_late = true;
		span->begin_ns = host_time(process, process->first_ns);
	}
	if (part && part->whole_since_ns > span->begin_ns) {
		span->is_overwritten = true;
		span->begin_ns = part->whole_since_ns;
		span->whole_ns = part->whole_since_ns;
		/* Another processor's buffer may reach back further. */
		if (first_wait_ns && host_time(process, first_wait_ns) < span->begin_ns)
			span->begin_ns = host_time(process, first_wait_ns);
	}
	if (span->begin_ns < start_ns)
		span->begin_ns = start_ns;
}

struct record_span report_part_span(const struct model *model, uint32_t number,
				    int64_t first_wait_ns)
{
	const struct model_process *process = model_process(model, number);
	const struct trace_def_process *definition = model_process_definition(model, number);
	const struct trace_part *part = model_part(model, number);
	struct record_span span = {
		.is_known = true,
		.is_start_known = definition && definition->start_ns,
		.gap_ns = process->gap_ns,
		.has_definitions = process->dump.whole,
		.end_ns = host_time(process, process->last_ns),
	};

	set_begin(&span, process, part,
		  span.is_start_known ? definition->start_ns
				      : host_time(process, process->first_ns),
		  first_wait_ns);
	if (process->ended) {
		span.end_ns = process->end.end_ns;
	} else if (part && part->is_snapshot) {
		int64_t saved = saved_ns(process, part);

		span.is_snapshot = true;
		span.is_saved = has_answered(process, saved);
		if (span.is_saved)
			span.end_ns = host_time(process, saved);
	}
	if (span.begin_ns > span.end_ns)
		span.begin_ns = span.end_ns;
	if (span.whole_ns < span.begin_ns)
		span.whole_ns = span.begin_ns;
	if (span.whole_ns > span.end_ns)
		span.whole_ns = span.end_ns;
	return span;
}

/* ---- reasons ---- */

/* "process 5", or "process 5 and 3 others". The caller frees. */
static char *who(uint32_t pid, uint64_t count)
{
	if (count == 1)
		return memory_format("process %" PRIu32, pid);
	return memory_format("process %" PRIu32 " and %" PRIu64 " other%s", pid, count - 1,
			     count == 2 ? "" : "s");
}

/* The processes that `length` gives a time for: how many, the one with the longest. */
static uint64_t find_longest(const struct report *report,
			     bool (*length)(const struct report_process *process, uint64_t *ret_ns),
			     const struct report_process **ret_process, uint64_t *ret_ns)
{
	uint64_t count = 0, ns;

	for (size_t i = 0; i < report->process_count; i++) {
		if (!length(&report->processes[i], &ns))
			continue;
		if (!count++ || ns > *ret_ns) {
			*ret_ns = ns;
			*ret_process = &report->processes[i];
		}
	}
	return count;
}

static bool late(const struct report_process *process, uint64_t *ret_ns)
{
	const struct record_span *span = &process->file->span;

	*ret_ns = span->begin_ns - process->file->header->start_ns;
	return span->is_late && !span->is_overwritten && span->is_start_known;
}

static bool overwritten(const struct report_process *process, uint64_t *ret_ns)
{
	*ret_ns = process->file->span.begin_ns - process->file->header->start_ns;
	return process->file->span.is_overwritten;
}

static bool stopped(const struct report_process *process, uint64_t *ret_ns)
{
	*ret_ns = process->file->span.gap_ns;
	return *ret_ns;
}

static bool saved(const struct report_process *process, uint64_t *ret_ns)
{
	*ret_ns = 0;
	return process->file->span.is_saved;
}

static bool endless(const struct report_process *process, uint64_t *ret_ns)
{
	*ret_ns = 0;
	return !strcmp(process->state, "gone") || !strcmp(process->state, "silent when saved");
}

static bool undefined(const struct report_process *process, uint64_t *ret_ns)
{
	*ret_ns = 0;
	return !process->file->span.has_definitions;
}

/* Who, and how long: "" and 0 where nobody is. */
struct found {
	char *who; /* to be freed; NULL: nobody */
	uint64_t count;
	const struct record_span *span;
	char time[TEXT_FIGURE];
};

static struct found find(const struct report *report,
			 bool (*length)(const struct report_process *process, uint64_t *ret_ns))
{
	const struct report_process *process = NULL;
	uint64_t ns = 0;
	struct found found = {.count = find_longest(report, length, &process, &ns)};

	if (!found.count)
		return found;
	found.who = who(process->file->header->pid, found.count);
	found.span = &process->file->span;
	(void)text_ns(ns, found.time);
	return found;
}

static void doubt(struct report *report, struct found *found, char *reason)
{
	report_text_list_add(&report->reasons, reason);
	free(found->who);
}

static void doubt_begins(struct report *report)
{
	struct found found = find(report, late);
	char figure[TEXT_FIGURE];

	if (found.count)
		doubt(report, &found,
		      memory_format("the trace began %s after the start of %s: what came before "
				    "is not in it",
				    found.time, found.who));
	found = find(report, overwritten);
	if (found.count)
		doubt(report, &found,
		      memory_format("the trace holds the last %s of %s: what came before was "
				    "overwritten",
				    text_ns(found.span->end_ns - found.span->whole_ns, figure),
				    found.who));
	found = find(report, stopped);
	if (found.count)
		doubt(report, &found,
		      memory_format("the session was stopped for %s while %s ran", found.time,
				    found.who));
}

void report_part_find_reasons(struct report *report)
{
	struct found found;

	doubt_begins(report);
	found = find(report, undefined);
	if (found.count)
		doubt(report, &found,
		      memory_format("the last definitions of %s are not whole in the trace: "
				    "calls, names and what was waited for may be missing",
				    found.who));
	found = find(report, saved);
	if (found.count)
		doubt(report, &found,
		      memory_format("%s still ran when the snapshot was saved: later calls are "
				    "not in it",
				    found.who));
	found = find(report, endless);
	free(found.who);
	if (found.count)
		report_text_list_add(
			&report->reasons,
			memory_format("%" PRIu64
				      " process%s no end in the trace: calls are counted up "
				      "to the last definitions, and later ones may be missing",
				      found.count, found.count == 1 ? " has" : "es have"));
}
