// SPDX-License-Identifier: MIT
/* Place: where the other parts of slipstream lie, seen from this executable, in the build tree and
 * installed. */
#ifndef SLIPSTREAM_TOOLS_PLACE_H
#define SLIPSTREAM_TOOLS_PLACE_H

#define PLACE_LIBRARY_VARIABLE                                                                     \
	"SLIPSTREAM_LIBRARY" /* another library than the one found; for tests and odd              \
				installations */

/* Absolute path of libslipstream.so; NULL: nowhere, with the places tried in *ret_tried. The caller
 * frees both. */
char *place_library(char **ret_tried);

/* Absolute path of a program that belongs to a sub-command, as slipstream-calibrate in folder
 * calibrate; NULL: not built. */
char *place_program(const char *folder, const char *name);

#define PLACE_PROVIDER_VARIABLE "SLIPSTREAM_LTTNG" /* the preload library's setting */

/* Absolute path of the LTTng-UST provider, libslipstream-lttng.so, as the variable says or where it
 * was built or installed; NULL: not built. The caller frees. */
char *place_provider(void);

/* The library that lets root have a private session daemon (trace/daemon_user.c); NULL: not built.
 * The caller frees. */
char *place_daemon_user(void);

#endif
