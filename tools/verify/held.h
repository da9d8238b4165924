// SPDX-License-Identifier: MIT
/* Records that wait for others, the lowest number first. Called by records.c. */
#ifndef SLIPSTREAM_TOOLS_VERIFY_HELD_H
#define SLIPSTREAM_TOOLS_VERIFY_HELD_H

#include "verify/order.h"

struct held {
	struct order_record
		*records; /* a heap: the first one has the lowest number; the owner frees it */
	size_t count, capacity;
};

void held_add(struct held *held, const struct order_record *record);

/* The first one. There is one. */
void held_drop(struct held *held);

#endif
