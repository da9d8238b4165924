// SPDX-License-Identifier: MIT
/* Records that wait for others (held.h): a heap. */
#include "verify/held.h"

#include "memory.h"

void held_add(struct held *held, const struct order_record *record)
{
	size_t at = held->count;

	held->records =
		memory_grow(held->records, held->count, &held->capacity, sizeof(held->records[0]));
	held->count++;
	while (at && held->records[(at - 1) / 2].sequence > record->sequence) {
		held->records[at] = held->records[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	held->records[at] = *record;
}

void held_drop(struct held *held)
{
	struct order_record last = held->records[--held->count];
	size_t at = 0, below;

	while ((below = 2 * at + 1) < held->count) {
		if (below + 1 < held->count &&
		    held->records[below + 1].sequence < held->records[below].sequence)
			below++;
		if (held->records[below].sequence >= last.sequence)
			break;
		held->records[at] = held->records[below];
		at = below;
	}
	held->records[at] = last;
}
