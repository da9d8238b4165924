// SPDX-License-Identifier: MIT
/*
 * Lint, doubts: why "no finding" could not be believed, beyond the reasons that the report itself has (coverage.c, report_trace.c,
 * report_witness.c). Called by lint.c after the report is finished.
 */
#include <inttypes.h>

#include "lint/lint.h"
#include "memory.h"
#include "report_trace.h"

static void doubt(struct lint *lint, char *text)
{
	report_text_list_add(&lint->reasons, text);
}

/* The value of a setting that the process had; NULL: not known. The caller frees. */
static char *setting_of(const struct record_file *file, const char *name)
{
	const char *line = record_string_text(file, file->header->config);
	size_t length = strlen(name);

	while (line && *line) {
		size_t end = strcspn(line, "\n");

		if (end > length && !strncmp(line, name, length) && line[length] == '=')
			return memory_check(strndup(line + length + 1, end - length - 1));
		line += end;
		line += *line == '\n';
	}
	return NULL;
}

/* A rewrite takes away what lint looks for. */
static void find_modes(struct lint *lint)
{
	for (size_t i = 0; i < lint->report->process_count; i++) {
		const struct report_process *process = &lint->report->processes[i];
		_cleanup_free_ char *mode = setting_of(process->file, "MODE");

		if (mode && strcmp(mode, "observe") != 0) {
			doubt(lint,
			      memory_format("process %" PRIu32
					    " ran in mode %s: only mode observe leaves the waits "
					    "as the program makes them",
					    process->file->header->pid, mode));
			return; /* the others have it from the same environment */
		}
		if (process->file->rewrites.count) {
			doubt(lint, memory_format("process %" PRIu32 " had rewrites on",
						  process->file->header->pid));
			return;
		}
	}
}

/* A setting that was ignored may be what marks the steps of a budget. */
static void find_settings(struct lint *lint)
{
	for (size_t i = 0; i < lint->report->process_count; i++) {
		const struct record_file *file = lint->report->processes[i].file;

		for (size_t k = 0; k < file->notes.count; k++) {
			const struct record_note *note = (const void *)file->notes.records[k];
			const char *text = record_string_text(file, note->text);

			if (note->code != NOTE_CONFIG)
				continue;
			doubt(lint, memory_format("a setting was ignored: %s", text ? text : "?"));
			return; /* the others have it from the same environment */
		}
	}
}

void lint_find_doubts(struct lint *lint)
{
	struct report *report = lint->report;

	for (size_t i = 0; i < report->reasons.count; i++)
		doubt(lint, memory_copy(report->reasons.items[i]));
	find_modes(lint);
	find_settings(lint);
	lint_find_unchecked(lint);
	/* Of a trace the report itself says so. */
	if (report->unknown_count && !report->trace)
		doubt(lint, memory_format("waits without a rule: %" PRIu64
					  " (the record is damaged, or lacks its definitions)",
					  report->unknown_count));
	if (report->file_count && !report->calls && report_trace_has_counts(report))
		doubt(lint,
		      memory_copy("no driver call was seen: the program does not use CUDA, or "
				  "goes around the library"));
}
