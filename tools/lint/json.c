// SPDX-License-Identifier: MIT
/* Lint, JSON of its own (write.h): one object with everything that was judged; slipstream-lint.schema.json describes it. */
#include <inttypes.h>

#include "lint/baseline.h"
#include "lint/config.h"
#include "lint/write.h"
#include "memory.h"

static json_t *new_object(void)
{
	return memory_check(json_object());
}

static json_t *new_array(void)
{
	return memory_check(json_array());
}

static json_t *line_json(uint32_t line)
{
	return line ? lint_json_number(line) : json_null();
}

static json_t *frame_json(const struct lint_frame *frame)
{
	json_t *object = new_object();

	lint_json_set(object, "function", lint_json_text(frame->function));
	lint_json_set(object, "file", lint_json_text(frame->file));
	lint_json_set(object, "line", line_json(frame->line));
	lint_json_set(object, "module", lint_json_text(frame->module));
	lint_json_set(object, "offset",
		      frame->module ? lint_json_number(frame->offset) : json_null());
	return object;
}

static json_t *frames_json(const struct lint_stack *stack)
{
	json_t *array = new_array();

	for (size_t i = 0; stack && i < stack->count; i++)
		lint_json_append(array, frame_json(&stack->frames[i]));
	return array;
}

static json_t *regions_json(const struct lint_result *result)
{
	json_t *array = new_array();

	for (size_t i = 0; i < result->parts.count; i++) {
		const struct lint_part *part = result->parts.items[i];
		_cleanup_free_ char *words = NULL;
		json_t *object;

		if (!*part->region)
			continue;
		words = lint_region_words(part->region);
		object = new_object();
		lint_json_set(object, "name", lint_json_text(words));
		lint_json_set(object, "count", lint_json_number(part->count));
		lint_json_set(object, "blocked_ns", lint_json_number(part->blocked_ns));
		lint_json_append(array, object);
	}
	return array;
}

static json_t *waited_json(const struct lint_result *result)
{
	json_t *array = new_array();

	for (size_t i = 0; i < result->waited.count; i++) {
		const struct report_named *waited = result->waited.items[i];
		json_t *object = new_object();

		lint_json_set(object, "name", lint_json_text(waited->name));
		lint_json_set(object, "count", lint_json_number(waited->count));
		lint_json_set(object, "blocked_ns", lint_json_number(waited->blocked_ns));
		lint_json_append(array, object);
	}
	return array;
}

static json_t *other_json(const struct lint_result *result)
{
	const struct lint_frame *place = lint_stack_place(result->other_stack);
	json_t *object;

	if (!result->other_function)
		return json_null();
	object = new_object();
	lint_json_set(object, "function", lint_json_text(result->other_function));
	lint_json_set(object, "place", place ? frame_json(place) : json_null());
	lint_json_set(object, "frames", frames_json(result->other_stack));
	return object;
}

static json_t *result_json(const struct lint_result *result)
{
	const struct lint_frame *place = lint_stack_place(result->stack);
	json_t *object = new_object();

	lint_json_set(object, "rule", lint_json_text(result->rule->id));
	lint_json_set(object, "slug", lint_json_text(result->rule->slug));
	lint_json_set(object, "level", lint_json_text(lint_level_name(result->level)));
	lint_json_set(object, "sure", lint_json_text(result->rule->sure));
	lint_json_set(object, "message", lint_json_text(result->message));
	lint_json_set(object, "fix", lint_json_text(result->rule->fix));
	lint_json_set(object, "function", lint_json_text(result->function));
	lint_json_set(object, "budget",
		      lint_json_text(result->budget ? result->budget->region : NULL));
	lint_json_set(object, "entry",
		      result->entry ? lint_json_number(result->entry) : json_null());
	lint_json_set(object, "place", place ? frame_json(place) : json_null());
	lint_json_set(object, "frames", frames_json(result->stack));
	lint_json_set(object, "other", other_json(result));
	lint_json_set(object, "count", lint_json_number(result->count));
	lint_json_set(object, "blocked_ns",
		      result->on_device ? json_null() : lint_json_number(result->blocked_ns));
	lint_json_set(object, "bytes", lint_json_number(result->bytes));
	lint_json_set(object, "regions", regions_json(result));
	lint_json_set(object, "waited_for", waited_json(result));
	lint_json_set(object, "fingerprint", lint_json_fingerprint(result));
	lint_json_set(object, "known", json_boolean(result->is_known));
	return object;
}

static json_t *gone_json(const struct lint_baseline *baseline)
{
	json_t *array = new_array();

	for (size_t i = 0; baseline && i < baseline->count; i++) {
		const struct lint_known *entry = &baseline->entries[i];
		json_t *object;
		char fingerprint[17];

		if (entry->is_seen)
			continue;
		object = new_object();
		(void)snprintf(fingerprint, sizeof(fingerprint), "%016" PRIx64, entry->fingerprint);
		lint_json_set(object, "rule", lint_json_text(entry->rule));
		lint_json_set(object, "fingerprint", lint_json_text(fingerprint));
		lint_json_set(object, "occurrence", lint_json_number(entry->occurrence));
		lint_json_set(object, "place", lint_json_text(entry->place));
		lint_json_append(array, object);
	}
	return array;
}

static json_t *left_out_json(const struct lint *lint)
{
	json_t *object = new_object();

	lint_json_set(object, "allowed_scopes", lint_json_number(lint->allowed_by_program));
	lint_json_set(object, "allowed", lint_json_number(lint->allowed_by_config));
	lint_json_set(object, "below_threshold", lint_json_number(lint->below_threshold));
	lint_json_set(object, "off", lint_json_number(lint->switched_off));
	lint_json_set(object, "not_hot", lint_json_number(lint->cold));
	return object;
}

static json_t *allowances_json(const struct lint_config *config)
{
	json_t *array = new_array();

	for (size_t i = 0; i < config->allow_count; i++) {
		json_t *object = new_object();

		lint_json_set(object, "line", lint_json_number(config->allow[i].line));
		lint_json_set(object, "reason", lint_json_text(config->allow[i].reason));
		lint_json_set(object, "count", lint_json_number(config->allow[i].calls));
		lint_json_append(array, object);
	}
	return array;
}

static json_t *budgets_json(const struct lint_config *config)
{
	static const char *const per[] = {
		[LINT_PER_RUN] = "run", [LINT_PER_ENTRY] = "entry", [LINT_PER_STEP] = "step"};
	json_t *array = new_array();

	for (size_t i = 0; i < config->budget_count; i++) {
		json_t *object = new_object();

		lint_json_set(object, "line", lint_json_number(config->budgets[i].line));
		lint_json_set(object, "region", lint_json_text(config->budgets[i].region));
		lint_json_set(object, "per", lint_json_text(per[config->budgets[i].per]));
		lint_json_set(object, "entries", lint_json_number(config->budgets[i].entries));
		lint_json_append(array, object);
	}
	return array;
}

static json_t *unchecked_json(void)
{
	json_t *array = new_array();

	for (size_t i = 0; i < lint_rule_count; i++)
		if (lint_rules[i].needs)
			lint_json_append(array, lint_json_text(lint_rules[i].id));
	return array;
}

static json_t *unchecked_in_run_json(const struct lint *lint)
{
	json_t *array = new_array();

	for (size_t i = 0; i < lint_rule_count; i++)
		if (lint_rules[i].by_remarks && !lint_is_checked(lint, &lint_rules[i]))
			lint_json_append(array, lint_json_text(lint_rules[i].id));
	return array;
}

static json_t *not_followed_json(const struct lint *lint)
{
	json_t *array = new_array();

	for (size_t i = 0; i < lint->not_followed.count; i++) {
		const struct report_named *named = lint->not_followed.items[i];
		json_t *object = new_object();

		lint_json_set(object, "what", lint_json_text(named->name));
		lint_json_set(object, "count", lint_json_number(named->count));
		lint_json_append(array, object);
	}
	return array;
}

void lint_write_json(const struct lint *lint, FILE *out)
{
	static const char *const verdicts[] = {
		[LINT_CLEAN] = "clean",
		[LINT_FINDINGS] = "findings",
		[LINT_INCONCLUSIVE] = "inconclusive",
		[LINT_PROGRAM_FAILED] = "program failed",
	};
	json_t *object = new_object(), *results = new_array(), *reasons = new_array();

	for (size_t i = 0; i < lint->result_count; i++)
		lint_json_append(results, result_json(&lint->results[i]));
	for (size_t i = 0; i < lint->reasons.count; i++)
		lint_json_append(reasons, lint_json_text(lint->reasons.items[i]));
	lint_json_set(object, "version", lint_json_text(SLIPSTREAM_VERSION));
	lint_json_set(object, "verdict", lint_json_text(verdicts[lint_status(lint)]));
	lint_json_set(object, "inconclusive", json_boolean(lint->reasons.count));
	lint_json_set(object, "reasons", reasons);
	lint_json_set(object, "program_failed", lint_json_text(lint->failed));
	lint_json_set(object, "results", results);
	lint_json_set(object, "gone", gone_json(lint->baseline));
	lint_json_set(object, "left_out", left_out_json(lint));
	lint_json_set(object, "allowances", allowances_json(lint->config));
	lint_json_set(object, "budgets", budgets_json(lint->config));
	lint_json_set(object, "unchecked_rules", unchecked_json());
	lint_json_set(object, "unchecked_in_run", unchecked_in_run_json(lint));
	lint_json_set(object, "not_followed", not_followed_json(lint));
	if (!json_dumpf(object, out, JSON_INDENT(2) | JSON_PRESERVE_ORDER))
		(void)fputc('\n', out);
	json_decref(object);
}
