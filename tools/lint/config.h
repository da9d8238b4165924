// SPDX-License-Identifier: MIT
/*
 * Lint, configuration: levels, thresholds, allowed sites and budgets, read from YAML (config.c, config_values.c). Read before anything is
 * judged; every fault ends with one line that names file, line and column.
 */
#ifndef SLIPSTREAM_LINT_CONFIG_H
#define SLIPSTREAM_LINT_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lint/rules.h"

/* What a figure is of: the whole run, or one entry of a region, of which the steps of a program are one. */
enum lint_per { LINT_PER_RUN, LINT_PER_ENTRY, LINT_PER_STEP };

#define LINT_STEP "step" /* the region of steps, as the library names it */

/* At least so much, or it is no finding. Per entry: on average over the entries of the innermost region; of calls outside of all, of the run. */
struct lint_threshold {
	bool has_blocked, has_count, has_per;
	uint64_t blocked_ns, count;
	enum lint_per per;
};

struct lint_setting {  /* of one rule of the table */
	bool is_given; /* by its own id or name */
	bool has_level;
	enum lint_level level;
	struct lint_threshold threshold;
};

/* Findings that are accepted: all that is given must fit. Names are patterns of fnmatch(3). */
struct lint_allow {
	char *rule;            /* NULL: every rule */
	char *function, *file; /* of one and the same frame of the program; NULL: not asked */
	char *region;          /* NULL: not asked */
	char *reason;
	unsigned int line; /* in the configuration */
	uint64_t calls;    /* counted while results are made */
};

/* Of one region in one run, or of any one entry of it. */
struct lint_budget {
	char *region; /* pattern; per step: LINT_STEP */
	enum lint_per per;
	bool is_required; /* no verdict where the region was not entered */
	bool is_entered;  /* set while budgets are checked, as is the next */
	uint64_t entries; /* counted ones */
	bool has_implicit, has_explicit, has_blocked;
	uint64_t implicit, explicit; /* waits */
	uint64_t blocked_ns;         /* of both */
	unsigned int line;
};

struct lint_config {
	struct lint_setting *settings; /* one for each of lint_rules[] */
	struct lint_threshold threshold;
	struct lint_allow *allow;
	size_t allow_count;
	struct lint_budget *budgets;
	size_t budget_count;
	char *nvtx,
		*step; /* settings of the library for a program (SLIPSTREAM_NVTX, _STEP); NULL: not said */
};

/*
 * NULL path: nothing is set. 0, or -errno with one line in *reterr_text (the caller frees): it cannot be read, or is no configuration.
 * `today`: days since 1970, for allowances that end.
 */
int lint_config_read(const char *path, int64_t today, struct lint_config **ret_config,
		     char **reterr_text);
void lint_config_free(struct lint_config *config);

/* `standard` where the configuration does not name the rule. */
enum lint_level lint_config_level(const struct lint_config *config, const struct lint_rule *rule,
				  enum lint_level standard);
/* The rule's own, where it has one. */
struct lint_threshold lint_config_threshold(const struct lint_config *config,
					    const struct lint_rule *rule);

/* ---- config_values.c: words of a configuration; false: it is none ---- */

bool lint_parse_count(const char *text, uint64_t *ret_count); /* up to 2^32 - 1 */
bool lint_parse_time(const char *text, uint64_t *ret_ns);     /* "1.5ms", up to an hour */
bool lint_parse_date(const char *text, int64_t *ret_day);     /* "2026-12-31", days since 1970 */

#endif
