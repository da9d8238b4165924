// SPDX-License-Identifier: MIT
/* Lint, text for people: a line for each result as compilers write it, its stack and what to do instead (write.h). */
#include <inttypes.h>

#include "lint/config.h"
#include "lint/write.h"
#include "memory.h"
#include "text.h"

#define FRAMES_MAX 6

static void write_stack(const struct lint_stack *stack, const char *joint, FILE *out)
{

	for (size_t i = 0; stack && i < stack->count && i < FRAMES_MAX; i++) {
		_cleanup_free_ char *frame = lint_frame_words(&stack->frames[i]);

		(void)fprintf(out, "%s%s", joint, frame);
		joint = " < ";
	}
	if (stack && stack->count > FRAMES_MAX)
		(void)fprintf(out, " < %zu more", stack->count - FRAMES_MAX);
	if (stack && stack->count)
		(void)fputc('\n', out);
}

static void write_result(const struct lint_result *result, FILE *out)
{
	_cleanup_free_ char *place = lint_place_words(result);
	_cleanup_free_ char *message = text_printable(result->message, false);

	(void)fprintf(out, "%s: %s%s: %s [%s %s]\n", place, result->is_known ? "known " : "",
		      lint_level_name(result->level), message, result->rule->id,
		      result->rule->slug);
	if (result->is_known)
		return;
	write_stack(result->stack, "    at ", out);
	write_stack(result->other_stack, "    other side at ", out);
	if (result->waited.count) {
		const struct report_named *waited = result->waited.items[0];
		_cleanup_free_ char *name = text_printable(waited->name, false);

		(void)fprintf(out, "    waited for: %s\n", name);
	}
	(void)fprintf(out, "    instead: %s\n", result->rule->fix);
}

/* What silence says nothing of, in this run. */
static void write_unchecked_of(const struct lint *lint, bool by_guard, const char *joint, FILE *out)
{
	bool is_any = false;

	for (size_t i = 0; i < lint_rule_count; i++)
		if (lint_rules[i].by_remarks && !lint_is_checked(lint, &lint_rules[i]) &&
		    by_guard == !strcmp(lint_rules[i].check, LINT_CHECK_GUARD)) {
			(void)fprintf(out, "%s%s", joint, lint_rules[i].id);
			joint = ", ";
			is_any = true;
		}
	if (is_any)
		(void)fputc('\n', out);
}

/* The same, in any run of this version. */
static void write_unchecked_ever(FILE *out)
{
	const char *joint = "not checked in this version (slipstream lint --rules): ";
	bool is_any = false;

	for (size_t i = 0; i < lint_rule_count; i++)
		if (lint_rules[i].needs) {
			(void)fprintf(out, "%s%s", joint, lint_rules[i].id);
			joint = ", ";
			is_any = true;
		}
	if (is_any)
		(void)fputc('\n', out);
}

static void write_unchecked(const struct lint *lint, FILE *out)
{
	write_unchecked_of(lint, false,
			   "not checked in this run (SLIPSTREAM_CHECK=order, or slipstream lint "
			   "-- PROGRAM): ",
			   out);
	write_unchecked_of(lint, true,
			   "not checked in this run (slipstream lint --guard -- PROGRAM): ", out);
	for (size_t i = 0; i < lint->not_followed.count; i++) {
		const struct report_named *named = lint->not_followed.items[i];
		_cleanup_free_ char *name = text_printable(named->name, false);

		(void)fprintf(out, "not followed: %s (%" PRIu64 " times)\n", name, named->count);
	}
}

/* A misspelt region has no waits. */
static void write_unentered(const struct lint_budget *budget, FILE *out)
{
	_cleanup_free_ char *region = text_printable(budget->region, false);

	if (!budget->is_entered)
		(void)fprintf(
			out,
			"the budget of line %u is of no region of this run: %s was not entered\n",
			budget->line, region);
}

void lint_write_text(const struct lint *lint, FILE *out)
{
	_cleanup_free_ char *verdict = lint_verdict_words(lint),
			    *left_out = lint_left_out_words(lint);

	for (size_t i = 0; i < lint->result_count; i++)
		write_result(&lint->results[i], out);
	(void)fprintf(out, "%s\n", verdict);
	for (size_t i = 0; i < lint->reasons.count; i++) {
		_cleanup_free_ char *reason = text_printable(lint->reasons.items[i], false);

		(void)fprintf(out, "inconclusive: %s\n", reason);
	}
	if (left_out)
		(void)fprintf(out, "calls left out: %s\n", left_out);
	for (size_t i = 0; i < lint->config->allow_count; i++)
		if (!lint->config->allow[i].calls)
			(void)fprintf(out, "the allowance of line %u fits no call: remove it\n",
				      lint->config->allow[i].line);
	for (size_t i = 0; i < lint->config->budget_count; i++)
		write_unentered(&lint->config->budgets[i], out);
	write_unchecked(lint, out);
	write_unchecked_ever(out);
}
