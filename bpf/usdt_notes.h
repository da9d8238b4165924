// SPDX-License-Identifier: MIT
/*
 * The notes that <sys/sdt.h> leaves in a file: where its probes are, and where their arguments lie there.
 * x86-64. The file is not trusted. No state.
 */
#ifndef SLIPSTREAM_USDT_NOTES_H
#define SLIPSTREAM_USDT_NOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watch_record.h"

struct usdt_note {
	char name[32];                /* of the probe; longer ones are left out */
	uint64_t offset, semaphore;   /* in the file; semaphore 0: none */
	struct probe_shape arguments; /* those that can be read */
};

enum { USDT_NOTES = 32 };

/*
 * Probes of one provider, at most USDT_NOTES. Returns their number, or -errno; one with an argument of a form
 * that is not known is left out.
 */
int usdt_read(int file, const char *provider, struct usdt_note *ret_notes);

/* "4@%edi -4@-8(%rbp) 8@$5": false for a form that is not known. */
bool usdt_arguments(const char *text, struct probe_shape *ret_arguments);

#endif
