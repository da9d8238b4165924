// SPDX-License-Identifier: MIT
/*
 * Lint, writers: one file a format. Each writes all of what was judged to `out`, in the order of the results; the caller looks at
 * ferror(). Names come from the program: each writer escapes what its format needs.
 */
#ifndef SLIPSTREAM_LINT_WRITE_H
#define SLIPSTREAM_LINT_WRITE_H

#include <jansson.h>
#include <stdio.h>

#include "lint/lint.h"

typedef void lint_write(const struct lint *lint, FILE *out);

lint_write lint_write_text, lint_write_json, lint_write_sarif, lint_write_junit, lint_write_github;

/* ---- words.c: what several formats say alike; the caller frees ---- */

/* "src/step.c:12", "function in module", a region; printable. */
char *lint_place_words(const struct lint_result *result);
/* "step (src/step.c:12)"; printable. */
char *lint_frame_words(const struct lint_frame *frame);
/* The verdict in one line: counts by level, what is known, what was left out. */
char *lint_verdict_words(const struct lint *lint);
/* What is not in the results, and why; NULL: nothing. */
char *lint_left_out_words(const struct lint *lint);

/* ---- json_parts.c ---- */

json_t *lint_json_text(const char *raw); /* null for NULL; broken UTF-8 replaced */
json_t *lint_json_number(uint64_t value);
void lint_json_set(json_t *object, const char *key, json_t *value);
void lint_json_append(json_t *array, json_t *value);
json_t *lint_json_fingerprint(const struct lint_result *result); /* with the occurrence: "hex/1" */

#endif
