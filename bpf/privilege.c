// SPDX-License-Identifier: MIT
/* Capabilities by name and use. CAP_SYS_ADMIN stands for the newer, smaller ones. */
#include "privilege.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint64_t effective(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	uint64_t bits = 0;
	char line[256];

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "CapEff: %" SCNx64, &bits) == 1)
			break;
	}
	fclose(file);
	return bits;
}

bool privilege_has(enum privilege privilege)
{
	return effective() & UINT64_C(1) << privilege;
}

const char *watch_missing_capability(bool single, const char **ret_what)
{
	uint64_t bits = effective();

	*ret_what = NULL;
	if (bits & UINT64_C(1) << PRIVILEGE_SYS_ADMIN)
		return NULL;
	if (!(bits & UINT64_C(1) << PRIVILEGE_BPF)) {
		*ret_what = "to load BPF programs";
		return "CAP_BPF";
	}
	if (!(bits & UINT64_C(1) << PRIVILEGE_PERFMON)) {
		*ret_what = "to probe functions and follow the scheduler";
		return "CAP_PERFMON";
	}
	if (single) {
		*ret_what = "for single probes, where the kernel has no common ones";
		return "CAP_SYS_ADMIN";
	}
	return NULL;
}

int privilege_explain(struct watch_error *error, int number, const char *step, bool single)
{
	const char *what, *missing = watch_missing_capability(single, &what);

	number = number < 0 ? -number : number;
	if (!error)
		return -number;
	*error = (struct watch_error){.number = number};
	if (number != EPERM && number != EACCES)
		snprintf(error->text, sizeof(error->text), "%s: %s", step, strerror(number));
	else if (missing) {
		snprintf(error->missing, sizeof(error->missing), "%s", missing);
		snprintf(error->text, sizeof(error->text), "%s: %s is missing, %s", step, missing,
			 what);
	} else
		snprintf(error->text, sizeof(error->text),
			 "%s: refused by the kernel although the capabilities are there: a "
			 "container's user namespace or system call filter, or lockdown",
			 step);
	return -number;
}
