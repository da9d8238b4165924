// SPDX-License-Identifier: MIT
/*
 * Tracing parts (tracing_parts.h). Called by trace and the doctor. Nothing of LTTng is loaded here:
 * its library would register this process with every session daemon.
 */
#include "tracing_parts.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "memory.h"
#include "place.h"
#include "program.h"
#include "run.h"

#define SOCKET_NAME "lttng-ust-sock-" /* followed by a number; in daemon and library alike */
#define UST_NAME    "liblttng-ust.so."

extern char **environ;

/*
 * The string of the file that holds `part`, from `part` on or (`whole`) from its beginning. NULL: the
 * file has none. The caller frees.
 */
static char *string_with(const char *path, const char *part, bool whole)
{
	_cleanup_close_ int descriptor = open(path, O_RDONLY | O_CLOEXEC);
	const char *bytes, *found, *end;
	struct stat status;
	char *text = NULL;

	if (descriptor < 0 || fstat(descriptor, &status) < 0 || status.st_size <= 0)
		return NULL;
	bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
	if (bytes == MAP_FAILED)
		return NULL;
	end = bytes + status.st_size;
	found = memmem(bytes, (size_t)status.st_size, part, strlen(part));
	if (found) {
		while (whole && found > bytes && found[-1])
			found--;
		text = memory_check(strndup(found, (size_t)(end - found)));
	}
	(void)munmap((void *)bytes, (size_t)status.st_size);
	return text;
}

/* The number behind the first SOCKET_NAME in the file; NULL: none there. */
static char *socket_number(const char *path)
{
	_cleanup_free_ char *text = string_with(path, SOCKET_NAME, false);
	const char *number = text ? text + strlen(SOCKET_NAME) : "";
	size_t digits = strspn(number, "0123456789");

	return digits ? memory_check(strndup(number, digits)) : NULL;
}

/* What consumes the buffers; a daemon that cannot start it waits for it, without a word. */
static char *consumer_of(const char *sessiond)
{
	const char *named = getenv("LTTNG_CONSUMERD64_BIN");
	char *path;

	if (named && *named)
		return memory_copy(named);
	path = string_with(sessiond, "/lttng-consumerd", true);
	if (path && path[0] != '/') {
		free(path);
		return NULL;
	}
	return path;
}

/* First word that the program prints when asked for its version; NULL: it prints none. */
static char *version_of(const char *path)
{
	char *arguments[] = {(char *)path, "--version", NULL};
	posix_spawn_file_actions_t actions;
	char line[128] = "";
	int ends[2], error;
	ssize_t got = 0;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return NULL;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	error = posix_spawn(&pid, path, &actions, NULL, arguments, environ);
	posix_spawn_file_actions_destroy(&actions);
	(void)close(ends[1]);
	if (!error) {
		do
			got = read(ends[0], line, sizeof(line) - 1);
		while (got < 0 && errno == EINTR);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	(void)close(ends[0]);
	line[got > 0 ? got : 0] = '\0';
	line[strcspn(line, " \n")] = '\0';
	return isdigit((unsigned char)line[0]) ? memory_copy(line) : NULL;
}

/* "	liblttng-ust.so.1 => /usr/lib/... (0x...)" in what the loader lists. */
static char *listed_path(const char *listing, const char *name)
{
	const char *line = strstr(listing, name), *path, *end;

	path = line ? strstr(line, "=> ") : NULL;
	if (!path)
		return NULL;
	path += strlen("=> ");
	end = strstr(path, " (");
	return end ? memory_check(strndup(path, (size_t)(end - path))) : NULL;
}

/* What the provider loads with; NULL: not known, or it does not load, and parts->provider_error says why. */
static char *ust_of_provider(struct tracing_parts *parts, const char *loader)
{
	int status = 0;
	_cleanup_free_ char *listing = run_preload_list(loader, parts->provider, "", &status);

	if (!listing)
		return NULL;
	if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		parts->provider_error = run_preload_complaint(listing, parts->provider);
		return NULL;
	}
	return listed_path(listing, UST_NAME);
}

/* What programs would load: whether the daemons fit does not hang on a provider that does not load. */
static char *ust_of_machine(const char *loader)
{
	_cleanup_free_ char *self = realpath("/proc/self/exe", NULL), *listing = NULL;
	int status = 0;

	if (self)
		listing = run_preload_list(loader, self, UST_NAME "1", &status);
	return listing ? listed_path(listing, UST_NAME) : NULL;
}

/* Programs of this machine have our own loader, near enough: others are found out by run. */
static void look_at_provider(struct tracing_parts *parts)
{
	struct program self = {0};

	if (access(parts->provider, R_OK) < 0)
		parts->provider_error = memory_copy(strerror(errno));
	if (!program_inspect("/proc/self/exe", &self) && self.interpreter) {
		if (!parts->provider_error)
			parts->ust = ust_of_provider(parts, self.interpreter);
		if (parts->provider_error)
			parts->ust = ust_of_machine(self.interpreter);
	}
	program_done(&self);
	if (parts->ust)
		parts->ust_socket = socket_number(parts->ust);
}

void tracing_parts_find(struct tracing_parts *ret_parts)
{
	const char *named = getenv("LTTNG_SESSIOND_PATH"); /* as lttng(1) */
	struct tracing_parts parts = {0};

	parts.sessiond = program_find(named && *named ? named : "lttng-sessiond", &(int){0});
	parts.relayd = program_find("lttng-relayd", &(int){0});
	if (parts.sessiond) {
		parts.sessiond_version = version_of(parts.sessiond);
		parts.sessiond_socket = socket_number(parts.sessiond);
		parts.consumerd = consumer_of(parts.sessiond);
	}
	parts.provider = place_provider();
	if (parts.provider)
		look_at_provider(&parts);
	*ret_parts = parts;
}

void tracing_parts_done(struct tracing_parts *parts)
{
	free(parts->sessiond);
	free(parts->relayd);
	free(parts->consumerd);
	free(parts->sessiond_version);
	free(parts->sessiond_socket);
	free(parts->provider);
	free(parts->provider_error);
	free(parts->ust);
	free(parts->ust_socket);
}

uint64_t tracing_parts_processors(void)
{
	_cleanup_fclose_ FILE *file = fopen("/sys/devices/system/cpu/possible", "re");
	long configured = sysconf(_SC_NPROCESSORS_CONF);
	uint64_t count = configured > 0 ? (uint64_t)configured : 1;
	unsigned int last;
	char list[256];
	size_t tail;

	if (!file || !fgets(list, sizeof(list), file))
		return count;
	list[strcspn(list, "\n")] = '\0';
	for (tail = strlen(list); tail && isdigit((unsigned char)list[tail - 1]); tail--)
		;
	if (sscanf(list + tail, "%u", &last) == 1 && last < 65536 && last + 1 > count)
		count = last + 1;
	return count;
}

char *tracing_parts_missing_provider(const struct tracing_parts *parts)
{
	if (!parts->provider)
		return memory_copy(
			"libslipstream-lttng.so is not part of this build (Debian package "
			"liblttng-ust-dev, then build again)");
	if (parts->provider_error)
		return memory_format("%s does not load: %s (Debian package liblttng-ust1)",
				     parts->provider, parts->provider_error);
	return NULL;
}

char *tracing_parts_missing_daemons(const struct tracing_parts *parts)
{
	if (!parts->sessiond)
		return memory_copy("lttng-sessiond not found (Debian package lttng-tools)");
	if (parts->consumerd && access(parts->consumerd, X_OK) < 0)
		return memory_format(
			"lttng-consumerd not found: %s: %s (Debian package lttng-tools)",
			parts->consumerd, strerror(errno));
	if (parts->sessiond_socket && parts->ust_socket &&
	    strcmp(parts->sessiond_socket, parts->ust_socket))
		return memory_format("%s %s listens on socket %s, programs with %s call socket %s: "
				     "LTTng tools and library must be of one version",
				     parts->sessiond,
				     parts->sessiond_version ? parts->sessiond_version : "",
				     parts->sessiond_socket, parts->ust, parts->ust_socket);
	return NULL;
}

char *tracing_parts_missing(const struct tracing_parts *parts)
{
	char *missing = tracing_parts_missing_daemons(parts);

	return missing ? missing : tracing_parts_missing_provider(parts);
}
