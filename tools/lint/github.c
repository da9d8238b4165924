// SPDX-License-Identifier: MIT
/*
 * Lint, GitHub annotations (write.h): workflow commands on stdout, as GitHub's toolkit writes them. New results only: what the baseline knows
 * would be marked in every pull request.
 */
#include <inttypes.h>

#include "lint/write.h"
#include "memory.h"
#include "text.h"

/* In a property, as in a message, but ':' and ',' too. */
static void write_escaped(const char *raw, bool in_property, FILE *out)
{
	_cleanup_free_ char *text = text_printable(raw, false);

	for (const char *c = text; *c; c++)
		if (strchr("%\r\n", *c) || (in_property && strchr(":,", *c)))
			(void)fprintf(out, "%%%02X", (unsigned char)*c);
		else
			(void)fputc(*c, out);
}

static void write_result(const struct lint_result *result, FILE *out)
{
	static const char *const commands[] = {
		[LINT_NOTE] = "notice", [LINT_WARNING] = "warning", [LINT_ERROR] = "error"};
	const struct lint_frame *place = lint_stack_place(result->stack);
	_cleanup_free_ char *title = memory_format("%s %s", result->rule->id, result->rule->slug);

	(void)fprintf(out, "::%s ", commands[result->level]);
	if (place && place->file && place->line) {
		(void)fputs("file=", out);
		write_escaped(place->file, true, out);
		(void)fprintf(out, ",line=%" PRIu32 ",", place->line);
	}
	(void)fputs("title=", out);
	write_escaped(title, true, out);
	(void)fputs("::", out);
	if (place && !(place->file && place->line)) {
		_cleanup_free_ char *words = lint_place_words(result);

		write_escaped(words, false, out);
		(void)fputs(": ", out);
	}
	write_escaped(result->message, false, out);
	(void)fputs(". Instead: ", out);
	write_escaped(result->rule->fix, false, out);
	(void)fputc('\n', out);
}

void lint_write_github(const struct lint *lint, FILE *out)
{
	for (size_t i = 0; i < lint->result_count; i++)
		if (!lint->results[i].is_known)
			write_result(&lint->results[i], out);
	for (size_t i = 0; i < lint->reasons.count; i++) {
		(void)fputs("::warning title=slipstream lint::inconclusive: ", out);
		write_escaped(lint->reasons.items[i], false, out);
		(void)fputc('\n', out);
	}
	if (lint->failed) {
		(void)fputs("::error title=slipstream lint::the program failed: ", out);
		write_escaped(lint->failed, false, out);
		(void)fputc('\n', out);
	}
}
