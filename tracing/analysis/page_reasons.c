// SPDX-License-Identifier: MIT
/* Page, reasons for doubt: those of the report, word for word, as far as a page has room. */
#include "memory.h"
#include "report.h"
#include "tracing/analysis/page_json.h"
#include "tracing/analysis/timeline_write.h"

#define REASONS_MAX 100

static void append(json_t *array, json_t *text)
{
	memory_check(json_array_append_new(array, memory_check(text)) ? NULL : array);
}

json_t *page_reasons(const struct report *report)
{
	json_t *array = memory_check(json_array());
	size_t count = report->reasons.count;

	for (size_t i = 0; i < count && i < REASONS_MAX; i++)
		append(array, timeline_text(report->reasons.items[i]));
	if (count > REASONS_MAX)
		append(array, json_sprintf("%zu more", count - REASONS_MAX));
	return array;
}
