// SPDX-License-Identifier: MIT
/*
 * A stand-in for the preload library in the header's tests: the functions of the public
 * header (without steps: TEST_OLD, a library from before they were there), keeping a journal that the program under test reads back through provider_journal().
 * Preloaded by tests/header/meson.build.
 */
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT void slipstream_region_begin(const char *name);
EXPORT void slipstream_region_end(void);
EXPORT void slipstream_allow_begin(const char *reason);
EXPORT void slipstream_allow_end(void);
EXPORT const char *provider_journal(void);
#ifndef TEST_OLD
EXPORT void slipstream_step(void);
#endif

static __thread char journal[4096];

static void note(const char *sign, const char *text)
{
	size_t used = strlen(journal);

	snprintf(journal + used, sizeof(journal) - used, "%s%s ", sign, text);
}

void slipstream_region_begin(const char *name)
{
	note("(", name);
}

void slipstream_region_end(void)
{
	note(")", "");
}

void slipstream_allow_begin(const char *reason)
{
	note("<", reason);
}

void slipstream_allow_end(void)
{
	note(">", "");
}

#ifndef TEST_OLD
void slipstream_step(void)
{
	note("|", "");
}
#endif

/* What this thread called since it last asked. */
const char *provider_journal(void)
{
	static __thread char copy[sizeof(journal)];

	memcpy(copy, journal, sizeof(journal));
	journal[0] = '\0';
	return copy;
}
