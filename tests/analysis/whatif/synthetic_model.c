// SPDX-License-Identifier: MIT
/* The model of synthetic programs (synthetic.h): stands in for the real one, same functions. */
#include <stdio.h>
#include <string.h>

#include "emit/record.h"
#include "synthetic.h"
#include "tracing/analysis/model.h"

static const char *const slugs[ACTION_KINDS] = {
	[ACTION_STREAM_SYNC] = "stream-synchronize",
	[ACTION_EVENT_SYNC] = "event-synchronize",
	[ACTION_CONTEXT_SYNC] = "context-synchronize",
	[ACTION_FREE] = "free-drains-device",
	[ACTION_COPY_BACK] = "d2h",
	[ACTION_COPY_THERE] = "pageable-h2d",
};

const struct model *synthetic_model(void)
{
	static const char nothing;

	return (const struct model *)&nothing;
}

uint32_t synthetic_wait_id(enum action_kind kind, uint32_t site)
{
	return (uint32_t)kind * SYNTHETIC_SITES + site + 1;
}

uint32_t synthetic_candidates_id(unsigned int streams)
{
	return streams ? TRACE_SET | streams : 0;
}

const struct model_process *model_process(const struct model *model, uint32_t process)
{
	static const struct model_process only = {.host = ""};

	return process == 0 ? &only : NULL;
}

static const void *find_wait(uint64_t key)
{
	static struct trace_def_wait wait;
	uint32_t kind = (uint32_t)(key - 1) / SYNTHETIC_SITES;

	wait = (struct trace_def_wait){.id = (uint32_t)key,
				       .function = kind,
				       .rule = kind,
				       .site = (uint32_t)(key - 1) % SYNTHETIC_SITES,
				       .idle_basis = IDLE_MINIMUM};
	return key ? &wait : NULL;
}

static const void *find_rule(uint64_t key)
{
	static struct trace_def_rule rule;

	rule = (struct trace_def_rule){.number = (uint32_t)key,
				       .slug = (uint32_t)key + 1,
				       .class = WAIT_IMPLICIT,
				       .flags = key == ACTION_EVENT_SYNC ? RECORD_RULE_EVENT : 0};
	return key < ACTION_KINDS ? &rule : NULL;
}

static const void *find_stream(uint64_t key)
{
	static struct trace_def_stream stream;

	stream = (struct trace_def_stream){.stream = (uint32_t)key,
					   .kind = key == 1 ? STREAM_LEGACY : STREAM_BLOCKING,
					   .context = 1};
	return key >= 1 && key <= SYNTHETIC_STREAMS ? &stream : NULL;
}

/* Candidate n + 1 is stream n; the legacy one is told by its context alone. */
static const void *find_candidate(uint64_t key)
{
	static struct trace_def_candidate candidate;

	candidate = (struct trace_def_candidate){
		.id = (uint32_t)key, .context = 1, .stream = key == 1 ? 0 : key};
	return &candidate;
}

const void *model_find(const struct model *model, uint32_t process, enum trace_event event,
		       uint64_t key)
{
	switch (event) {
	case TRACE_DEF_WAIT:
		return find_wait(key);
	case TRACE_DEF_RULE:
		return find_rule(key);
	case TRACE_DEF_STREAM:
		return find_stream(key);
	case TRACE_DEF_CANDIDATE:
		return find_candidate(key);
	default:
		return NULL;
	}
}

const void *model_parts(const struct model *model, uint32_t process, enum trace_event event,
			uint64_t key, size_t *ret_count)
{
	static struct trace_def_candidate_set set[SYNTHETIC_STREAMS];

	*ret_count = 0;
	for (uint32_t stream = 0; stream < SYNTHETIC_STREAMS; stream++)
		if (key & 1U << stream)
			set[(*ret_count)++].candidate = stream + 1;
	return set;
}

const char *model_string(const struct model *model, uint32_t process, uint32_t id)
{
	return id >= 1 && id <= ACTION_KINDS && slugs[id - 1] ? slugs[id - 1] : NULL;
}
