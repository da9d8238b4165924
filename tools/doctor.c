// SPDX-License-Identifier: MIT
/*
 * slipstream doctor: what this machine and build can do and what would be missed. Exit status: 0 if
 * `slipstream run` can work here, 1 if not, 2 usage. Nothing is changed, CUDA is not initialized.
 */
#include "doctor.h"

#include <stdarg.h>

#include <jansson.h>

#include "command.h"
#include "memory.h"
#include "text.h"

/* Out of reach of any preload, whatever the machine. */
static const char *const limits[] = {
	"statically linked programs, and those for musl or another processor",
	"setuid and setgid programs and files with capabilities, unless root starts them",
	"libraries opened with RTLD_DEEPBIND or dlmopen that look the driver up themselves",
	"calls inside private tables of the driver (cuGetExportTable)",
	"children started with a cleared environment",
};

static const char *const status_names[DOCTOR_STATUS_COUNT] = {
	[DOCTOR_OK] = "ok",
	[DOCTOR_NOTE] = "note",
	[DOCTOR_WARNING] = "warning",
	[DOCTOR_MISSING] = "missing",
};

void doctor_add(struct doctor *doctor, const char *name, enum doctor_status status,
		const char *format, ...)
{
	_cleanup_free_ char *raw = NULL;
	va_list arguments;

	va_start(arguments, format);
	if (vasprintf(&raw, format, arguments) < 0)
		raw = memory_check(NULL);
	va_end(arguments);
	doctor->findings = memory_grow(doctor->findings, doctor->count, &doctor->capacity,
				       sizeof(*doctor->findings));
	doctor->findings[doctor->count++] = (struct doctor_finding){
		.name = name, .status = status, .text = text_printable(raw, false)};
}

static bool is_usable(const struct doctor *doctor)
{
	for (size_t i = 0; i < doctor->count; i++)
		if (!strcmp(doctor->findings[i].name, "library") &&
		    doctor->findings[i].status == DOCTOR_MISSING)
			return false;
	return true;
}

static int print_json(const struct doctor *doctor)
{
	json_t *findings = memory_check(json_array()), *missed = memory_check(json_array());
	json_t *all;
	int failed;

	for (size_t i = 0; i < doctor->count; i++) {
		const struct doctor_finding *finding = &doctor->findings[i];

		json_array_append_new(findings, json_pack("{s:s, s:s, s:s}", "name", finding->name,
							  "status", status_names[finding->status],
							  "text", finding->text));
	}
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		json_array_append_new(missed, json_string(limits[i]));
	all = memory_check(json_pack("{s:s, s:b, s:o, s:o}", "version", SLIPSTREAM_VERSION,
				     "usable", is_usable(doctor), "findings", findings, "limits",
				     missed));
	failed = json_dumpf(all, stdout, JSON_INDENT(2) | JSON_SORT_KEYS) || putchar('\n') == EOF;
	json_decref(all);
	return failed;
}

static void print_text(const struct doctor *doctor)
{
	for (size_t i = 0; i < doctor->count; i++)
		(void)printf("%-8s %-12s %s\n", status_names[doctor->findings[i].status],
			     doctor->findings[i].name, doctor->findings[i].text);
	(void)puts("\nNever seen by a preloaded library:");
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		(void)printf("  %s\n", limits[i]);
	(void)printf("\n%s\n", is_usable(doctor) ? "slipstream run works here."
						 : "slipstream run cannot work here.");
}

enum { KEY_JSON = 0x100 };

static error_t parse(int key, char *argument, struct argp_state *state)
{
	bool *json = state->input;

	switch (key) {
	case KEY_JSON:
		*json = true;
		return 0;
	case ARGP_KEY_ARG:
		command_fail(command_usage_status, "unknown argument %s (try --help)", argument);
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int command_doctor(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{"json", KEY_JSON, NULL, 0, "print one JSON object", 0}, {0}};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "Say what this machine and build can do, and what would be missed.",
	};
	struct doctor doctor = {0};
	bool json = false, failed = false;
	int status;

	command_parse(&argp, argc, argv, 0, &json);
	doctor_check_build(&doctor);
	doctor_check_driver(&doctor);
	doctor_check_machine(&doctor);
	doctor_check_tracing(&doctor);
	doctor_check_witness(&doctor);
	doctor_check_environment(&doctor);
	if (json)
		failed = print_json(&doctor);
	else
		print_text(&doctor);
	status = is_usable(&doctor) ? EXIT_SUCCESS : EXIT_FAILURE;
	for (size_t i = 0; i < doctor.count; i++)
		free(doctor.findings[i].text);
	free(doctor.findings);
	if (failed || fflush(stdout) || ferror(stdout)) {
		command_say("cannot write to stdout");
		return EXIT_FAILURE;
	}
	return status;
}
