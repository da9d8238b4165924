// SPDX-License-Identifier: MIT
/*
 * USDT (usdt.h): the probes themselves, one place each. Relies on <sys/sdt.h> alone; what it takes from the catalogue is constant. Without it
 * this file is empty.
 *
 * threads' scopes	its own thread and handlers that interrupt it. The innermost scope is changed before the probe tells of it, at both
 *			ends: a handler that comes in between opens and closes its scopes inside what the listener will know next, and leaves
 *			it knowing that
 */
#include "emit/usdt.h"

#ifdef SLIPSTREAM_USDT

#include "catalogue/catalogue.h"
#include "config.h"

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#define SEMAPHORE(probe)                                                                           \
	unsigned short slipstream_##probe##_semaphore __attribute__((section(".probes")))

SEMAPHORE(scope_enter);
SEMAPHORE(wait);
SEMAPHORE(rewrite);
SEMAPHORE(pool);
extern unsigned short slipstream_scope_exit_semaphore
	__attribute__((alias("slipstream_scope_enter_semaphore"), visibility("hidden")));

static __thread uint32_t last, innermost __attribute__((tls_model("initial-exec")));

uint32_t usdt_class(uint32_t function, bool passes)
{
	static const uint32_t bits[] = {
		[WAIT_EXPLICIT] = USDT_CLASS_EXPLICIT,
		[WAIT_IMPLICIT] = USDT_CLASS_IMPLICIT,
		[WAIT_DEVICE] = USDT_CLASS_DEVICE,
	};
	uint32_t class = passes ? USDT_CLASS_PASSES : 0;

	for (const uint8_t *rule = catalogue_rows[function].rules; *rule; rule++)
		class |= bits[catalogue_rules[*rule - 1].wait_class];
	return class;
}

/* A number that no other scope of the thread has, until they begin anew. One step: a handler may take one at any moment. */
static uint32_t next(void)
{
	uint32_t id;

	do
		id = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
	while (!id);
	return id;
}

uint64_t usdt_scope_enter(uint32_t function, uint32_t class)
{
	uint32_t id = next(), outer = innermost;

	innermost = id;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	STAP_PROBE4(slipstream, scope_enter, id, function, class, outer);
	return (uint64_t)outer << 32 | id;
}

void usdt_scope_leave(uint64_t ids, uint32_t function, uint32_t class)
{
	uint32_t id = (uint32_t)ids, outer = (uint32_t)(ids >> 32);

	innermost = outer;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	STAP_PROBE4(slipstream, scope_exit, id, function, class, outer);
}

void usdt_wait(uint32_t rule, uint32_t function, uint64_t blocked_ns, uint32_t site)
{
	STAP_PROBE4(slipstream, wait, rule, function, blocked_ns, site);
}

/* The words of SLIPSTREAM_FIX, as a tracer can read them: strings of their own. */
static const char *word_of(uint32_t rewrite)
{
	switch (rewrite) {
	case CONFIG_FIX_PINNED:
		return "pinned";
	case CONFIG_FIX_FREES:
		return "frees";
	case CONFIG_FIX_STAGING:
		return "staging";
	case CONFIG_FIX_STREAMS:
		return "streams";
	default:
		return "";
	}
}

void usdt_rewrite(uint32_t rewrite, uint32_t how, uint32_t function, uint64_t bytes)
{
	const char *name = word_of(rewrite);

	STAP_PROBE4(slipstream, rewrite, name, how, function, bytes);
}

void usdt_pool(uint32_t how, uint32_t kind, uint64_t bytes, uint64_t address)
{
	STAP_PROBE4(slipstream, pool, how, kind, bytes, address);
}

#endif
