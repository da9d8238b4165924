// SPDX-License-Identifier: MIT
/* Capabilities by name and use (capability.h). CAP_SYS_ADMIN stands for the newer, smaller ones. */
#include "capability.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

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

bool capability_is_there(enum capability capability)
{
	return effective() & UINT64_C(1) << capability;
}

const char *watch_missing_capability(bool single, const char **ret_what)
{
	uint64_t bits = effective();

	*ret_what = NULL;
	if (bits & UINT64_C(1) << CAPABILITY_SYS_ADMIN)
		return NULL;
	if (!(bits & UINT64_C(1) << CAPABILITY_BPF)) {
		*ret_what = "to load BPF programs";
		return "CAP_BPF";
	}
	if (!(bits & UINT64_C(1) << CAPABILITY_PERFMON)) {
		*ret_what = "to probe functions and follow the scheduler";
		return "CAP_PERFMON";
	}
	if (single) {
		*ret_what = "for single probes, where the kernel has no common ones";
		return "CAP_SYS_ADMIN";
	}
	return NULL;
}
