// SPDX-License-Identifier: MIT
/* Lint, outputs (output.h): the formats by name, and the end of every lint. Called by command.c and trace/main.c. */
#include "lint/output.h"

#include <errno.h>
#include <string.h>

#include "command.h"
#include "lint/baseline.h"
#include "lint/write.h"
#include "memory.h"
#include "text.h"

static const struct {
	const char *name;
	lint_write *write;
	bool is_lines; /* may share a stream with others */
} formats[] = {
	{"text", lint_write_text, true},     {"json", lint_write_json, false},
	{"sarif", lint_write_sarif, false},  {"junit", lint_write_junit, false},
	{"github", lint_write_github, true},
};

static size_t find_format(const char *name, size_t length)
{
	size_t i = 0;

	while (i < ARRAY_SIZE(formats) &&
	       (strlen(formats[i].name) != length || strncmp(formats[i].name, name, length) != 0))
		i++;
	return i;
}

const char *lint_output_add(struct lint_options *options, const char *word)
{
	size_t length = strcspn(word, "="), format = find_format(word, length);
	struct lint_output *output;

	if (format == ARRAY_SIZE(formats))
		return "unknown format (known: text, json, sarif, junit, github)";
	if (word[length] == '=' && !word[length + 1])
		return "no file named";
	options->outputs = memory_check(reallocarray(options->outputs, options->output_count + 1,
						     sizeof(*options->outputs)));
	output = &options->outputs[options->output_count++];
	*output = (struct lint_output){.format = formats[format].name,
				       .path = word[length] ? word + length + 1 : NULL};
	for (size_t i = 0; i + 1 < options->output_count; i++) {
		const struct lint_output *other = &options->outputs[i];

		if (output->path && other->path && !strcmp(output->path, other->path))
			return "two formats in one file";
		if (!output->path && !other->path &&
		    (!formats[format].is_lines ||
		     !formats[find_format(other->format, strlen(other->format))].is_lines))
			return "two formats on stdout: name a file, as json=FILE";
	}
	return NULL;
}

char *lint_outputs_open(struct lint_options *options)
{
	for (size_t i = 0; i < options->output_count; i++) {
		struct lint_output *output = &options->outputs[i];

		if (!output->path) {
			/* What the program itself prints stays on stdout alone. */
			output->file = options->program && !strcmp(output->format, "text") ? stderr
											   : stdout;
			continue;
		}
		output->file = fopen(output->path, "we");
		if (!output->file)
			return memory_format("%s: %s", output->path, strerror(errno));
	}
	return NULL;
}

static bool close_output(struct lint_output *output)
{
	int error;

	errno = 0;
	error = output->path ? ferror(output->file) | fclose(output->file)
			     : ferror(output->file) | fflush(output->file);
	if (error)
		command_say("%s cannot be written: %s", output->path ? output->path : "stdout",
			    strerror(errno ? errno : EIO));
	output->file = NULL;
	return !error;
}

static bool write_outputs(struct lint_options *options, const struct lint *lint)
{
	bool good = true;

	for (size_t i = 0; i < options->output_count; i++) {
		struct lint_output *output = &options->outputs[i];

		formats[find_format(output->format, strlen(output->format))].write(lint,
										   output->file);
		good &= close_output(output);
	}
	return good;
}

/* What a failed or doubtful run has is no state to compare with. The status that is left. */
static int write_baseline(const struct lint_options *options, const struct lint *lint, int status)
{
	_cleanup_free_ char *error_text = NULL;

	if (lint->failed || lint->reasons.count) {
		command_say("no baseline is written: the run %s",
			    lint->failed ? "failed" : "is inconclusive");
		return status;
	}
	if (lint_baseline_write(lint, options->write_baseline, &error_text)) {
		command_say("%s", error_text);
		return LINT_USAGE;
	}
	return LINT_CLEAN;
}

int lint_finish(struct lint_options *options, struct report *report, const char *failed)
{
	struct lint lint = {.report = report,
			    .config = options->config,
			    .baseline = options->baseline,
			    .root = options->root,
			    .failed = failed,
			    .stuck_before_ns = options->stuck_before_ns,
			    .wants_order = options->require_order};
	int status;
	bool good;

	lint_judge(&lint);
	good = write_outputs(options, &lint);
	status = lint_status(&lint);
	if (options->write_baseline)
		status = write_baseline(options, &lint, status);
	lint_done(&lint);
	return good ? status : LINT_USAGE;
}
