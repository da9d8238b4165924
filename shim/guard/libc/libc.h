// SPDX-License-Identifier: MIT
/*
 * Libc: what the files of libslipstream-guard.so share (guard/hooks.h). Each exports functions of the C library, which do what those do and are
 * what those are: places where a thread can be cancelled, safe in signal handlers, errno as it was left. Compiled with -fexceptions, so that a
 * thread that is cancelled in one gives its span back.
 */
#ifndef SLIPSTREAM_GUARD_LIBC_LIBC_H
#define SLIPSTREAM_GUARD_LIBC_LIBC_H

#include "guard/hooks.h"

#define LIBC_EXPORT __attribute__((visibility("default")))
#define LIBC_HERE() __builtin_extract_return_addr(__builtin_return_address(0))

extern struct guard_link slipstream_guard_link;

/*
 * A function behind us. All are found when the library starts: a look-up takes the loader's lock, and whoever calls, say, sendmsg() may be waited for
 * by the thread that has it.
 */
struct libc_name {
	void *found;
	const char *name;
};
/* The address; looked up here only before the library has started. */
void *libc_real(struct libc_name *name);

#define LIBC_NAME(variable, name_)                                                                 \
	static struct libc_name variable                                                           \
		__attribute__((section("guard_names"), used)) = {.name = (name_)}

/* As a function pointer of the type of the exported one. */
#define LIBC_REAL(name_)                                                                           \
	({                                                                                         \
		LIBC_NAME(real_, #name_);                                                          \
		(__typeof__(&(name_)))libc_real(&real_);                                           \
	})

/* NULL: guard is off, or has not started. */
static inline const struct guard_hooks *libc_hooks(void)
{
	/* Acquire: pairs with guard_catch(). */
	return __atomic_load_n(&slipstream_guard_link.hooks, __ATOMIC_ACQUIRE);
}

void libc_span_end(struct guard_span *span);
#define LIBC_SPAN(span)                                                                            \
	struct guard_span span __attribute__((cleanup(libc_span_end))) = {.parts = 0}

#endif
