// SPDX-License-Identifier: MIT
/* The options that `run` and `report` share: where the report goes and how it looks. */
#ifndef SLIPSTREAM_TOOLS_REPORT_STYLE_H
#define SLIPSTREAM_TOOLS_REPORT_STYLE_H

#include <argp.h>

/* argp with struct report_output as its input. */
extern const struct argp report_style_argp;

struct report_output;

/* Defaults, and width and colour where `descriptor` is a terminal. */
void report_style_init(struct report_output *output, int descriptor);

#endif
