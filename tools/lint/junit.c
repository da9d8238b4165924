// SPDX-License-Identifier: MIT
/*
 * Lint, JUnit XML (write.h) as Jenkins and GitLab read it: one test case for each new result that fails, one for each rule that found
 * nothing new, and one for the verdict, which is an error where it is inconclusive or the program failed.
 */
#include <inttypes.h>

#include "lint/write.h"
#include "memory.h"
#include "text.h"

/* XML 1.0 has no other control characters; text_printable() leaves none. */
static void write_escaped(const char *raw, FILE *out)
{
	_cleanup_free_ char *text = text_printable(raw ? raw : "", false);

	for (const char *c = text; *c; c++)
		switch (*c) {
		case '\xef': /* U+FFFE and U+FFFF are no characters of XML */
			if (c[1] == '\xbf' && (c[2] == '\xbe' || c[2] == '\xbf')) {
				(void)fputs("\xef\xbf\xbd", out);
				c += 2;
			} else {
				(void)fputc(*c, out);
			}
			break;
		case '&':
			(void)fputs("&amp;", out);
			break;
		case '<':
			(void)fputs("&lt;", out);
			break;
		case '>':
			(void)fputs("&gt;", out);
			break;
		case '"':
			(void)fputs("&quot;", out);
			break;
		default:
			(void)fputc(*c, out);
		}
}

static bool is_failure(const struct lint_result *result)
{
	return result->level >= LINT_WARNING && !result->is_known;
}

static bool has_failure(const struct lint *lint, const struct lint_rule *rule)
{
	for (size_t i = 0; i < lint->result_count; i++)
		if (lint->results[i].rule == rule && is_failure(&lint->results[i]))
			return true;
	return false;
}

static void begin_case(const char *id, const char *name, FILE *out)
{
	(void)fputs("    <testcase classname=\"slipstream.lint.", out);
	write_escaped(id, out);
	(void)fputs("\" name=\"", out);
	write_escaped(name, out);
	(void)fputs("\" time=\"0\"", out);
}

/* Servers take two cases of one name for one: the second of a rule at a place gets a number. The caller frees. */
static char *case_name(const struct lint *lint, size_t index, const char *place)
{
	const struct lint_result *result = &lint->results[index];
	size_t number = 1;

	for (size_t i = 0; i < index; i++) {
		_cleanup_free_ char *other = lint_place_words(&lint->results[i]);

		number += is_failure(&lint->results[i]) && lint->results[i].rule == result->rule &&
			  !strcmp(other, place);
	}
	return number == 1 ? memory_format("%s %s", result->rule->slug, place)
			   : memory_format("%s %s #%zu", result->rule->slug, place, number);
}

static void write_result(const struct lint *lint, size_t index, FILE *out)
{
	const struct lint_result *result = &lint->results[index];
	_cleanup_free_ char *place = lint_place_words(result);
	_cleanup_free_ char *name = case_name(lint, index, place);

	begin_case(result->rule->id, name, out);
	(void)fprintf(out, ">\n      <failure type=\"%s\" message=\"",
		      lint_level_name(result->level));
	write_escaped(result->message, out);
	(void)fputs("\">", out);
	write_escaped(place, out);
	(void)fputs("\n", out);
	for (size_t i = 0; result->stack && i < result->stack->count; i++) {
		_cleanup_free_ char *frame = lint_frame_words(&result->stack->frames[i]);

		write_escaped(frame, out);
		(void)fputs("\n", out);
	}
	(void)fputs("Instead: ", out);
	write_escaped(result->rule->fix, out);
	(void)fputs("</failure>\n    </testcase>\n", out);
}

static void write_verdict(const struct lint *lint, FILE *out)
{
	begin_case("verdict", "the run can be judged", out);
	if (!lint->reasons.count && !lint->failed) {
		(void)fputs("/>\n", out);
		return;
	}
	(void)fprintf(out, ">\n      <error type=\"%s\" message=\"",
		      lint->failed ? "program failed" : "inconclusive");
	write_escaped(lint->failed ? lint->failed : lint->reasons.items[0], out);
	(void)fputs("\">", out);
	for (size_t i = 0; i < lint->reasons.count; i++) {
		write_escaped(lint->reasons.items[i], out);
		(void)fputs("\n", out);
	}
	(void)fputs("</error>\n    </testcase>\n", out);
}

void lint_write_junit(const struct lint *lint, FILE *out)
{
	size_t failures = lint_failures(lint), passes = 0;
	size_t errors = lint->reasons.count || lint->failed;

	for (size_t i = 0; i < lint_rule_count; i++)
		passes +=
			lint_is_checked(lint, &lint_rules[i]) && !has_failure(lint, &lint_rules[i]);
	(void)fprintf(out,
		      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
		      "  <testsuite name=\"slipstream lint\" tests=\"%zu\" failures=\"%zu\" "
		      "errors=\"%zu\" skipped=\"0\" time=\"0\">\n",
		      failures + passes + 1, failures, errors);
	for (size_t i = 0; i < lint->result_count; i++)
		if (is_failure(&lint->results[i]))
			write_result(lint, i, out);
	for (size_t i = 0; i < lint_rule_count; i++) {
		if (!lint_is_checked(lint, &lint_rules[i]) || has_failure(lint, &lint_rules[i]))
			continue;
		begin_case(lint_rules[i].id, lint_rules[i].slug, out);
		(void)fputs("/>\n", out);
	}
	write_verdict(lint, out);
	(void)fputs("  </testsuite>\n</testsuites>\n", out);
}
