// SPDX-License-Identifier: MIT
/*
 * Between setup.c and thread.c: the page of this process, its end.
 */
#ifndef SLIPSTREAM_ENTRY_LIFETIME_H
#define SLIPSTREAM_ENTRY_LIFETIME_H

#include <stdint.h>

/* The word that entry_page shows, writable. */
uint64_t *entry_own_page(void);

/* The key whose destructor gives counters back. Made with the set-up: a thread that forks meanwhile
 * must not leave it half made. */
void entry_thread_prepare(void);

/* Exit handlers are running: tell emit, if anything was recorded. */
void entry_finish(void);

#endif
