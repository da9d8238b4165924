// SPDX-License-Identifier: MIT
/*
 * Many probes in one link (uprobe.multi, uprobe.session), made by the system call itself, since older libbpf has no call for it. Of watch_attach.c and
 * witness.c. No state.
 */
#ifndef SLIPSTREAM_PROBE_LINK_H
#define SLIPSTREAM_PROBE_LINK_H

#include <stddef.h>
#include <stdint.h>

/* What a program is loaded for, and its link is made for. The headers built against may not have them. */
#define PROBE_LINK_MULTI   48 /* since Linux 6.6 */
#define PROBE_LINK_SESSION 57 /* since Linux 6.13: entry and return in one */

enum { PROBE_LINK_RETURN = 1 }; /* flag, of PROBE_LINK_MULTI: at the returns */

struct probe_link {
	int program;        /* descriptor */
	unsigned int type;  /* PROBE_LINK_MULTI or _SESSION */
	unsigned int flags; /* 0 or PROBE_LINK_RETURN */
	const char *path;   /* of the probed file */
	size_t count;       /* of those below */
	const uint64_t *offsets, *cookies;
	const uint64_t *semaphores; /* of USDT probes, 0: none; NULL: none has one */
};

/* All or nothing. A descriptor, whose close takes the probes away, or -errno. */
int probe_link_create(const struct probe_link *link);

#endif
