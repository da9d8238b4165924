// SPDX-License-Identifier: MIT
/*
 * Between libslipstream.so and libslipstream-guard.so, which is preloaded besides it and exports functions of the C library. A page that is
 * guarded must not be handed to the kernel: a system call would fail (EFAULT), and tell nobody why. So these functions say what they hand over
 * before they do. They are in a library of their own, so that the other one stays a guest.
 *
 * libslipstream-guard.so exports `slipstream_guard_link`; libslipstream.so finds it by its name and stores its hooks there at its start
 * (guard_start()). As long as `hooks` is NULL every exported function is a jump to the C library's.
 */
#ifndef SLIPSTREAM_GUARD_HOOKS_H
#define SLIPSTREAM_GUARD_HOOKS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GUARD_LINK_NAME    "slipstream_guard_link"
#define GUARD_LINK_VERSION 2

enum guard_access { GUARD_READS, GUARD_WRITES };

/* Memory that the kernel may touch until guard_hooks.end(). Of a call with more parts nothing at all is protected meanwhile. */
#define GUARD_PARTS 12
struct guard_span {
	uint32_t slot[GUARD_PARTS];
	uint32_t parts;
};

struct guard_hooks {
	/*
	 * The kernel will read or write these bytes. An access of the program's, made at `return_address`, to what they are part of; guarded pages
	 * among them are opened, and stay so until end() of the same span. `span` is zero before the first part. Keeps errno.
	 */
	void (*begin)(struct guard_span *span, const void *bytes, size_t size,
		      enum guard_access access, const void *return_address);
	void (*end)(struct guard_span *span);
	/* These pages change hands, or their protection: what is guarded there is so no more. Freed: `is_free`. */
	void (*gone)(const void *address, size_t size, bool is_free, const void *return_address);
	/* Is anything guarded in a page of these bytes? A few instructions. */
	bool (*is_near)(const void *address, size_t size);
	/* sigaction(2) of SIGSEGV, for the program's own handler. Returns 0, or -1 and errno. */
	int (*action)(const struct sigaction *action, struct sigaction *ret_before);
};

struct guard_link {
	uint32_t version;                /* GUARD_LINK_VERSION */
	const struct guard_hooks *hooks; /* set once, release; read by every function, acquire */
	/* The C library's own. */
	int (*sigaction)(int number, const struct sigaction *action, struct sigaction *ret_before);
};

#endif
