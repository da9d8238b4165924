// SPDX-License-Identifier: MIT
/*
 * The C library's functions behind our hooks (libc.h), found by dlvsym(), which is not hooked.
 */
#include "libc.h"

#include <dlfcn.h>
#include <stddef.h>

typedef void *dlsym_function(void *handle, const char *name);

/* Written by whoever comes first, always the same pointer; read by every look-up. */
static void *dlsym_behind;

/* In place of a function that the C library does not have. */
static void *no_function(void)
{
	return NULL;
}

LIBC_EARLY void *libc_function(void **cache, const char *name)
{
	/* The base version of each processor that this may be built for, then later ones; see
	 * glibc's abilists. */
	static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17",
					       "GLIBC_2.0",  "GLIBC_2.3.4", "GLIBC_2.27",
					       "GLIBC_2.36"};
	/* Relaxed, pairs with the store below: the pointer is all there is to see. */
	void *found = __atomic_load_n(cache, __ATOMIC_RELAXED);

	if (__builtin_expect(found != NULL, 1))
		return found;
	for (size_t i = 0; !found && i < sizeof(versions) / sizeof(versions[0]); i++)
		found = dlvsym(RTLD_NEXT, name, versions[i]);
	if (!found)
		return (void *)no_function;
	__atomic_store_n(cache, found, __ATOMIC_RELAXED);
	return found;
}

LIBC_EARLY void *libc_dlsym_address(void)
{
	return libc_function(&dlsym_behind, "dlsym");
}

void *libc_dlsym(void *handle, const char *name)
{
	return ((dlsym_function *)libc_dlsym_address())(handle, name);
}
