// SPDX-License-Identifier: MIT
/* Timeline, words: names and arguments of what it draws, from the definitions of the trace. */
#ifndef SLIPSTREAM_TRACING_TIMELINE_WORDS_H
#define SLIPSTREAM_TRACING_TIMELINE_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "tracing/analysis/model.h"
#include "tracing/analysis/timeline_sites.h"

/* What a `wait` event refers to; whatever is not known is NULL. Strings are raw and the model's. */
struct wait_words {
	const struct trace_def_wait *wait;
	const struct trace_def_rule *rule;
	const char *slug, *cause, *function, *region;
	uint32_t class; /* enum wait_class; 0 unknown */
};

struct wait_words wait_words(const struct model *model, uint32_t process, uint32_t wait);

/* Everything that a slice of it needs is known. */
bool wait_is_defined(const struct model *model, uint32_t process, const struct trace_wait *event);
bool submit_is_defined(const struct model *model, uint32_t process,
		       const struct trace_submit *event);

/* "kernel", or its name if that is known. Raw. */
const char *operation_words(const struct model *model, uint32_t process, uint32_t operation,
			    uint32_t name);

/* "stream 3 (non-blocking), context 1, GPU 0"; `number` as in struct timeline_stream. The caller frees. */
char *stream_words(const struct model *model, uint32_t process, uint64_t number);
/* "stream 3 (non-blocking)". The caller frees. */
char *stream_short_words(const struct model *model, uint32_t process, uint64_t number);
/* The legacy stream of a context as the number of a stream; with the top bit if it is not defined (yet). */
uint64_t legacy_stream_number(const struct model *model, uint32_t process, uint64_t context);

/* "rank 0: demo (pid 5), host a, GPU 0". The caller frees. */
char *process_words(const struct model *model, uint32_t process);
/* The name of the executable without its folder, else the first word of the command; raw, the caller frees. */
char *process_name(const struct model *model, uint32_t process);

#define CANDIDATES_MAX 64 /* of one call the preload library names no more */
/* The candidates of a wait, at most CANDIDATES_MAX. Returns how many. */
size_t wait_candidates(const struct model *model, uint32_t process, uint32_t candidates,
		       const struct trace_def_candidate *members[CANDIDATES_MAX]);
/* The stream of a candidate, as in struct timeline_stream. */
uint64_t candidate_stream(const struct model *model, uint32_t process,
			  const struct trace_def_candidate *candidate);

/* All but the numbers of the event itself. */
json_t *wait_arguments(const struct model *model, struct sites *sites, uint32_t process,
		       const struct trace_wait *event);
json_t *submit_arguments(const struct model *model, uint32_t process,
			 const struct trace_submit *event);

#endif
