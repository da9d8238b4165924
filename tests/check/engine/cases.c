// SPDX-License-Identifier: MIT
/* Runs one case (cases.h), or lists them. */
#include "cases.h"

static const struct check_case *const groups[] = {cases_capture, cases_host, cases_order,
						  cases_shared};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
		for (const struct check_case *one = groups[i]; one->name; one++) {
			if (argc < 2)
				(void)printf("%s\n", one->name);
			else if (!strcmp(one->name, argv[1])) {
				one->begin();
				one->run();
				return 0;
			}
		}
	return argc < 2 ? 0 : 2;
}
