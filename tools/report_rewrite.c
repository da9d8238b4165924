// SPDX-License-Identifier: MIT
/*
 * Rewrites in the report (report_rewrite.h). Called by the text and the JSON writer. The reasons for which calls were left to the driver are
 * notes, with the other notes of the coverage.
 */
#include "report_rewrite.h"

#include <inttypes.h>
#include <string.h>

#include "memory.h"
#include "text.h"

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
			REWRITE_FIGURES(FIGURE)
#undef FIGURE
		}
	}
	return wanted;
}

void lines_add_rewrites(const struct lines *lines, const struct report *report)
{
	char held[TEXT_FIGURE], peak[TEXT_FIGURE], limit[TEXT_FIGURE];
	struct record_rewrite sum;
	const char *name;

	for (size_t i = 0; (name = report_rewrite_sum(report, i, &sum)); i++) {
		_cleanup_free_ char *shown = text_printable(name, false);

		if (!i) {
			lines_add(lines, LINE_PLAIN, "%s", "");
			lines_add(lines, LINE_HEADING, "REWRITES (mode fix)");
		}
		lines_add(lines, LINE_STRONG,
			  "  %s: %" PRIu64 " wait%s avoided, %" PRIu64 " of %" PRIu64
			  " allocation%s from freed blocks",
			  shown, sum.waits_avoided, plural(sum.waits_avoided), sum.hits,
			  sum.hits + sum.misses, plural(sum.hits + sum.misses));
		lines_add(lines, LINE_PLAIN,
			  "      frees: %" PRIu64 " without the driver, %" PRIu64
			  " waited for like the driver (strict-free), %" PRIu64 " by the driver",
			  sum.parked, sum.waits_made, sum.real_frees);
		if (sum.unproven)
			lines_add(
				lines, LINE_PLAIN,
				"      %" PRIu64
				" allocation%s found freed blocks that may still have been in use",
				sum.unproven, plural(sum.unproven));
		if (sum.purges)
			lines_add(lines, LINE_PLAIN,
				  "      all blocks given back for want of memory: %" PRIu64
				  " time%s",
				  sum.purges, plural(sum.purges));
		lines_add(lines, LINE_PLAIN, "      held: %s at the end, %s at most, limit %s",
			  text_bytes(sum.held_bytes, held), text_bytes(sum.peak_bytes, peak),
			  text_bytes(sum.limit_bytes, limit));
	}
}
