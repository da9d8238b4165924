// SPDX-License-Identifier: MIT
/*
 * Two libraries with the same function, as interposers have it: the first (FIRST) asks for the next
 * one by RTLD_NEXT, which depends on the caller's return address. A hook that calls glibc's dlsym
 * instead of jumping to it gives the first library its own function: endless recursion.
 */
#include <dlfcn.h>
#include <stdlib.h>

__attribute__((visibility("default"))) int entry_answer(void);
__attribute__((visibility("default"))) int entry_answer(void)
{
#ifdef FIRST
	static int depth;
	int (*next)(void) = (int (*)(void))dlsym(RTLD_NEXT, "entry_answer");

	if (depth++ || !next)
		_Exit(3);
	return next() + 1;
#else
	return 41;
#endif
}

#ifndef FIRST
/* Called by the program, so that the linker keeps this library. */
__attribute__((visibility("default"))) int entry_second(void);
int entry_second(void)
{
	return 2;
}
#endif
