// SPDX-License-Identifier: MIT
/*
 * Doctor, tracing: the provider, the parts of LTTng, whether they fit each other, and what would be
 * missed. Called by the doctor. Nothing here is needed for record files.
 */
#include <stdbool.h>
#include <sys/statvfs.h>

#include "doctor.h"
#include "memory.h"
#include "program.h"
#include "text.h"
#include "tracing_parts.h"

/* Below it buffers get smaller than measured to take a burst: 4 MiB for each processor. */
#define BUFFERS_ENOUGH (UINT64_C(4) << 20)

static void check_provider(struct doctor *doctor, const struct tracing_parts *parts)
{
	_cleanup_free_ char *missing = tracing_parts_missing_provider(parts);

	if (missing)
		doctor_add(doctor, "lttng", parts->provider ? DOCTOR_MISSING : DOCTOR_NOTE,
			   "%s: no LTTng traces, record files work", missing);
	else
		doctor_add(doctor, "lttng", DOCTOR_OK, "%s loads, with %s", parts->provider,
			   parts->ust ? parts->ust : "an LTTng-UST of unknown place");
}

/* Whatever the provider does: that is a finding of its own. */
static void check_daemons(struct doctor *doctor, const struct tracing_parts *parts)
{
	const char *version = parts->sessiond_version ? parts->sessiond_version : "unknown version";
	_cleanup_free_ char *missing = tracing_parts_missing_daemons(parts);

	if (!parts->sessiond)
		doctor_add(doctor, "sessiond", DOCTOR_NOTE, "%s: slipstream trace needs it",
			   missing);
	else if (missing)
		doctor_add(doctor, "sessiond", DOCTOR_WARNING, "%s", missing);
	else
		doctor_add(doctor, "sessiond", DOCTOR_OK, "%s, %s", parts->sessiond, version);
	if (parts->sessiond && !parts->relayd)
		doctor_add(doctor, "relayd", DOCTOR_NOTE,
			   "not found: no live traces, none of several machines");
}

static void check_reader(struct doctor *doctor)
{
	_cleanup_free_ char *path = program_find("babeltrace2", &(int){0});

	if (path)
		doctor_add(doctor, "babeltrace2", DOCTOR_OK, "%s", path);
	else
		doctor_add(doctor, "babeltrace2", DOCTOR_NOTE,
			   "not found (Debian package babeltrace2): slipstream report reads traces "
			   "without it");
}

/* A container's is 64 MiB unless somebody asks for more. */
static void check_buffers(struct doctor *doctor)
{
	char figure[2][TEXT_FIGURE];
	struct statvfs shared;
	uint64_t available, wanted;

	if (statvfs("/dev/shm", &shared) < 0)
		return;
	available = (uint64_t)shared.f_bavail * shared.f_frsize;
	wanted = BUFFERS_ENOUGH * tracing_parts_processors();
	if (available / 2 < wanted)
		doctor_add(doctor, "buffers", DOCTOR_WARNING,
			   "/dev/shm has %s free, %s would be good for traces: buffers are made "
			   "smaller, and bursts of events may be lost",
			   text_bytes(available, figure[0]), text_bytes(wanted * 2, figure[1]));
}

/* What keeps a program's events from where one expects them. */
static void check_variables(struct doctor *doctor)
{
	static const char *const variables[] = {"LTTNG_HOME", "LTTNG_UST_APP_PATH",
						"LTTNG_UST_REGISTER_TIMEOUT"};

	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		const char *value = getenv(variables[i]);

		if (!value || !*value)
			continue;
		if (!strcmp(variables[i], "LTTNG_UST_REGISTER_TIMEOUT") && !strcmp(value, "0"))
			doctor_add(
				doctor, "environment", DOCTOR_WARNING,
				"%s=0: a program does not wait for its session; its first events, "
				"or all of a short one, are missed",
				variables[i]);
		else if (strcmp(variables[i], "LTTNG_UST_REGISTER_TIMEOUT"))
			doctor_add(
				doctor, "environment", DOCTOR_NOTE,
				"%s=%s: your own sessions are there; slipstream trace sets it for "
				"the program",
				variables[i], value);
	}
}

void doctor_check_tracing(struct doctor *doctor)
{
	struct tracing_parts parts;

	tracing_parts_find(&parts);
	check_provider(doctor, &parts);
	check_daemons(doctor, &parts);
	check_reader(doctor);
	check_buffers(doctor);
	check_variables(doctor);
	tracing_parts_done(&parts);
}
