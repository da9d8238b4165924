// SPDX-License-Identifier: MIT
/* Deny lists: any bytes as one line. Names lie in the line, bits are those of words. */
#include <stdlib.h>

#include "deny_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *line = (const char *)data, *why = NULL;
	struct deny_entry entry;
	int found = deny_line(line, size, "pinned|frees|staging", &entry, &why);

	if (found < 0 && !why)
		abort();
	if (found <= 0)
		return 0;
	if (!entry.rewrites || (entry.rewrites > 7 && entry.rewrites != UINT32_MAX))
		abort();
	if (!entry.length || entry.name < line || entry.name + entry.length > line + size)
		abort();
	if (entry.kind == DENY_SITE && !entry.key)
		abort();
	return 0;
}
