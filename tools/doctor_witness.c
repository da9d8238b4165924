// SPDX-License-Identifier: MIT
/*
 * Doctor, witness: can the kernel be asked what programs wait for (attach, run --witness), and does the library tell tracers what it does.
 * Called by the doctor. To be tried is a probe in slipstream-witness itself, which is gone again before this returns.
 */
#include "doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "memory.h"
#include "place.h"

#if defined(__x86_64__)

#include "../bpf/capability.h"
#include "../bpf/usdt_notes.h"

#define OLDEST 5015 /* Linux 5.15: what the witness reads of a task */
#define COMMON 6006 /* Linux 6.6: one link for all probes of a file */

extern char **environ;

/* "6.18.2" to 6018; 0: another form. */
static unsigned int kernel_number(void)
{
	unsigned int major, minor;
	struct utsname name;

	if (uname(&name) || sscanf(name.release, "%u.%u", &major, &minor) != 2)
		return 0;
	return major * 1000 + minor;
}

/* Its exit status; -1: it did not start, or was killed. */
static int try_probe(const char *path)
{
	char *arguments[] = {"slipstream-witness", "--probe", NULL};
	posix_spawn_file_actions_t actions;
	int error, status;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
	error = posix_spawn(&pid, path, &actions, NULL, arguments, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (error)
		return -1;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void check_witness(struct doctor *doctor)
{
	_cleanup_free_ char *path = place_program("../bpf", "slipstream-witness");
	unsigned int kernel = kernel_number();
	const char *missing, *what;

	if (!path)
		return; /* a finding of the build already */
	if (kernel && kernel < OLDEST) {
		doctor_add(doctor, "witness", DOCTOR_NOTE,
			   "attach and run --witness need Linux 5.15 or newer");
		return;
	}
	missing = watch_missing_capability(kernel && kernel < COMMON, &what);
	if (missing)
		doctor_add(doctor, "witness", DOCTOR_NOTE,
			   "attach and run --witness cannot work: %s is missing, %s", missing,
			   what);
	else if (try_probe(path))
		doctor_add(doctor, "witness", DOCTOR_WARNING,
			   "attach and run --witness: the kernel refuses although the capabilities "
			   "are there: a container's user namespace or system call filter, or "
			   "lockdown");
	else
		doctor_add(doctor, "witness", DOCTOR_OK, "attach and run --witness work here%s%s",
			   kernel && kernel < COMMON ? "; detaching is slow, before Linux 6.6" : "",
			   capability_is_there(CAPABILITY_SYS_PTRACE)
				   ? ""
				   : "; processes of other users need CAP_SYS_PTRACE");
}

static void check_usdt(struct doctor *doctor)
{
	_cleanup_free_ char *tried = NULL;
	_cleanup_free_ char *library = place_library(&tried);
	_cleanup_close_ int descriptor = library ? open(library, O_RDONLY | O_CLOEXEC) : -1;
	struct usdt_note notes[USDT_NOTES];
	_cleanup_free_ char *names = memory_copy("");
	int count;

	if (descriptor < 0)
		return; /* a finding of its own */
	count = usdt_read(descriptor, "slipstream", notes);
	for (int i = 0; i < count; i++) {
		char *longer = memory_format("%s%s%s", names, i ? ", " : "", notes[i].name);

		free(names);
		names = longer;
	}
	if (count > 0)
		doctor_add(doctor, "usdt", DOCTOR_OK, "the library tells tracers: %s", names);
	else
		doctor_add(
			doctor, "usdt", DOCTOR_NOTE,
			"the library has no probes for tracers (built without <sys/sdt.h>, Debian "
			"package systemtap-sdt-dev): run --witness does not check what mode fix "
			"says it did");
}

#else

static void check_witness(struct doctor *doctor)
{
	doctor_add(doctor, "witness", DOCTOR_NOTE, "attach and run --witness are for x86-64 only");
}

static void check_usdt(struct doctor *doctor)
{
	(void)doctor;
}

#endif

void doctor_check_witness(struct doctor *doctor)
{
	check_witness(doctor);
	check_usdt(doctor);
}
