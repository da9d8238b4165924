// SPDX-License-Identifier: MIT
/*
 * Daemon user: preloaded into the private LTTng daemons where root runs them, and there only.
 *
 * For root they ignore LTTNG_HOME and take the machine's one place, /var/run/lttng, so that a second
 * daemon, or that of another traced run, could not exist. What decides is getuid() == 0. This
 * library gives another number; all rights stay root's, since the kernel is not asked. slipstream-trace
 * itself does the same for liblttng-ctl (session_user.c).
 */
#include <sys/types.h>
#include <unistd.h>

#include "daemon_user.h"

__attribute__((visibility("default"))) uid_t getuid(void)
{
	return DAEMON_USER;
}

/* The same: a difference between the two is taken for a setuid program, whose environment is not read. */
__attribute__((visibility("default"))) uid_t geteuid(void)
{
	return DAEMON_USER;
}
