// SPDX-License-Identifier: MIT
/*
 * Lint, budgets: waits inside a region, explicit ones too, held against the limits of the configuration, for the run or for any one entry. Called
 * by lint.c. A call belongs to each region around it; allowed-sync scopes are left out, allowances of the configuration are not. Work that a call does
 * by itself (loading, pinning) is time, but no wait. What single entries had the library has counted by the same rules (shim/sync/sync.c).
 */
#include <inttypes.h>

#include "lint/config.h"
#include "lint/lint.h"
#include "memory.h"
#include "sum.h"
#include "text.h"

struct spent {
	uint64_t implicit, explicit, blocked_ns;
};

/* What rests on a time alone, which a busy machine can fake, is a note by itself and no matter of budgets. */
static bool is_certain(const struct lint_use *use)
{
	struct lint_facts facts = {.slug = use->slug,
				   .count = use->count,
				   .bytes = use->bytes,
				   .is_spread = use->is_spread,
				   .has_waited = use->waited.count};
	enum lint_level level;
	bool is_cold;

	return lint_rule_of(&facts, &level, &is_cold) && level >= LINT_WARNING;
}

static void add_part(struct spent *spent, const struct lint_use *use, const struct lint_part *part)
{
	if (use->class == WAIT_EXPLICIT)
		sum_add(&spent->explicit, part->count);
	else if (use->class == WAIT_DEVICE || (!use->own_cost && !is_certain(use)))
		return;
	else if (!use->own_cost)
		sum_add(&spent->implicit, part->count);
	sum_add(&spent->blocked_ns, part->blocked_ns);
}

static struct spent add_up(const struct lint *lint, const char *pattern)
{
	struct spent spent = {0};

	for (size_t i = 0; i < lint->uses.count; i++) {
		const struct lint_use *use = lint->uses.items[i];

		for (size_t k = 0; k < use->parts.count; k++) {
			const struct lint_part *part = use->parts.items[k];

			if (lint_region_fits(pattern, part->region))
				add_part(&spent, use, part);
		}
	}
	return spent;
}

struct excess {
	const char *kind;
	uint64_t waits, blocked_ns;
	uint64_t entry; /* 0: of the run */
};

static void add_result(struct lint *lint, const struct lint_budget *budget,
		       const struct excess *excess, char *message)
{
	const struct lint_rule *rule = lint_rule_find(LINT_RULE_BUDGET);
	enum lint_level level = lint_config_level(lint->config, rule, rule->level);
	struct lint_result *result;

	if (level == LINT_OFF) {
		free(message);
		return;
	}
	result = lint_result_add(lint);
	result->rule = rule;
	result->level = level;
	result->budget = budget;
	result->entry = excess->entry;
	result->count = excess->waits;
	result->blocked_ns = excess->blocked_ns;
	result->message = message;
	result->fingerprint = lint_fingerprint(rule->id, excess->kind, budget->region);
}

/* ---- of a run ---- */

static char *count_message(const struct lint_budget *budget, const char *kind, uint64_t has,
			   uint64_t limit)
{
	return memory_format("region %s: %" PRIu64 " %s wait%s, its budget is %" PRIu64,
			     budget->region, has, kind, has == 1 ? "" : "s", limit);
}

static void check_run(struct lint *lint, const struct lint_budget *budget)
{
	struct spent spent = add_up(lint, budget->region);
	struct excess excess = {.waits = spent.implicit + spent.explicit,
				.blocked_ns = spent.blocked_ns};
	char has[TEXT_FIGURE], limit[TEXT_FIGURE];

	if (budget->has_implicit && spent.implicit > budget->implicit) {
		excess.kind = "implicit";
		add_result(lint, budget, &excess,
			   count_message(budget, "implicit", spent.implicit, budget->implicit));
	}
	if (budget->has_explicit && spent.explicit > budget->explicit) {
		excess.kind = "explicit";
		add_result(lint, budget, &excess,
			   count_message(budget, "explicit", spent.explicit, budget->explicit));
	}
	if (budget->has_blocked && spent.blocked_ns > budget->blocked_ns) {
		excess.kind = "blocked";
		add_result(lint, budget, &excess,
			   memory_format("region %s: blocked %s, its budget is %s", budget->region,
					 text_ns(spent.blocked_ns, has),
					 text_ns(budget->blocked_ns, limit)));
	}
}

/* ---- of one entry ---- */

static void take_most(struct lint_most *most, const struct lint_most *other)
{
	if (other->value > most->value)
		*most = *other;
}

static char *entry_words(const struct lint_most *most)
{
	return memory_format("entry %" PRIu64 " of %" PRIu64, most->entry, most->entries);
}

static void check_entry_count(struct lint *lint, const struct lint_budget *budget, const char *kind,
			      const struct lint_most *most, uint64_t limit)
{
	_cleanup_free_ char *which = entry_words(most),
			    *key = memory_format("%s of an entry", kind);
	struct excess excess = {.kind = key, .waits = most->value, .entry = most->entry};

	if (most->value <= limit)
		return;
	add_result(lint, budget, &excess,
		   memory_format("region %s: %" PRIu64
				 " %s wait%s in %s, the budget of one is %" PRIu64,
				 budget->region, most->value, kind, most->value == 1 ? "" : "s",
				 which, limit));
}

static void check_entry_time(struct lint *lint, const struct lint_budget *budget,
			     const struct lint_most *most)
{
	_cleanup_free_ char *which = entry_words(most);
	struct excess excess = {
		.kind = "blocked of an entry", .blocked_ns = most->value, .entry = most->entry};
	char has[TEXT_FIGURE], limit[TEXT_FIGURE];

	if (most->value <= budget->blocked_ns)
		return;
	add_result(lint, budget, &excess,
		   memory_format("region %s: blocked %s in %s, the budget of one is %s",
				 budget->region, text_ns(most->value, has), which,
				 text_ns(budget->blocked_ns, limit)));
}

static void check_entries(struct lint *lint, const struct lint_budget *budget)
{
	struct lint_most implicit = {0}, explicit = {0}, blocked = {0};
	bool is_uncounted = false;

	for (size_t i = 0; i < lint->regions.count; i++) {
		const struct lint_region *region = lint->regions.items[i];

		if (!lint_region_is_named(budget->region, region->path))
			continue;
		take_most(&implicit, &region->implicit);
		take_most(&explicit, &region->explicit);
		take_most(&blocked, &region->blocked);
		is_uncounted |= region->is_uncounted;
	}
	if (is_uncounted)
		report_text_list_add(
			&lint->reasons,
			memory_format("the budget of line %u is for each entry of region %s, "
				      "and an older library did not count entries",
				      budget->line, budget->region));
	if (budget->has_implicit)
		check_entry_count(lint, budget, "implicit", &implicit, budget->implicit);
	if (budget->has_explicit)
		check_entry_count(lint, budget, "explicit", &explicit, budget->explicit);
	if (budget->has_blocked)
		check_entry_time(lint, budget, &blocked);
}

static void find_entries(struct lint *lint, struct lint_budget *budget)
{
	for (size_t i = 0; i < lint->regions.count; i++) {
		const struct lint_region *region = lint->regions.items[i];

		if (!lint_region_is_named(budget->region, region->path))
			continue;
		budget->is_entered = true;
		sum_add(&budget->entries, region->entries);
	}
	if (!budget->is_entered && budget->is_required)
		report_text_list_add(
			&lint->reasons,
			memory_format("the budget of line %u: region %s was not entered",
				      budget->line, budget->region));
}

void lint_check_budgets(struct lint *lint)
{
	for (size_t i = 0; i < lint->config->budget_count; i++) {
		struct lint_budget *budget = &lint->config->budgets[i];

		find_entries(lint, budget);
		if (budget->per == LINT_PER_RUN)
			check_run(lint, budget);
		else
			check_entries(lint, budget);
	}
}
