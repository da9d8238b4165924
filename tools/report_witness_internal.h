// SPDX-License-Identifier: MIT
/* What the two parts of the witness's report share. Of report_witness.c and report_witness_lines.c only. */
#ifndef SLIPSTREAM_TOOLS_REPORT_WITNESS_INTERNAL_H
#define SLIPSTREAM_TOOLS_REPORT_WITNESS_INTERNAL_H

#include <stdint.h>

#include "report_witness.h"

/* What is missing, or of another type: 0, "unknown". */
uint64_t witness_number(const json_t *object, const char *key);
const char *witness_words(const json_t *object, const char *key);

/* Symbols into its frames, and the library's own counts beside its functions. */
void report_witness_prepare(struct report *report);

#endif
