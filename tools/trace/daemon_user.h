// SPDX-License-Identifier: MIT
/* The user that LTTng sees where root traces privately (daemon_user.c tells why). */
#ifndef SLIPSTREAM_TOOLS_TRACE_DAEMON_USER_H
#define SLIPSTREAM_TOOLS_TRACE_DAEMON_USER_H

#include <stdbool.h>

#define DAEMON_USER                                                                                \
	2147400001U /* no account has it; below 2^31, for programs that keep it signed */

/* LTTng's empty file of that user, which its daemons leave in /dev/shm. */
#define DAEMON_USER_SHM "/lttng-ust-wait-%d-2147400001"

/* While true, liblttng-ctl takes this process for that user's. One thread. */
extern bool daemon_user_seen;

#endif
