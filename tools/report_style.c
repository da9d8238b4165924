// SPDX-License-Identifier: MIT
/*
 * Report options (report_style.h). Called by `run` and `report`.
 */
#include "report_style.h"

#include <errno.h>
#include <sys/ioctl.h>

#include "command.h"
#include "memory.h"
#include "report.h"

#define LIMIT_DEFAULT 20

enum { KEY_JSON = 0x100, KEY_OUTPUT, KEY_BY, KEY_LIMIT };

static const struct argp_option options[] = {
	{"json", KEY_JSON, "FILE", 0, "write the report to FILE as JSON too", 10},
	{"output", KEY_OUTPUT, "FILE", 0, "write the text report to FILE", 10},
	{"by", KEY_BY, "KEY", 0,
	 "rank the text report by rule (default), site or function; that of a trace also by "
	 "stream, "
	 "thread, rank, host or gpu",
	 10},
	{"limit", KEY_LIMIT, "N", 0, "show at most N lines of each section, 0 for all (default 20)",
	 10},
	{0},
};

static size_t parse_limit(const char *text)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *end || end == text || text[0] < '0' || text[0] > '9')
		command_fail(command_usage_status, "--limit needs a number, not %s", text);
	return value;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct report_output *output = state->input;
	int by;

	switch (key) {
	case KEY_JSON:
		output->json_path = argument;
		return 0;
	case KEY_OUTPUT:
		output->output_path = argument;
		return 0;
	case KEY_BY:
		by = report_by_name(argument);
		if (by < 0)
			command_fail(command_usage_status, "--by needs " REPORT_BY_NAMES ", not %s",
				     argument);
		output->style.by = (enum report_by)by;
		return 0;
	case KEY_LIMIT:
		output->style.limit = parse_limit(argument);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp report_style_argp = {.options = options, .parser = parse};

void report_style_init(struct report_output *output, int descriptor)
{
	const char *no_colour = getenv("NO_COLOR"), *terminal = getenv("TERM");
	struct winsize size;

	*output = (struct report_output){.style = {.by = REPORT_BY_RULE, .limit = LIMIT_DEFAULT}};
	if (!isatty(descriptor))
		return;
	if (!ioctl(descriptor, TIOCGWINSZ, &size) && size.ws_col >= 40)
		output->style.width = size.ws_col;
	output->style.colour = !(no_colour && *no_colour) && terminal && strcmp(terminal, "dumb");
}
