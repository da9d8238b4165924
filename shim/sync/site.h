// SPDX-License-Identifier: MIT
/*
 * Call sites: the program's stack at a driver call, interned once in the record file.
 */
#ifndef SLIPSTREAM_SYNC_SITE_H
#define SLIPSTREAM_SYNC_SITE_H

#include <stdint.h>

/* Makes room for the tables, so that the first site need not. Optional; any thread. */
void site_prepare(void);

/*
 * The id of the site record for the calling thread's stack, 0 if none can be taken.
 * `return_address` is the wrapper's return address: the first frame of the site; frames inside the
 * shim are left out. Takes the Python stack too where this is a Python process. Never blocks on the
 * GIL, never faults, leaves errno alone.
 */
uint32_t site_take(const void *return_address);

/* The same, cheaper, for calls that did not block (device-side joins) and may be frequent: a
 * thread-local cache keyed by the return address and the stack pointer answers without unwinding.
 */
uint32_t site_take_cached(const void *return_address, const void *frame);

#endif
