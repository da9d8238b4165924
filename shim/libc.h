// SPDX-License-Identifier: MIT
/*
 * The C library's own functions of the names that we hook (dlsym, dlopen, dlmopen), past our hooks.
 *
 * Used by entry (the hooks jump there) and driver (to find the driver's functions). Stands below
 * all rooms. Any thread, before any constructor; nothing here allocates or locks on its own.
 */
#ifndef SLIPSTREAM_LIBC_H
#define SLIPSTREAM_LIBC_H

/*
 * What runs for every look-up of the process runs while a sanitizer's runtime looks up its own
 * functions, too, before any instrumented code may.
 */
#define LIBC_EARLY __attribute__((no_sanitize("address", "thread", "undefined")))

/*
 * The function of this name behind us, remembered in *cache: racing first callers store the same
 * pointer. Where there is none, a function that returns NULL.
 */
void *libc_function(void **cache, const char *name) __attribute__((visibility("hidden")));

/* libc_function() of dlsym itself. */
void *libc_dlsym_address(void) __attribute__((visibility("hidden")));

/* dlsym(3) without the hook. */
void *libc_dlsym(void *handle, const char *name) __attribute__((visibility("hidden")));

#endif
