// SPDX-License-Identifier: MIT
/* A number in a summary, for its tests: "coverage.calls". It must be there. */
#ifndef SLIPSTREAM_TEST_SUMMARY_NUMBER_H
#define SLIPSTREAM_TEST_SUMMARY_NUMBER_H

#include <string.h>

#include <jansson.h>

static inline json_int_t number(const json_t *object, const char *path)
{
	char word[64];
	size_t length;

	for (; *path; path += length + (path[length] == '.')) {
		length = strcspn(path, ".");
		memcpy(word, path, length);
		word[length] = '\0';
		object = json_object_get(object, word);
		assert_non_null(object);
	}
	return json_integer_value(object);
}

#endif
