// SPDX-License-Identifier: MIT
/*
 * Lint, budgets: waits inside a region of the public header, explicit ones too, held against the limits of the configuration. Called by
 * lint.c. A call belongs to the innermost region around it; allowed-sync scopes are left out, allowances of the configuration are not. Work that a call does by itself (loading, pinning) is time, but no wait.
 */
#include <fnmatch.h>
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

			if (*part->region && !fnmatch(pattern, part->region, 0))
				add_part(&spent, use, part);
		}
	}
	return spent;
}

static void add_result(struct lint *lint, const struct lint_budget *budget, const char *kind,
		       const struct spent *spent, char *message)
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
	result->count = spent->implicit + spent->explicit;
	result->blocked_ns = spent->blocked_ns;
	result->message = message;
	result->fingerprint = lint_fingerprint(rule->id, kind, budget->region);
}

static char *count_message(const struct lint_budget *budget, const char *kind, uint64_t has,
			   uint64_t limit)
{
	return memory_format("region %s: %" PRIu64 " %s wait%s, its budget is %" PRIu64,
			     budget->region, has, kind, has == 1 ? "" : "s", limit);
}

static void check(struct lint *lint, const struct lint_budget *budget)
{
	struct spent spent = add_up(lint, budget->region);
	char has[TEXT_FIGURE], limit[TEXT_FIGURE];

	if (budget->has_implicit && spent.implicit > budget->implicit)
		add_result(lint, budget, "implicit", &spent,
			   count_message(budget, "implicit", spent.implicit, budget->implicit));
	if (budget->has_explicit && spent.explicit > budget->explicit)
		add_result(lint, budget, "explicit", &spent,
			   count_message(budget, "explicit", spent.explicit, budget->explicit));
	if (budget->has_blocked && spent.blocked_ns > budget->blocked_ns)
		add_result(lint, budget, "blocked", &spent,
			   memory_format("region %s: blocked %s, its budget is %s", budget->region,
					 text_ns(spent.blocked_ns, has),
					 text_ns(budget->blocked_ns, limit)));
}

void lint_check_budgets(struct lint *lint)
{
	for (size_t i = 0; i < lint->config->budget_count; i++)
		check(lint, &lint->config->budgets[i]);
}
