// SPDX-License-Identifier: MIT
/*
 * Events as lines of a golden trace (tracing/README.md), which source.slipstream.text reads. Texts of other
 * processes become printable. One thread.
 */
#ifndef SLIPSTREAM_BPF_COMMAND_TEXT_H
#define SLIPSTREAM_BPF_COMMAND_TEXT_H

#include <stdint.h>
#include <stdio.h>

#include "tracing/event.h"

struct text_out {
	FILE *file; /* the caller's */
	char host[256];
	uint64_t last_ns;         /* lines never go back in time */
	uint32_t process, thread; /* of the line before */
	uint64_t lines;
};

/* `host` may be any text; what no host name has is left out of it. */
void text_out_init(struct text_out *out, FILE *file, const char *host);

/* Whoever writes looks at ferror() at the end. */
void text_out_event(struct text_out *out, uint64_t ns, uint32_t process, uint32_t thread,
		    enum trace_event event, const void *payload);

#endif
