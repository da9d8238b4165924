// SPDX-License-Identifier: MIT
/* A wait in words (wait_text.h). Called by the filter and by the list of waits. */
#include "tracing/analysis/wait_text.h"

#include <inttypes.h>

#include "memory.h"
#include "report.h"
#include "tracing/analysis/timeline_sites.h"
#include "tracing/analysis/timeline_words.h"

#define SYMBOLIZED_SITES 64

/* "legacy stream of context 1: kernel spin; stream 3 ..." */
static char *waited_for_words(const struct model *model, uint32_t process, uint32_t candidates)
{
	const struct trace_def_candidate *members[CANDIDATES_MAX];
	size_t count = wait_candidates(model, process, candidates, members), size;
	char *text = NULL;
	FILE *out = memory_check(open_memstream(&text, &size));

	for (size_t i = 0; i < count; i++) {
		_cleanup_free_ char *stream =
			stream_words(model, process, candidate_stream(model, process, members[i]));

		(void)fprintf(
			out, "%s%s: %s%s", i ? "; " : "", stream,
			operation_words(model, process, members[i]->operation, members[i]->name),
			members[i]->certain ? "" : " (candidate)");
	}
	(void)fclose(out);
	return memory_check(text);
}

static char *site_words(const struct model *model, struct sites *sites, uint32_t process,
			uint32_t id)
{
	struct site *site = sites_find(sites, model, process, id);

	if (!site)
		return memory_copy("unknown");
	sites_symbolize(sites, model, site, site->number < SYMBOLIZED_SITES);
	return memory_copy(site->label);
}

static const char *or_unknown(const char *text)
{
	return text ? text : "unknown";
}

struct wait_text wait_text_of(const struct model *model, struct sites *sites,
			      const struct held_wait *wait)
{
	uint32_t process = wait->event.process;
	struct wait_words words = wait_words(model, process, wait->wait.wait);

	return (struct wait_text){
		.rule = or_unknown(words.slug),
		.function = or_unknown(words.function),
		.cause = or_unknown(words.cause),
		.class = report_class(words.class),
		.process = process_words(model, process),
		.stream = wait->wait.stream ? stream_words(model, process, wait->wait.stream)
					    : memory_copy(""),
		.waited_for = waited_for_words(model, process, wait->wait.candidates),
		.site = site_words(model, sites, process, words.wait ? words.wait->site : 0),
	};
}

void wait_text_done(struct wait_text *text)
{
	free(text->process);
	free(text->stream);
	free(text->waited_for);
	free(text->site);
}
