// SPDX-License-Identifier: MIT
/* Lint, baseline (baseline.h): read before anything is judged, written at the end. Called by options.c, lint.c and output.c. */
#include "lint/baseline.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>

#include "lint/lint.h"
#include "lint/write.h"
#include "memory.h"

#define VERSION 1

static bool parse_fingerprint(const char *text, uint64_t *ret_fingerprint)
{
	if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
		return false;
	*ret_fingerprint = strtoull(text, NULL, 16);
	return true;
}

/* NULL: good; else what is wrong. */
static const char *read_entry(json_t *item, struct lint_known *entry)
{
	const char *rule, *fingerprint, *place = "";
	json_int_t occurrence;

	if (json_unpack(item, "{s:s, s:s, s:I, s?s}", "rule", &rule, "fingerprint", &fingerprint,
			"occurrence", &occurrence, "place", &place))
		return "needs rule, fingerprint and occurrence";
	if (!parse_fingerprint(fingerprint, &entry->fingerprint))
		return "its fingerprint needs 16 hexadecimal digits";
	if (occurrence < 1 || occurrence > INT32_MAX)
		return "its occurrence is out of range";
	entry->occurrence = (unsigned int)occurrence;
	entry->rule = memory_copy(rule);
	entry->place = memory_copy(place);
	return NULL;
}

static int read_entries(json_t *root, struct lint_baseline *baseline, const char *path,
			char **reterr_text)
{
	json_t *results = json_object_get(root, "results"), *item;
	size_t i;

	if (json_integer_value(json_object_get(root, "version")) != VERSION) {
		*reterr_text = memory_format("%s: no baseline of version %d", path, VERSION);
		return -EINVAL;
	}
	if (!json_is_array(results)) {
		*reterr_text = memory_format("%s: no list of results", path);
		return -EINVAL;
	}
	baseline->entries = memory_new(json_array_size(results) * sizeof(*baseline->entries));
	json_array_foreach(results, i, item)
	{
		const char *fault = read_entry(item, &baseline->entries[i]);

		if (fault) {
			*reterr_text = memory_format("%s: result %zu: %s", path, i + 1, fault);
			return -EINVAL;
		}
		baseline->count++;
	}
	return 0;
}

int lint_baseline_read(const char *path, struct lint_baseline **ret_baseline, char **reterr_text)
{
	struct lint_baseline *baseline = memory_new(sizeof(*baseline));
	json_error_t fault;
	json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &fault);
	int error;

	if (root) {
		error = read_entries(root, baseline, path, reterr_text);
	} else {
		error = -EINVAL;
		*reterr_text = fault.line > 0 ? memory_format("%s:%d:%d: %s", path, fault.line,
							      fault.column, fault.text)
					      : memory_copy(fault.text);
	}
	json_decref(root);
	if (error)
		lint_baseline_free(baseline);
	else
		*ret_baseline = baseline;
	return error;
}

void lint_baseline_free(struct lint_baseline *baseline)
{
	if (!baseline)
		return;
	for (size_t i = 0; i < baseline->count; i++) {
		free(baseline->entries[i].rule);
		free(baseline->entries[i].place);
	}
	free(baseline->entries);
	free(baseline);
}

void lint_baseline_apply(struct lint_baseline *baseline, struct lint *lint)
{
	for (size_t i = 0; i < lint->result_count; i++) {
		struct lint_result *result = &lint->results[i];

		for (size_t k = 0; k < baseline->count; k++) {
			struct lint_known *entry = &baseline->entries[k];

			if (entry->fingerprint != result->fingerprint ||
			    entry->occurrence != result->occurrence ||
			    strcmp(entry->rule, result->rule->id) != 0)
				continue;
			entry->is_seen = true;
			result->is_known = true;
		}
	}
}

size_t lint_baseline_gone(const struct lint_baseline *baseline)
{
	size_t count = 0;

	for (size_t i = 0; i < baseline->count; i++)
		count += !baseline->entries[i].is_seen;
	return count;
}

int lint_baseline_write(const struct lint *lint, const char *path, char **reterr_text)
{
	json_t *results = memory_check(json_array()), *root;
	int error = 0;

	for (size_t i = 0; i < lint->result_count; i++) {
		const struct lint_result *result = &lint->results[i];
		_cleanup_free_ char *place = lint_place_words(result);
		char fingerprint[17];

		if (result->level < LINT_WARNING)
			continue;
		(void)snprintf(fingerprint, sizeof(fingerprint), "%016" PRIx64,
			       result->fingerprint);
		if (json_array_append_new(
			    results,
			    memory_check(json_pack("{s:s, s:s, s:i, s:s}", "rule", result->rule->id,
						   "fingerprint", fingerprint, "occurrence",
						   (int)result->occurrence, "place", place))))
			memory_check(NULL);
	}
	root = memory_check(json_pack("{s:i, s:o}", "version", VERSION, "results", results));
	if (json_dump_file(root, path, JSON_INDENT(2))) {
		error = errno ? errno : EIO;
		*reterr_text = memory_format("%s: %s", path, strerror(error));
	}
	json_decref(root);
	return -error;
}
