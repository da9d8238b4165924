// SPDX-License-Identifier: MIT
/* Timeline, fixed texts (timeline_fixed.h). */
#include "tracing/analysis/timeline_fixed.h"

#include "memory.h"
#include "report.h"
#include "tracing/analysis/timeline_words.h"
#include "tracing/analysis/timeline_write.h"

#define KEPT_MAX 65536 /* of each kind */

void timeline_fixed_begin(struct timeline_fixed_texts *texts)
{
	*texts = (struct timeline_fixed_texts){0};
	for (int kind = 0; kind < FIXED_KINDS; kind++)
		texts->tables[kind].data_size = sizeof(struct timeline_fixed);
}

static void free_text(struct timeline_fixed *text)
{
	free(text->head);
	free(text->args);
	*text = (struct timeline_fixed){0};
}

static void forget(struct table *table)
{
	for (size_t i = 0; i < table->count; i++)
		free_text(table_at(table, i));
	table_done(table);
	*table = (struct table){.data_size = sizeof(struct timeline_fixed)};
}

void timeline_fixed_done(struct timeline_fixed_texts *texts)
{
	for (int kind = 0; kind < FIXED_KINDS; kind++)
		forget(&texts->tables[kind]);
	free_text(&texts->once);
}

void timeline_fixed_event(struct timeline_fixed_texts *texts, enum trace_event event)
{
	/* Everything else that they are made of is known when they are kept, and stays what it is within a dump. */
	if (event != TRACE_DEF_CONTEXT && event != TRACE_DEF_STREAM && event != TRACE_DUMP_END)
		return;
	for (int kind = 0; kind < FIXED_KINDS; kind++)
		if (texts->tables[kind].count)
			forget(&texts->tables[kind]);
}

static char *dump(json_t *value)
{
	char *text = memory_check(json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY));

	json_decref(value);
	return text;
}

/* Takes `args` over. */
static struct timeline_fixed make(const char *name, const char *category, json_t *args)
{
	_cleanup_free_ char *shown = dump(timeline_text(name && name[0] ? name : "(empty name)"));
	_cleanup_free_ char *object = dump(args);

	return (struct timeline_fixed){
		.head = memory_format(",\"name\":%s,\"cat\":\"%s\"", shown, category),
		.args = memory_check(strndup(object + 1, strlen(object) - 2)),
	};
}

/* The one kept under the keys, or NULL. */
static const struct timeline_fixed *kept(const struct timeline_fixed_texts *texts,
					 enum timeline_fixed_kind kind, uint64_t key, uint64_t key2)
{
	return table_find(&texts->tables[kind], key, key2);
}

static const struct timeline_fixed *keep(struct timeline_fixed_texts *texts,
					 enum timeline_fixed_kind kind, uint64_t key, uint64_t key2,
					 bool is_final, struct timeline_fixed text)
{
	struct timeline_fixed *place = &texts->once;
	bool is_new;

	if (is_final && texts->tables[kind].count < KEPT_MAX)
		place = table_add(&texts->tables[kind], key, key2, &is_new);
	free_text(place);
	*place = text;
	return place;
}

static uint64_t pair(uint32_t high, uint32_t low)
{
	return (uint64_t)high << 32 | low;
}

const struct timeline_fixed *timeline_fixed_wait(struct timeline_fixed_texts *texts,
						 const struct model *model, struct sites *sites,
						 uint32_t process, const struct trace_wait *event)
{
	uint64_t key = pair(process, event->wait), key2 = pair(event->stream, event->candidates);
	const struct timeline_fixed *found = kept(texts, FIXED_WAIT, key, key2);
	_cleanup_free_ char *category = NULL;
	struct wait_words words;

	if (found)
		return found;
	words = wait_words(model, process, event->wait);
	category = memory_format("wait,%s", words.class ? report_class(words.class) : "unknown");
	return keep(texts, FIXED_WAIT, key, key2, wait_is_defined(model, process, event),
		    make(words.slug ? words.slug : "wait", category,
			 wait_arguments(model, sites, process, event)));
}

/* Submissions that differ in what the key has no room for are not kept. */
static bool submit_key(uint32_t process, const struct trace_submit *event, uint64_t *ret_key,
		       uint64_t *ret_key2)
{
	*ret_key = pair(process, event->name);
	*ret_key2 = pair(event->stream, event->function << 8 | (event->operation & 0xff));
	return event->function < 1 << 24 && event->operation < 1 << 8;
}

static const struct timeline_fixed *submit_text(struct timeline_fixed_texts *texts,
						enum timeline_fixed_kind kind,
						const struct model *model, uint32_t process,
						const struct trace_submit *event)
{
	uint64_t key, key2;
	bool has_key = submit_key(process, event, &key, &key2);
	const struct timeline_fixed *found = has_key ? kept(texts, kind, key, key2) : NULL;
	_cleanup_free_ char *name = NULL;
	const char *function;
	json_t *args;

	if (found)
		return found;
	args = submit_arguments(model, process, event);
	function = json_string_value(json_object_get(args, "function"));
	if (kind == FIXED_SUBMIT)
		name = memory_format("submit: %s", function ? function : "function not known");
	else
		name = memory_copy(operation_words(model, process, event->operation, event->name));
	return keep(texts, kind, key, key2, has_key && submit_is_defined(model, process, event),
		    make(name, kind == FIXED_SUBMIT ? "submit" : "operation", args));
}

const struct timeline_fixed *timeline_fixed_submit(struct timeline_fixed_texts *texts,
						   const struct model *model, uint32_t process,
						   const struct trace_submit *event)
{
	return submit_text(texts, FIXED_SUBMIT, model, process, event);
}

const struct timeline_fixed *timeline_fixed_operation(struct timeline_fixed_texts *texts,
						      const struct model *model, uint32_t process,
						      const struct trace_submit *event)
{
	return submit_text(texts, FIXED_OPERATION, model, process, event);
}

const struct timeline_fixed *timeline_fixed_busy(struct timeline_fixed_texts *texts,
						 const struct model *model, uint32_t process,
						 uint32_t wait,
						 const struct trace_def_candidate *candidate)
{
	uint64_t key = pair(process, wait), key2 = candidate->id;
	const struct timeline_fixed *found = kept(texts, FIXED_BUSY, key, key2);
	_cleanup_free_ char *name = NULL;
	struct wait_words words;
	json_t *args;

	if (found)
		return found;
	words = wait_words(model, process, wait);
	name = memory_format(
		"busy: %s", operation_words(model, process, candidate->operation, candidate->name));
	args = memory_check(json_object());
	timeline_set(args, "known", timeline_text("not known complete while the host waited"));
	timeline_set(args, "wait", timeline_text(words.slug));
	return keep(texts, FIXED_BUSY, key, key2,
		    words.slug &&
			    (!candidate->name || model_string(model, process, candidate->name)),
		    make(name, "busy", args));
}
