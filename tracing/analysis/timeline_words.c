// SPDX-License-Identifier: MIT
/* Timeline, words (timeline_words.h). Ids that nothing defines give NULL or a word that says so. */
#include "tracing/analysis/timeline_words.h"

#include <inttypes.h>

#include "emit/record.h"
#include "memory.h"
#include "report.h"
#include "tracing/analysis/timeline_tracks.h"
#include "tracing/analysis/timeline_write.h"

/* Sites whose files are opened while the trace is read: each costs a walk through their symbols. */
#define SYMBOLIZED_SITES 64

struct wait_words wait_words(const struct model *model, uint32_t process, uint32_t wait)
{
	struct wait_words words = {.wait = model_find(model, process, TRACE_DEF_WAIT, wait)};
	const struct trace_def_function *function;
	const struct trace_def_region *region;

	if (!words.wait)
		return words;
	words.rule = model_find(model, process, TRACE_DEF_RULE, words.wait->rule);
	if (words.rule) {
		words.slug = model_string(model, process, words.rule->slug);
		words.cause = model_string(model, process, words.rule->cause);
		words.class = words.rule->class;
	}
	function = model_find(model, process, TRACE_DEF_FUNCTION, words.wait->function);
	words.function = function ? model_string(model, process, function->name) : NULL;
	region = words.wait->region
			 ? model_find(model, process, TRACE_DEF_REGION, words.wait->region)
			 : NULL;
	words.region = region ? model_string(model, process, region->name) : NULL;
	return words;
}

static bool site_is_defined(const struct model *model, uint32_t process, uint32_t id)
{
	const struct trace_def_site *site =
		id ? model_find(model, process, TRACE_DEF_SITE, id) : NULL;
	size_t frames, python;

	if (!site)
		return !id;
	(void)model_parts(model, process, TRACE_DEF_FRAME, id, &frames);
	(void)model_parts(model, process, TRACE_DEF_PYTHON_FRAME, id, &python);
	return frames >= site->frames && python >= site->python_frames;
}

static bool candidates_are_defined(const struct model *model, uint32_t process, uint32_t id)
{
	const struct trace_def_candidate_set *members;
	size_t count;

	if (!id)
		return true;
	if (!(id & TRACE_SET))
		return model_find(model, process, TRACE_DEF_CANDIDATE, id) != NULL;
	members = model_parts(model, process, TRACE_DEF_CANDIDATE_SET, id, &count);
	return members && count >= members[count - 1].count;
}

bool wait_is_defined(const struct model *model, uint32_t process, const struct trace_wait *event)
{
	struct wait_words words = wait_words(model, process, event->wait);

	return words.wait && words.slug && words.function &&
	       site_is_defined(model, process, words.wait->site) &&
	       candidates_are_defined(model, process, event->candidates);
}

static const char *function_words(const struct model *model, uint32_t process, uint32_t number)
{
	const struct trace_def_function *function =
		model_find(model, process, TRACE_DEF_FUNCTION, number);

	return function ? model_string(model, process, function->name) : NULL;
}

bool submit_is_defined(const struct model *model, uint32_t process,
		       const struct trace_submit *event)
{
	return function_words(model, process, event->function) &&
	       (!event->name || model_string(model, process, event->name));
}

const char *operation_words(const struct model *model, uint32_t process, uint32_t operation,
			    uint32_t name)
{
	const char *text = model_string(model, process, name);

	return text && text[0] ? text : report_operation(operation);
}

/* ---- streams and processes ---- */

struct context_search {
	uint64_t id;
	const struct trace_def_context *found;
};

static bool take_context(void *data, const void *definition)
{
	struct context_search *search = data;
	const struct trace_def_context *context = definition;

	if (context->id == search->id)
		search->found = context;
	return !search->found;
}

/* By the driver's id (cuCtxGetId), as reports name it: the number in the process is that of definitions only. */
static void write_context(FILE *out, const struct model *model, uint32_t process, uint64_t id)
{
	struct context_search search = {.id = id};

	if (id)
		(void)fprintf(out, ", context %" PRIu64, id);
	model_each(model, process, TRACE_DEF_CONTEXT, take_context, &search);
	if (search.found && search.found->device >= 0)
		(void)fprintf(out, ", GPU %" PRIi32, search.found->device);
}

static void write_stream(FILE *out, const struct model *model, uint32_t process, uint64_t number,
			 bool with_context)
{
	const struct trace_def_stream *stream = NULL;
	uint64_t context = 0;

	if (number & TIMELINE_LEGACY) {
		(void)fputs("legacy stream", out);
		context = number & ~TIMELINE_LEGACY;
	} else {
		(void)fprintf(out, "stream %" PRIu64, number);
		stream = model_find(model, process, TRACE_DEF_STREAM, number);
	}
	if (stream) {
		(void)fprintf(out, " (%s)", report_stream_kind(stream->kind));
		context = stream->context;
	}
	if (with_context)
		write_context(out, model, process, context);
}

static char *stream_text(const struct model *model, uint32_t process, uint64_t number,
			 bool with_context)
{
	char *text = NULL;
	size_t size;
	FILE *out = memory_check(open_memstream(&text, &size));

	write_stream(out, model, process, number, with_context);
	(void)fclose(out);
	return memory_check(text);
}

char *stream_words(const struct model *model, uint32_t process, uint64_t number)
{
	return stream_text(model, process, number, true);
}

char *stream_short_words(const struct model *model, uint32_t process, uint64_t number)
{
	return stream_text(model, process, number, false);
}

struct legacy_search {
	uint64_t context, number;
};

static bool take_stream(void *data, const void *definition)
{
	struct legacy_search *search = data;
	const struct trace_def_stream *stream = definition;

	if (stream->kind == STREAM_LEGACY && stream->context == search->context)
		search->number = stream->stream;
	return !search->number;
}

uint64_t legacy_stream_number(const struct model *model, uint32_t process, uint64_t context)
{
	struct legacy_search search = {.context = context};

	model_each(model, process, TRACE_DEF_STREAM, take_stream, &search);
	return search.number ? search.number : TIMELINE_LEGACY | context;
}

char *process_name(const struct model *model, uint32_t process)
{
	const struct trace_def_process *definition = model_process_definition(model, process);
	const char *name = definition ? model_string(model, process, definition->exe) : NULL;
	const char *slash;

	if (!name && definition)
		name = model_string(model, process, definition->command);
	if (!name || !name[0])
		return memory_copy("process");
	slash = strrchr(name, '/');
	return memory_copy(slash && slash[1] ? slash + 1 : name);
}

struct device_search {
	FILE *out;
	uint64_t seen; /* ordinals below 64 */
};

static bool take_device(void *data, const void *definition)
{
	struct device_search *search = data;
	const struct trace_def_context *context = definition;

	if (context->device < 0 || context->device >= 64 || (search->seen >> context->device & 1))
		return true;
	(void)fprintf(search->out, "%s%" PRIi32, search->seen ? "+" : ", GPU ", context->device);
	search->seen |= UINT64_C(1) << context->device;
	return true;
}

char *process_words(const struct model *model, uint32_t process)
{
	const struct model_process *known = model_process(model, process);
	_cleanup_free_ char *name = process_name(model, process);
	struct device_search devices = {0};
	char *text = NULL;
	size_t size;

	devices.out = memory_check(open_memstream(&text, &size));
	if (known && known->rank >= 0)
		(void)fprintf(devices.out, "rank %" PRIi32 ": ", known->rank);
	(void)fprintf(devices.out, "%s (pid %" PRIu32 ")", name, known ? known->pid : 0);
	if (known && known->host[0])
		(void)fprintf(devices.out, ", host %s", known->host);
	model_each(model, process, TRACE_DEF_CONTEXT, take_device, &devices);
	(void)fclose(devices.out);
	return memory_check(text);
}

/* ---- candidates ---- */

size_t wait_candidates(const struct model *model, uint32_t process, uint32_t candidates,
		       const struct trace_def_candidate *members[CANDIDATES_MAX])
{
	const struct trace_def_candidate_set *set;
	size_t count, found = 0;

	if (!candidates)
		return 0;
	if (!(candidates & TRACE_SET)) {
		members[0] = model_find(model, process, TRACE_DEF_CANDIDATE, candidates);
		return members[0] ? 1 : 0;
	}
	set = model_parts(model, process, TRACE_DEF_CANDIDATE_SET, candidates, &count);
	for (size_t i = 0; i < count && found < CANDIDATES_MAX; i++) {
		members[found] = model_find(model, process, TRACE_DEF_CANDIDATE, set[i].candidate);
		found += members[found] ? 1 : 0;
	}
	return found;
}

uint64_t candidate_stream(const struct model *model, uint32_t process,
			  const struct trace_def_candidate *candidate)
{
	if (candidate->stream)
		return candidate->stream & ~TIMELINE_LEGACY;
	return legacy_stream_number(model, process, candidate->context);
}

static json_t *candidates_json(const struct model *model, uint32_t process, uint32_t candidates)
{
	const struct trace_def_candidate *members[CANDIDATES_MAX];
	size_t count = wait_candidates(model, process, candidates, members);
	json_t *array = memory_check(json_array());

	for (size_t i = 0; i < count; i++) {
		_cleanup_free_ char *stream =
			stream_words(model, process, candidate_stream(model, process, members[i]));
		_cleanup_free_ char *text = memory_format(
			"%s: %s%s", stream,
			operation_words(model, process, members[i]->operation, members[i]->name),
			members[i]->certain ? ", was unfinished" : ", not known complete");

		memory_check(json_array_append_new(array, timeline_text(text)) ? NULL : array);
	}
	return array;
}

/* ---- arguments of slices ---- */

static void add_site(json_t *args, const struct model *model, struct sites *sites, uint32_t process,
		     uint32_t id)
{
	struct site *site = sites_find(sites, model, process, id);

	if (!site)
		return;
	sites_symbolize(sites, model, site, site->number < SYMBOLIZED_SITES);
	timeline_set(args, "call_site", timeline_text(site->label));
}

json_t *wait_arguments(const struct model *model, struct sites *sites, uint32_t process,
		       const struct trace_wait *event)
{
	struct wait_words words = wait_words(model, process, event->wait);
	json_t *args = memory_check(json_object());

	timeline_set(args, "rule", timeline_text(words.slug));
	timeline_set(args, "class", timeline_text(words.class ? report_class(words.class) : NULL));
	timeline_set(args, "function", timeline_text(words.function));
	timeline_set(args, "cause", timeline_text(words.cause));
	if (event->stream) {
		_cleanup_free_ char *stream = stream_words(model, process, event->stream);

		timeline_set(args, "stream", timeline_text(stream));
	}
	timeline_set(args, "waited_for", candidates_json(model, process, event->candidates));
	if (words.wait) {
		add_site(args, model, sites, process, words.wait->site);
		if (words.wait->source_kind || words.wait->destination_kind) {
			timeline_set(args, "from",
				     timeline_text(report_memory_kind(words.wait->source_kind)));
			timeline_set(
				args, "to",
				timeline_text(report_memory_kind(words.wait->destination_kind)));
		}
		if (words.wait->allowed)
			timeline_set(args, "allowed", memory_check(json_true()));
	}
	if (words.region)
		timeline_set(args, "region", timeline_text(words.region));
	return args;
}

json_t *submit_arguments(const struct model *model, uint32_t process,
			 const struct trace_submit *event)
{
	_cleanup_free_ char *stream = stream_words(model, process, event->stream);
	json_t *args = memory_check(json_object());

	timeline_set(args, "stream", timeline_text(stream));
	timeline_set(args, "function",
		     timeline_text(function_words(model, process, event->function)));
	timeline_set(args, "operation", timeline_text(report_operation(event->operation)));
	if (event->name)
		timeline_set(args, "name",
			     timeline_text(model_string(model, process, event->name)));
	return args;
}
