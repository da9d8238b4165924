// SPDX-License-Identifier: MIT
/*
 * Lint, baseline: results that a team knows of and does not fail for. A JSON file of fingerprints; how often or how long one waits is not in
 * it, so that a count that grew is not new.
 */
#ifndef SLIPSTREAM_LINT_BASELINE_H
#define SLIPSTREAM_LINT_BASELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lint;

struct lint_known {
	char *rule, *place; /* `place` for people only */
	uint64_t fingerprint;
	unsigned int occurrence;
	bool is_seen; /* false after lint_baseline_apply(): it is gone */
};

struct lint_baseline {
	struct lint_known *entries;
	size_t count;
};

/* 0, or -errno with one line in *reterr_text (the caller frees). */
int lint_baseline_read(const char *path, struct lint_baseline **ret_baseline, char **reterr_text);
void lint_baseline_free(struct lint_baseline *baseline);

/* Marks results that it has as known, and its entries that were seen. */
void lint_baseline_apply(struct lint_baseline *baseline, struct lint *lint);
size_t lint_baseline_gone(const struct lint_baseline *baseline);

/* All results that can fail, known or not. 0 or -errno with one line. */
int lint_baseline_write(const struct lint *lint, const char *path, char **reterr_text);

#endif
