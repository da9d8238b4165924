// SPDX-License-Identifier: MIT
/* What waits for its turn (command_held.h). Called by the writer. */
#include "command_held.h"

#include "memory.h"

static bool is_before(const struct held *a, const struct held *b)
{
	return a->ns != b->ns ? a->ns < b->ns : a->number < b->number;
}

void held_push(struct held_queue *queue, const struct held *item)
{
	size_t at = queue->count++;

	queue->items = memory_grow(queue->items, at, &queue->capacity, sizeof(queue->items[0]));
	queue->items[at] = memory_new(sizeof(*item));
	*queue->items[at] = *item;
	queue->items[at]->number = queue->taken++;
	while (at && is_before(queue->items[at], queue->items[(at - 1) / 2])) {
		struct held *up = queue->items[(at - 1) / 2];

		queue->items[(at - 1) / 2] = queue->items[at];
		queue->items[at] = up;
		at = (at - 1) / 2;
	}
}

struct held *held_pop(struct held_queue *queue, uint64_t before_ns)
{
	struct held *first;
	size_t at = 0, least;

	if (!queue->count || queue->items[0]->ns >= before_ns)
		return NULL;
	first = queue->items[0];
	queue->items[0] = queue->items[--queue->count];
	for (;;) {
		least = at;
		for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < queue->count;
		     child++)
			if (is_before(queue->items[child], queue->items[least]))
				least = child;
		if (least == at)
			return first;
		struct held *down = queue->items[at];

		queue->items[at] = queue->items[least];
		queue->items[least] = down;
		at = least;
	}
}

void held_done(struct held_queue *queue)
{
	for (size_t i = 0; i < queue->count; i++)
		free(queue->items[i]);
	free(queue->items);
	*queue = (struct held_queue){0};
}
