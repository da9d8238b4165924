// SPDX-License-Identifier: MIT
/*
 * Report, text: what a person wants to see first comes first. Implicit synchronizations ranked by
 * blocked time, then calls that were slow by their own work, then device-side serialization, then
 * explicit waits, then coverage. Called by report_output_write().
 */
#include <inttypes.h>

#include "memory.h"
#include "report_lines.h"
#include "report_remarks.h"
#include "report_rewrite.h"
#include "report_trace.h"
#include "report_witness.h"
#include "sum.h"
#include "text.h"

#define SITES_SHOWN  3 /* call sites of one entry, unless there is no limit */
#define WAITED_SHOWN 3
#define DEPTH_SHOWN  6 /* frames of one site */

static size_t at_most(const struct lines *lines, size_t count, size_t most)
{
	return lines->style->limit && count > most ? most : count;
}

/* What one section holds. */
struct part {
	uint32_t class;
	bool own_cost, allowed;
};

static bool is_in(const struct report_sync *sync, const struct part *part)
{
	return sync->class == part->class && sync->own_cost == part->own_cost &&
	       sync->allowed == part->allowed;
}

/* "4 calls, 8.30 ms"; where the host was not blocked, without the time. */
static char *calls_and_time(const struct report_sync *sync, uint64_t count, uint64_t blocked_ns)
{
	char blocked[TEXT_FIGURE];

	if (sync->class == WAIT_DEVICE)
		return memory_format("%" PRIu64 " call%s", count, plural(count));
	return memory_format("%" PRIu64 " call%s, %s", count, plural(count),
			     text_ns(blocked_ns, blocked));
}

static void add_memory(const struct lines *lines, const struct report_sync *sync)
{
	for (size_t i = 0; i < sync->memory.count; i++) {
		const struct report_memory *memory = sync->memory.items[i];
		_cleanup_free_ char *kinds = NULL;
		char bytes[TEXT_FIGURE];

		if (memory->source && memory->destination)
			kinds = memory_format("%s to %s", report_memory_kind(memory->source),
					      report_memory_kind(memory->destination));
		else if (memory->source || memory->destination)
			kinds = memory_format(
				"%s", report_memory_kind(memory->source | memory->destination));
		else if (!memory->bytes)
			continue;
		lines_add(lines, LINE_PLAIN, "      memory: %s%s%" PRIu64 " call%s, %s",
			  kinds ? kinds : "", kinds ? ", " : "", memory->count,
			  plural(memory->count), text_bytes(memory->bytes, bytes));
	}
}

static void add_waited(const struct lines *lines, const struct report *report,
		       const struct report_sync *sync)
{
	size_t shown = at_most(lines, sync->waited.count, WAITED_SHOWN);

	for (size_t i = 0; i < shown; i++) {
		const struct report_waited *waited = sync->waited.items[i];
		_cleanup_free_ char *name =
			waited->name ? text_printable(waited->name, false) : NULL;
		_cleanup_free_ char *figures =
			calls_and_time(sync, waited->count, waited->blocked_ns);
		_cleanup_free_ char *stream = NULL, *process = NULL;

		if (waited->is_unknown) {
			lines_add(lines, LINE_PLAIN,
				  "      %s: unknown, its definition is missing, %s",
				  sync->class == WAIT_DEVICE ? "ordered behind" : "waited for",
				  figures);
			continue;
		}
		if (waited->stream)
			stream = memory_format("%s stream %" PRIu64,
					       report_stream_kind(waited->stream_kind),
					       waited->stream);
		else
			stream =
				memory_format("%s stream", report_stream_kind(waited->stream_kind));
		process = report->process_count > 1
				  ? lines_process(report, waited->host, waited->pid, " in process ")
				  : memory_copy("");
		lines_add(lines, LINE_PLAIN,
			  "      %s: %s of context %" PRIu64 "%s, %s%s%s (%s), %s",
			  sync->class == WAIT_DEVICE ? "ordered behind" : "waited for", stream,
			  waited->context, process, report_operation(waited->operation),
			  name ? " " : "", name ? name : "",
			  waited->certain ? "certain" : "candidate", figures);
	}
	lines_add_more(lines, "      ", shown, sync->waited.count, "candidate");
}

static void add_uses(const struct lines *lines, struct report *report,
		     const struct report_sync *sync)
{
	size_t shown = at_most(lines, sync->uses.count, SITES_SHOWN);

	for (size_t i = 0; i < shown; i++) {
		const struct report_use *use = sync->uses.items[i];
		_cleanup_free_ char *figures = calls_and_time(sync, use->count, use->blocked_ns);
		char max[TEXT_FIGURE];

		if (!use->site) {
			lines_add(lines, LINE_PLAIN, "      at an unknown site: %s", figures);
			continue;
		}
		if (sync->class == WAIT_DEVICE)
			lines_add(lines, LINE_PLAIN, "      at site %016" PRIx64 ": %s",
				  use->site->id, figures);
		else
			lines_add(lines, LINE_PLAIN, "      at site %016" PRIx64 ": %s, longest %s",
				  use->site->id, figures, text_ns(use->blocked_max, max));
		lines_add_site(lines, report, use->site, "        ",
			       lines->style->limit ? DEPTH_SHOWN : 0);
	}
	lines_add_more(lines, "      ", shown, sync->uses.count, "call site");
}

static void add_regions(const struct lines *lines, const struct report_sync *sync)
{
	for (size_t i = 0; i < at_most(lines, sync->regions.count, SITES_SHOWN); i++) {
		const struct report_named *region = sync->regions.items[i];
		_cleanup_free_ char *name = text_printable(region->name, false);
		_cleanup_free_ char *figures =
			calls_and_time(sync, region->count, region->blocked_ns);

		lines_add(lines, LINE_PLAIN, "      region: %s, %s", name, figures);
	}
}

static const char *idle_words(uint32_t basis)
{
	static const char *const words[] = {
		[IDLE_NONE] = "nothing taken off, the call's own time counts",
		[IDLE_CALIBRATED] = "idle time from the calibration",
		[IDLE_MINIMUM] = "idle time is the run's own minimum",
		[IDLE_DEFAULT] = "idle time is the catalogue's figure",
	};

	return words[basis];
}

static void add_idle(const struct lines *lines, const struct report_sync *sync)
{
	if (sync->class == WAIT_DEVICE)
		return;
	for (uint32_t basis = 0; basis < ARRAY_SIZE(sync->idle_count); basis++)
		if (sync->idle_count[basis] == sync->count)
			lines_add(lines, LINE_PLAIN, "      basis: %s", idle_words(basis));
		else if (sync->idle_count[basis])
			lines_add(lines, LINE_PLAIN, "      basis: %s (%" PRIu64 " call%s)",
				  idle_words(basis), sync->idle_count[basis],
				  plural(sync->idle_count[basis]));
}

static void add_columns(const struct lines *lines, bool blocked)
{
	if (blocked)
		lines_add(lines, LINE_PLAIN, "  %3s %9s %8s %9s %8s  %s", "#", "blocked", "share",
			  "longest", "calls", "what");
	else
		lines_add(lines, LINE_PLAIN, "  %3s %8s  %s", "#", "calls", "what");
}

static void add_figures(const struct lines *lines, const struct report *report, size_t rank,
			uint64_t blocked_ns, uint64_t blocked_max, uint64_t count, bool blocked,
			const char *what)
{
	char total[TEXT_FIGURE], share[TEXT_FIGURE], max[TEXT_FIGURE];

	if (blocked)
		lines_add(lines, LINE_STRONG, "  %3zu %9s %8s %9s %8" PRIu64 "  %s", rank,
			  text_ns(blocked_ns, total),
			  text_share(blocked_ns, report->wall_ns, share), text_ns(blocked_max, max),
			  count, what);
	else
		lines_add(lines, LINE_STRONG, "  %3zu %8" PRIu64 "  %s", rank, count, what);
}

static void add_sync(const struct lines *lines, struct report *report, size_t rank,
		     const struct report_sync *sync)
{
	_cleanup_free_ char *rule = text_printable(sync->rule, false);
	_cleanup_free_ char *function = text_printable(sync->function, false);
	_cleanup_free_ char *cause = text_printable(sync->cause, false);
	_cleanup_free_ char *what = memory_format("%s in %s", rule, function);

	add_figures(lines, report, rank, sync->blocked_ns, sync->blocked_max, sync->count,
		    sync->class != WAIT_DEVICE, what);
	lines_add(lines, LINE_PLAIN, "      cause: %s", cause);
	add_memory(lines, sync);
	add_waited(lines, report, sync);
	add_regions(lines, sync);
	add_uses(lines, report, sync);
	add_idle(lines, sync);
}

static void add_section_by_rule(const struct lines *lines, struct report *report,
				const struct part *part, size_t count)
{
	size_t shown = at_most(lines, count, lines->style->limit), rank = 0;

	for (size_t i = 0; i < report->syncs.count && rank < shown; i++) {
		const struct report_sync *sync = report->syncs.items[i];

		if (is_in(sync, part))
			add_sync(lines, report, ++rank, sync);
	}
	lines_add_more(lines, "  ", shown, count, "line");
}

/* One line of the views by site and by function: the same findings under another key. */
struct group {
	struct report_site *site;
	const char *function;
	uint64_t count, blocked_ns, blocked_max;
	size_t order; /* of first appearance; the syncs are ranked, so it breaks ties for good */
};

static int group_rank(const void *left, const void *right)
{
	const struct group *a = left, *b = right;

	if (a->blocked_ns != b->blocked_ns)
		return a->blocked_ns > b->blocked_ns ? -1 : 1;
	if (a->count != b->count)
		return a->count > b->count ? -1 : 1;
	return a->order < b->order ? -1 : 1;
}

static int group_key(const void *left, const void *right)
{
	const struct group *a = left, *b = right;
	int order = 0;

	if (a->function)
		order = strcmp(a->function, b->function);
	else if (a->site != b->site)
		order = a->site < b->site ? -1 : 1;
	return order ? order : a->order < b->order ? -1 : 1;
}

static bool is_same_group(const struct group *a, const struct group *b)
{
	return a->function ? !strcmp(a->function, b->function) : a->site == b->site;
}

/*
 * Adds up neighbours of the same key; the first of them gives the order. Returns how many are left.
 */
static size_t groups_fold(struct group *groups, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		struct group *into = &groups[kept ? kept - 1 : 0];

		if (!kept || !is_same_group(into, &groups[i])) {
			groups[kept++] = groups[i];
			continue;
		}
		into->count += groups[i].count;
		into->blocked_ns += groups[i].blocked_ns;
		if (groups[i].blocked_max > into->blocked_max)
			into->blocked_max = groups[i].blocked_max;
	}
	return kept;
}

static void add_group(const struct lines *lines, struct report *report, size_t rank,
		      const struct group *group, const struct part *part)
{
	_cleanup_free_ char *what = NULL;

	if (group->function)
		what = text_printable(group->function, false);
	else if (group->site)
		what = memory_format("site %016" PRIx64, group->site->id);
	else
		what = memory_copy("unknown site");
	add_figures(lines, report, rank, group->blocked_ns, group->blocked_max, group->count,
		    part->class != WAIT_DEVICE, what);
	if (group->site)
		lines_add_site(lines, report, group->site, "        ",
			       lines->style->limit ? DEPTH_SHOWN : 0);

	for (size_t i = 0; i < report->syncs.count; i++) {
		const struct report_sync *sync = report->syncs.items[i];
		_cleanup_free_ char *rule = text_printable(sync->rule, false);
		_cleanup_free_ char *function = text_printable(sync->function, false);

		if (!is_in(sync, part) ||
		    (group->function && strcmp(group->function, sync->function)))
			continue;
		if (group->function) {
			_cleanup_free_ char *figures =
				calls_and_time(sync, sync->count, sync->blocked_ns);

			lines_add(lines, LINE_PLAIN, "      %s: %s", rule, figures);
			continue;
		}
		for (size_t k = 0; k < sync->uses.count; k++) {
			const struct report_use *use = sync->uses.items[k];

			_cleanup_free_ char *figures =
				calls_and_time(sync, use->count, use->blocked_ns);

			if (use->site == group->site)
				lines_add(lines, LINE_PLAIN, "      %s in %s: %s", rule, function,
					  figures);
		}
	}
}

static void add_section_grouped(const struct lines *lines, struct report *report,
				const struct part *part)
{
	_cleanup_free_ struct group *groups = NULL;
	bool by_function = lines->style->by == REPORT_BY_FUNCTION;
	size_t count = 0, capacity = 0, shown;

	for (size_t i = 0; i < report->syncs.count; i++) {
		const struct report_sync *sync = report->syncs.items[i];

		if (!is_in(sync, part))
			continue;
		for (size_t k = 0; k < sync->uses.count; k++) {
			const struct report_use *use = sync->uses.items[k];

			groups = memory_grow(groups, count, &capacity, sizeof(*groups));
			groups[count] = (struct group){
				.site = by_function ? NULL : use->site,
				.function = by_function ? sync->function : NULL,
				.count = use->count,
				.blocked_ns = use->blocked_ns,
				.blocked_max = use->blocked_max,
				.order = count,
			};
			count++;
		}
	}
	if (count) {
		qsort(groups, count, sizeof(*groups), group_key);
		count = groups_fold(groups, count);
		qsort(groups, count, sizeof(*groups), group_rank);
	}
	shown = at_most(lines, count, lines->style->limit);
	for (size_t i = 0; i < shown; i++)
		add_group(lines, report, i + 1, &groups[i], part);
	lines_add_more(lines, "  ", shown, count, "line");
}

static void add_section(const struct lines *lines, struct report *report, const struct part *part,
			const char *heading, const char *if_none)
{
	size_t count = 0;

	for (size_t i = 0; i < report->syncs.count; i++)
		count += is_in(report->syncs.items[i], part);
	if (!count && !if_none)
		return;
	lines_add(lines, LINE_PLAIN, "%s", "");
	lines_add(lines, LINE_HEADING, "%s", heading);
	if (!count) {
		lines_add(lines, LINE_PLAIN, "  %s", if_none);
		return;
	}
	add_columns(lines, part->class != WAIT_DEVICE);
	if (lines->style->by == REPORT_BY_RULE)
		add_section_by_rule(lines, report, part, count);
	else if (lines->style->by >= REPORT_BY_STREAM)
		report_trace_add_section(lines, report,
					 &(struct report_cell){.class = part->class,
							       .own_cost = part->own_cost,
							       .allowed = part->allowed});
	else
		add_section_grouped(lines, report, part);
}

static uint64_t count_calls(const struct report *report, const struct part *part)
{
	uint64_t count = 0;

	for (size_t i = 0; i < report->syncs.count; i++) {
		const struct report_sync *sync = report->syncs.items[i];

		if (is_in(sync, part))
			sum_add(&count, sync->count);
	}
	return count;
}

/* Where the functions are not known, no call is counted, but its wait is. */
static bool has_calls(const struct report *report)
{
	return report->calls || report->syncs.count;
}

/*
 * Waits and slow calls apart: only the former go away when the program orders its work otherwise.
 */
static void add_summary(const struct lines *lines, const struct report *report)
{
	static const struct part waits = {.class = WAIT_IMPLICIT};
	static const struct part slow = {.class = WAIT_IMPLICIT, .own_cost = true};
	char blocked[TEXT_FIGURE], share[TEXT_FIGURE], wall[TEXT_FIGURE];
	uint64_t waits_ns = report->implicit_ns - report->own_cost_ns;
	uint64_t count = count_calls(report, &waits);

	if (!has_calls(report) && report_witness_has_calls(report))
		lines_add(lines, LINE_STRONG,
			  "slipstream: waits of processes with the preload library are in its own "
			  "records, not here");
	else if (!has_calls(report))
		lines_add(lines, LINE_STRONG, "slipstream: no call of the CUDA driver was seen");
	else if (!report->wall_ns)
		lines_add(lines, LINE_STRONG,
			  "slipstream: %" PRIu64
			  " implicit synchronization%s blocked the program for %s",
			  count, plural(count), text_ns(waits_ns, blocked));
	else
		lines_add(lines, LINE_STRONG,
			  "slipstream: %" PRIu64
			  " implicit synchronization%s blocked the program for %s"
			  " (%s of %s%s)",
			  count, plural(count), text_ns(waits_ns, blocked),
			  text_share(waits_ns, report->wall_ns, share),
			  text_ns(report->wall_ns, wall),
			  report_trace_is_part(report) ? " that the trace holds" : "");
	if (report->unknown_count)
		lines_add(lines, LINE_STRONG,
			  "slipstream: %" PRIu64
			  " wait%s without definition%s, class unknown, took %s",
			  report->unknown_count, plural(report->unknown_count),
			  plural(report->unknown_count), text_ns(report->unknown_ns, blocked));
	count = count_calls(report, &slow);
	if (count)
		lines_add(lines, LINE_STRONG,
			  "slipstream: %" PRIu64 " call%s slow by %s own work took %s (%s)", count,
			  plural(count), count == 1 ? "its" : "their",
			  text_ns(report->own_cost_ns, blocked),
			  text_share(report->own_cost_ns, report->wall_ns, share));
	if (report->reasons.count)
		lines_add(lines, LINE_WARNING,
			  "slipstream: inconclusive, there may be more (%zu reason%s below)",
			  report->reasons.count, plural(report->reasons.count));
}

void report_write_text(struct report *report, const struct report_style *style, FILE *out)
{
	static const struct {
		struct part part;
		const char *heading, *if_none;
	} sections[] = {
		{{WAIT_IMPLICIT, false, false}, "IMPLICIT SYNCHRONIZATIONS", "none seen"},
		{{WAIT_IMPLICIT, false, true},
		 "IMPLICIT SYNCHRONIZATIONS IN AN ALLOWED SCOPE",
		 NULL},
		{{WAIT_IMPLICIT, true, false},
		 "SLOW CALLS (the call's own work blocked the host: loading, pinning, creating)",
		 NULL},
		{{WAIT_IMPLICIT, true, true}, "SLOW CALLS IN AN ALLOWED SCOPE", NULL},
		{{WAIT_DEVICE, false, false},
		 "DEVICE SERIALIZATION (the host was not blocked)",
		 NULL},
		{{WAIT_DEVICE, false, true}, "DEVICE SERIALIZATION IN AN ALLOWED SCOPE", NULL},
		{{WAIT_EXPLICIT, false, false}, "EXPLICIT SYNCHRONIZATIONS", NULL},
		{{WAIT_EXPLICIT, false, true},
		 "EXPLICIT SYNCHRONIZATIONS IN AN ALLOWED SCOPE",
		 NULL},
		{{REPORT_CLASS_UNKNOWN, false, false},
		 "WAITS WITHOUT DEFINITIONS (class unknown: implicit, explicit or slow)",
		 NULL},
	};
	struct lines lines = {.out = out, .style = style};

	add_summary(&lines, report);
	for (size_t i = 0; has_calls(report) && i < ARRAY_SIZE(sections); i++)
		add_section(&lines, report, &sections[i].part, sections[i].heading,
			    sections[i].if_none);
	report_trace_add_extra(&lines, report);
	lines_add_witness(&lines, report);
	lines_add_remarks(&lines, report);
	lines_add_rewrites(&lines, report);
	lines_add_coverage(&lines, report);
	lines_add_processes(&lines, report);
	report_trace_add_ranks(&lines, report);
}
