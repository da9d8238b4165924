// SPDX-License-Identifier: MIT
/* A module that calls the driver: opened with RTLD_DEEPBIND, past whatever is preloaded. */
#include "waits.h"

int call_driver(int count);

int call_driver(int count)
{
	for (int i = 0; i < count; i++)
		cuStreamSynchronize_ptsz(NULL);
	return 0;
}
