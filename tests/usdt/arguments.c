// SPDX-License-Identifier: MIT
/*
 * What is told to nobody is not computed, with the probes (SLIPSTREAM_USDT) and without. The probes themselves are stand-ins here.
 */
#include <stdio.h>

#include "emit/usdt.h"

static int computed, told;

#ifdef SLIPSTREAM_USDT
unsigned short slipstream_scope_enter_semaphore, slipstream_wait_semaphore,
	slipstream_rewrite_semaphore, slipstream_pool_semaphore;

uint64_t usdt_scope_enter(uint32_t function, uint32_t class)
{
	return ++told;
}

void usdt_scope_leave(uint64_t ids, uint32_t function, uint32_t class)
{
	told++;
}

uint32_t usdt_class(uint32_t function, bool passes)
{
	computed++;
	return 0;
}

void usdt_wait(uint32_t rule, uint32_t function, uint64_t blocked_ns, uint32_t site)
{
	told++;
}

void usdt_rewrite(uint32_t rewrite, uint32_t how, uint32_t function, uint64_t bytes)
{
	told++;
}

void usdt_pool(uint32_t how, uint32_t kind, uint64_t bytes, uint64_t address)
{
	told++;
}
#endif

static uint32_t compute(void)
{
	return (uint32_t)++computed;
}

static void tell_all(void)
{
	USDT_SCOPE(1, false);

	USDT_WAIT(compute(), compute(), compute(), compute());
	USDT_REWRITE(compute(), compute(), compute(), compute());
	USDT_POOL(compute(), compute(), compute(), compute());
}

static int expect(const char *what, int is, int wanted)
{
	if (is == wanted)
		return 0;
	fprintf(stderr, "%s: %d, not %d\n", what, is, wanted);
	return 1;
}

int main(void)
{
	int wrong = 0;

	tell_all();
	wrong |= expect("computed for nobody", computed, 0) | expect("told nobody", told, 0);
#ifdef SLIPSTREAM_USDT
	slipstream_wait_semaphore = slipstream_rewrite_semaphore = slipstream_pool_semaphore = 1;
	slipstream_scope_enter_semaphore = 1;
	tell_all();
	wrong |= expect("computed", computed, 13) | expect("told", told, 5);
#endif
	return wrong;
}
