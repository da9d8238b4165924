// SPDX-License-Identifier: MIT
/*
 * Session user: getuid() of slipstream-trace and of the libraries in it, as daemon_user.c. Only
 * liblttng-ctl is meant, which looks for root's daemon in /var/run/lttng and nowhere else.
 */
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "daemon_user.h"

bool daemon_user_seen;

uid_t getuid(void)
{
	return daemon_user_seen ? DAEMON_USER : (uid_t)syscall(SYS_getuid);
}

uid_t geteuid(void)
{
	return daemon_user_seen ? DAEMON_USER : (uid_t)syscall(SYS_geteuid);
}
