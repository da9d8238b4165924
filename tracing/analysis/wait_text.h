// SPDX-License-Identifier: MIT
/* A wait in words: what the filter and the list of waits say of it. One thread. */
#ifndef SLIPSTREAM_TRACING_WAIT_TEXT_H
#define SLIPSTREAM_TRACING_WAIT_TEXT_H

#include "tracing/analysis/held_waits.h"

struct sites;

/* Raw where it comes from the program, "" or "unknown" where it is not known. */
struct wait_text {
	const char *rule, *function, *cause; /* the model's */
	const char *class;                   /* a word */
	char *process, *stream, *waited_for, *site;
};

/*
 * The first sites get names and lines from their files, later ones stay module and offset: a look
 * into a file takes a while.
 */
struct wait_text wait_text_of(const struct model *model, struct sites *sites,
			      const struct held_wait *wait);
void wait_text_done(struct wait_text *text);

#endif
