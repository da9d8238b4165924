// SPDX-License-Identifier: MIT
/*
 * Coverage (coverage.h): the reasons that make a verdict inconclusive. Called by report_finish();
 * relies on the notes and functions being merged already.
 */
#include "coverage.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "memory.h"
#include "report.h"
#include "sum.h"

#define TABLE(name, asker, ...) {name, asker, {__VA_ARGS__}},
static const struct {
	const char *name, *asker;
	unsigned char id[16];
} known_tables[] = {
#include "tables.def"
};
#undef TABLE

/* The sixteen bytes of an id; NULL: it is none. Else what follows it. */
static const char *parse_id(const char *text, unsigned char bytes[16])
{
	size_t digits = 0;

	for (; *text && *text != ' '; text++) {
		if (*text == '-')
			continue;
		if (!isxdigit((unsigned char)*text) || digits == 32)
			return NULL;
		bytes[digits / 2] =
			(unsigned char)(bytes[digits / 2] << 4 |
					(isdigit((unsigned char)*text)
						 ? *text - '0'
						 : tolower((unsigned char)*text) - 'a' + 10));
		digits++;
	}
	return digits == 32 ? text : NULL;
}

const char *coverage_table_name(const char *text)
{
	unsigned char bytes[16] = {0};
	const char *asker = parse_id(text, bytes);

	if (!asker)
		return NULL;
	if (*asker == ' ')
		asker++;
	for (size_t i = 0; i < ARRAY_SIZE(known_tables); i++)
		if (!memcmp(bytes, known_tables[i].id, sizeof(bytes)) &&
		    (!known_tables[i].asker ||
		     !strncmp(asker, known_tables[i].asker, strlen(known_tables[i].asker))))
			return known_tables[i].name;
	return NULL;
}

/* A thunk counts its calls: having been handed out proves nothing as long as nobody called it. */
static const struct report_function *find_counted(const struct report *report, const char *name)
{
	for (size_t low = 0, high = report->functions.count; low < high;) {
		size_t middle = low + (high - low) / 2;
		const struct report_function *function = report->functions.items[middle];
		int order = strcmp(name, function->name);

		if (!order)
			return function;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

/* In a child forked after cuInit the driver refuses every call, so none of them waits. */
static bool is_harmless_pass(const char *text)
{
	return !strncmp(text, "forked after cuInit", strlen("forked after cuInit"));
}

const struct report_function *coverage_counted_handout(const struct report *report,
						       const struct report_note *note)
{
	return note->code == NOTE_UNWRAPPED_HANDED_OUT ? find_counted(report, note->text) : NULL;
}

/* Why the note makes a verdict inconclusive, in words that go before its text; NULL: it does not. */
static const char *reason_of(const struct report *report, const struct report_note *note)
{
	const char *text = note->text;

	switch (note->code) {
	case NOTE_UNWRAPPED_HANDED_OUT:
		return coverage_counted_handout(report, note)
			       ? NULL
			       : "a function without wrapper was handed out";
	case NOTE_EXPORT_TABLE:
		return coverage_table_name(text) ? NULL : "an unknown export table was handed out";
	case NOTE_SECOND_DRIVER:
		return "a second driver library was used";
	case NOTE_PASS_THROUGH:
		return is_harmless_pass(text) ? NULL : "calls passed unclassified";
	case NOTE_LOST:
		return "records were lost";
	case NOTE_ERROR:
		return "slipstream failed in the program";
	default:
		return NULL;
	}
}

static void find_in_notes(struct report *report)
{
	for (size_t i = 0; i < report->notes.count; i++) {
		const struct report_note *note = report->notes.items[i];
		const char *why = reason_of(report, note);

		if (why)
			report_text_list_add(&report->reasons,
					     memory_format("%s: %s", why, note->text));
	}
}

void coverage_find_reasons(struct report *report)
{
	uint64_t dropped = 0;

	/* Most likely it uses no CUDA; but a way around the library would look the same. */
	if (!report->file_count && !report->problems.count)
		report_text_list_add(&report->reasons,
				     memory_copy("no process left a record (no driver call seen)"));
	for (size_t i = 0; i < report->blind.count; i++)
		report_text_list_add(&report->reasons,
				     memory_copy((const char *)report->blind.items[i]));
	for (size_t i = 0; i < report->problems.count; i++)
		report_text_list_add(&report->reasons,
				     memory_format("damaged record file %s",
						   (const char *)report->problems.items[i]));
	for (size_t i = 0; i < report->process_count; i++) {
		const struct report_process *process = &report->processes[i];

		if (!strcmp(process->state, "running"))
			report_text_list_add(
				&report->reasons,
				memory_format("process %" PRIu32
					      " still runs, its later calls are not in this report",
					      process->file->header->pid));
	}
	for (size_t i = 0; i < report->process_count; i++)
		sum_add(&dropped, report->processes[i].file->header->dropped);
	if (dropped)
		report_text_list_add(&report->reasons,
				     memory_format("%" PRIu64 " record%s could not be written",
						   dropped, dropped == 1 ? "" : "s"));
	find_in_notes(report);

	/* A thunk counts but cannot classify: no doubt as long as nobody called it. */
	for (size_t i = 0; i < report->functions.count; i++) {
		const struct report_function *function = report->functions.items[i];

		if (!function->wrapped && function->calls)
			report_text_list_add(&report->reasons,
					     memory_format("unwrapped function called: %s (%" PRIu64
							   " call%s)",
							   function->name, function->calls,
							   function->calls == 1 ? "" : "s"));
	}
}
