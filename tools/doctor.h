// SPDX-License-Identifier: MIT
/* Doctor: one list of findings, filled by the checks, printed by the command. */
#ifndef SLIPSTREAM_TOOLS_DOCTOR_H
#define SLIPSTREAM_TOOLS_DOCTOR_H

#include <stddef.h>

enum doctor_status {
	DOCTOR_OK,
	DOCTOR_NOTE,    /* worth knowing, nothing is lost */
	DOCTOR_WARNING, /* something would be missed, or cost more */
	DOCTOR_MISSING, /* a part does not work here */
	DOCTOR_STATUS_COUNT
};

struct doctor_finding {
	const char *name;
	enum doctor_status status;
	char *text; /* one line */
};

struct doctor {
	struct doctor_finding *findings;
	size_t count, capacity;
};

void doctor_add(struct doctor *doctor, const char *name, enum doctor_status status,
		const char *format, ...) __attribute__((format(printf, 4, 5)));

void doctor_check_build(struct doctor *doctor); /* doctor_build.c: library, parts of the build */
void doctor_check_driver(
	struct doctor *doctor); /* doctor_driver.c: libcuda, devices, its settings */
void doctor_check_machine(struct doctor *doctor);     /* doctor_machine.c: kernel, rights, limits */
void doctor_check_tracing(struct doctor *doctor);     /* doctor_tracing.c: LTTng, babeltrace2 */
void doctor_check_witness(struct doctor *doctor);     /* doctor_witness.c: attach, run --witness */
void doctor_check_environment(struct doctor *doctor); /* doctor_machine.c: variables that matter */

#endif
