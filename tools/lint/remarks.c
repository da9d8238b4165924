// SPDX-License-Identifier: MIT
/*
 * Lint, remarks: what SLIPSTREAM_CHECK=order found in a run, as uses with two places; and what it could not find, so that nobody takes silence
 * for clean. Called by collect.c and doubt.c.
 */
#include <inttypes.h>

#include "lint/lint.h"
#include "memory.h"
#include "report_order.h"
#include "report_remarks.h"
#include "report_sites.h"
#include "sum.h"

static const char *function_of(const struct record_file *file, uint32_t number)
{
	const struct record_function *function;
	const char *name;

	switch (number) {
	case RECORD_HOST_READ:
		return "host read";
	case RECORD_HOST_WRITE:
		return "host write";
	case RECORD_HOST_FREE:
		return "host free";
	default:
		break;
	}
	function = (const void *)record_find(&file->functions, number);
	name = function ? record_string_text(file, function->name) : NULL;
	return name ? name : "unknown";
}

static const struct lint_stack *stack_of(struct lint *lint, const struct record_file *file,
					 uint32_t site)
{
	return lint_stack_of(lint, report_site_of(lint->report, file, site));
}

static const char *slug_of(const struct record_file *file, const struct record_remark *remark)
{
	const struct record_rule *rule = (const void *)record_find(&file->rules, remark->rule);
	const char *slug = rule ? record_string_text(file, rule->slug) : NULL;

	return slug ? slug : "unknown";
}

/* The program asked for the wait: told only where nothing else says why the program stands still. */
static bool is_asked(const char *slug)
{
	return !strcmp(slug, "stuck-asked-wait");
}

static bool is_stuck(const struct lint *lint, const struct record_remark *remark)
{
	return remark->count && remark->last_ns < lint->stuck_before_ns;
}

static bool has_culprit(const struct lint *lint)
{
	for (size_t i = 0; i < lint->report->process_count; i++) {
		const struct record_file *file = lint->report->processes[i].file;

		for (size_t k = 0; k < file->remarks.count; k++) {
			const struct record_remark *remark = (const void *)file->remarks.records[k];
			const char *slug = slug_of(file, remark);

			if (report_remark_is_inside(slug) && !is_asked(slug) &&
			    is_stuck(lint, remark))
				return true;
		}
	}
	return false;
}

static void add_remark(struct lint *lint, const struct record_file *file,
		       const struct record_remark *remark)
{
	const struct record_rule *rule = (const void *)record_find(&file->rules, remark->rule);
	const char *cause = rule ? record_string_text(file, rule->cause) : NULL;
	struct lint_use key = {
		.slug = slug_of(file, remark),
		.function = function_of(file, remark->function),
		.cause = cause ? cause : "for an unknown reason",
		.class = WAIT_ORDER,
		.stack = stack_of(lint, file, remark->site),
	};
	struct lint_part *part;
	struct lint_use *use;

	if (remark->other_function != RECORD_NO_FUNCTION) {
		key.other_function = function_of(file, remark->other_function);
		key.other_stack = stack_of(lint, file, remark->other_site);
	}
	use = lint_use_of(lint, &key);
	part = lint_use_part(use, lint_region_path(lint, file, remark->region));
	sum_add(&use->count, remark->count);
	sum_add(&use->bytes, remark->bytes);
	sum_add(&part->count, remark->count);
	sum_add(&part->bytes, remark->bytes);
}

void lint_collect_remarks(struct lint *lint)
{
	bool culprit = lint->stuck_before_ns && has_culprit(lint);

	for (size_t i = 0; i < lint->report->process_count; i++) {
		const struct record_file *file = lint->report->processes[i].file;

		for (size_t k = 0; k < file->remarks.count; k++) {
			const struct record_remark *remark = (const void *)file->remarks.records[k];

			const char *slug = slug_of(file, remark);

			if (report_remark_is_inside(slug) &&
			    (!is_stuck(lint, remark) || (culprit && is_asked(slug))))
				continue;
			lint->stands_still |= report_remark_is_inside(slug);
			if (remark->count && remark->allowed)
				sum_add(&lint->allowed_by_program, remark->count);
			else if (remark->count)
				add_remark(lint, file, remark);
		}
	}
}

/* ---- what was not checked ---- */

/* Among the words of a setting, as the process had it. */
static bool has_word(const struct record_file *file, const char *setting, const char *word)
{
	const char *line = record_string_text(file, file->header->config);
	size_t length = strlen(setting), size = strlen(word);

	for (; line && *line; line += strcspn(line, "\n"), line += *line == '\n') {
		const char *at = line + length + 1;

		if (strncmp(line, setting, length) != 0 || line[length] != '=')
			continue;
		for (size_t part; (part = strcspn(at, ",\n")), true; at += part + 1) {
			if (part == size && !strncmp(at, word, size))
				return true;
			if (at[part] != ',')
				return false;
		}
	}
	return false;
}

bool lint_is_checked(const struct lint *lint, const struct lint_rule *rule)
{
	if (rule->needs)
		return false;
	if (!rule->by_remarks)
		return true;
	return strcmp(rule->check, LINT_CHECK_GUARD) ? lint->has_order : lint->has_guard;
}

static void add_not_followed(struct lint *lint, const struct record_file *file,
			     const struct record_note *note)
{
	const char *text = record_string_text(file, note->text);
	struct report_named key = {.name = text ? text : "unknown"}, *named;

	named = report_list_find_or_add(&lint->not_followed, &key, sizeof(key),
					report_named_identity);
	sum_add(&named->count, note->count);
}

void lint_find_unchecked(struct lint *lint)
{
	lint->has_order = lint->has_guard = lint->report->process_count;
	for (size_t i = 0; i < lint->report->process_count; i++) {
		const struct record_file *file = lint->report->processes[i].file;

		lint->has_order &= has_word(file, "CHECK", "order");
		lint->has_guard &= has_word(file, "CHECK", LINT_CHECK_GUARD);
		for (size_t k = 0; k < file->notes.count; k++) {
			const struct record_note *note = (const void *)file->notes.records[k];

			if (note->code == NOTE_CHECK && note->count)
				add_not_followed(lint, file, note);
		}
	}
	report_list_sort(&lint->not_followed, report_named_rank_sort);
	for (size_t i = 0; i < lint->not_followed.count; i++) {
		const struct report_named *named = lint->not_followed.items[i];

		if (strstr(named->name, NOTE_CHECK_HIDES))
			report_text_list_add(
				&lint->reasons,
				memory_format("%s (%" PRIu64 " times)", named->name, named->count));
	}
	if (lint->wants_order && !lint->has_order)
		report_text_list_add(
			&lint->reasons,
			memory_copy("the order of operations was not checked in this run "
				    "(SLIPSTREAM_CHECK=order), as --require order wants"));
}
