// SPDX-License-Identifier: MIT
/* Lint, look-ups in the table of rules (rules.h). Called by everything in tools/lint/. */
#include "lint/rules.h"

#include <inttypes.h>
#include <string.h>

#include "memory.h"
#include "report_lines.h"

static const char *const level_names[] = {[LINT_OFF] = "off",
					  [LINT_NOTE] = "note",
					  [LINT_WARNING] = "warning",
					  [LINT_ERROR] = "error"};

const struct lint_rule *lint_rule_find(const char *name)
{
	for (size_t i = 0; i < lint_rule_count; i++)
		if (!strcmp(lint_rules[i].id, name) || !strcmp(lint_rules[i].slug, name))
			return &lint_rules[i];
	return NULL;
}

bool lint_rule_is_named(const struct lint_rule *rule, const char *name)
{
	size_t length = strlen(name);

	return !strcmp(rule->id, name) || !strcmp(rule->slug, name) ||
	       (!strncmp(rule->id, name, length) && rule->id[length] == '/');
}

static bool takes(const struct lint_match *match, const char *slug)
{
	for (const char *const *item = match->slugs; *item; item++)
		if (!strcmp(*item, slug))
			return true;
	return false;
}

static bool is_hot(const struct lint_match *match, const struct lint_facts *facts)
{
	return !match->hot || (facts->count >= match->hot && facts->is_spread);
}

static bool fits(const struct lint_match *match, const struct lint_facts *facts)
{
	uint64_t mean = facts->count ? facts->bytes / facts->count : 0;

	return mean >= match->least_bytes && mean <= match->most_bytes &&
	       facts->count >= match->least_count && (!match->waited || facts->has_waited);
}

const struct lint_rule *lint_rule_of(const struct lint_facts *facts, enum lint_level *ret_level,
				     bool *ret_is_cold)
{
	const struct lint_rule *rule = lint_rule_find(LINT_RULE_UNKNOWN);
	bool is_known = false;

	*ret_is_cold = false;
	*ret_level = rule->level;
	for (size_t i = 0; i < lint_rule_count; i++)
		for (size_t k = 0; k < lint_rules[i].match_count; k++) {
			const struct lint_match *match = &lint_rules[i].matches[k];

			if (!takes(match, facts->slug))
				continue;
			is_known = true;
			if (fits(match, facts) && is_hot(match, facts)) {
				*ret_level = match->level ? match->level : lint_rules[i].level;
				return &lint_rules[i];
			}
			*ret_is_cold |= fits(match, facts);
		}
	return is_known ? NULL : rule;
}

const char *lint_level_name(enum lint_level level)
{
	return level_names[level];
}

bool lint_level_parse(const char *word, enum lint_level *ret_level)
{
	for (size_t i = 0; i < ARRAY_SIZE(level_names); i++)
		if (!strcmp(level_names[i], word)) {
			*ret_level = (enum lint_level)i;
			return true;
		}
	return false;
}

static void print_condition(const struct lint_match *match, FILE *out)
{
	if (match->hot)
		(void)fprintf(out, "; %" PRIu64 " calls at one place over a tenth of the run",
			      match->hot);
	if (match->least_count)
		(void)fprintf(out, "; %" PRIu64 " calls at one place", match->least_count);
	if (match->least_bytes)
		(void)fprintf(out, "; at least %" PRIu64 " bytes", match->least_bytes);
	if (match->most_bytes != UINT64_MAX)
		(void)fprintf(out, "; at most %" PRIu64 " bytes", match->most_bytes);
	if (match->waited)
		(void)fputs("; pending work is known that it waited for", out);
	if (match->level)
		(void)fprintf(out, "; %s", level_names[match->level]);
}

void lint_rules_print(FILE *out)
{
	size_t missing = 0;

	for (size_t i = 0; i < lint_rule_count; i++) {
		const struct lint_rule *rule = &lint_rules[i];

		if (rule->needs) {
			missing++;
			continue;
		}
		(void)fprintf(out, "%s %s (%s, %s)\n    %s\n    instead: %s\n", rule->id,
			      rule->slug, level_names[rule->level], rule->sure, rule->what,
			      rule->fix);
		for (size_t k = 0; k < rule->match_count; k++) {
			(void)fputs(
				rule->by_remarks
					? "    from the order of calls (SLIPSTREAM_CHECK=order):"
					: "    from:",
				out);
			for (const char *const *slug = rule->matches[k].slugs; *slug; slug++)
				(void)fprintf(out, " %s", *slug);
			print_condition(&rule->matches[k], out);
			(void)fputc('\n', out);
		}
	}
	(void)fprintf(out,
		      "\nNot checked in this version, so that silence says nothing of it: %zu "
		      "rule%s\n",
		      missing, plural(missing));
	for (size_t i = 0; i < lint_rule_count; i++)
		if (lint_rules[i].needs)
			(void)fprintf(out, "%s %s: not checked, %s\n    %s\n", lint_rules[i].id,
				      lint_rules[i].slug, lint_rules[i].needs, lint_rules[i].what);
}
