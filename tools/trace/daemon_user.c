// SPDX-License-Identifier: MIT
/*
 * Daemon user: preloaded into the private LTTng daemons where root runs them, and there only.
 *
 * For root they ignore LTTNG_HOME and take the machine's one place, /var/run/lttng, so that a second
 * daemon, or that of another traced run, could not exist. What decides is getuid() == 0. This library
 * makes root another user for the daemons: for themselves, and where they ask who is at the other end
 * of a socket, since they compare the two. All rights stay root's: the kernel is not asked.
 */
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "daemon_user.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT uid_t getuid(void)
{
	return DAEMON_USER;
}

EXPORT uid_t geteuid(void)
{
	return DAEMON_USER;
}

static void hide_root(void *credentials)
{
	struct ucred *other = credentials;

	if (!other->uid)
		other->uid = DAEMON_USER;
}

EXPORT int getsockopt(int descriptor, int level, int option, void *value, socklen_t *length)
{
	int result = (int)syscall(SYS_getsockopt, descriptor, level, option, value, length);

	if (!result && level == SOL_SOCKET && option == SO_PEERCRED)
		hide_root(value);
	return result;
}

EXPORT ssize_t recvmsg(int descriptor, struct msghdr *message, int flags)
{
	ssize_t result = syscall(SYS_recvmsg, descriptor, message, flags);
	struct cmsghdr *part = result < 0 ? NULL : CMSG_FIRSTHDR(message);

	for (; part; part = CMSG_NXTHDR(message, part))
		if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_CREDENTIALS)
			hide_root(CMSG_DATA(part));
	return result;
}
