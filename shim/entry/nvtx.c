// SPDX-License-Identifier: MIT
/*
 * Entry, NVTX: the function that NVTX calls in the library that it is told to load (sync/nvtx.h). By any thread, at the first range or mark of
 * each library that has NVTX compiled in; another library's constructor may be earlier than ours.
 */
#include "sync/nvtx.h"
#include "entry/entry.h"

/* Not 0: attached. Else NVTX does nothing from then on, as without a tool. */
ENTRY_EXPORT int InitializeInjectionNvtx2(nvtx_get_table get_table);

int InitializeInjectionNvtx2(nvtx_get_table get_table)
{
	return entry_setup() && nvtx_attach(get_table);
}
