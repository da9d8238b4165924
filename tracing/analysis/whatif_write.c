// SPDX-License-Identifier: MIT
/*
 * What-if as text and JSON (whatif.h). Names come from the program under test: shown printable.
 */
#include <jansson.h>

#include "emit/record.h"
#include "memory.h"
#include "report.h"
#include "report_trace.h"
#include "text.h"
#include "tracing/analysis/whatif.h"

static char *site_text(whatif_site_name name, void *context, const struct whatif_row *row)
{
	if (!name)
		return memory_format("site %u", row->site);
	return name(context, row->process, row->site);
}

/* NULL: it had no event. */
static const struct whatif_process *process_of(const struct whatif_result *result, uint32_t process)
{
	for (size_t i = 0; i < result->process_count; i++)
		if (result->processes[i].process == process)
			return &result->processes[i];
	return NULL;
}

static int64_t run_of(const struct whatif_result *result, uint32_t process)
{
	const struct whatif_process *found = process_of(result, process);

	return found ? found->run_ns : 0;
}

static char *process_text(const struct whatif_process *process)
{
	return report_trace_process(process->rank, process->host, process->pid);
}

static char *saving_text(const struct whatif_row *row)
{
	char low[TEXT_FIGURE], high[TEXT_FIGURE];

	if (!row->replayed)
		return memory_format("at most %s", text_ns((uint64_t)row->high_ns, high));
	return memory_format("%s to %s", text_ns((uint64_t)row->low_ns, low),
			     text_ns((uint64_t)row->high_ns, high));
}

static void write_row(FILE *out, const struct whatif_result *result, const struct whatif_row *row,
		      size_t place, const char *where)
{
	_cleanup_free_ char *rule = text_printable(row->rule_slug, false);
	_cleanup_free_ char *function = text_printable(row->function_name, false);
	_cleanup_free_ char *saved = saving_text(row);
	const struct whatif_process *process = process_of(result, row->process);
	_cleanup_free_ char *who =
		process && result->process_count > 1 ? process_text(process) : NULL;
	char blocked[TEXT_FIGURE], share[TEXT_FIGURE];

	(void)fprintf(
		out, "  %4zu  %-24s  %8s  %6s%s %-24s %-20s %8llu  %8s  %s%s%s\n", place, saved,
		text_ns((uint64_t)row->blocked_ns, blocked),
		text_share((uint64_t)row->middle_ns, (uint64_t)run_of(result, row->process), share),
		row->overtaken                     ? " t"
		: row->wait_class == WAIT_EXPLICIT ? " e"
						   : "  ",
		rule, function, (unsigned long long)row->count, report_class(row->wait_class),
		where, who ? ", " : "", who ? who : "");
}

static void write_baseline(FILE *out, const struct whatif_result *result)
{
	for (size_t i = 0; i < result->process_count; i++) {
		const struct whatif_process *process = &result->processes[i];
		_cleanup_free_ char *who = process_text(process);
		char off[TEXT_FIGURE], run[TEXT_FIGURE];

		if (process->why_none) {
			(void)fprintf(out, "  %s: no numbers: %s\n", who, process->why_none);
			continue;
		}
		(void)fprintf(out,
			      "  %s: ran %s; replay with nothing removed: %s of it blocked for "
			      "reasons not in the trace, %llu operations out of place\n",
			      who, text_ns((uint64_t)process->run_ns, run),
			      text_ns((uint64_t)process->unexplained_ns, off),
			      (unsigned long long)process->contradictions);
	}
}

static void write_rows(FILE *out, const struct whatif_result *result, size_t most,
		       whatif_site_name name, void *context)
{
	size_t count = most && most < result->row_count ? most : result->row_count;

	(void)fprintf(out, "  %4s  %-24s  %8s  %6s   %-24s %-20s %8s  %8s  %s\n", "#", "saving",
		      "blocked", "share", "rule", "function", "count", "class", "site");
	for (size_t i = 0; i < count; i++) {
		_cleanup_free_ char *where = site_text(name, context, &result->rows[i]);
		_cleanup_free_ char *printable = text_printable(where, false);

		write_row(out, result, &result->rows[i], i + 1, printable);
	}
	if (count < result->row_count)
		(void)fprintf(out, "  and %zu more sites\n", result->row_count - count);
	(void)fputs("  whole rules:\n", out);
	for (size_t i = 0; i < result->rule_count; i++)
		write_row(out, result, &result->rules[i], i + 1, "all sites");
}

void whatif_text(FILE *out, const struct whatif_result *result, size_t rows, whatif_site_name name,
		 void *context)
{
	bool several = false, overtaken = false;

	(void)fputs("What each wait costs the run\n", out);
	if (result->why_none) {
		(void)fprintf(out, "  no numbers: %s\n", result->why_none);
		return;
	}
	if (result->row_count)
		write_rows(out, result, rows, name, context);
	else
		(void)fputs("  no waits\n", out);
	write_baseline(out, result);
	for (size_t i = 0; i < result->process_count; i++)
		several |= result->processes[i].threads > 1;
	if (result->row_count)
		(void)fputs(
			"  e: the program asked for this wait; its result may be read behind it\n",
			out);
	for (size_t i = 0; i < result->row_count; i++)
		overtaken |= result->rows[i].overtaken;
	for (size_t i = 0; i < result->rule_count; i++)
		overtaken |= result->rules[i].overtaken;
	if (overtaken)
		(void)fputs("  t: without it threads may overtake each other, and what they do "
			    "then is not in the trace\n",
			    out);
	if (several)
		(void)fputs(
			"  how threads wait for each other is not in the trace: the intervals hold "
			"both threads that do not, and threads that all move together\n",
			out);
}

static json_t *row_json(const struct whatif_result *result, const struct whatif_row *row,
			size_t place, const char *where)
{
	_cleanup_free_ char *rule = text_printable(row->rule_slug, true);
	_cleanup_free_ char *function = text_printable(row->function_name, true);
	json_t *object = json_pack(
		"{s:I s:I s:s s:s s:I s:I s:I s:I s:I s:I s:b s:b}", "place", (json_int_t)place,
		"process", (json_int_t)row->process, "rule", rule, "class",
		report_class(row->wait_class), "count", (json_int_t)row->count, "blocked_ns",
		(json_int_t)row->blocked_ns, "saving_low_ns", (json_int_t)row->low_ns,
		"saving_high_ns", (json_int_t)row->high_ns, "saving_middle_ns",
		(json_int_t)row->middle_ns, "run_ns", (json_int_t)run_of(result, row->process),
		"replayed", (int)row->replayed, "overtaken", (int)row->overtaken);

	memory_check(object);
	if (where) {
		(void)json_object_set_new(object, "site", json_integer(row->site));
		(void)json_object_set_new(object, "where", memory_check(json_string(where)));
		(void)json_object_set_new(object, "function", memory_check(json_string(function)));
	}
	return object;
}

static json_t *process_json(const struct whatif_process *process)
{
	_cleanup_free_ char *host = text_printable(process->host, true);
	json_t *rank = process->rank < 0 ? json_null() : json_integer(process->rank);
	json_t *object = json_pack(
		"{s:I s:I s:o s:s? s:I s:I s:I s:I s:I s:I s:s?}", "process",
		(json_int_t)process->process, "pid", (json_int_t)process->pid, "rank",
		memory_check(rank), "host", *host ? host : NULL, "run_ns",
		(json_int_t)process->run_ns, "waits", (json_int_t)process->waits, "submissions",
		(json_int_t)process->submissions, "threads", (json_int_t)process->threads,
		"unexplained_ns", (json_int_t)process->unexplained_ns, "contradictions",
		(json_int_t)process->contradictions, "why_none", process->why_none);

	return memory_check(object);
}

json_t *whatif_json(const struct whatif_result *result, whatif_site_name name, void *context)
{
	json_t *sites = memory_check(json_array());
	json_t *rules = memory_check(json_array());
	json_t *processes = memory_check(json_array());
	json_t *object;
	size_t i;

	for (i = 0; i < result->row_count; i++) {
		_cleanup_free_ char *where = site_text(name, context, &result->rows[i]);
		_cleanup_free_ char *printable = text_printable(where, true);

		(void)json_array_append_new(sites,
					    row_json(result, &result->rows[i], i + 1, printable));
	}
	for (i = 0; i < result->rule_count; i++)
		(void)json_array_append_new(rules,
					    row_json(result, &result->rules[i], i + 1, NULL));
	for (i = 0; i < result->process_count; i++)
		(void)json_array_append_new(processes, process_json(&result->processes[i]));
	object = json_pack("{s:o s:o s:o s:s?}", "sites", sites, "rules", rules, "processes",
			   processes, "why_none", result->why_none);
	return memory_check(object);
}
