// SPDX-License-Identifier: MIT
/*
 * Doctor, machine: what the kernel lets us do, limits, and variables that change what is measured.
 * Called by the doctor.
 */
#include <errno.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/uio.h>

#include "doctor.h"
#include "memory.h"
#include "text.h"

/* First line of a small file; NULL: cannot be read. The caller frees. */
static char *first_line(const char *path)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	char line[4096];

	if (!file || !fgets(line, sizeof(line), file))
		return NULL;
	line[strcspn(line, "\n")] = '\0';
	return memory_copy(line);
}

/* The rest of the line of `path` that begins with `key`; NULL: none. */
static char *line_of(const char *path, const char *key)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	char line[8192];

	while (file && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(line, key, strlen(key)))
			return memory_copy(line + strlen(key));
	}
	return NULL;
}

static void check_clock(struct doctor *doctor)
{
	_cleanup_free_ char *source =
		first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
#if defined(__x86_64__)
	_cleanup_free_ char *flags = line_of("/proc/cpuinfo", "flags");

	if (!flags || !strstr(flags, " constant_tsc") || !strstr(flags, " nonstop_tsc")) {
		doctor_add(
			doctor, "clock", DOCTOR_WARNING,
			"no invariant TSC: times cost a system clock read each (clock source %s)",
			source ? source : "unknown");
		return;
	}
#endif
	doctor_add(doctor, "clock", DOCTOR_OK, "invariant TSC, clock source %s",
		   source ? source : "unknown");
}

static void check_fork_page(struct doctor *doctor)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page != MAP_FAILED && !madvise(page, size, MADV_WIPEONFORK))
		doctor_add(doctor, "fork", DOCTOR_OK, "pages can be wiped on fork");
	else
		doctor_add(doctor, "fork", DOCTOR_WARNING,
			   "MADV_WIPEONFORK fails (%s): forked children may be missed",
			   strerror(errno));
	if (page != MAP_FAILED)
		(void)munmap(page, size);
}

static void check_memory_reading(struct doctor *doctor)
{
	char from[8] = "slip", to[8] = "";
	struct iovec source = {from, sizeof(from)}, target = {to, sizeof(to)};

	if (process_vm_readv(getpid(), &target, 1, &source, 1, 0) == sizeof(to))
		doctor_add(doctor, "python", DOCTOR_OK,
			   "process_vm_readv works: Python frames can be read");
	else
		doctor_add(doctor, "python", DOCTOR_WARNING,
			   "process_vm_readv fails (%s): no Python frames", strerror(errno));
}

static void check_rights(struct doctor *doctor)
{
	_cleanup_free_ char *scope = first_line("/proc/sys/kernel/yama/ptrace_scope");
	_cleanup_free_ char *paranoid = first_line("/proc/sys/kernel/perf_event_paranoid");
	_cleanup_free_ char *seccomp = line_of("/proc/self/status", "Seccomp:\t");
	_cleanup_free_ char *privileges = line_of("/proc/self/status", "NoNewPrivs:\t");

	doctor_add(doctor, "rights", DOCTOR_NOTE,
		   "user %u, ptrace_scope %s, perf_event_paranoid %s, seccomp %s, no_new_privs %s; "
		   "run "
		   "needs none of them",
		   (unsigned int)getuid(), scope ? scope : "absent", paranoid ? paranoid : "absent",
		   seccomp && strcmp(seccomp, "0") ? "on" : "off",
		   privileges && strcmp(privileges, "0") ? "on" : "off");
}

static void check_limits(struct doctor *doctor)
{
	struct rlimit size, memory;
	char figure[TEXT_FIGURE];

	if (!getrlimit(RLIMIT_FSIZE, &size) && size.rlim_cur != RLIM_INFINITY)
		doctor_add(doctor, "limits", DOCTOR_WARNING,
			   "files may grow to %s (ulimit -f): record files grow with what is found",
			   text_bytes(size.rlim_cur, figure));
	if (!getrlimit(RLIMIT_AS, &memory) && memory.rlim_cur != RLIM_INFINITY)
		doctor_add(doctor, "limits", DOCTOR_WARNING,
			   "address space is limited to %s (ulimit -v): CUDA needs far more",
			   text_bytes(memory.rlim_cur, figure));
}

static void check_folder(struct doctor *doctor)
{
	const char *variable = getenv("TMPDIR");
	const char *folder = variable && variable[0] == '/' ? variable : "/tmp";
	struct statvfs status;
	char figure[TEXT_FIGURE];
	uint64_t available;

	if (access(folder, W_OK | X_OK) < 0 || statvfs(folder, &status) < 0) {
		doctor_add(doctor, "records", DOCTOR_WARNING,
			   "%s cannot be written (%s): give run --out DIR", folder,
			   strerror(errno));
		return;
	}
	available = (uint64_t)status.f_bavail * status.f_frsize;
	doctor_add(doctor, "records", available < UINT64_C(64) << 20 ? DOCTOR_WARNING : DOCTOR_OK,
		   "%s has %s free", folder, text_bytes(available, figure));
}

static void check_container(struct doctor *doctor)
{
	if (!access("/.dockerenv", F_OK) || !access("/run/.containerenv", F_OK) ||
	    getenv("container") || getenv("KUBERNETES_SERVICE_HOST"))
		doctor_add(doctor, "container", DOCTOR_NOTE,
			   "in a container: library and record folder must exist under the same "
			   "paths inside it");
}

static void check_system_preload(struct doctor *doctor)
{
	_cleanup_free_ char *line = first_line("/etc/ld.so.preload");

	if (line && *line)
		doctor_add(doctor, "preload", DOCTOR_NOTE,
			   "/etc/ld.so.preload loads %s before ours", line);
}

void doctor_check_machine(struct doctor *doctor)
{
	check_clock(doctor);
	check_fork_page(doctor);
	check_memory_reading(doctor);
	check_rights(doctor);
	check_limits(doctor);
	check_folder(doctor);
	check_container(doctor);
	check_system_preload(doctor);
}

/* Mode fix looks for the same. */
static void check_tools(struct doctor *doctor)
{
	static const char *const signs[] = {
#define VARIABLE(name, tool) name,
#define LIBRARY(name, tool)
#include "rewrite/policy.def"
#undef VARIABLE
#undef LIBRARY
	};

	for (size_t i = 0; i < ARRAY_SIZE(signs); i++) {
		const char *value = getenv(signs[i]);

		if (value && *value && strcmp(value, "0"))
			doctor_add(doctor, "rewrites", DOCTOR_NOTE,
				   "%s is set: mode fix makes no rewrite", signs[i]);
	}
}

void doctor_check_environment(struct doctor *doctor)
{
	static const struct {
		const char *variable;
		enum doctor_status status;
		const char *what;
	} variables[] = {
		{"LD_PRELOAD", DOCTOR_NOTE, "run keeps it and adds the library to it"},
		{"LD_AUDIT", DOCTOR_WARNING, "an auditor may redirect symbols past the library"},
		{"CUDA_LAUNCH_BLOCKING", DOCTOR_WARNING, "every launch waits, and is reported so"},
		{"CUDA_INJECTION64_PATH", DOCTOR_NOTE,
		 "a tool is loaded into the driver; its overhead is in the times"},
		{"CUDA_MODULE_LOADING", DOCTOR_NOTE,
		 "decides whether the first use of a kernel loads it, and waits"},
		{"CUDA_DEVICE_MAX_CONNECTIONS", DOCTOR_NOTE,
		 "few connections make streams wait for each other on the device"},
		{"CUDA_VISIBLE_DEVICES", DOCTOR_NOTE, "hides devices from the program"},
		{"CUDA_API_PER_THREAD_DEFAULT_STREAM", DOCTOR_NOTE,
		 "clients that read it use per-thread default streams"},
		{"SLIPSTREAM_OUT", DOCTOR_NOTE, "run leaves the record files there"},
		{"SLIPSTREAM_MODE", DOCTOR_NOTE, "is the default of run --mode"},
	};

	check_tools(doctor);
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		const char *value = getenv(variables[i].variable);

		if (!value || !*value)
			continue;
		if (!strcmp(variables[i].variable, "CUDA_LAUNCH_BLOCKING") && !strcmp(value, "0"))
			continue;
		doctor_add(doctor, "environment", variables[i].status, "%s=%s: %s",
			   variables[i].variable, value, variables[i].what);
	}
}
