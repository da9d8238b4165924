// SPDX-License-Identifier: MIT
/*
 * Bisect, JSON (bisect.h): the result as one object, `bisect` of slipstream.schema.json. Called by bisect.c before the first run, and by
 * bisect_quit().
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

#include "bisect.h"
#include "command.h"
#include "memory.h"
#include "report.h"
#include "text.h"

void bisect_json_begin(struct bisect *bisect)
{
	if (!bisect->json_path)
		return;
	bisect->json = fopen(bisect->json_path, "we");
	if (!bisect->json)
		command_fail(EXIT_RUN, "cannot write %s: %s", bisect->json_path, strerror(errno));
}

/* Null: there is none. */
static json_t *string(const char *raw)
{
	_cleanup_free_ char *text = raw ? text_printable(raw, true) : NULL;

	return memory_check(text ? json_string(text) : json_null());
}

static void append(json_t *array, json_t *value)
{
	memory_check(json_array_append_new(array, value) ? NULL : array);
}

static json_t *words_json(const struct bisect_words *words, const bool *off)
{
	json_t *array = memory_check(off ? json_array() : json_null());

	for (size_t i = 0; off && i < words->count; i++)
		if (off[i])
			append(array, string(words->words[i]));
	return array;
}

static json_t *sites_json(struct bisect *bisect, const bool *off)
{
	json_t *array = memory_check(off ? json_array() : json_null());

	for (size_t i = 0; off && i < bisect->sites.uses.count; i++) {
		const struct report_rewrite_use *use = bisect->sites.uses.items[i];
		_cleanup_free_ char *id = memory_format("%016" PRIx64, use->site->id);
		json_t *item;

		if (!off[i])
			continue;
		item = memory_check(json_pack("{s:s, s:o, s:o}", "id", id, "function",
					      string(use->function), "rewrite",
					      string(use->rewrite)));
		report_json_stack(item, bisect->sites.report, use->site);
		append(array, item);
	}
	return array;
}

static const char *result_word(int status)
{
	if (status == BISECT_NONE)
		return "none";
	return status == BISECT_FOUND ? "found" : "inconclusive";
}

static json_t *result_json(struct bisect *bisect, int status)
{
	/* A raw run that hangs, or is bad, is not kept. */
	_cleanup_free_ char *raw = bisect->raw.folder ? bisect_ending(&bisect->raw) : NULL;
	bool is_known = bisect->relaxations_off;
	_cleanup_free_ char *relax =
		is_known ? bisect_relax_value(&bisect->relaxations, bisect->relaxations_off) : NULL;

	return memory_check(json_pack(
		"{s:s, s:o, s:s, s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "version",
		SLIPSTREAM_VERSION, "program", string(bisect->command), "result",
		result_word(status), "reason", string(bisect->inconclusive), "runs",
		(int)bisect->run_count, "raw", string(raw), "fix", string(bisect->difference),
		"switches", words_json(&bisect->switches, bisect->switches_off), "relaxations",
		words_json(&bisect->relaxations, bisect->relaxations_off), "relax", string(relax),
		"sites", sites_json(bisect, bisect->sites_off), "deny_list",
		string(status == BISECT_FOUND ? bisect->deny_out : NULL)));
}

bool bisect_json_write(struct bisect *bisect, int status)
{
	json_t *object;
	bool failed;

	if (!bisect->json)
		return true;
	object = result_json(bisect, status);
	errno = 0;
	failed = json_dumpf(object, bisect->json,
			    JSON_INDENT(2) | JSON_SORT_KEYS | JSON_ENSURE_ASCII) ||
		 putc('\n', bisect->json) < 0;
	json_decref(object);
	if (fclose(bisect->json) || failed) {
		command_say("cannot write %s: %s", bisect->json_path, strerror(errno));
		return false;
	}
	return true;
}
