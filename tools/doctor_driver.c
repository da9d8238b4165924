// SPDX-License-Identifier: MIT
/*
 * Doctor, driver: which libcuda a program would find, and the devices. The driver is loaded in a
 * child, so that whatever it does or fails to do stays there; cuInit is never called, since
 * cuDriverGetVersion works without. Called by the doctor.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/wait.h>

#include "doctor.h"
#include "memory.h"

#define CHILD_SECONDS 20 /* a driver that hangs at load is a finding, not our end */

struct answer { /* what the child says through a pipe */
	char path[PATH_MAX];
	char error[512];
	int version;
};

static void ask(struct answer *answer)
{
	int (*get_version)(int *);
	void *library, *symbol;
	Dl_info where;

	library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		(void)snprintf(answer->error, sizeof(answer->error), "%s", dlerror());
		return;
	}
	symbol = dlsym(library, "cuDriverGetVersion");
	if (!symbol) {
		(void)snprintf(answer->error, sizeof(answer->error),
			       "libcuda.so.1 has no cuDriverGetVersion");
		return;
	}
	if (dladdr(symbol, &where) && where.dli_fname && !realpath(where.dli_fname, answer->path))
		(void)snprintf(answer->path, sizeof(answer->path), "%s", where.dli_fname);
	memcpy(&get_version, &symbol, sizeof(get_version));
	if (get_version(&answer->version))
		answer->version = 0;
}

/* 0: the child answered. */
static int ask_in_child(struct answer *ret_answer)
{
	struct answer answer = {0};
	int ends[2], status = 0, null;
	ssize_t got;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid < 0) {
		(void)close(ends[0]);
		(void)close(ends[1]);
		return -errno;
	}
	if (!pid) {
		null = open("/dev/null", O_RDWR | O_CLOEXEC);
		(void)dup2(null, STDOUT_FILENO);
		(void)dup2(null, STDERR_FILENO);
		(void)signal(SIGALRM, SIG_DFL);
		(void)alarm(CHILD_SECONDS);
		ask(&answer);
		got = write(ends[1], &answer, sizeof(answer));
		_exit(got == sizeof(answer) ? 0 : 1);
	}
	(void)close(ends[1]);
	do
		got = read(ends[0], &answer, sizeof(answer));
	while (got < 0 && errno == EINTR);
	(void)close(ends[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (got != sizeof(answer))
		return WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? -ETIME : -EIO;
	*ret_answer = answer;
	return 0;
}

static void check_library(struct doctor *doctor)
{
	struct answer answer;
	int error = ask_in_child(&answer);

	if (error == -ETIME)
		doctor_add(doctor, "driver", DOCTOR_WARNING,
			   "libcuda.so.1 did not load within %d s", CHILD_SECONDS);
	else if (error)
		doctor_add(doctor, "driver", DOCTOR_WARNING,
			   "loading libcuda.so.1 ended the process");
	else if (answer.error[0])
		doctor_add(doctor, "driver", DOCTOR_WARNING,
			   "%s; use --driver DIR, or run where the program finds one",
			   answer.error);
	else if (answer.version)
		doctor_add(doctor, "driver", DOCTOR_OK, "%s, CUDA %d.%d", answer.path,
			   answer.version / 1000, answer.version % 1000 / 10);
	else
		doctor_add(doctor, "driver", DOCTOR_WARNING, "%s, which tells no version",
			   answer.path);
}

static void check_devices(struct doctor *doctor)
{
	DIR *folder = opendir("/dev");
	size_t all = 0, open_to_us = 0;
	struct dirent *entry;

	while (folder && (entry = readdir(folder))) {
		_cleanup_free_ char *path = NULL;

		if (strncmp(entry->d_name, "nvidia", 6) || entry->d_name[6] < '0' ||
		    entry->d_name[6] > '9')
			continue;
		path = memory_format("/dev/%s", entry->d_name);
		all++;
		open_to_us += !access(path, R_OK | W_OK);
	}
	if (folder)
		(void)closedir(folder);
	if (!all)
		doctor_add(doctor, "gpu", DOCTOR_NOTE,
			   "no /dev/nvidia device: only a simulated driver can run here");
	else if (open_to_us < all)
		doctor_add(doctor, "gpu", DOCTOR_WARNING, "%zu of %zu devices may not be opened",
			   all - open_to_us, all);
	else
		doctor_add(doctor, "gpu", DOCTOR_OK, "%zu device%s", all, all == 1 ? "" : "s");
}

static void check_hmm(struct doctor *doctor)
{
	_cleanup_fclose_ FILE *file =
		fopen("/sys/module/nvidia_uvm/parameters/uvm_disable_hmm", "re");
	int value = file ? getc(file) : EOF;

	if (value == EOF)
		return; /* no such driver here */
	if (value == 'N' || value == '0')
		doctor_add(doctor, "hmm", DOCTOR_NOTE,
			   "the driver allows HMM: the GPU may read pageable memory directly");
	else
		doctor_add(doctor, "hmm", DOCTOR_OK, "HMM is off");
}

void doctor_check_driver(struct doctor *doctor)
{
	check_library(doctor);
	check_devices(doctor);
	check_hmm(doctor);
}
