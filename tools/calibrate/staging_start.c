// SPDX-License-Identifier: MIT
/*
 * Staged copies: the process that measures them, seen from outside (staging.h). Called by calibrate.c. Relies on place.h for the library.
 */
#include "staging.h"

#include <dirent.h>
#include <errno.h>

#include "command.h"
#include "memory.h"
#include "place.h"

extern char **environ;

static char *library, *folder;

bool staging_is_unit(const char *unit)
{
	return !strcmp(unit, STAGING_UNIT) || !strcmp(unit, STAGING_UNIT_UNWAITED);
}

bool staging_open(void)
{
	static bool is_told;
	_cleanup_free_ char *tried = NULL;
	const char *temporary = getenv("TMPDIR");

	library = place_library(&tried);
	if (!library) {
		if (!is_told)
			command_say("staged copies: libslipstream.so not found, tried %s", tried);
		is_told = true;
		return false;
	}
	folder = memory_format("%s/slipstream-calibrate-XXXXXX",
			       temporary && *temporary ? temporary : "/tmp");
	if (mkdtemp(folder))
		return true;
	command_say("staged copies: %s: %s", folder, strerror(errno));
	free(folder);
	folder = NULL;
	staging_close();
	return false;
}

/* The user's settings would be measured with it. */
static void drop_settings(void)
{
	static const char prefix[] = "SLIPSTREAM_";

	for (char **entry = environ; entry && *entry;) {
		_cleanup_free_ char *name = memory_copy(*entry);

		name[strcspn(name, "=")] = '\0';
		if (strncmp(name, prefix, sizeof(prefix) - 1) || unsetenv(name))
			entry++;
		else
			entry = environ;
	}
}

void staging_environment(const char *unit)
{
	drop_settings();
	(void)setenv("LD_PRELOAD", library, 1);
	(void)setenv("SLIPSTREAM_MODE", "fix", 1);
	(void)setenv("SLIPSTREAM_FIX", "staging", 1);
	(void)setenv("SLIPSTREAM_STAGE_FROM", "1", 1);
	(void)setenv("SLIPSTREAM_RELAX", strcmp(unit, STAGING_UNIT) ? "order" : "free", 1);
	(void)setenv("SLIPSTREAM_OUT", folder, 1);
}

void staging_close(void)
{
	DIR *files = folder ? opendir(folder) : NULL;
	struct dirent *entry;

	while (files && (entry = readdir(files)))
		if (entry->d_name[0] != '.')
			(void)unlinkat(dirfd(files), entry->d_name, 0);
	if (files)
		(void)closedir(files);
	if (folder)
		(void)rmdir(folder);
	free(folder);
	free(library);
	folder = library = NULL;
}
