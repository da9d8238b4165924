// SPDX-License-Identifier: MIT
/* Progress: one line on a terminal, written anew a few times a second; nothing anywhere else. */
#ifndef SLIPSTREAM_TRACING_PROGRESS_H
#define SLIPSTREAM_TRACING_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	bool is_shown;            /* stderr is a terminal */
	bool has_line;            /* one is on it */
	int64_t begin_ns, end_ns; /* of the trace; 0, 0: not known */
	uint64_t next_ns;         /* when to write again */
};

void progress_init(struct progress *progress, int64_t begin_ns, int64_t end_ns);
/* Cheap enough for every batch of messages. `ns`: time of the last event. */
void progress_show(struct progress *progress, uint64_t events, int64_t ns);
/* Takes the line away; before anything else is written. */
void progress_clear(struct progress *progress);

#endif
