// SPDX-License-Identifier: MIT
/*
 * slipstream-calibrate: measures which driver calls block the host and which join, on the present
 * driver, and writes a table that the shim can load. Started by `slipstream calibrate`.
 *
 * Everything that touches the driver runs in a child, so that a call which never returns costs one
 * step: the child is killed, the step counts as hung, and another child goes on behind it.
 *
 * Whatever goes wrong is told in one line on stderr, and the exit status is not 0.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cells.h"
#include "command.h"
#include "measure.h"
#include "memory.h"
#include "staging.h"
#include "table.h"

/* Exit statuses. */
#define DIFFERENT 1
#define USAGE     2
#define FAILED    3

#define STEP_TIMEOUT                                                                               \
	30000 /* ms without a line: loading a driver cold takes seconds, a step far less */

static struct env {
	bool full, resume, list, json, verbose;
	const char *output, *driver, *compare, *only;
	const char *unit; /* child: the unit to measure */
	int from;         /* child: first step */
	int timeout;
} env = {.timeout = STEP_TIMEOUT};

enum { KEY_UNIT = 256, KEY_FROM, KEY_TIMEOUT, KEY_QUIET };

static const struct argp_option options[] = {
	{"full", 'f', NULL, 0, "More sizes, memory kinds, loading and scheduling modes", 0},
	{"output", 'o', "FILE", 0, "Write the table there instead of to standard output", 0},
	{"driver", 'd', "DIR", 0, "Measure DIR/libcuda.so.1", 0},
	{"resume", 'r', NULL, 0, "Go on from FILE.partial, left by an interrupted run", 0},
	{"only", 'u', "TEXT", 0, "Only the units whose name contains TEXT", 0},
	{"list", 'l', NULL, 0, "List the units and measure nothing", 0},
	{"json", 'j', NULL, 0, "Print the table as JSON on standard output", 0},
	{"compare", 'c', "FILE", 0,
	 "Print what differs from the table in FILE; status 1 if anything does", 0},
	{"verbose", 'v', NULL, 0, "Say on standard error what is measured", 0},
	{"timeout", KEY_TIMEOUT, "MS", 0, "A step without an answer for this long counts as hung",
	 0},
	{"unit", KEY_UNIT, "NAME", OPTION_HIDDEN, NULL, 0},
	{"from", KEY_FROM, "STEP", OPTION_HIDDEN, NULL, 0},
	{"quiet", KEY_QUIET, NULL, OPTION_HIDDEN, NULL, 0},
	{0},
};

static int number(const char *name, int least, const char *text)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < least || value > 86400000)
		command_fail(USAGE, "--%s needs a number from %d to 86400000, not '%s'", name,
			     least, text);
	return (int)value;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	(void)state;
	switch (key) {
	case 'f':
		env.full = true;
		break;
	case 'o':
		env.output = argument;
		break;
	case 'd':
		env.driver = argument;
		break;
	case 'r':
		env.resume = true;
		break;
	case 'u':
		env.only = argument;
		break;
	case 'l':
		env.list = true;
		break;
	case 'j':
		env.json = true;
		break;
	case 'c':
		env.compare = argument;
		break;
	case 'v':
		env.verbose = true;
		break;
	case KEY_QUIET:
		env.verbose = false;
		break;
	case KEY_UNIT:
		env.unit = argument;
		break;
	case KEY_FROM:
		env.from = number("from", 0, argument);
		break;
	case KEY_TIMEOUT:
		env.timeout = number("timeout", 1, argument);
		break;
	case ARGP_KEY_ARG:
		command_fail(USAGE, "unexpected argument %s (try --help)", argument);
	case ARGP_KEY_END:
		if (env.resume && !env.output)
			command_fail(USAGE, "--resume needs --output");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.doc = "Measure which calls of the present CUDA driver block the host and which join its "
	       "streams, and from which size on copies that mode fix stages are not slower.\v"
	       "Exit status: 0 measured (and equal, with --compare), 1 different, 2 usage, 3 could "
	       "not "
	       "measure.",
};

static pid_t start(const char *unit, int from, int *ret_pipe)
{
	char from_text[16];
	int ends[2];
	pid_t child;

	snprintf(from_text, sizeof(from_text), "%d", from);
	if (pipe2(ends, O_CLOEXEC))
		return -1;
	child = fork();
	if (child) {
		close(ends[1]);
		if (child < 0)
			close(ends[0]);
		*ret_pipe = ends[0];
		return child;
	}
	dup2(ends[1], STDOUT_FILENO);
	/* A preloaded shim would measure itself. */
	unsetenv("LD_PRELOAD");
	if (staging_is_unit(unit))
		staging_environment(unit);
	execl("/proc/self/exe", "slipstream-calibrate", "--unit", unit, "--from", from_text,
	      env.verbose ? "--verbose" : "--quiet", env.driver ? "--driver" : NULL, env.driver,
	      NULL);
	_exit(127);
}

/* One child's lines, as far as they come in time. The step under way when it stopped goes to
 * ret_step and ret_line, -1: none. */
static int collect(const char *unit, int from, struct table *lines, int *ret_step,
		   char ret_line[256], int *ret_status)
{
	int descriptor, r = 0, length = 0;
	char line[1024];
	bool hung = false;
	pid_t child;

	*ret_step = -1;
	child = start(unit, from, &descriptor);
	if (child < 0)
		return -errno;
	for (;;) {
		struct pollfd wait = {.fd = descriptor, .events = POLLIN};
		char byte;
		int ready = poll(&wait, 1, env.timeout);

		if (ready < 0 && errno == EINTR)
			continue;
		if (ready <= 0) {
			hung = true;
			kill(child, SIGKILL);
			break;
		}
		if (read(descriptor, &byte, 1) != 1)
			break;
		if (byte != '\n') {
			if (length < (int)sizeof(line) - 1)
				line[length++] = byte;
			continue;
		}
		line[length] = 0;
		length = 0;
		if (sscanf(line, "step %d", ret_step) == 1) {
			const char *rest = strchr(line + 5, ' ');

			snprintf(ret_line, 256, "%.255s", rest ? rest + 1 : "");
		} else {
			r = table_add_line(lines, line);
			if (r)
				break;
		}
	}
	close(descriptor);
	while (waitpid(child, ret_status, 0) < 0 && errno == EINTR)
		;
	if (r)
		return r;
	return hung ? -ETIMEDOUT : 0;
}

/* The lines of a unit, hung steps included. */
static int run_steps(const char *unit, struct table *lines)
{
	char hung_line[256];
	int r, status = 0, step, from = 0;

	for (;;) {
		r = collect(unit, from, lines, &step, hung_line, &status);
		if (r && r != -ETIMEDOUT)
			return r;
		if (r == -ETIMEDOUT) {
			if (step < 0) {
				fprintf(stderr,
					"slipstream calibrate: %s: no answer from the driver\n",
					unit);
				return r;
			}
			if (hung_line[0] && table_add_line(lines, hung_line))
				return -ENOMEM;
			from = step + 1;
			continue;
		}
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
			return 0;
		if (WIFEXITED(status) && WEXITSTATUS(status) == MEASURE_TOLD)
			return -EIO;
		if (WIFSIGNALED(status))
			fprintf(stderr, "slipstream calibrate: %s: died of signal %d (%s)\n", unit,
				WTERMSIG(status), strsignal(WTERMSIG(status)));
		else
			fprintf(stderr, "slipstream calibrate: %s: not measured\n", unit);
		return -EIO;
	}
}

static int run_unit(const char *unit, struct table *lines)
{
	int r;

	if (!staging_is_unit(unit))
		return run_steps(unit, lines);
	if (!staging_open())
		return -EIO;
	r = run_steps(unit, lines);
	staging_close();
	return r;
}

/* The lines between `unit NAME` and `done NAME` of an earlier run. */
static bool earlier(const struct table *partial, const char *unit, struct table *lines)
{
	char first[UNIT_NAME + 8], last[UNIT_NAME + 8];
	bool inside = false;

	snprintf(first, sizeof(first), "unit %s", unit);
	snprintf(last, sizeof(last), "done %s", unit);
	for (size_t i = 0; i < partial->count; i++) {
		const char *line = partial->line[i];

		if (!strcmp(line, first)) {
			table_clear(lines);
			inside = true;
		} else if (!strcmp(line, last) && inside) {
			return true;
		} else if (inside) {
			(void)table_add_line(lines, line);
		}
	}
	table_clear(lines);
	return false;
}

/* An idle line whose first four fields are there already says the same thing again. */
static bool said_already(const struct table *table, const char *line)
{
	const char *last = strrchr(line, ' ');

	if (strncmp(line, "idle ", 5) || !last)
		return false;
	for (size_t i = 0; i < table->count; i++) {
		if (!strncmp(table->line[i], line, (size_t)(last - line + 1)))
			return true;
	}
	return false;
}

static int measure_all(struct table *table, char unit[UNITS_MAX][UNIT_NAME], int units,
		       const struct table *partial, FILE *state)
{
	int missed = 0;

	for (int i = 0; i < units; i++) {
		struct table lines = {0};
		bool had = earlier(partial, unit[i], &lines);
		int r = 0;

		if (env.only && !strstr(unit[i], env.only)) {
			table_clear(&lines);
			continue;
		}
		if (env.verbose)
			fprintf(stderr, "[%d/%d] %s%s\n", i + 1, units, unit[i],
				had ? " (from the earlier run)" : "");
		if (!had)
			r = run_unit(unit[i], &lines);
		if (r)
			missed++;
		if (state && !had && !r)
			fprintf(state, "unit %s\n", unit[i]);
		for (size_t n = 0; n < lines.count; n++) {
			if (state && !had && !r)
				fprintf(state, "%s\n", lines.line[n]);
			if (!said_already(table, lines.line[n]) &&
			    table_add_line(table, lines.line[n]))
				return -ENOMEM;
		}
		if (state && !had && !r) {
			fprintf(state, "done %s\n", unit[i]);
			fflush(state);
		}
		table_clear(&lines);
	}
	return missed;
}

/* Found before minutes of measuring, not behind them. */
static void check_output(bool stdout_is_closed)
{
	bool is_used = env.list || env.json || env.compare || !env.output;

	if (stdout_is_closed && is_used)
		command_fail(USAGE, "standard output is closed");
}

static void end_output(int *status)
{
	errno = 0;
	if (!fflush(stdout) && !ferror(stdout))
		return;
	command_say("standard output: %s",
		    errno ? strerror(errno) : "not everything could be written");
	*status = FAILED;
}

static void check_only(char unit[UNITS_MAX][UNIT_NAME], int units)
{
	for (int i = 0; i < units; i++)
		if (!env.only || strstr(unit[i], env.only))
			return;
	command_fail(USAGE, "no unit has '%s' in its name (--list tells them)", env.only);
}

/* The file for what is measured so far, beside the table; NULL: none is wanted. */
static FILE *open_state(char output[TABLE_PATH], char state_path[TABLE_PATH],
			struct table *ret_partial)
{
	FILE *state;
	int r;

	if (!env.output)
		return NULL;
	r = table_place(env.output, output);
	if (r)
		command_fail(USAGE, "%s: %s", env.output,
			     r == -EEXIST ? "not a regular file" : strerror(-r));
	if (snprintf(state_path, TABLE_PATH, "%s.partial", output) >= TABLE_PATH)
		command_fail(USAGE, "%s: path too long", env.output);
	if (env.resume && access(state_path, F_OK) == 0 && table_read(ret_partial, state_path, 1))
		exit(FAILED);
	state = table_open(state_path, env.resume ? O_APPEND : O_TRUNC);
	if (!state)
		command_fail(USAGE, "%s: %s", state_path,
			     errno == EEXIST ? "not a regular file" : strerror(errno));
	/* A kill may have left half a line there. */
	if (env.resume)
		fputc('\n', state);
	return state;
}

int main(int argc, char **argv)
{
	static char unit[UNITS_MAX][UNIT_NAME];
	struct table table = {0}, partial = {0}, committed = {0}, device = {0};
	bool stdout_is_closed = fcntl(STDOUT_FILENO, F_GETFD) < 0;
	char output[TABLE_PATH] = "", state_path[TABLE_PATH] = "";
	FILE *state;
	int units, r, status = 0;

	command_name = "slipstream calibrate";
	command_usage_status = USAGE;
	command_failure_status = FAILED;
	command_hold_descriptors();
	command_parse(&argp, argc, argv, 0, NULL);
	if (env.unit) {
		staging_explains = env.verbose;
		status = measure_unit(env.unit, env.driver, env.from);
		/* The driver's own tear-down is not measured, and could hang. */
		fflush(stdout);
		_exit(status);
	}

	check_output(stdout_is_closed);
	units = measure_units(unit, env.full);
	if (env.list) {
		for (int i = 0; i < units; i++)
			puts(unit[i]);
		end_output(&status);
		return status;
	}
	/* Read first: nobody wants to hear of a bad file after minutes of measuring. */
	if (env.compare && table_read(&committed, env.compare, 0))
		return USAGE;
	check_only(unit, units);
	state = open_state(output, state_path, &partial);

	if (run_unit("device", &device)) {
		if (state) {
			fclose(state);
			(void)unlink(state_path);
		}
		return FAILED;
	}
	r = table_add_line(&table, TABLE_FIRST_LINE);
	for (size_t i = 0; i < device.count; i++)
		r |= table_add_line(&table, device.line[i]);
	r |= table_add_line(&table, env.full ? "set full" : "set default");
	if (!r)
		r = measure_all(&table, unit, units, &partial, state);
	if (r < 0) {
		fprintf(stderr, "slipstream calibrate: %s\n", strerror(-r));
		return FAILED;
	}
	if (r > 0) {
		fprintf(stderr, "slipstream calibrate: %d of %d units could not be measured\n", r,
			units);
		status = FAILED;
	}

	if (env.output) {
		r = table_write(&table, output);
		if (r) {
			command_say("%s: %s", env.output, strerror(-r));
			status = FAILED;
		}
		fclose(state);
		if (!status)
			(void)unlink(state_path);
	}
	if (env.json)
		table_print_json(&table);
	else if (!env.output && !env.compare)
		table_print(&table);
	if (env.compare) {
		size_t differences = table_compare(&table, &committed);

		fprintf(stderr, "slipstream calibrate: %zu differences from %s\n", differences,
			env.compare);
		if (differences && !status)
			status = DIFFERENT;
	}
	end_output(&status);
	table_clear(&table);
	table_clear(&partial);
	table_clear(&committed);
	table_clear(&device);
	return status;
}
