// SPDX-License-Identifier: MIT
/*
 * NVTX: the program's own ranges as regions, its marks as steps, by the settings SLIPSTREAM_NVTX and SLIPSTREAM_STEP. NVTX (version 3, which is
 * compiled into whoever uses it, and libnvToolsExt.so.1) loads the library that NVTX_INJECTION64_PATH names, at its first call, and
 * calls InitializeInjectionNvtx2 there (entry/nvtx.c), once for each library that has NVTX compiled in.
 */
#ifndef SLIPSTREAM_SYNC_NVTX_H
#define SLIPSTREAM_SYNC_NVTX_H

#include <stdbool.h>
#include <stdint.h>

typedef const void *(*nvtx_get_table)(uint32_t table);

/* Whether the settings want anything of NVTX. */
bool nvtx_is_wanted(void);
/* Puts our functions into the tables of one NVTX. False: it lacks them, or nothing is wanted. Any thread. */
bool nvtx_attach(nvtx_get_table get_table);

#endif
