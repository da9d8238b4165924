// SPDX-License-Identifier: MIT
/*
 * Text: how figures and foreign names are written for people. Names come from the program under
 * test, so control characters and broken UTF-8 are shown as \xNN and never reach a terminal raw.
 */
#ifndef SLIPSTREAM_TOOLS_TEXT_H
#define SLIPSTREAM_TOOLS_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define TEXT_FIGURE 32 /* room for any figure below */

const char *text_ns(uint64_t ns, char figure[TEXT_FIGURE]); /* three digits and a unit: "1.25 ms" */
const char *text_bytes(uint64_t bytes, char figure[TEXT_FIGURE]); /* "60.0 KiB" */
const char *text_share(uint64_t part, uint64_t whole,
		       char figure[TEXT_FIGURE]); /* "12.5 %", "-" if unknown */

/* As printable text; with `keep_control` only broken UTF-8 is replaced (JSON has its own escapes).
 * The caller frees. */
char *text_printable(const char *raw, bool keep_control);

/* Columns that printable UTF-8 text takes, near enough for tables: code points. */
size_t text_columns(const char *text);

#endif
