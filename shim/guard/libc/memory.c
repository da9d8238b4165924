// SPDX-License-Identifier: MIT
/*
 * Libc, memory: functions by which pages change hands, or their protection (libc.h). What was guarded there ends before; a live source that is
 * freed is an access. Large blocks of malloc() are mappings of their own, which free() and realloc() end without a call that could be seen here,
 * so these two are told by the block.
 */
#include "guard/libc/libc.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>

static void gone(void *address, size_t size, bool is_free, const void *here)
{
	const struct guard_hooks *hooks = libc_hooks();

	if (hooks)
		hooks->gone(address, size, is_free, here);
}

LIBC_EXPORT int munmap(void *address, size_t size)
{
	gone(address, size, true, LIBC_HERE());
	return LIBC_REAL(munmap)(address, size);
}

LIBC_EXPORT int mprotect(void *address, size_t size, int protection)
{
	gone(address, size, false, LIBC_HERE());
	return LIBC_REAL(mprotect)(address, size, protection);
}

LIBC_EXPORT void *mmap(void *address, size_t size, int protection, int flags, int file, off_t at)
{
	if (flags & MAP_FIXED)
		gone(address, size, true, LIBC_HERE());
	return LIBC_REAL(mmap)(address, size, protection, flags, file, at);
}

LIBC_EXPORT void *mmap64(void *address, size_t size, int protection, int flags, int file,
			 off64_t at)
{
	if (flags & MAP_FIXED)
		gone(address, size, true, LIBC_HERE());
	return LIBC_REAL(mmap64)(address, size, protection, flags, file, at);
}

LIBC_EXPORT void *mremap(void *address, size_t size, size_t new_size, int flags, ...)
{
	void *place = NULL;
	va_list list;

	if (flags & MREMAP_FIXED) {
		va_start(list, flags);
		place = va_arg(list, void *);
		va_end(list);
		gone(place, new_size, true, LIBC_HERE());
	}
	/* A second mapping of the same pages frees nothing; what does not move frees what it loses, and must be one mapping again. */
	if (size && !(flags & MREMAP_MAYMOVE)) {
		if (new_size < size)
			gone((char *)address + new_size, size - new_size, true, LIBC_HERE());
		gone(address, size, false, LIBC_HERE());
	} else if (size) {
		gone(address, size, true, LIBC_HERE());
	}
	return LIBC_REAL(mremap)(address, size, new_size, flags, place);
}

static void block_gone(void *block, const void *here)
{
	const struct guard_hooks *hooks = libc_hooks();
	size_t size;

	if (!hooks || !block || !hooks->is_near(NULL, SIZE_MAX))
		return;
	size = malloc_usable_size(block);
	if (hooks->is_near(block, size))
		hooks->gone(block, size, true, here);
}

LIBC_EXPORT void free(void *block)
{
	static __thread bool is_looking __attribute__((tls_model("initial-exec")));
	LIBC_NAME(name, "free");
	void (*real)(void *) = __atomic_load_n(&name.found, __ATOMIC_RELAXED);

	if (__builtin_expect(!real, 0)) {
		/* What the look-up frees itself, once in a process, stays. */
		if (is_looking)
			return;
		is_looking = true;
		real = libc_real(&name);
		is_looking = false;
	}
	block_gone(block, LIBC_HERE());
	real(block);
}

LIBC_EXPORT void *realloc(void *block, size_t size)
{
	block_gone(block, LIBC_HERE());
	return LIBC_REAL(realloc)(block, size);
}
