// SPDX-License-Identifier: MIT
/* What verify found, for people and as JSON. Called by main.c. */
#ifndef SLIPSTREAM_TOOLS_VERIFY_WRITE_H
#define SLIPSTREAM_TOOLS_VERIFY_WRITE_H

#include <stdio.h>

#include <jansson.h>

#include "verify/verify.h"

/* Lines on `out`: each finding, `limit` at most (0: all that were kept), then the counts. */
void write_text(FILE *out, const char *path, const struct verify *verify, bool is_proved,
		size_t limit);

/* One trace; the caller's. `error`: why it could not be read; NULL: it could. */
json_t *write_json(const char *path, const struct verify *verify, bool is_proved,
		   const char *error);

#endif
