// SPDX-License-Identifier: MIT
/* Lint, pieces of JSON for json.c and sarif.c (write.h): what cannot be had for want of memory ends the command. */
#include <inttypes.h>

#include "lint/write.h"
#include "memory.h"
#include "text.h"

json_t *lint_json_text(const char *raw)
{
	_cleanup_free_ char *text = NULL;

	if (!raw)
		return json_null();
	text = text_printable(raw, true);
	return memory_check(json_string(text));
}

json_t *lint_json_number(uint64_t value)
{
	return memory_check(json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value));
}

void lint_json_set(json_t *object, const char *key, json_t *value)
{
	if (json_object_set_new(object, key, value))
		memory_check(NULL);
}

void lint_json_append(json_t *array, json_t *value)
{
	if (json_array_append_new(array, value))
		memory_check(NULL);
}

json_t *lint_json_fingerprint(const struct lint_result *result)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%016" PRIx64 "/%u", result->fingerprint,
		       result->occurrence);
	return lint_json_text(text);
}
