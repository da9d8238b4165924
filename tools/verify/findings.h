// SPDX-License-Identifier: MIT
/* Findings: what is found wrong, kept up to a number. Called by order.c and records.c. */
#ifndef SLIPSTREAM_TOOLS_VERIFY_FINDINGS_H
#define SLIPSTREAM_TOOLS_VERIFY_FINDINGS_H

#include "verify/verify.h"

/* The finding's text is the list's from now on. */
void findings_add(struct verify_result *result, const struct verify_finding *finding);

/* Of a kind that is told in words. */
void findings_say(struct verify_result *result, enum verify_finding_kind kind, uint32_t process,
		  uint32_t context, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* An edge or a call in flight in words; names of functions by the caller. The caller frees. */
char *findings_words(const struct verify_finding *finding, const char *before, const char *after);

/* Which barrier would have been needed: "post", "explicit", "join", "back". */
const char *findings_needed(const struct verify_finding *finding);

#endif
