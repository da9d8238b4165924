// SPDX-License-Identifier: MIT
/* Names of functions (names.h). */
#include "verify/names.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

void names_start(struct names *names)
{
	names->functions.data_size = sizeof(uint32_t);
	names->strings.data_size = sizeof(char *);
}

void names_done(struct names *names)
{
	for (size_t i = 0; i < names->strings.count; i++)
		free(*(char **)table_at(&names->strings, i));
	table_done(&names->functions);
	table_done(&names->strings);
}

/* Names of functions are in one piece. */
void names_take_string(struct names *names, const struct trace_def_string *string)
{
	char **text = table_add(&names->strings, string->id, 0, &(bool){false});

	if (string->offset || (*text && !strcmp(*text, string->text)))
		return;
	free(*text);
	*text = memory_copy(string->text);
}

void names_take_function(struct names *names, const struct trace_def_function *function)
{
	uint32_t *name = table_add(&names->functions, function->number, 0, &(bool){false});

	*name = function->name;
}

char *names_words(const struct names *names, uint32_t function)
{
	const uint32_t *name = table_find(&names->functions, function, 0);
	char *const *text = name ? table_find(&names->strings, *name, 0) : NULL;

	return text && *text && **text ? memory_copy(*text)
				       : memory_format("function %" PRIu32, function);
}
