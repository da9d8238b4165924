// SPDX-License-Identifier: MIT
/* Lint, the order of its steps and its verdict (lint.h). Called by command.c and trace/main.c. */
#include "lint/lint.h"

#include "lint/baseline.h"
#include "memory.h"
#include "report_order.h"

static int order_numbers(uint64_t left, uint64_t right)
{
	return (left > right) - (left < right);
}

static int order_texts(const char *left, const char *right)
{
	return strcmp(left ? left : "", right ? right : "");
}

/* Level, rule, file, line, and then whatever tells two results apart. */
static int result_order(const void *left, const void *right)
{
	const struct lint_result *l = left, *r = right;
	const struct lint_frame *at = lint_stack_place(l->stack),
				*other = lint_stack_place(r->stack);
	int order = order_numbers(r->level, l->level);

	if (!order)
		order = order_numbers((uint64_t)(l->rule - lint_rules),
				      (uint64_t)(r->rule - lint_rules));
	if (!order)
		order = order_texts(at ? at->file : NULL, other ? other->file : NULL);
	if (!order)
		order = order_numbers(at ? at->line : 0, other ? other->line : 0);
	if (!order)
		order = order_numbers(l->fingerprint, r->fingerprint);
	if (!order)
		order = lint_stack_order(l->stack, r->stack);
	if (!order)
		order = lint_stack_order(l->other_stack, r->other_stack);
	return order ? order : order_texts(l->message, r->message);
}

static int occurrence_order(const void *left, const void *right)
{
	const struct lint_result *l = *(struct lint_result *const *)left,
				 *r = *(struct lint_result *const *)right;
	int order = order_numbers(l->fingerprint, r->fingerprint);

	if (!order)
		order = lint_stack_order(l->stack, r->stack);
	return order ? order : lint_stack_order(l->other_stack, r->other_stack);
}

/* Two places of one function look alike without their lines: the order of the lines tells them apart. */
static void number_occurrences(struct lint *lint)
{
	struct lint_result **sorted = memory_new(lint->result_count * sizeof(struct lint_result *));

	for (size_t i = 0; i < lint->result_count; i++)
		sorted[i] = &lint->results[i];
	if (lint->result_count)
		qsort(sorted, lint->result_count, sizeof(struct lint_result *), occurrence_order);
	for (size_t i = 0; i < lint->result_count; i++)
		sorted[i]->occurrence = i && sorted[i - 1]->fingerprint == sorted[i]->fingerprint
						? sorted[i - 1]->occurrence + 1
						: 1;
	free(sorted);
}

void lint_judge(struct lint *lint)
{
	lint_find_doubts(lint);
	lint_collect_regions(lint);
	lint_collect(lint);
	lint_make_results(lint);
	lint_check_budgets(lint);
	number_occurrences(lint);
	if (lint->result_count)
		qsort(lint->results, lint->result_count, sizeof(*lint->results), result_order);
	if (lint->baseline)
		lint_baseline_apply(lint->baseline, lint);
}

size_t lint_count(const struct lint *lint, enum lint_level level, bool known)
{
	size_t count = 0;

	for (size_t i = 0; i < lint->result_count; i++)
		count += lint->results[i].level == level && lint->results[i].is_known == known;
	return count;
}

size_t lint_failures(const struct lint *lint)
{
	return lint_count(lint, LINT_ERROR, false) + lint_count(lint, LINT_WARNING, false);
}

int lint_status(const struct lint *lint)
{
	/* One that had to be ended has not failed where a finding says why. */
	if (lint->failed && !(lint->stands_still && lint_failures(lint)))
		return LINT_PROGRAM_FAILED;
	if (lint_failures(lint))
		return LINT_FINDINGS;
	return lint->reasons.count ? LINT_INCONCLUSIVE : LINT_CLEAN;
}

void lint_done(struct lint *lint)
{
	lint_results_done(lint);
	for (size_t i = 0; i < lint->uses.count; i++) {
		struct lint_use *use = lint->uses.items[i];

		report_list_done(&use->parts);
		report_list_done(&use->waited);
	}
	report_list_done(&lint->uses);
	report_list_done(&lint->regions);
	report_list_done(&lint->paths);
	lint_stacks_done(lint);
	report_list_done(&lint->texts);
	report_list_done(&lint->reasons);
	report_list_done(&lint->not_followed);
}
