// SPDX-License-Identifier: MIT
/* Folder (folder.h). Called by trace.c. */
#include "folder.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "command.h"
#include "memory.h"
#include "record_read.h"

#define LONGEST_SOCKET "/.lttng/ustconsumerd64/command" /* of the daemons, below their folder */
#define NAME_TRIES     1000

static char *made; /* removed at exit if it is empty then */

static void remove_empty(void)
{
	_cleanup_free_ char *records = memory_format("%s/" FOLDER_RECORDS, made);

	(void)rmdir(records);
	(void)rmdir(made);
}

static bool is_empty(const char *folder)
{
	DIR *stream = opendir(folder);
	struct dirent *entry;
	bool empty = stream != NULL;

	while (stream && (entry = readdir(stream)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			empty = false;
	if (stream)
		(void)closedir(stream);
	return empty;
}

/* Of a process that a launcher made with others, as the shim finds it; NULL: alone. */
static const char *own_rank(void)
{
	static const char *const variables[] = {
#include "ranks.def"
	};

	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		const char *value = getenv(variables[i]);

		if (value && *value && strlen(value) < 10 &&
		    strspn(value, "0123456789") == strlen(value))
			return value;
	}
	return NULL;
}

static void make_or_fail(const char *folder)
{
	if (mkdir(folder, 0777) < 0 && errno != EEXIST)
		command_fail(EXIT_RUN, "cannot make folder %s: %s", folder, strerror(errno));
}

/* One that was not there before. */
static char *make_named(const char *rank)
{
	time_t now = time(NULL);
	char stamp[32];
	struct tm local;

	(void)localtime_r(&now, &local);
	(void)strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &local);
	for (int i = 1; i < NAME_TRIES; i++) {
		char *name = memory_format("slipstream-trace-%s%s%s", stamp, rank ? "-rank" : "",
					   rank ? rank : "");

		if (i > 1) {
			char *more = memory_format("%s-%d", name, i);

			free(name);
			name = more;
		}
		if (!mkdir(name, 0777))
			return name;
		if (errno != EEXIST)
			command_fail(EXIT_RUN, "cannot make folder %s: %s", name, strerror(errno));
		free(name);
	}
	command_fail(EXIT_RUN, "cannot make folder slipstream-trace-%s: %s", stamp,
		     strerror(EEXIST));
}

char *folder_make(const char *asked)
{
	const char *rank = own_rank();
	_cleanup_free_ char *name = NULL;
	char *folder;

	if (!asked) {
		name = make_named(rank);
	} else {
		make_or_fail(asked);
		name = rank ? memory_format("%s/rank%s", asked, rank) : memory_copy(asked);
		make_or_fail(name);
	}
	folder = realpath(name, NULL);
	if (!folder || access(folder, R_OK | W_OK | X_OK) < 0)
		command_fail(EXIT_RUN, "cannot write to folder %s: %s", name, strerror(errno));
	if (!is_empty(folder))
		command_fail(EXIT_RUN, "folder %s is not empty", name);
	made = memory_copy(folder);
	(void)atexit(remove_empty);
	return folder;
}

char *folder_make_home(void)
{
	const char *named = getenv("TMPDIR");
	size_t room = sizeof(((struct sockaddr_un *)0)->sun_path) - sizeof(LONGEST_SOCKET);
	char *home;

	if (!named || named[0] != '/' || strlen(named) + strlen("/slip-XXXXXX") > room)
		named = "/tmp";
	home = memory_format("%s/slip-XXXXXX", named);
	if (!mkdtemp(home))
		command_fail(EXIT_RUN, "cannot make folder %s: %s", home, strerror(errno));
	return home;
}

static size_t count_entries(const char *folder, bool (*is_meant)(const char *name))
{
	DIR *stream = opendir(folder);
	struct dirent *entry;
	size_t count = 0;

	while (stream && (entry = readdir(stream)))
		count += is_meant(entry->d_name);
	if (stream)
		(void)closedir(stream);
	return count;
}

bool folder_is_snapshot(const char *name)
{
	return !strncmp(name, "snapshot-", strlen("snapshot-"));
}

size_t folder_count_snapshots(const char *folder)
{
	return count_entries(folder, folder_is_snapshot);
}

size_t folder_count_records(const char *folder)
{
	return count_entries(folder, record_file_is_named);
}

static uint64_t largest; /* nftw(3) hands nothing through */

static int look_at(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
	static const char prefix[] = FOLDER_CHANNEL "_";

	if (kind == FTW_F && !strncmp(path + walk->base, prefix, strlen(prefix)) &&
	    !strchr(path + walk->base, '.')) /* the others are indices */
		largest = (uint64_t)status->st_size > largest ? (uint64_t)status->st_size : largest;
	return 0;
}

uint64_t folder_largest_stream(const char *folder)
{
	largest = 0;
	(void)nftw(folder, look_at, 16, FTW_PHYS);
	return largest;
}
