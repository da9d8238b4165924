// SPDX-License-Identifier: MIT
/*
 * Lint, rules: shim/catalogue/lint.yaml as a table, made by tools/gen/lint_table.py, and look-ups in it.
 */
#ifndef SLIPSTREAM_LINT_RULES_H
#define SLIPSTREAM_LINT_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum lint_level { LINT_OFF, LINT_NOTE, LINT_WARNING, LINT_ERROR };

/* Findings of the catalogue that a rule takes; all conditions must hold, of one call site in one run. */
struct lint_match {
	const char *const *slugs;         /* of rules.yaml; ends with NULL */
	uint64_t least_bytes, most_bytes; /* mean of a call */
	uint64_t least_count;
	uint64_t hot;          /* so many calls, spread over the run; 0: no condition */
	bool waited;           /* pending work is known that it waited for */
	enum lint_level level; /* in place of the rule's; LINT_OFF: the rule's */
};

struct lint_rule {
	const char *id, *slug;
	enum lint_level level; /* where a configuration says nothing */
	const char *sure;      /* proven, measured or likely */
	const char *what, *why, *fix;
	const char *needs; /* why it is not checked, in words; NULL: it is */
	bool by_remarks;   /* checked only in runs with ... */
	const char *check; /* ... this word of SLIPSTREAM_CHECK */
	const struct lint_match *matches;
	size_t match_count;
};

#define LINT_CHECK_GUARD "guard"

extern const struct lint_rule lint_rules[];
extern const size_t lint_rule_count;

#define LINT_RULE_BUDGET  "budget"
#define LINT_RULE_UNKNOWN "implicit-wait" /* also the name of all rules implicit-wait/... */

/* By id or slug; NULL: there is none. */
const struct lint_rule *lint_rule_find(const char *name);
/* The name, in a configuration, means this rule: its id, its slug, or the part of its id before the slash. */
bool lint_rule_is_named(const struct lint_rule *rule, const char *name);

/* What is known of one call site, when its rule is looked for. */
struct lint_facts {
	const char *slug; /* of rules.yaml */
	uint64_t count, bytes;
	bool is_spread; /* over LINT_SPREAD of the run, or more */
	bool has_waited;
};

#define LINT_SPREAD 10 /* as 1 / it of the life of the process */

/*
 * The rule that takes it, with the level that it has then where no configuration says another. NULL: none does, and *ret_is_cold says whether
 * only since it was done too seldom for a hot path.
 */
const struct lint_rule *lint_rule_of(const struct lint_facts *facts, enum lint_level *ret_level,
				     bool *ret_is_cold);

const char *lint_level_name(enum lint_level level);
/* False: it is none. */
bool lint_level_parse(const char *word, enum lint_level *ret_level);

/* All rules, those that are not checked among them, for `lint --rules`. */
void lint_rules_print(FILE *out);

#endif
