// SPDX-License-Identifier: MIT
/*
 * Lint, results: uses held against rules, allowances and thresholds; what is left becomes a result with a fingerprint. Called by lint.c.
 * What is left out is counted, and told with the results.
 */
#include <fnmatch.h>
#include <inttypes.h>

#include "lint/config.h"
#include "lint/lint.h"
#include "memory.h"
#include "sum.h"
#include "sync/site_key.h"
#include "text.h"

struct lint_result *lint_result_add(struct lint *lint)
{
	struct lint_result *result;

	lint->results = memory_grow(lint->results, lint->result_count, &lint->result_capacity,
				    sizeof(*lint->results));
	result = &lint->results[lint->result_count++];
	*result = (struct lint_result){0};
	return result;
}

static uint64_t add_text(uint64_t key, const char *text)
{
	return site_key_text(key, text, strlen(text));
}

uint64_t lint_fingerprint(const char *rule, const char *function, const char *identity)
{
	uint64_t key = add_text(SITE_KEY_START, rule);

	return site_key_end(add_text(add_text(key, function), identity));
}

/* ---- allowances ---- */

static bool fits_pattern(const char *pattern, const char *text)
{
	return !pattern || (text && !fnmatch(pattern, text, 0));
}

static bool fits_frame(const struct lint_allow *allow, const struct lint_frame *frame)
{
	const char *slash = frame->file ? strrchr(frame->file, '/') : NULL;

	return fits_pattern(allow->function, frame->function) &&
	       (fits_pattern(allow->file, frame->file) ||
		fits_pattern(allow->file, slash ? slash + 1 : NULL));
}

static bool fits_stack(const struct lint_allow *allow, const struct lint_stack *stack)
{
	if (!allow->function && !allow->file)
		return true;
	for (size_t i = 0; stack && i < stack->count; i++)
		if (fits_frame(allow, &stack->frames[i]))
			return true;
	return false;
}

/* The first that accepts calls of this rule at this place and in this region; NULL: none. */
static struct lint_allow *find_allow(const struct lint_config *config, const struct lint_rule *rule,
				     const struct lint_stack *stack, const char *region)
{
	for (size_t i = 0; i < config->allow_count; i++) {
		struct lint_allow *allow = &config->allow[i];

		if ((!allow->rule || lint_rule_is_named(rule, allow->rule)) &&
		    fits_stack(allow, stack) &&
		    (!allow->region || lint_region_fits(allow->region, region)))
			return allow;
	}
	return NULL;
}

/* ---- from uses to results ---- */

static bool is_same(const struct lint_result *result, const struct lint_rule *rule,
		    const struct lint_use *use)
{
	return result->rule == rule && result->stack == use->stack &&
	       result->other_stack == use->other_stack &&
	       !strcmp(result->function, use->function) &&
	       !strcmp(result->other_function ? result->other_function : "",
		       use->other_function ? use->other_function : "");
}

/* Of both sides. */
static uint64_t fingerprint_of(const struct lint_rule *rule, const struct lint_use *use)
{
	const char *identity = use->stack ? use->stack->identity : "";
	_cleanup_free_ char *both = NULL;

	if (!use->other_function)
		return lint_fingerprint(rule->id, use->function, identity);
	both = memory_format("%s\x1d%s\x1e%s", identity, use->other_function,
			     use->other_stack ? use->other_stack->identity : "");
	return lint_fingerprint(rule->id, use->function, both);
}

static struct lint_result *result_of(struct lint *lint, const struct lint_rule *rule,
				     enum lint_level level, const struct lint_use *use)
{
	struct lint_result *result;

	for (size_t i = 0; i < lint->result_count; i++)
		if (is_same(&lint->results[i], rule, use)) {
			if (lint->results[i].level < level)
				lint->results[i].level = level;
			return &lint->results[i];
		}
	result = lint_result_add(lint);
	result->rule = rule;
	result->level = level;
	result->function = use->function;
	result->cause = use->cause;
	result->stack = use->stack;
	result->other_function = use->other_function;
	result->other_stack = use->other_stack;
	result->on_device = true;
	result->is_order = use->class == WAIT_ORDER;
	result->fingerprint = fingerprint_of(rule, use);
	return result;
}

static void merge_part(struct report_list *parts, const struct lint_part *part)
{
	struct lint_part *copy;

	for (size_t i = 0; i < parts->count; i++) {
		struct lint_part *mine = parts->items[i];

		if (strcmp(mine->region, part->region))
			continue;
		sum_add(&mine->count, part->count);
		sum_add(&mine->blocked_ns, part->blocked_ns);
		sum_add(&mine->bytes, part->bytes);
		return;
	}
	copy = memory_new(sizeof(*copy));
	*copy = *part;
	report_text_list_add(parts, (char *)copy);
}

static void merge_waited(struct report_list *waited, const struct report_list *from)
{
	for (size_t i = 0; i < from->count; i++) {
		struct report_named *copy = memory_new(sizeof(*copy));

		*copy = *(const struct report_named *)from->items[i];
		report_text_list_add(waited, (char *)copy);
	}
}

static void add_use(struct lint *lint, const struct lint_rule *rule, enum lint_level level,
		    const struct lint_use *use)
{
	struct lint_result *result = NULL;

	for (size_t i = 0; i < use->parts.count; i++) {
		const struct lint_part *part = use->parts.items[i];
		struct lint_allow *allow = find_allow(lint->config, rule, use->stack, part->region);

		if (allow) {
			sum_add(&allow->calls, part->count);
			sum_add(&lint->allowed_by_config, part->count);
			continue;
		}
		if (!result)
			result = result_of(lint, rule, level, use);
		merge_part(&result->parts, part);
		sum_add(&result->count, part->count);
		sum_add(&result->blocked_ns, part->blocked_ns);
		sum_add(&result->bytes, part->bytes);
	}
	if (!result)
		return;
	result->on_device &= use->class == WAIT_DEVICE || use->class == WAIT_ORDER;
	merge_waited(&result->waited, &use->waited);
}

static void judge_use(struct lint *lint, const struct lint_use *use)
{
	struct lint_facts facts = {.slug = use->slug,
				   .count = use->count,
				   .bytes = use->bytes,
				   .is_spread = use->is_spread,
				   .has_waited = use->waited.count};
	const struct lint_rule *rule;
	enum lint_level level;
	bool is_cold;

	if (use->class == WAIT_EXPLICIT || use->class == REPORT_CLASS_UNKNOWN)
		return;
	rule = lint_rule_of(&facts, &level, &is_cold);
	if (!rule) {
		if (is_cold)
			sum_add(&lint->cold, use->count);
		return;
	}
	level = lint_config_level(lint->config, rule, level);
	if (level == LINT_OFF)
		sum_add(&lint->switched_off, use->count);
	else
		add_use(lint, rule, level, use);
}

/* ---- thresholds and words ---- */

/* a >= b * times, which may be more than there are numbers. */
static bool is_least(uint64_t has, uint64_t least, uint64_t times)
{
	return !__builtin_mul_overflow(least, times, &least) && has >= least;
}

/* On average over the entries of some region. */
static bool is_above_in_part(const struct lint *lint, const struct lint_result *result,
			     const struct lint_threshold *threshold)
{
	for (size_t i = 0; i < result->parts.count; i++) {
		const struct lint_part *part = result->parts.items[i];
		uint64_t entries = lint_region_entries(lint, part->region, threshold->per);

		if (is_least(part->count, threshold->count, entries) &&
		    (result->on_device ||
		     is_least(part->blocked_ns, threshold->blocked_ns, entries)))
			return true;
	}
	return false;
}

/* How often something is out of order says nothing of the harm: no threshold. */
static bool is_below(const struct lint *lint, const struct lint_result *result)
{
	struct lint_threshold threshold = lint_config_threshold(lint->config, result->rule);

	if (result->is_order)
		return false;
	if (threshold.per != LINT_PER_RUN)
		return !is_above_in_part(lint, result, &threshold);
	return result->count < threshold.count ||
	       (!result->on_device && result->blocked_ns < threshold.blocked_ns);
}

static void result_done(struct lint_result *result)
{
	for (size_t i = 0; i < result->parts.count; i++)
		free(result->parts.items[i]);
	for (size_t i = 0; i < result->waited.count; i++)
		free(result->waited.items[i]);
	free(result->parts.items);
	free(result->waited.items);
	free(result->message);
}

static void apply_thresholds(struct lint *lint)
{
	size_t kept = 0;

	for (size_t i = 0; i < lint->result_count; i++) {
		struct lint_result *result = &lint->results[i];

		if (is_below(lint, result)) {
			sum_add(&lint->below_threshold, result->count);
			result_done(result);
			continue;
		}
		lint->results[kept++] = *result;
	}
	lint->result_count = kept;
}

/* "; the other side: cuMemcpyHtoD_v2 at step.c:12 (step)"; the caller frees. */
static char *other_words(const struct lint_result *result)
{
	const struct lint_frame *place = lint_stack_place(result->other_stack);

	if (!result->other_function)
		return memory_copy("");
	if (!place)
		return memory_format("; the other side: %s", result->other_function);
	if (place->file && place->line)
		return memory_format("; the other side: %s at %s:%" PRIu32 " (%s)",
				     result->other_function, place->file, place->line,
				     place->function ? place->function : "?");
	return memory_format("; the other side: %s in %s", result->other_function,
			     place->function ? place->function : "?");
}

static char *message_of(const struct lint_result *result)
{
	_cleanup_free_ char *other = other_words(result);
	_cleanup_free_ char *region = NULL, *words = NULL;
	const char *first = "";
	char figure[TEXT_FIGURE];

	for (size_t i = 0; i < result->parts.count && !*first; i++)
		first = ((const struct lint_part *)result->parts.items[i])->region;
	words = lint_region_words(first);
	region = *first ? memory_format(", in region %s", words) : memory_copy("");
	if (result->is_order)
		return memory_format("%s: %s (%" PRIu64 " call%s%s)%s", result->function,
				     result->cause, result->count, result->count == 1 ? "" : "s",
				     region, other);
	return memory_format("%s: %s (%" PRIu64 " call%s, %s%s%s)", result->function, result->cause,
			     result->count, result->count == 1 ? "" : "s",
			     result->on_device ? "on the device" : "blocked ",
			     result->on_device ? "" : text_ns(result->blocked_ns, figure), region);
}

void lint_make_results(struct lint *lint)
{
	for (size_t i = 0; i < lint->uses.count; i++)
		judge_use(lint, lint->uses.items[i]);
	apply_thresholds(lint);
	for (size_t i = 0; i < lint->result_count; i++)
		lint->results[i].message = message_of(&lint->results[i]);
}

void lint_results_done(struct lint *lint)
{
	for (size_t i = 0; i < lint->result_count; i++)
		result_done(&lint->results[i]);
	free(lint->results);
	lint->results = NULL;
	lint->result_count = 0;
}
