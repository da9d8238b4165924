// SPDX-License-Identifier: MIT
/* Remarks in the report (report_remarks.h). Called by the text and the JSON writer. */
#include "report_remarks.h"

#include <inttypes.h>

#include "memory.h"
#include "report_order.h"
#include "report_sites.h"
#include "sum.h"
#include "text.h"

#define SITE_DEPTH 6

static int order_sites(const struct report_site *left, const struct report_site *right)
{
	uint64_t one = left ? left->id : 0, other = right ? right->id : 0;

	return (one > other) - (one < other);
}

static int order_texts(const char *left, const char *right)
{
	return strcmp(left ? left : "", right ? right : "");
}

static int remark_identity(const void *left, const void *right)
{
	const struct report_remark *one = left, *other = right;
	int order = strcmp(one->rule, other->rule);

	if (!order)
		order = order_texts(one->function, other->function);
	if (!order)
		order = order_sites(one->site, other->site);
	if (!order)
		order = order_texts(one->other_function, other->other_function);
	return order ? order : order_sites(one->other_site, other->other_site);
}

static const char *function_name(const struct record_file *file, uint32_t number)
{
	const struct record_function *function =
		(const void *)record_find(&file->functions, number);

	return function ? record_string_text(file, function->name) : NULL;
}

static void add(struct report_list *list, struct report *report, const struct record_file *file,
		const struct record_remark *record)
{
	const struct record_rule *rule = (const void *)record_find(&file->rules, record->rule);
	const char *slug = rule ? record_string_text(file, rule->slug) : NULL;
	const char *cause = rule ? record_string_text(file, rule->cause) : NULL;
	struct report_remark key = {
		.rule = slug ? slug : "unknown",
		.cause = cause ? cause : "for an unknown reason",
		.function = function_name(file, record->function),
		.site = report_site_of(report, file, record->site),
	};
	struct report_remark *remark;

	if (record->other_function != RECORD_NO_FUNCTION) {
		key.other_function = function_name(file, record->other_function);
		key.other_site = report_site_of(report, file, record->other_site);
	}
	remark = report_list_find_or_add(list, &key, sizeof(key), remark_identity);
	sum_add(&remark->count, record->count);
}

bool report_remark_is_inside(const char *rule)
{
	return !strncmp(rule, "stuck-", strlen("stuck-"));
}

static const char *slug_of(const struct record_file *file, const struct record_remark *record)
{
	const struct record_rule *rule = (const void *)record_find(&file->rules, record->rule);
	const char *slug = rule ? record_string_text(file, rule->slug) : NULL;

	return slug ? slug : "unknown";
}

struct report_list report_remarks(struct report *report)
{
	struct report_list list = {0};

	for (size_t i = 0; i < report->file_count; i++) {
		const struct record_file *file = report->files[i];

		for (size_t k = 0; k < file->remarks.count; k++) {
			const struct record_remark *record = (const void *)file->remarks.records[k];

			if (record->count && !record->allowed &&
			    !report_remark_is_inside(slug_of(file, record)))
				add(&list, report, file, record);
		}
	}
	return list;
}

static void add_site(const struct lines *lines, struct report *report, struct report_site *site)
{
	if (site)
		lines_add_site(lines, report, site, "        ",
			       lines->style->limit ? SITE_DEPTH : 0);
}

void lines_add_remarks(const struct lines *lines, struct report *report)
{
	struct report_list list = report_remarks(report);
	size_t limit = lines->style->limit,
	       shown = limit && list.count > limit ? limit : list.count;

	if (list.count) {
		lines_add(lines, LINE_PLAIN, "%s", "");
		lines_add(lines, LINE_HEADING,
			  "ORDER (SLIPSTREAM_CHECK; slipstream lint judges it)");
	}
	for (size_t i = 0; i < shown; i++) {
		const struct report_remark *remark = list.items[i];
		_cleanup_free_ char *cause = text_printable(remark->cause, false);

		lines_add(lines, LINE_STRONG, "  %s: %s: %" PRIu64 " call%s",
			  remark->function ? remark->function : "unknown", cause, remark->count,
			  plural(remark->count));
		add_site(lines, report, remark->site);
		if (!remark->other_function)
			continue;
		lines_add(lines, LINE_PLAIN, "      the other side: %s", remark->other_function);
		add_site(lines, report, remark->other_site);
	}
	lines_add_more(lines, "  ", shown, list.count, "line");
	report_list_done(&list);
}
