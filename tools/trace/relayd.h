// SPDX-License-Identifier: MIT
/* Relay daemon of our own: its ports on loopback, and who reads from it. One thread. */
#ifndef SLIPSTREAM_TOOLS_TRACE_RELAYD_H
#define SLIPSTREAM_TOOLS_TRACE_RELAYD_H

/*
 * Free ones, as far as anybody can know: they are closed again before the daemon takes them. Ends the
 * command with one line where there are none.
 */
void relayd_choose_ports(int ports[3]);

/*
 * A live reader is behind by a moment; the session's end is told to it by the relay daemon. Returns when none
 * is connected to the port, or after five seconds.
 */
void relayd_wait_for_readers(int live_port);

#endif
