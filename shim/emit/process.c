// SPDX-License-Identifier: MIT
/*
 * Process: what the record file says of its process: command line, program, settings. Called by emit.c
 * when a file is opened, by the one thread that opens it. Relies on /proc and intern.c.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "config.h"
#include "emit/intern.h"
#include "emit/internal.h"
#include "uncancelled.h"

#define TEXT_LENGTH 4096

uint32_t process_command(void)
{
	char text[TEXT_LENGTH];
	ssize_t length = 0;
	ssize_t i;
	int fd;

	fd = uncancelled_open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC, 0);
	if (fd >= 0) {
		length = uncancelled_read(fd, text, sizeof(text));
		uncancelled_close(fd);
	}
	if (length <= 0)
		return 0;
	if (!text[length - 1])
		length--;
	for (i = 0; i < length; i++)
		if (!text[i])
			text[i] = ' ';
	return intern_string(text, (size_t)length);
}

uint32_t process_executable(void)
{
	char text[TEXT_LENGTH];
	ssize_t length;

	length = readlink("/proc/self/exe", text, sizeof(text));
	return length > 0 ? intern_string(text, (size_t)length) : 0;
}

static const char *const mode_names[] = {"off", "observe", "fix"};
static const char *const level_names[] = {"waits", "full"};

/* The words of a list's bits, joined by commas; in the caller's buffer. */
static const char *list_text(char *text, size_t size, const char *allowed, uint32_t bits)
{
	size_t used = 0, length;

	text[0] = '\0';
	for (; *allowed; allowed += *allowed == '|', bits >>= 1) {
		length = strcspn(allowed, "|");
		if (bits & 1 && used + length + 2 < size) {
			if (used)
				text[used++] = ',';
			memcpy(text + used, allowed, length);
			used += length;
			text[used] = '\0';
		}
		allowed += length;
	}
	return text;
}

#define FORMAT_MODE(field, unit)   "%s\n", mode_names[config.field]
#define FORMAT_STRING(field, unit) "%s\n", config.field ? config.field : ""
#define FORMAT_BOOL(field, unit)   "%s\n", config.field ? "on" : "off"
#define FORMAT_UINT(field, unit)   "%u\n", config.field
#define FORMAT_LEVEL(field, unit)  "%s\n", level_names[config.field]
#define FORMAT_LIST(field, unit)   "%s\n", list_text(list, sizeof(list), unit, config.field)
#define FORMAT_SIZE(field, unit)                                                                   \
	"%llu%s\n", (unsigned long long)(config.field & ~CONFIG_PERCENT),                          \
		config.field &CONFIG_PERCENT ? "%" : ""
#define FORMAT_NS(field, unit) "%lluns\n", (unsigned long long)config.field

uint32_t process_settings(void)
{
	char text[TEXT_LENGTH], list[64];
	size_t used = 0;
	int length;

#define OPTION(variable, field, kind, default_, unit, help)                                        \
	length = snprintf(text + used, sizeof(text) - used,                                        \
			  #variable "=" FORMAT_##kind(field, unit));                               \
	if (length > 0 && (size_t)length < sizeof(text) - used)                                    \
		used += (size_t)length;
#include "options.def"
#undef OPTION
	return intern_string(text, used);
}
