// SPDX-License-Identifier: MIT
/*
 * Timeline, fixed texts: what slices of the same kind have in common (names, call site, what was waited for) is made once
 * as JSON and used again: most of the time of writing went into it. Kept only where all definitions are known, and
 * forgotten when contexts or streams change. Memory is bounded. One thread.
 */
#ifndef SLIPSTREAM_TRACING_TIMELINE_FIXED_H
#define SLIPSTREAM_TRACING_TIMELINE_FIXED_H

#include <stdbool.h>
#include <stdint.h>

#include "tracing/analysis/model.h"
#include "tracing/analysis/table.h"
#include "tracing/analysis/timeline_sites.h"

/* JSON without the braces around it; never NULL. */
struct timeline_fixed {
	char *head; /* ,"name":"...","cat":"..." */
	char *args; /* "rule":"...",... */
};

enum timeline_fixed_kind { FIXED_WAIT, FIXED_SUBMIT, FIXED_OPERATION, FIXED_BUSY, FIXED_KINDS };

struct timeline_fixed_texts {
	struct table tables[FIXED_KINDS]; /* struct timeline_fixed */
	struct timeline_fixed once;       /* the last one that is not kept */
};

void timeline_fixed_begin(struct timeline_fixed_texts *texts);
void timeline_fixed_done(struct timeline_fixed_texts *texts);
/* An event came that may change them. */
void timeline_fixed_event(struct timeline_fixed_texts *texts, enum trace_event event);

/* Each is valid until the next call of any of these. */
const struct timeline_fixed *timeline_fixed_wait(struct timeline_fixed_texts *texts,
						 const struct model *model, struct sites *sites,
						 uint32_t process, const struct trace_wait *event);
const struct timeline_fixed *timeline_fixed_submit(struct timeline_fixed_texts *texts,
						   const struct model *model, uint32_t process,
						   const struct trace_submit *event);
const struct timeline_fixed *timeline_fixed_operation(struct timeline_fixed_texts *texts,
						      const struct model *model, uint32_t process,
						      const struct trace_submit *event);
/* The stream of `candidate` while `wait` waited. */
const struct timeline_fixed *timeline_fixed_busy(struct timeline_fixed_texts *texts,
						 const struct model *model, uint32_t process,
						 uint32_t wait,
						 const struct trace_def_candidate *candidate);

#endif
