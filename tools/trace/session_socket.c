// SPDX-License-Identifier: MIT
/*
 * Session socket (session_socket.h): connect() of slipstream-trace and of the libraries in it. Set by
 * session.c around its calls.
 *
 * liblttng-ctl cannot be told which daemon to use: as root it goes to /var/run/lttng, a member of the
 * group `tracing` is sent to root's daemon where there is one, and only everybody else gets the one in
 * LTTNG_HOME. The private daemon is to be found in all three cases, and never another one.
 *
 * It also writes what fails to stderr, besides returning it: a daemon that is killed while it is asked
 * would have its own line there beside ours.
 */
#include "session_socket.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

const char *session_socket;

/* Of liblttng-ctl, in none of its headers: what `lttng --quiet` sets. */
extern int lttng_opt_quiet __attribute__((weak));

static void __attribute__((constructor)) be_quiet(void)
{
	if (&lttng_opt_quiet)
		lttng_opt_quiet = 1;
}

int connect(int descriptor, const struct sockaddr *address, socklen_t length)
{
	struct sockaddr_un other = {.sun_family = AF_UNIX};

	if (session_socket && address->sa_family == AF_UNIX) {
		(void)snprintf(other.sun_path, sizeof(other.sun_path), "%s", session_socket);
		address = (const struct sockaddr *)&other;
		length = sizeof(other);
	}
	return (int)syscall(SYS_connect, descriptor, address, length);
}
