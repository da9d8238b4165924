// SPDX-License-Identifier: MIT
/*
 * Known: what the driver has said of the host's memory, and how long that holds. Asking it about both ends of a small copy costs more than
 * the copy (H200, caches cold: 9.7 of 23.7 us). So the answer "pageable" is remembered, and forgotten when a call has been made by which that
 * may have changed.
 *
 * Which calls those are is said by the catalogue (`host_memory`): all but those that neither take an address of the host's memory to make it the
 * driver's nor tell the program of such an address. Generated wrappers make them inside KNOWN_CHANGES(). What goes past the wrappers is a reason for doubt
 * (state/proof.h), with which nothing is staged at all.
 *
 * generation	odd: somebody has asked since the last change. Before a question it is made odd, and what it is then goes with the answer; a change behind
 *		a question makes it even again, so that no answer from before holds. Whoever asked before the driver knew has a generation that ends
 *		before that call returns; whoever asks later is told. The change before the call only keeps old answers from being used meanwhile.
 * table	of its own thread only: no lock. A signal handler's calls do not come here (entry.h, `hold`)
 *
 * An answer is of one context. NVIDIA's page on unified addressing says that what is pinned is so for all of them, but of what is registered without
 * CU_MEMHOSTREGISTER_PORTABLE it says otherwise; so nothing is taken for granted.
 */
#ifndef SLIPSTREAM_REWRITE_KNOWN_H
#define SLIPSTREAM_REWRITE_KNOWN_H

#include <stdbool.h>
#include <stdint.h>

#include "rewrite/rewrite.h"

/* The driver may know more of the host's memory than before. Any thread; no lock. */
void known_changed(void);

/* The status of a call of the driver by which that may be so. */
#define KNOWN_CHANGES(call_)                                                                       \
	({                                                                                         \
		CUresult known_status_;                                                            \
                                                                                                   \
		if (__builtin_expect(rewrite_active(), 0))                                         \
			known_changed();                                                           \
		known_status_ = (call_);                                                           \
		if (__builtin_expect(rewrite_active(), 0))                                         \
			known_changed();                                                           \
		known_status_;                                                                     \
	})

/* The bytes at both ends of a copy's memory, and the context in which the driver was asked about them. */
struct known_ends {
	uint64_t first, last;
	uint64_t context;
};

/* This thread was told that both are pageable and that the context has no SYNC_MEMOPS, and nothing has changed. */
bool known_is_pageable(const struct known_ends *ends);

/* Before the driver is asked: what known_pageable() wants. */
uint64_t known_asking(void);
/* It said so, asked behind known_asking(). */
void known_pageable(const struct known_ends *ends, uint64_t generation);

#endif
