// SPDX-License-Identifier: MIT
/*
 * Run, preload: LD_PRELOAD, LD_LIBRARY_PATH and what goes with them, and the check that the library
 * loads. Called by run before the program starts; changes the environment of this process, which
 * the program inherits.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include "command.h"
#include "memory.h"
#include "program.h"
#include "run.h"
#include "step_mark.h"

#define LISTING_MAX    (256 * 1024)
#define NVTX_INJECTION "NVTX_INJECTION64_PATH"

extern char **environ;

static const char *base_name(const char *path, size_t length)
{
	const char *end = path + length;

	while (end > path && end[-1] != '/')
		end--;
	return end;
}

/* Sanitizer runtimes refuse to start, or miss memory, unless they are first. */
static bool must_be_first(const char *entry, size_t length)
{
	static const char *const names[] = {"libasan.",   "libtsan.",  "liblsan.",
					    "libhwasan.", "libubsan.", "libclang_rt."};
	const char *name = base_name(entry, length);

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if ((size_t)(entry + length - name) > strlen(names[i]) &&
		    !strncmp(name, names[i], strlen(names[i])))
			return true;
	return false;
}

/* Ours comes after the last sanitizer runtime and before everything else; never twice. */
char *run_preload_compose(const char *existing, const char *library)
{
	static const char separators[] = ": \t\n";
	const char *place = existing, *rest;
	size_t length;

	for (rest = existing; rest && *rest; rest += length) {
		rest += strspn(rest, separators);
		length = strcspn(rest, separators);
		if (length == strlen(library) && !strncmp(rest, library, length))
			return memory_copy(existing);
		if (length && must_be_first(rest, length))
			place = rest + length;
	}
	if (!existing || !*existing)
		return memory_copy(library);
	if (place == existing)
		return memory_format("%s:%s", library, existing);
	return memory_format("%.*s:%s%s", (int)(place - existing), existing, library, place);
}

static void set_variable(const char *name, const char *value)
{
	if (setenv(name, value, 1) < 0)
		command_fail(EXIT_RUN, "cannot set %s: %s", name, strerror(errno));
}

void run_preload_driver(const char *folder)
{
	const char *existing = getenv("LD_LIBRARY_PATH");
	_cleanup_free_ char *path = realpath(folder, NULL);
	_cleanup_free_ char *value = NULL;

	if (!path)
		command_fail(EXIT_RUN, "--driver %s: %s", folder, strerror(errno));
	value = memory_format("%s/libcuda.so.1", path);
	if (access(value, R_OK) < 0)
		command_fail(EXIT_RUN, "--driver %s: no libcuda.so.1 in it", folder);
	free(value);
	value = existing && *existing ? memory_format("%s:%s", path, existing) : memory_copy(path);
	set_variable("LD_LIBRARY_PATH", value);
}

bool run_preload_wants_nvtx(void)
{
	const char *ranges = getenv("SLIPSTREAM_NVTX"), *step = getenv("SLIPSTREAM_STEP");

	return (ranges && *ranges) || (step && !strncmp(step, STEP_OF_NVTX, strlen(STEP_OF_NVTX)));
}

const char *run_preload_other_nvtx(const char *library)
{
	const char *other = getenv(NVTX_INJECTION);

	return other && *other && strcmp(other, library) != 0 ? other : NULL;
}

/* NVTX loads one library, and asks it by name. A tool that the user has put there stays. */
static void export_nvtx(const char *library)
{
	const char *other = run_preload_other_nvtx(library);

	if (!run_preload_wants_nvtx())
		return;
	if (other)
		command_say("note: " NVTX_INJECTION " is set to %s, so NVTX ranges and marks are "
			    "not seen",
			    other);
	else
		set_variable(NVTX_INJECTION, library);
}

void run_preload_export(const char *library, const struct program *program)
{
	_cleanup_free_ char *value = run_preload_compose(getenv("LD_PRELOAD"), library);
	const char *asan = getenv("ASAN_OPTIONS");

	set_variable("LD_PRELOAD", value);
	export_nvtx(library);

	/*
	 * An ASan program that brings its shared runtime as a library finds ours before it and
	 * would end. Ours defines nothing that ASan intercepts, so the order does no harm; a
	 * setting of the user's stays.
	 */
	if (program->needs_asan && !(asan && strstr(asan, "verify_asan_link_order"))) {
		free(value);
		value = asan && *asan ? memory_format("verify_asan_link_order=0:%s", asan)
				      : memory_copy("verify_asan_link_order=0");
		set_variable("ASAN_OPTIONS", value);
	}
}

char *run_preload_list(const char *loader, const char *image, const char *preload, int *ret_status)
{
	_cleanup_free_ char *setting = memory_format("LD_PRELOAD=%s", preload);
	char *arguments[] = {(char *)loader, "--list", (char *)image, NULL};
	_cleanup_free_ char **variables = NULL;
	posix_spawn_file_actions_t actions;
	size_t length = 0, count = 0;
	char *listing = NULL;
	int ends[2], error;
	pid_t pid;

	while (environ[count])
		count++;
	variables = memory_new((count + 2) * sizeof(*variables));
	count = 0;
	for (char **variable = environ; *variable; variable++)
		if (strncmp(*variable, "LD_PRELOAD=", 11))
			variables[count++] = *variable;
	variables[count++] = setting;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return NULL;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
	error = posix_spawn(&pid, loader, &actions, NULL, arguments, variables);
	posix_spawn_file_actions_destroy(&actions);
	(void)close(ends[1]);
	if (error) {
		(void)close(ends[0]);
		return NULL;
	}

	listing = memory_new(LISTING_MAX + 1);
	while (length < LISTING_MAX) {
		ssize_t got = read(ends[0], listing + length, LISTING_MAX - length);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		length += (size_t)got;
	}
	(void)close(ends[0]);
	while (waitpid(pid, ret_status, 0) < 0 && errno == EINTR)
		;
	return listing;
}

/* The line of the loader's output that says what is wrong, for the message. */
char *run_preload_complaint(const char *listing, const char *library)
{
	static const char *const signs[] = {"cannot be preloaded", "not found",
					    "error while loading"};
	const char *name = base_name(library, strlen(library));

	for (const char *line = listing; *line;) {
		size_t length = strcspn(line, "\n");
		_cleanup_free_ char *copy = memory_check(strndup(line, length));

		for (size_t i = 0; i < ARRAY_SIZE(signs); i++)
			if (strstr(copy, signs[i]))
				return memory_copy(copy + strspn(copy, " \t"));
		line += length;
		line += *line == '\n';
	}
	return memory_format("%s is not among the libraries it loads", name);
}

static bool is_good(const char *listing, int status, const char *library)
{
	_cleanup_free_ char *entry = memory_format("%s (", library); /* an address follows */

	return WIFEXITED(status) && !WEXITSTATUS(status) && strstr(listing, entry) &&
	       !strstr(listing, "not found");
}

char *run_preload_verify(const char *library, const struct program *program)
{
	_cleanup_free_ char *preload = run_preload_compose(getenv("LD_PRELOAD"), library);
	_cleanup_free_ char *listing = NULL, *self = realpath("/proc/self/exe", NULL);
	int status = 0;

	/* Only glibc's loader knows --list as "do not run it"; what has none was named a blind spot
	 * already. */
	if (!program->interpreter || program->foreign_libc)
		return NULL;
	listing = run_preload_list(program->interpreter, program->image, preload, &status);
	if (!listing || is_good(listing, status, library))
		return NULL;

	/* What the program lacks even without us is its own matter. Then ask the same loader with
	 * ourselves in its place. */
	free(listing);
	listing = run_preload_list(program->interpreter, program->image, "", &status);
	if (self && listing && !is_good(listing, status, "")) {
		free(listing);
		listing = run_preload_list(program->interpreter, self, library, &status);
		if (!listing || is_good(listing, status, library))
			return NULL;
		return run_preload_complaint(listing, library);
	}
	free(listing);
	listing = run_preload_list(program->interpreter, program->image, preload, &status);
	return run_preload_complaint(listing ? listing : "", library);
}
