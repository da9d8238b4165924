// SPDX-License-Identifier: MIT
/* What is told of a refused step (privilege.h). */
#include "privilege.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

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
