// SPDX-License-Identifier: MIT
/* The session daemon that liblttng-ctl talks to. One thread. */
#ifndef SLIPSTREAM_TOOLS_TRACE_SESSION_SOCKET_H
#define SLIPSTREAM_TOOLS_TRACE_SESSION_SOCKET_H

/* While not NULL: the path of the daemon's client socket, whatever the library looks for. */
extern const char *session_socket;

#endif
