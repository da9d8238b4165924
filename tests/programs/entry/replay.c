// SPDX-License-Identifier: MIT
/*
 * Replays a list of cuGetProcAddress_v2 look-ups (name, version, flags a line) and prints what each
 * gave: result, status, and the exported symbol at the pointer with the file it lies in. run.py
 * compares the output with and without the shim.
 */
#include "entry_test.h"

int main(int argc, char **argv)
{
	look_up_v2 *get = LOOK_UP(look_up_v2, "cuGetProcAddress_v2");
	FILE *list = argc > 1 ? fopen(argv[1], "r") : NULL;
	char line[256], name[128];
	unsigned long flags;
	int version;

	CHECK(get && list);
	while (fgets(line, sizeof(line), list)) {
		CUdriverProcAddressQueryResult status = 77;
		void *found = &status;
		Dl_info info = {NULL, NULL, NULL, NULL};
		CUresult result;

		if (sscanf(line, "%127s %d %lu", name, &version, &flags) != 3)
			continue;
		if (strcmp(name, "(empty)") == 0)
			name[0] = '\0';
		result = get(name, &found, version, flags, &status);
		if (found && found != (void *)&status)
			dladdr(found, &info);
		printf("%s %d %lu: %d %d %s %s\n", name, version, flags, result, status,
		       found == (void *)&status ? "untouched"
		       : !found                 ? "null"
		       : info.dli_sname         ? info.dli_sname
						: "unnamed",
		       info.dli_fname ? strrchr(info.dli_fname, '/') + 1 : "-");
	}
	return 0;
}
