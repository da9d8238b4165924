// SPDX-License-Identifier: MIT
/* Libc, the link to libslipstream.so, and the C library's own functions (libc.h). */
#include "guard/libc/libc.h"

#include <dlfcn.h>
#include <signal.h>
#include <stddef.h>

static int own_sigaction(int number, const struct sigaction *action, struct sigaction *ret_before)
{
	return LIBC_REAL(sigaction)(number, action, ret_before);
}

LIBC_EXPORT struct guard_link slipstream_guard_link = {
	.version = GUARD_LINK_VERSION,
	.sigaction = own_sigaction,
};

extern struct libc_name __start_guard_names[] __attribute__((visibility("hidden")));
extern struct libc_name __stop_guard_names[] __attribute__((visibility("hidden")));

void *libc_real(struct libc_name *name)
{
	void *found = __atomic_load_n(&name->found, __ATOMIC_RELAXED);

	if (__builtin_expect(found != NULL, 1))
		return found;
	found = dlsym(RTLD_NEXT, name->name);
	__atomic_store_n(&name->found, found, __ATOMIC_RELAXED);
	return found;
}

__attribute__((constructor)) static void find_all(void)
{
	struct libc_name *name;

	for (name = __start_guard_names; name < __stop_guard_names; name++)
		libc_real(name);
}

void libc_span_end(struct guard_span *span)
{
	if (span->parts)
		libc_hooks()->end(span);
}
