// SPDX-License-Identifier: MIT
/* What a test sets in the provider without a tracer (fake_provider.c). */
#ifndef SLIPSTREAM_FAKE_PROVIDER_H
#define SLIPSTREAM_FAKE_PROVIDER_H

#include "tracing/provider/provider.h"

struct fake_provider {
	bool (*is_enabled)(enum trace_event event); /* NULL: nobody records */
	void (*take)(enum trace_event event, const void *payload);
	uint32_t process; /* that the tracer works for; 0: whichever asks */
	void (*end)(void);
	int state; /* of all events; not 0: ask is_enabled() */
};

/* In the library: the test finds it by dlsym(). */
extern struct fake_provider fake_provider;

#endif
