// SPDX-License-Identifier: MIT
/*
 * Rewrites in the report (report_rewrite.h). Called by the text and the JSON writer. The reasons for which calls were left to the driver are
 * notes, with the other notes of the coverage.
 */
#include "report_rewrite.h"

#include <inttypes.h>
#include <string.h>

#include "memory.h"
#include "report_order.h"
#include "report_sites.h"
#include "text.h"

#define SITE_DEPTH 6 /* frames of one site, unless there is no limit */

static const char *name_of(const struct record_file *file, const struct record_rewrite *rewrite)
{
	const char *name = record_string_text(file, rewrite->name);

	return name ? name : "?";
}

/* The name of the index-th one, counting each name once. */
static const char *find(const struct report *report, size_t index)
{
	const char *seen[8];
	size_t count = 0;

	for (size_t i = 0; i < report->file_count; i++) {
		const struct record_file *file = report->files[i];

		for (size_t j = 0; j < file->rewrites.count; j++) {
			const char *name = name_of(file, (const void *)file->rewrites.records[j]);
			size_t k = 0;

			while (k < count && strcmp(seen[k], name))
				k++;
			if (k < count)
				continue;
			if (count == index)
				return name;
			if (count < ARRAY_SIZE(seen))
				seen[count++] = name;
		}
	}
	return NULL;
}

const char *report_rewrite_sum(const struct report *report, size_t index,
			       struct record_rewrite *ret_sum)
{
	const char *wanted = find(report, index);

	*ret_sum = (struct record_rewrite){0};
	for (size_t i = 0; wanted && i < report->file_count; i++) {
		const struct record_file *file = report->files[i];

		for (size_t j = 0; j < file->rewrites.count; j++) {
			const struct record_rewrite *rewrite =
				(const void *)file->rewrites.records[j];

			if (strcmp(name_of(file, rewrite), wanted))
				continue;
#define FIGURE(field) ret_sum->field += rewrite->field;
			RECORD_REWRITE_FIGURES(FIGURE)
#undef FIGURE
		}
	}
	/* What threads hold by themselves is told as held only: the most that was held was no less. */
	if (ret_sum->peak_bytes < ret_sum->held_bytes)
		ret_sum->peak_bytes = ret_sum->held_bytes;
	return wanted;
}

static const char *function_name(const struct record_file *file, uint32_t number)
{
	const struct record_function *function =
		(const void *)record_find(&file->functions, number);

	return function ? record_string_text(file, function->name) : NULL;
}

static int use_identity(const void *left, const void *right)
{
	const struct report_rewrite_use *one = left, *other = right;

	if (one->site->id != other->site->id)
		return one->site->id < other->site->id ? -1 : 1;
	return strcmp(one->rewrite, other->rewrite);
}

size_t report_rewrite_uses_add(struct report_list *uses, struct report *report, size_t first,
			       bool made)
{
	size_t before = uses->count;

	for (size_t i = first; i < report->file_count; i++) {
		const struct record_file *file = report->files[i];

		for (size_t j = 0; j < file->rewrite_sites.count; j++) {
			const struct record_rewrite_site *record =
				(const void *)file->rewrite_sites.records[j];
			struct report_rewrite_use key = {
				.site = report_site_of(report, file, record->site),
				.rewrite = record_string_text(file, record->rewrite),
				.function = function_name(file, record->function),
			};
			struct report_rewrite_use *use;

			if (!key.site || !key.rewrite ||
			    record->calls <= (made ? record->denied : 0))
				continue;
			use = report_list_find_or_add(uses, &key, sizeof(key), use_identity);
			use->calls += record->calls;
			use->denied += record->denied;
		}
	}
	return uses->count - before;
}

static int real_free_identity(const void *left, const void *right)
{
	const struct report_real_free *one = left, *other = right;
	uint64_t first = one->site ? one->site->id : 0, second = other->site ? other->site->id : 0;
	int names;

	if (first != second)
		return first < second ? -1 : 1;
	names = strcmp(one->rewrite, other->rewrite);
	return names ? names : strcmp(one->why, other->why);
}

struct report_list report_real_frees(struct report *report)
{
	struct report_list list = {0};

	for (size_t i = 0; i < report->file_count; i++) {
		const struct record_file *file = report->files[i];

		for (size_t j = 0; j < file->real_frees.count; j++) {
			const struct record_real_free *record =
				(const void *)file->real_frees.records[j];
			struct report_real_free key = {
				.site = report_site_of(report, file, record->site),
				.rewrite = record_string_text(file, record->rewrite),
				.why = record_string_text(file, record->why),
				.function = function_name(file, record->function),
			};
			struct report_real_free *freed;

			if (!key.rewrite || !key.why)
				continue;
			freed = report_list_find_or_add(&list, &key, sizeof(key),
							real_free_identity);
			freed->calls += record->calls;
			freed->blocks += record->blocks;
		}
	}
	return list;
}

static void add_blocks(const struct lines *lines, const char *name,
		       const struct record_rewrite *sum)
{
	char held[TEXT_FIGURE], peak[TEXT_FIGURE], limit[TEXT_FIGURE];

	lines_add(lines, LINE_STRONG,
		  "  %s: %" PRIu64 " wait%s avoided, %" PRIu64 " of %" PRIu64
		  " allocation%s from freed blocks",
		  name, sum->waits_avoided, plural(sum->waits_avoided), sum->hits,
		  sum->hits + sum->misses, plural(sum->hits + sum->misses));
	lines_add(lines, LINE_PLAIN,
		  "      frees: %" PRIu64 " without the driver, %" PRIu64
		  " waited for like the driver (strict-free), %" PRIu64 " by the driver",
		  sum->parked, sum->waits_made, sum->real_frees);
	if (sum->unproven)
		lines_add(lines, LINE_PLAIN,
			  "      %" PRIu64
			  " allocation%s found freed blocks that may still have been in use",
			  sum->unproven, plural(sum->unproven));
	if (sum->purges)
		lines_add(lines, LINE_PLAIN,
			  "      all blocks given back for want of memory: %" PRIu64 " time%s",
			  sum->purges, plural(sum->purges));
	lines_add(lines, LINE_PLAIN, "      held: %s at the end, %s at most, limit %s",
		  text_bytes(sum->held_bytes, held), text_bytes(sum->peak_bytes, peak),
		  text_bytes(sum->limit_bytes, limit));
}

static void add_copies(const struct lines *lines, const char *name,
		       const struct record_rewrite *sum)
{
	char to[TEXT_FIGURE], from[TEXT_FIGURE];

	lines_add(lines, LINE_STRONG, "  %s: %" PRIu64 " wait%s avoided, %" PRIu64 " cop%s staged",
		  name, sum->waits_avoided, plural(sum->waits_avoided),
		  sum->to_device + sum->from_device,
		  sum->to_device + sum->from_device == 1 ? "y" : "ies");
	lines_add(lines, LINE_PLAIN,
		  "      to the device: %" PRIu64 ", %s; from it: %" PRIu64
		  ", %s; left to the driver: %" PRIu64,
		  sum->to_device, text_bytes(sum->to_device_bytes, to), sum->from_device,
		  text_bytes(sum->from_device_bytes, from), sum->to_driver);
}

static void add_order(const struct lines *lines, const char *name, const struct record_rewrite *sum)
{
	lines_add(lines, LINE_STRONG,
		  "  %s: %" PRIu64 " operation%s of the legacy stream on a stream of our own", name,
		  sum->redirected, plural(sum->redirected));
	lines_add(lines, LINE_PLAIN,
		  "      left on it beside blocking streams: %" PRIu64 "; barriers: %" PRIu64
		  " placed, %" PRIu64 " operation%s needed none; turns: %" PRIu64,
		  sum->native, sum->barriers, sum->elided, plural(sum->elided), sum->turns);
}

static void add_real_frees(const struct lines *lines, struct report *report, const char *name)
{
	size_t limit = lines->style->limit, shown = 0, all = 0;
	struct report_list list = report_real_frees(report);

	for (size_t i = 0; i < list.count; i++) {
		const struct report_real_free *freed = list.items[i];
		_cleanup_free_ char *why = text_printable(freed->why, false);

		if (strcmp(freed->rewrite, name) || (all++ >= limit && limit))
			continue;
		shown++;
		lines_add(lines, LINE_PLAIN,
			  "      freed by the driver: %" PRIu64 " block%s in %" PRIu64
			  " call%s of %s: %s",
			  freed->blocks, plural(freed->blocks), freed->calls, plural(freed->calls),
			  freed->function ? freed->function : "unknown", why);
		if (freed->site)
			lines_add_site(lines, report, freed->site, "        ",
				       limit ? SITE_DEPTH : 0);
	}
	lines_add_more(lines, "      ", shown, all, "place");
	report_list_done(&list);
}

/* Each with its key, as a deny list wants it. */
static void add_sites(const struct lines *lines, struct report *report, const char *name)
{
	size_t limit = lines->style->limit, shown = 0, all = 0;
	struct report_list uses = {0};

	(void)report_rewrite_uses_add(&uses, report, 0, false);
	for (size_t i = 0; i < uses.count; i++) {
		const struct report_rewrite_use *use = uses.items[i];

		if (strcmp(use->rewrite, name) || (all++ >= limit && limit))
			continue;
		shown++;
		lines_add(lines, LINE_PLAIN,
			  "      at site %016" PRIx64 ": %s, %" PRIu64 " call%s, %" PRIu64
			  " denied",
			  use->site->id, use->function ? use->function : "unknown", use->calls,
			  plural(use->calls), use->denied);
		lines_add_site(lines, report, use->site, "        ", limit ? SITE_DEPTH : 0);
	}
	lines_add_more(lines, "      ", shown, all, "call site");
	report_list_done(&uses);
}

void lines_add_rewrites(const struct lines *lines, struct report *report)
{
	struct record_rewrite sum;
	const char *name;

	for (size_t i = 0; (name = report_rewrite_sum(report, i, &sum)); i++) {
		_cleanup_free_ char *shown = text_printable(name, false);
		bool copies = sum.to_device || sum.from_device || sum.to_driver;
		bool order = !strcmp(name, "streams");

		if (!i) {
			lines_add(lines, LINE_PLAIN, "%s", "");
			lines_add(lines, LINE_HEADING, "REWRITES (mode fix)");
		}
		if (order)
			add_order(lines, shown, &sum);
		if (copies)
			add_copies(lines, shown, &sum);
		if ((!copies && !order) || sum.hits || sum.misses)
			add_blocks(lines, shown, &sum);
		add_real_frees(lines, report, name);
		add_sites(lines, report, name);
	}
}
