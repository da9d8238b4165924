// SPDX-License-Identifier: MIT
/* Page, numbers: what the data refer to by number (page_writer.h). Called while page_json() runs. */
#include "emit/record.h"
#include "report.h"
#include "tracing/analysis/page_writer.h"
#include "tracing/analysis/timeline_words.h"

/* The number of a text in `texts`. */
uint32_t page_text_number(struct page_writer *writer, const char *raw)
{
	json_t *text = timeline_text(raw), *known;
	uint32_t number = (uint32_t)json_array_size(writer->texts);

	known = json_object_get(writer->text_index, json_string_value(text));
	if (known) {
		json_decref(text);
		return (uint32_t)json_integer_value(known);
	}
	timeline_set(writer->text_index, json_string_value(text), page_integer(number));
	page_append(writer->texts, text);
	return number;
}

uint32_t page_operation_number(struct page_writer *writer, uint32_t process, uint32_t operation,
			       uint32_t name)
{
	bool is_new;
	uint32_t *number = table_add(&writer->text_numbers, (uint64_t)process << 32 | name,
				     operation, &is_new);

	if (is_new)
		*number = page_text_number(
			writer, operation_words(writer->model, process, operation, name));
	return *number;
}

static json_t *group_json(struct page_writer *writer, uint32_t process, uint32_t wait)
{
	struct wait_words words = wait_words(writer->model, process, wait);
	struct site *site =
		words.wait ? sites_find(writer->sites, writer->model, process, words.wait->site)
			   : NULL;
	json_t *group = memory_check(json_object());

	timeline_set(group, "rule", timeline_text(words.slug ? words.slug : "not defined"));
	timeline_set(group, "function",
		     timeline_text(words.function ? words.function : "not known"));
	timeline_set(group, "cause", timeline_text(words.cause));
	timeline_set(group, "class",
		     timeline_text(words.class ? report_class(words.class) : "unknown"));
	timeline_set(group, "own_cost",
		     page_boolean(words.rule && words.rule->flags & RECORD_RULE_OWN_COST));
	timeline_set(group, "site",
		     site && site->number < PAGE_SITES_MAX ? page_integer(site->number)
							   : memory_check(json_null()));
	timeline_set(group, "region", timeline_text(words.region));
	timeline_set(group, "allowed", page_boolean(words.wait && words.wait->allowed));
	if (words.wait) {
		timeline_set(group, "from",
			     timeline_text(report_memory_kind(words.wait->source_kind)));
		timeline_set(group, "to",
			     timeline_text(report_memory_kind(words.wait->destination_kind)));
		timeline_set(group, "basis",
			     timeline_text(report_idle_basis(words.wait->idle_basis)));
	}
	return group;
}

/* Equal groups of several processes are one: they are told apart by what the page shows of them. */
uint32_t page_group_number(struct page_writer *writer, uint32_t process, uint32_t wait)
{
	bool is_new;
	uint32_t *number = table_add(&writer->group_numbers, process, wait, &is_new);
	_cleanup_free_ char *key = NULL;
	json_t *group, *known;

	if (!is_new)
		return *number;
	group = group_json(writer, process, wait);
	key = memory_check(json_dumps(group, JSON_COMPACT | JSON_SORT_KEYS));
	known = json_object_get(writer->group_index, key);
	if (known) {
		*number = (uint32_t)json_integer_value(known);
		json_decref(group);
		return *number;
	}
	*number = (uint32_t)json_array_size(writer->groups);
	timeline_set(writer->group_index, key, page_integer(*number));
	page_append(writer->groups, group);
	return *number;
}

/* What a wait waited for: [[row of the stream or -1, text, certain], ...]. */
uint32_t page_target_number(struct page_writer *writer, uint32_t process, uint32_t candidates)
{
	bool is_new;
	uint32_t *number = table_add(&writer->target_numbers, process, candidates, &is_new);
	const struct trace_def_candidate *members[CANDIDATES_MAX];
	size_t count;
	json_t *target;

	if (!is_new)
		return *number;
	*number = (uint32_t)json_array_size(writer->targets);
	target = page_array();
	count = wait_candidates(writer->model, process, candidates, members);
	for (size_t i = 0; i < count; i++) {
		const struct page_stream *stream =
			page_stream_of(writer->collection, process,
				       candidate_stream(writer->model, process, members[i]));
		json_t *member = page_array();

		page_append(member, page_integer(stream ? (int64_t)stream->row : -1));
		page_append(member,
			    page_integer(page_operation_number(
				    writer, process, members[i]->operation, members[i]->name)));
		page_append(member, page_integer(members[i]->certain ? 1 : 0));
		page_append(target, member);
	}
	page_append(writer->targets, target);
	return *number;
}
