// SPDX-License-Identifier: MIT
/*
 * Run, steps: what `run` and `trace` do alike before a program starts and after it has ended. Called
 * by both; each step that fails before the start ends the command with one line.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "command.h"
#include "memory.h"
#include "place.h"
#include "process_state.h"
#include "program.h"
#include "record_read.h"
#include "report.h"
#include "report_witness.h"
#include "run.h"

/*
 * Free bytes of /dev/shm from which on record files go there; a process takes up to 256 MiB,
 * usually below one.
 */
#define SHARED_MEMORY_ENOUGH (UINT64_C(512) << 20)

/*
 * Where the private folder goes if the user names none. In memory where that is plentiful: making a
 * file costs the program 1 to 15 ms on a journaled disk (measured, ext4) and 0.05 ms on tmpfs.
 */
static const char *temporary_place(bool keep)
{
	const char *named = getenv("TMPDIR");
	struct statfs shared;

	if (named && named[0] == '/')
		return named;
	if (!keep && !statfs("/dev/shm", &shared) && shared.f_type == TMPFS_MAGIC &&
	    shared.f_bavail * (uint64_t)shared.f_bsize >= SHARED_MEMORY_ENOUGH &&
	    !access("/dev/shm", W_OK | X_OK))
		return "/dev/shm";
	return "/tmp";
}

char *run_make_folder(const char *asked, bool keep)
{
	char *folder;

	if (asked) {
		if (mkdir(asked, 0700) < 0 && errno != EEXIST)
			command_fail(EXIT_RUN, "cannot make folder %s: %s", asked, strerror(errno));
		folder = realpath(asked, NULL);
		if (!folder || access(folder, W_OK | X_OK) < 0)
			command_fail(EXIT_RUN, "cannot write to folder %s: %s", asked,
				     strerror(errno));
		return folder;
	}
	folder = memory_format("%s/slipstream-XXXXXX", temporary_place(keep));
	if (!mkdtemp(folder))
		command_fail(EXIT_RUN, "cannot make folder %s: %s", folder, strerror(errno));
	return folder;
}

void run_remove_folder(const char *folder)
{
	DIR *stream = opendir(folder);
	struct dirent *entry;

	while (stream && (entry = readdir(stream)))
		if (record_file_is_named(entry->d_name))
			(void)unlinkat(dirfd(stream), entry->d_name, 0);
	if (stream)
		(void)closedir(stream);
	(void)rmdir(folder);
}

void run_inspect(const char *name, struct program *ret_program)
{
	int error = program_inspect(name, ret_program);

	if (error)
		command_fail(error == -ENOENT || error == -ENOTDIR ? 127 : 126, "%s: %s", name,
			     strerror(-error));
	if (ret_program->blind_spot)
		command_say("warning: %s: nothing will be seen in it", ret_program->blind_spot);
}

void run_preload(const struct program *program)
{
	_cleanup_free_ char *tried = NULL, *why = NULL;
	_cleanup_free_ char *library = place_library(&tried);

	if (!library)
		command_fail(EXIT_RUN, "libslipstream.so not found, tried %s", tried);
	(void)unsetenv(PLACE_LIBRARY_VARIABLE); /* ours, not the library's */
	if (strpbrk(library, ": \t\n"))
		command_fail(EXIT_RUN, "%s: LD_PRELOAD cannot hold a path with colons or blanks",
			     library);
	if (program->foreign_libc)
		return;
	why = run_preload_verify(library, program);
	if (why)
		command_fail(EXIT_RUN, "%s cannot be loaded into %s: %s", library, program->image,
			     why);
	run_preload_export(library, program);
}

int run_report(struct report_output *output, const struct program *program, const char *folder,
	       uint64_t since_ns, pid_t pid, json_t *witness)
{
	_cleanup_free_ char *error_text = NULL;
	struct report *report = report_new();
	int error;

	if (witness)
		report_witness_set(report, witness);
	if (program->blind_spot)
		report_add_blind_spot(report, program->blind_spot);
	error = report_add_path(report, folder, since_ns, &error_text);
	if (!error) {
		report_finish(report, process_now_ns(), (uint32_t)pid);
		error = report_output_write(report, output, &error_text);
	}
	if (error)
		command_say("%s", error_text);
	report_free(report);
	return error;
}

void run_failed_start(const char *name, int error, const struct run_end *end)
{
	if (error)
		command_fail(EXIT_RUN, "cannot start a process: %s", strerror(-error));
	command_fail(end->exec_error == ENOENT ? 127 : 126, "%s: %s", name,
		     strerror(end->exec_error));
}
