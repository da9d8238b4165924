// SPDX-License-Identifier: MIT
/*
 * Policy (policy.h): looks for the signs of policy.def and for a tracer. Called by rewrite.c. Reads the environment, the list of loaded
 * files and /proc/self/status; allocates nothing.
 */
#include "rewrite/policy.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "uncancelled.h"

struct sign {
	const char *name, *tool;
};

static const struct sign variables[] = {
#define VARIABLE(name, tool) {name, tool},
#define LIBRARY(name, tool)
#include "rewrite/policy.def"
#undef VARIABLE
#undef LIBRARY
};

static const struct sign libraries[] = {
#define VARIABLE(name, tool)
#define LIBRARY(name, tool) {name, tool},
#include "rewrite/policy.def"
#undef VARIABLE
#undef LIBRARY
};

/* `slipstream run` names this library there, for NVTX ranges as regions. */
static bool is_ourselves(const char *path)
{
	struct stat there, here;
	Dl_info image;

	return dladdr((const void *)&variables, &image) && image.dli_fname && !stat(path, &there) &&
	       !stat(image.dli_fname, &here) && there.st_dev == here.st_dev &&
	       there.st_ino == here.st_ino;
}

static const struct sign *find_variable(void)
{
	const char *value;
	size_t i;

	for (i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		value = getenv(variables[i].name);
		if (value && *value && strcmp(value, "0") != 0 &&
		    !(strstr(variables[i].name, "_INJECTION64_PATH") && is_ourselves(value)))
			return &variables[i];
	}
	return NULL;
}

static int look_at(struct dl_phdr_info *info, size_t size, void *data)
{
	const struct sign **found = data;
	const char *slash = strrchr(info->dlpi_name, '/');
	const char *name = slash ? slash + 1 : info->dlpi_name;
	size_t i;

	for (i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
		if (strncmp(name, libraries[i].name, strlen(libraries[i].name)))
			continue;
		*found = &libraries[i];
		return 1;
	}
	return 0;
}

/* Bytes read, with an end mark; 0: none. */
static size_t read_file(const char *path, char *ret_text, size_t size)
{
	int descriptor = uncancelled_open(path, O_RDONLY | O_CLOEXEC, 0);
	ssize_t got;

	if (descriptor < 0)
		return 0;
	got = uncancelled_read(descriptor, ret_text, size - 1);
	uncancelled_close(descriptor);
	if (got < 0)
		got = 0;
	ret_text[got] = '\0';
	return (size_t)got;
}

/* A process that traces this one: a debugger, in doubt. *ret_name: its name, as far as it can be read. */
static bool find_tracer(char *ret_name, size_t size)
{
	static const char field[] = "\nTracerPid:\t";
	char text[2048], path[64];
	const char *place;
	long pid;

	if (!read_file("/proc/self/status", text, sizeof(text)))
		return false;
	place = strstr(text, field);
	pid = place ? strtol(place + sizeof(field) - 1, NULL, 10) : 0;
	if (!pid)
		return false;
	snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
	if (!read_file(path, ret_name, size))
		snprintf(ret_name, size, "?");
	ret_name[strcspn(ret_name, "\n")] = '\0';
	return true;
}

const char *policy_objection(char reason[POLICY_REASON])
{
	int saved_errno = errno;
	const struct sign *sign = find_variable(), *library = NULL;
	const char *why = reason;
	char tracer[32];

	if (!sign)
		dl_iterate_phdr(look_at, &library);
	if (sign)
		snprintf(reason, POLICY_REASON, "off: %s is set%s%s%s", sign->name,
			 *sign->tool ? " (" : "", sign->tool, *sign->tool ? ")" : "");
	else if (library)
		snprintf(reason, POLICY_REASON, "off: %s is loaded (%s)", library->name,
			 library->tool);
	else if (find_tracer(tracer, sizeof(tracer)))
		snprintf(reason, POLICY_REASON, "off: traced by another process (%s)", tracer);
	else
		why = NULL;
	errno = saved_errno;
	return why;
}
