/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
 *
 * What the listener's BPF programs and its loader share.
 */
#ifndef SLIPSTREAM_TEST_USDT_LISTEN_H
#define SLIPSTREAM_TEST_USDT_LISTEN_H

enum listen_probe {
	LISTEN_ENTER,
	LISTEN_EXIT,
	LISTEN_WAIT,
	LISTEN_REWRITE,
	LISTEN_POOL,
	LISTEN_PROBES
};

/* Enter, exit: function, class, is there a scope around it. Wait: function, rule, site. Rewrite: function, how, the first letters of the name. Pool: how, kind, 0. */
struct listen_key {
	unsigned int process, probe, a, b, c; /* process: in the loader's pid namespace */
};

struct listen_value {
	unsigned long long count, sum; /* of blocked ns, bytes */
};

/* Of what must not be: scopes that are not nested as they say, numbers left out, keys without room, waits outside of scopes. */
enum listen_fault { LISTEN_MISNESTED, LISTEN_GAPS, LISTEN_LOST, LISTEN_OUTSIDE, LISTEN_FAULTS };

#endif
