// SPDX-License-Identifier: MIT
/*
 * Lint, SARIF 2.1.0 (write.h): one run. Rules are those that are checked; what a run could not show is a notification of the invocation,
 * since an empty list of results would read as clean.
 */
#include <ctype.h>
#include <inttypes.h>

#include "lint/write.h"
#include "memory.h"

#define ROOT_ID "ROOT"

static json_t *new_object(void)
{
	return memory_check(json_object());
}

static json_t *new_array(void)
{
	return memory_check(json_array());
}

static json_t *message_json(const char *text)
{
	json_t *object = new_object();

	lint_json_set(object, "text", lint_json_text(text));
	return object;
}

/* Bytes of a path that a URI cannot hold as they are. The caller frees. */
static char *uri_of(const char *path, const char *start, const char *end)
{
	char *text = NULL;
	size_t size;
	FILE *out = memory_check(open_memstream(&text, &size));

	(void)fputs(start, out);
	for (const char *c = path; *c; c++)
		if (isalnum((unsigned char)*c) || strchr("/-._~+@", *c))
			(void)fputc(*c, out);
		else
			(void)fprintf(out, "%%%02X", (unsigned char)*c);
	(void)fputs(end, out);
	if (fclose(out))
		memory_check(NULL);
	return text;
}

static json_t *artifact_json(const char *file)
{
	json_t *object = new_object();
	_cleanup_free_ char *uri = uri_of(file, file[0] == '/' ? "file://" : "", "");

	lint_json_set(object, "uri", lint_json_text(uri));
	if (file[0] != '/')
		lint_json_set(object, "uriBaseId", lint_json_text(ROOT_ID));
	return object;
}

static json_t *physical_json(const struct lint_frame *frame)
{
	json_t *object = new_object(), *region = new_object();

	lint_json_set(object, "artifactLocation", artifact_json(frame->file));
	lint_json_set(region, "startLine", lint_json_number(frame->line));
	lint_json_set(object, "region", region);
	return object;
}

static json_t *location_json(const struct lint_frame *frame)
{
	json_t *object = new_object(), *logical = new_object(), *list = new_array();
	const char *slash = frame->module ? strrchr(frame->module, '/') : NULL;

	if (frame->file && frame->line)
		lint_json_set(object, "physicalLocation", physical_json(frame));
	lint_json_set(logical, "kind", lint_json_text("function"));
	if (frame->function)
		lint_json_set(logical, "name", lint_json_text(frame->function));
	if (frame->module) {
		_cleanup_free_ char *name =
			memory_format("%s::%s", slash ? slash + 1 : frame->module,
				      frame->function ? frame->function : "?");

		lint_json_set(logical, "fullyQualifiedName", lint_json_text(name));
	}
	lint_json_append(list, logical);
	lint_json_set(object, "logicalLocations", list);
	return object;
}

static json_t *stacks_json(const struct lint_stack *stack)
{
	json_t *frames = new_array(), *object = new_object(), *list = new_array();

	for (size_t i = 0; i < stack->count; i++) {
		json_t *frame = new_object();

		lint_json_set(frame, "location", location_json(&stack->frames[i]));
		lint_json_append(frames, frame);
	}
	lint_json_set(object, "frames", frames);
	lint_json_append(list, object);
	return list;
}

static json_t *properties_json(const struct lint_result *result)
{
	json_t *object = new_object();

	if (result->function)
		lint_json_set(object, "driverFunction", lint_json_text(result->function));
	lint_json_set(object, "count", lint_json_number(result->count));
	if (!result->on_device)
		lint_json_set(object, "blockedNs", lint_json_number(result->blocked_ns));
	lint_json_set(object, "bytes", lint_json_number(result->bytes));
	lint_json_set(object, "sure", lint_json_text(result->rule->sure));
	return object;
}

/* The number of a rule among those that are listed. */
static size_t rule_index(const struct lint_rule *rule)
{
	size_t index = 0;

	for (const struct lint_rule *other = lint_rules; other < rule; other++)
		index += !other->needs;
	return index;
}

static json_t *related_json(const struct lint_result *result, const struct lint_frame *place)
{
	json_t *list = new_array(), *object = location_json(place);
	_cleanup_free_ char *text = memory_format("the other side: %s", result->other_function);

	lint_json_set(object, "message", message_json(text));
	lint_json_append(list, object);
	return list;
}

static json_t *result_json(const struct lint *lint, const struct lint_result *result)
{
	const struct lint_frame *place = lint_stack_place(result->stack);
	json_t *object = new_object(), *fingerprints = new_object();

	lint_json_set(object, "ruleId", lint_json_text(result->rule->id));
	lint_json_set(object, "ruleIndex", lint_json_number(rule_index(result->rule)));
	lint_json_set(object, "level", lint_json_text(lint_level_name(result->level)));
	lint_json_set(object, "message", message_json(result->message));
	if (place) {
		json_t *locations = new_array();

		lint_json_append(locations, location_json(place));
		lint_json_set(object, "locations", locations);
		lint_json_set(object, "stacks", stacks_json(result->stack));
	}
	place = lint_stack_place(result->other_stack);
	if (place)
		lint_json_set(object, "relatedLocations", related_json(result, place));
	lint_json_set(fingerprints, "slipstream/v1", lint_json_fingerprint(result));
	lint_json_set(object, "partialFingerprints", fingerprints);
	if (lint->baseline)
		lint_json_set(object, "baselineState",
			      lint_json_text(result->is_known ? "unchanged" : "new"));
	lint_json_set(object, "properties", properties_json(result));
	return object;
}

static json_t *rule_json(const struct lint_rule *rule)
{
	json_t *object = new_object(), *setting = new_object(), *properties = new_object();
	_cleanup_free_ char *help =
		memory_format("%s %s Instead: %s", rule->what, rule->why, rule->fix);

	lint_json_set(object, "id", lint_json_text(rule->id));
	lint_json_set(object, "name", lint_json_text(rule->slug));
	lint_json_set(object, "shortDescription", message_json(rule->what));
	lint_json_set(object, "fullDescription", message_json(rule->why));
	lint_json_set(object, "help", message_json(help));
	lint_json_set(setting, "level", lint_json_text(lint_level_name(rule->level)));
	lint_json_set(object, "defaultConfiguration", setting);
	lint_json_set(properties, "sure", lint_json_text(rule->sure));
	lint_json_set(object, "properties", properties);
	return object;
}

static json_t *tool_json(void)
{
	json_t *tool = new_object(), *driver = new_object(), *rules = new_array();

	for (size_t i = 0; i < lint_rule_count; i++)
		if (!lint_rules[i].needs)
			lint_json_append(rules, rule_json(&lint_rules[i]));
	lint_json_set(driver, "name", lint_json_text("slipstream lint"));
	lint_json_set(driver, "version", lint_json_text(SLIPSTREAM_VERSION));
	lint_json_set(driver, "rules", rules);
	lint_json_set(tool, "driver", driver);
	return tool;
}

static void add_notification(json_t *list, const char *level, char *text)
{
	json_t *object = new_object();

	lint_json_set(object, "level", lint_json_text(level));
	lint_json_set(object, "message", message_json(text));
	lint_json_append(list, object);
	free(text);
}

static json_t *invocations_json(const struct lint *lint)
{
	json_t *list = new_array(), *object = new_object(), *notifications = new_array();

	lint_json_set(object, "executionSuccessful",
		      json_boolean(!lint->failed && !lint->reasons.count));
	for (size_t i = 0; i < lint->reasons.count; i++)
		add_notification(
			notifications, "error",
			memory_format("inconclusive: %s", (const char *)lint->reasons.items[i]));
	if (lint->failed)
		add_notification(notifications, "error",
				 memory_format("the program failed: %s", lint->failed));
	for (size_t i = 0; i < lint_rule_count; i++)
		if (lint_rules[i].needs)
			add_notification(notifications, "note",
					 memory_format("rule %s is not checked: it %s",
						       lint_rules[i].id, lint_rules[i].needs));
		else if (!lint_is_checked(lint, &lint_rules[i]))
			add_notification(notifications, "note",
					 memory_format("rule %s was not checked in this run: it "
						       "needs SLIPSTREAM_CHECK=order",
						       lint_rules[i].id));
	lint_json_set(object, "toolExecutionNotifications", notifications);
	lint_json_append(list, object);
	return list;
}

static json_t *bases_json(const struct lint *lint)
{
	json_t *bases = new_object(), *base = new_object();
	_cleanup_free_ char *uri = uri_of(lint->root ? lint->root : "", "file://", "/");

	lint_json_set(base, "uri", lint_json_text(uri));
	lint_json_set(bases, ROOT_ID, base);
	return bases;
}

void lint_write_sarif(const struct lint *lint, FILE *out)
{
	json_t *object = new_object(), *runs = new_array(), *run = new_object(),
	       *results = new_array();

	for (size_t i = 0; i < lint->result_count; i++)
		lint_json_append(results, result_json(lint, &lint->results[i]));
	lint_json_set(run, "tool", tool_json());
	lint_json_set(run, "invocations", invocations_json(lint));
	lint_json_set(run, "originalUriBaseIds", bases_json(lint));
	lint_json_set(run, "columnKind", lint_json_text("unicodeCodePoints"));
	lint_json_set(run, "results", results);
	lint_json_append(runs, run);
	lint_json_set(object, "$schema",
		      lint_json_text("https://json.schemastore.org/sarif-2.1.0.json"));
	lint_json_set(object, "version", lint_json_text("2.1.0"));
	lint_json_set(object, "runs", runs);
	if (!json_dumpf(object, out, JSON_INDENT(1) | JSON_PRESERVE_ORDER))
		(void)fputc('\n', out);
	json_decref(object);
}
