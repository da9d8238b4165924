// SPDX-License-Identifier: MIT
/*
 * Fuzzer: golden trace or journal -> proof of legacy order. Findings are one line each, and nothing is proved of a trace that has one.
 */
#include <stddef.h>
#include <stdint.h>

#include "memory.h"
#include "tracing/analysis/text_parse.h"
#include "verify/verify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PROCESSES 2

static void check_line(const char *text)
{
	if (!text || strchr(text, '\n'))
		abort(); /* one line, always */
}

static void check(const struct verify *verify)
{
	const struct verify_result *result = verify_result(verify);
	uint64_t all = 0;

	for (size_t i = 0; i < VERIFY_FINDING_KINDS; i++)
		all += result->counts[i];
	if (verify_is_proved(verify, true) != !all || result->finding_count > all ||
	    result->operations > result->records || result->legacy > result->operations)
		abort();
	for (size_t i = 0; i < result->finding_count; i++) {
		const struct verify_finding *finding = &result->findings[i];

		if (!finding->text)
			abort();
		if (finding->kind == VERIFY_EDGE &&
		    finding->before.sequence >= finding->after.sequence)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct verify *verify;
	struct text_parser *parser;
	struct text_line line;
	char *error_text = NULL;
	int status;

	if (!size)
		return 0;
	verify = verify_new();
	parser = text_parser_new("input",
				 memory_check(fmemopen((void *)(uintptr_t)data, size, "r")));
	while ((status = text_parser_next(parser, &line, &error_text)) > 0)
		if (line.kind == TEXT_EVENT)
			verify_take(verify, line.pid % PROCESSES, line.event, &line.payload);
	if (status < 0)
		check_line(error_text);
	free(error_text);
	text_parser_free(parser);
	verify_finish(verify);
	check(verify);
	verify_free(verify);
	return 0;
}
