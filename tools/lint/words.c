// SPDX-License-Identifier: MIT
/* Lint, words that several formats say alike (write.h). Called by the writers and baseline.c. */
#include <inttypes.h>

#include "lint/baseline.h"
#include "lint/config.h"
#include "lint/write.h"
#include "memory.h"
#include "text.h"

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static char *printable(char *raw)
{
	char *text = text_printable(raw, false);

	free(raw);
	return text;
}

static char *frame_place(const struct lint_frame *frame)
{
	if (frame->file && frame->line)
		return memory_format("%s:%" PRIu32, frame->file, frame->line);
	if (frame->module)
		return memory_format("%s+0x%" PRIx64, base_name(frame->module), frame->offset);
	return memory_copy(frame->file ? frame->file : "unknown place");
}

char *lint_place_words(const struct lint_result *result)
{
	const struct lint_frame *frame = lint_stack_place(result->stack);
	_cleanup_free_ char *place = NULL;

	if (result->budget)
		return printable(memory_format("region %s", result->budget->region));
	if (!frame)
		return memory_copy("unknown place");
	place = frame_place(frame);
	if (frame->file && frame->line)
		return printable(memory_copy(place));
	return printable(memory_format("%s in %s", frame->function ? frame->function : "?", place));
}

char *lint_frame_words(const struct lint_frame *frame)
{
	_cleanup_free_ char *place = frame_place(frame);

	return printable(memory_format("%s (%s)", frame->function ? frame->function : "?", place));
}

static void add_count(FILE *out, bool *ret_is_first, uint64_t count, const char *words)
{
	if (!count)
		return;
	(void)fprintf(out, "%s%" PRIu64 " %s", *ret_is_first ? "" : ", ", count, words);
	*ret_is_first = false;
}

static const char *plural(size_t count, const char *one, const char *more)
{
	return count == 1 ? one : more;
}

char *lint_verdict_words(const struct lint *lint)
{
	size_t errors = lint_count(lint, LINT_ERROR, false),
	       warnings = lint_count(lint, LINT_WARNING, false),
	       notes = lint_count(lint, LINT_NOTE, false), known = 0;
	size_t gone = lint->baseline ? lint_baseline_gone(lint->baseline) : 0;
	bool is_first = true;
	char *text = NULL;
	size_t size;
	FILE *out = memory_check(open_memstream(&text, &size));

	for (enum lint_level level = LINT_NOTE; level <= LINT_ERROR; level++)
		known += lint_count(lint, level, true);
	add_count(out, &is_first, errors, plural(errors, "error", "errors"));
	add_count(out, &is_first, warnings, plural(warnings, "warning", "warnings"));
	if (!errors && !warnings) {
		(void)fputs(known ? "no new finding" : "no finding", out);
		is_first = false;
	}
	add_count(out, &is_first, notes, plural(notes, "note", "notes"));
	add_count(out, &is_first, known, "known from the baseline");
	add_count(out, &is_first, gone, "of the baseline gone");
	if (lint->failed)
		(void)fprintf(out, "; the program failed: %s", lint->failed);
	if (lint->reasons.count)
		(void)fputs("; inconclusive", out);
	if (fclose(out))
		memory_check(NULL);
	return text;
}

char *lint_left_out_words(const struct lint *lint)
{
	bool is_first = true;
	char *text = NULL;
	size_t size;
	FILE *out = memory_check(open_memstream(&text, &size));

	add_count(out, &is_first, lint->allowed_by_program, "in allowed-sync scopes");
	add_count(out, &is_first, lint->allowed_by_config, "allowed by the configuration");
	add_count(out, &is_first, lint->below_threshold, "below the thresholds");
	add_count(out, &is_first, lint->switched_off, "of rules that are off");
	add_count(out, &is_first, lint->cold, "too seldom for a hot path");
	if (fclose(out))
		memory_check(NULL);
	if (!*text) {
		free(text);
		return NULL;
	}
	return text;
}
