// SPDX-License-Identifier: MIT
/* Daemon log (daemon_log.h). Called by trace.c. */
#include "daemon_log.h"

#include <errno.h>
#include <stdbool.h>

#include "command.h"
#include "memory.h"

#define LOG_LINE    512 /* bytes; longer ones are cut */
#define SHOWN_LINES 5

FILE *daemon_log_open(const char *path)
{
	FILE *log = fopen(path, "w+e");

	if (!log)
		command_fail(EXIT_RUN, "cannot make %s: %s", path, strerror(errno));
	return log;
}

static void go_to_start(FILE *log)
{
	if (log)
		rewind(log);
}

static bool next_line(FILE *log, char line[LOG_LINE])
{
	if (!log || !fgets(line, LOG_LINE, log))
		return false;
	line[strcspn(line, "\n")] = '\0';
	return true;
}

void daemon_log_show(FILE *log)
{
	char lines[SHOWN_LINES][LOG_LINE];
	size_t count = 0;

	go_to_start(log);
	while (next_line(log, lines[count % SHOWN_LINES]))
		count++;
	for (size_t i = count > SHOWN_LINES ? count - SHOWN_LINES : 0; i < count; i++)
		command_say("lttng: %s", lines[i % SHOWN_LINES]);
}

bool daemon_log_say_error(FILE *log)
{
	char line[LOG_LINE];

	go_to_start(log);
	while (next_line(log, line))
		if (strcasestr(line, "error")) {
			command_say("part of the trace may be lost, how much is not known: %s",
				    line);
			return true;
		}
	return false;
}

void daemon_log_keep(FILE *log, const char *folder)
{
	_cleanup_free_ char *path = memory_format("%s/lttng.log", folder);
	_cleanup_fclose_ FILE *copy = NULL;
	char line[LOG_LINE];

	go_to_start(log);
	while (next_line(log, line)) {
		if (!copy)
			copy = fopen(path, "we");
		if (!copy)
			return;
		(void)fprintf(copy, "%s\n", line);
	}
}
