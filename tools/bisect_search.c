// SPDX-License-Identifier: MIT
/*
 * Bisect, search (bisect.h): which elements must be off. Called by bisect.c, for switches, relaxations and call sites alike. Knows nothing of
 * programs.
 */
#include "bisect.h"

#include "memory.h"

/* With the found ones and the first `first` elements off. */
static enum bisect_answer ask(bool *off, const bool *found, size_t count, size_t first,
			      bisect_test *test, void *context)
{
	for (size_t i = 0; i < count; i++)
		off[i] = found[i] || i < first;
	return test(context, off);
}

size_t bisect_search(bool *off, size_t count, size_t most, bisect_test *test, void *context)
{
	_cleanup_free_ bool *found = memory_new(count * sizeof(*found));
	size_t good = count, found_count = 0;

	while (good && found_count < most) {
		size_t bad = 0, middle;

		/* Bad with the first `bad` and the found ones off, good with the first `good`. */
		while (good - bad > 1) {
			middle = bad + (good - bad) / 2;
			if (ask(off, found, count, middle, test, context) == BISECT_GOOD)
				good = middle;
			else
				bad = middle;
		}
		/* The last one that matters. Those before it may matter as well. */
		good--;
		found[good] = true;
		found_count++;
		if (good && found_count < most &&
		    ask(off, found, count, 0, test, context) == BISECT_GOOD)
			break;
	}
	memcpy(off, found, count * sizeof(*off));
	return found_count;
}
