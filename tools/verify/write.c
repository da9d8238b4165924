// SPDX-License-Identifier: MIT
/* What verify found (write.h). */
#include "verify/write.h"

#include <inttypes.h>

#include "memory.h"
#include "text.h"
#include "verify/findings.h"

static const char *const barrier_names[] = {
	[TRACE_ORDER_EXPLICIT] = "explicit", [TRACE_ORDER_JOIN] = "join",
	[TRACE_ORDER_POST] = "post",         [TRACE_ORDER_BACK] = "back",
	[TRACE_ORDER_HOST] = "host",
};
static const char *const elision_names[] = {
	[TRACE_ORDER_CLEAN] = "clean",
	[TRACE_ORDER_ORDERED] = "ordered",
};
static const char *const reason_names[] = {
	[0] = "none",
	[TRACE_ORDER_UNMIXED] = "unmixed",
	[TRACE_ORDER_SLOW] = "slow",
	[TRACE_ORDER_CAPTURE] = "capture",
	[TRACE_ORDER_DOUBT] = "doubt",
	[TRACE_ORDER_QUEUE] = "queue",
	[TRACE_ORDER_PREFERRED] = "preferred",
	[TRACE_ORDER_DENIED] = "denied",
};
static const char *const kind_names[VERIFY_FINDING_KINDS] = {
	[VERIFY_EDGE] = "edge",
	[VERIFY_FLIGHT] = "in flight",
	[VERIFY_INCOMPLETE] = "incomplete",
	[VERIFY_CONTRADICTION] = "contradiction",
	[VERIFY_OPERATION] = "operation",
};

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

static uint64_t sum(const uint64_t *counts, size_t count)
{
	uint64_t all = 0;

	for (size_t i = 0; i < count; i++)
		all += counts[i];
	return all;
}

/* ---- text ---- */

static void write_finding(FILE *out, const struct verify *verify,
			  const struct verify_finding *finding)
{
	const char *process = verify_process_name(verify, finding->process);
	_cleanup_free_ char *line =
		memory_format("%s%s%s", process, *process ? ": " : "", finding->text);
	_cleanup_free_ char *text = text_printable(line, false);

	(void)fprintf(out, "%s\n", text);
}

/* "A (x B, y C)": those that are not 0, from index 1. */
static void write_parts(FILE *out, const char *what, const uint64_t *counts,
			const char *const *names, size_t count)
{
	uint64_t all = sum(counts + 1, count - 1);
	const char *before = " (";

	(void)fprintf(out, ", %" PRIu64 " %s%s", all, what, plural(all));
	for (size_t i = 1; i < count; i++) {
		if (!counts[i])
			continue;
		(void)fprintf(out, "%s%" PRIu64 " %s", before, counts[i], names[i]);
		before = ", ";
	}
	if (all)
		(void)fputc(')', out);
}

void write_text(FILE *out, const char *path, const struct verify *verify, bool is_proved,
		size_t limit)
{
	const struct verify_result *result = verify_result(verify);
	uint64_t all = sum(result->counts, VERIFY_FINDING_KINDS);
	size_t shown = limit && limit < result->finding_count ? limit : result->finding_count;
	_cleanup_free_ char *name = text_printable(path, false);

	for (size_t i = 0; i < shown; i++)
		write_finding(out, verify, &result->findings[i]);
	if (all > shown)
		(void)fprintf(out, "and %" PRIu64 " more\n", all - shown);
	if (!result->contexts && !is_proved)
		(void)fputs("no record of legacy order: recorded at level full, with a rewrite of "
			    "the legacy stream?\n",
			    out);
	(void)fprintf(out,
		      "%s: %s: %" PRIu64 " context%s, %" PRIu64 " record%s, %" PRIu64
		      " operation%s, %" PRIu64 " ordering%s demanded",
		      name, is_proved ? "proved" : "not proved", result->contexts,
		      plural(result->contexts), result->records, plural(result->records),
		      result->operations, plural(result->operations), result->orderings,
		      plural(result->orderings));
	write_parts(out, "barrier", result->barriers, barrier_names, ARRAY_SIZE(barrier_names));
	write_parts(out, "elision", result->elisions, elision_names, ARRAY_SIZE(elision_names));
	(void)fputc('\n', out);
}

/* ---- JSON ---- */

static void set(json_t *object, const char *key, json_t *value)
{
	memory_check(json_object_set_new(object, key, memory_check(value)) ? NULL : object);
}

static json_t *integer(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

static json_t *string(const char *raw)
{
	_cleanup_free_ char *text = raw ? text_printable(raw, true) : NULL;

	return text ? json_string(text) : json_null();
}

static json_t *counts_json(const uint64_t *counts, const char *const *names, size_t first,
			   size_t count)
{
	json_t *object = memory_check(json_object());

	for (size_t i = first; i < count; i++)
		set(object, names[i], integer(counts[i]));
	return object;
}

static json_t *operation_json(const struct verify_operation *operation)
{
	json_t *object = memory_check(json_object());

	set(object, "record", integer(operation->sequence));
	set(object, "stream", integer(operation->stream));
	set(object, "substitute", json_boolean(operation->place));
	set(object, "function", integer(operation->function));
	return object;
}

static json_t *finding_json(const struct verify *verify, const struct verify_finding *finding)
{
	json_t *object = memory_check(json_object());
	bool is_pair = finding->kind == VERIFY_EDGE || finding->kind == VERIFY_FLIGHT;

	set(object, "kind", json_string(kind_names[finding->kind]));
	set(object, "process", string(verify_process_name(verify, finding->process)));
	set(object, "context", integer(finding->context));
	set(object, "text", string(finding->text));
	set(object, "before", is_pair ? operation_json(&finding->before) : json_null());
	set(object, "after", is_pair ? operation_json(&finding->after) : json_null());
	set(object, "needed",
	    finding->kind == VERIFY_EDGE ? json_string(findings_needed(finding)) : json_null());
	return object;
}

static json_t *findings_json(const struct verify *verify)
{
	const struct verify_result *result = verify_result(verify);
	json_t *array = memory_check(json_array());

	for (size_t i = 0; i < result->finding_count; i++)
		memory_check(
			json_array_append_new(array, finding_json(verify, &result->findings[i]))
				? NULL
				: array);
	return array;
}

json_t *write_json(const char *path, const struct verify *verify, bool is_proved, const char *error)
{
	const struct verify_result *result = verify_result(verify);
	json_t *object = memory_check(json_object());

	set(object, "trace", string(path));
	set(object, "proved", json_boolean(is_proved));
	set(object, "error", string(error));
	set(object, "contexts", integer(result->contexts));
	set(object, "records", integer(result->records));
	set(object, "operations", integer(result->operations));
	set(object, "submissions",
	    memory_check(json_pack("{s:I, s:I, s:I}", "ordered",
				   (json_int_t)result->submissions.ordered, "elsewhere",
				   (json_int_t)result->submissions.elsewhere, "without_effect",
				   (json_int_t)result->submissions.without_effect)));
	set(object, "legacy_operations", integer(result->legacy));
	set(object, "refused_calls", integer(result->refused));
	set(object, "orderings", integer(result->orderings));
	set(object, "turns", integer(result->turns));
	set(object, "barriers",
	    counts_json(result->barriers, barrier_names, 1, ARRAY_SIZE(barrier_names)));
	set(object, "elisions",
	    counts_json(result->elisions, elision_names, 1, ARRAY_SIZE(elision_names)));
	set(object, "native_reasons",
	    counts_json(result->natives, reason_names, 1, ARRAY_SIZE(reason_names)));
	set(object, "found", counts_json(result->counts, kind_names, 0, VERIFY_FINDING_KINDS));
	set(object, "findings", findings_json(verify));
	return object;
}
