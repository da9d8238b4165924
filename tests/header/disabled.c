// SPDX-License-Identifier: MIT
/*
 * SLIPSTREAM_DISABLE compiles every call away: even with the provider preloaded nothing is seen.
 */
#define SLIPSTREAM_DISABLE
#include "scopes.h"

#include <stdio.h>

#include <dlfcn.h>

int main(void)
{
	const char *(*journal)(void);

	*(void **)&journal = dlsym(RTLD_DEFAULT, "provider_journal");
	if (!journal) {
		fprintf(stderr, "the provider is not preloaded\n");
		return 1;
	}
	if (slipstream_is_present() || scopes_walk() != SCOPES_RESULT || journal()[0]) {
		fprintf(stderr, "a disabled header called the library\n");
		return 1;
	}
	return 0;
}
