// SPDX-License-Identifier: MIT
/*
 * Place (place.h). Called by run, doctor and the main command; relies on /proc/self/exe.
 */
#include "place.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>

#include "memory.h"

static bool cut_tail(char *path, const char *tail)
{
	size_t length = strlen(path), tail_length = strlen(tail);

	if (length <= tail_length || strcmp(path + length - tail_length, tail))
		return false;
	path[length - tail_length] = '\0';
	return true;
}

/* The folder of `slipstream`, also where one of its helper programs asks. */
static char *own_folder(void)
{
	char path[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *slash;

	if (length <= 0)
		return memory_copy(".");
	path[length] = '\0';
	slash = strrchr(path, '/');
	if (slash && slash != path)
		*slash = '\0';
	if (cut_tail(path, "/" SLIPSTREAM_LIBEXECDIR "/slipstream"))
		return memory_format("%s/bin", path);
	if (!cut_tail(path, "/trace")) /* of the build tree */
		(void)cut_tail(path, "/calibrate");
	return memory_copy(path);
}

static char *first_that_is(char *const *candidates, size_t count, int access_mode)
{
	for (size_t i = 0; i < count; i++)
		if (!access(candidates[i], access_mode)) {
			char *path = realpath(candidates[i], NULL);

			if (path)
				return path;
		}
	return NULL;
}

char *place_library(char **ret_tried)
{
	_cleanup_free_ char *folder = own_folder();
	const char *variable = getenv(PLACE_LIBRARY_VARIABLE);
	char *candidates[] = {
		variable && *variable ? memory_copy(variable)
				      : memory_format("%s/../shim/libslipstream.so", folder),
		memory_format("%s/../%s/libslipstream.so", folder, SLIPSTREAM_LIBDIR),
		memory_format("%s/../%s/slipstream/libslipstream.so", folder, SLIPSTREAM_LIBDIR),
		memory_format("%s/%s/libslipstream.so", SLIPSTREAM_PREFIX, SLIPSTREAM_LIBDIR),
	};
	size_t count = variable && *variable ? 1 : ARRAY_SIZE(candidates);
	char *path = first_that_is(candidates, count, R_OK);

	if (!path) {
		*ret_tried = memory_copy(candidates[0]);
		for (size_t i = 1; i < count; i++) {
			char *more = memory_format("%s, %s", *ret_tried, candidates[i]);

			free(*ret_tried);
			*ret_tried = more;
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(candidates); i++)
		free(candidates[i]);
	return path;
}

char *place_program(const char *folder, const char *name)
{
	_cleanup_free_ char *own = own_folder();
	char *candidates[] = {
		memory_format("%s/%s/%s", own, folder, name),
		memory_format("%s/../%s/slipstream/%s", own, SLIPSTREAM_LIBEXECDIR, name),
		memory_format("%s/%s/slipstream/%s", SLIPSTREAM_PREFIX, SLIPSTREAM_LIBEXECDIR,
			      name),
	};
	char *path = first_that_is(candidates, ARRAY_SIZE(candidates), X_OK);

	for (size_t i = 0; i < ARRAY_SIZE(candidates); i++)
		free(candidates[i]);
	return path;
}

/* Installed in one folder, whose name differs; built in two. */
static char *beside_library(const char *built, const char *name)
{
	_cleanup_free_ char *tried = NULL;
	_cleanup_free_ char *library = place_library(&tried);
	_cleanup_free_ char *own = own_folder();
	char *slash = library ? strrchr(library, '/') : NULL;
	char *candidates[3], *path;

	if (slash)
		*slash = '\0';
	candidates[0] = memory_format("%s/../%s/%s", own, built, name);
	candidates[1] = memory_format("%s/%s", slash ? library : own, name);
	candidates[2] =
		memory_format("%s/%s/slipstream/%s", SLIPSTREAM_PREFIX, SLIPSTREAM_LIBDIR, name);
	path = first_that_is(candidates, ARRAY_SIZE(candidates), R_OK);
	for (size_t i = 0; i < ARRAY_SIZE(candidates); i++)
		free(candidates[i]);
	return path;
}

char *place_provider(void)
{
	const char *variable = getenv(PLACE_PROVIDER_VARIABLE);

	if (variable && *variable)
		return memory_copy(variable);
	return beside_library("tracing/provider", "libslipstream-lttng.so");
}

char *place_daemon_user(void)
{
	return beside_library("tools/trace", "libslipstream-daemon-user.so");
}
