// SPDX-License-Identifier: MIT
/* Held: what a saved snapshot holds, and since when. One thread. */
#ifndef SLIPSTREAM_TOOLS_TRACE_HELD_H
#define SLIPSTREAM_TOOLS_TRACE_HELD_H

#include <stdbool.h>
#include <stdint.h>

/* All times are CLOCK_MONOTONIC nanoseconds, as in the packets. */
struct held {
	bool is_saved; /* there is a trace at all */
	bool is_odd;   /* a file of it is cut, or not as LTTng-UST 2.x writes them */
	/* Since when the buffers of all processors have everything; 0: nothing was overwritten. */
	uint64_t events_since_ns, definitions_since_ns;
	uint64_t first_event_ns; /* begin of the oldest packet of events of any processor */
	bool any_definitions;
	uint64_t events_end_ns, end_ns; /* of the last packet of events, and of the last one */
};

/* Reads the heads of the packets of one snapshot. */
void held_read(const char *folder, struct held *ret_held);

#endif
