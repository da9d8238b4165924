// SPDX-License-Identifier: MIT
/* The user that the private daemons see where root runs them (daemon_user.c tells why). */
#ifndef SLIPSTREAM_TOOLS_TRACE_DAEMON_USER_H
#define SLIPSTREAM_TOOLS_TRACE_DAEMON_USER_H

#define DAEMON_USER                                                                                \
	2147400001U /* no account has it; below 2^31, for programs that keep it signed */

/* LTTng's empty file of that user, which its daemons leave in /dev/shm; %d as in the socket's name. */
#define DAEMON_USER_SHM "/lttng-ust-wait-%d-2147400001"

#endif
