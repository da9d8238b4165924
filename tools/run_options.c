// SPDX-License-Identifier: MIT
/*
 * Run, settings: shim/options.def as command-line options. Values are checked here too, since a bad
 * one in the environment of a started program could only be complained about. Called by run; the
 * shim reads the same table.
 */
#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "calibrate/table.h"
#include "command.h"
#include "deny_list.h"
#include "memory.h"
#include "run.h"

enum option_kind { MODE, STRING, BOOL, UINT, NS, LEVEL, LIST, SIZE };

static const struct setting {
	const char *variable; /* without SLIPSTREAM_ */
	enum option_kind kind;
	const char *standard, *unit, *help;
} settings[] = {
#define OPTION(variable, field, kind, standard, unit, help) {#variable, kind, standard, unit, help},
#include "options.def"
#undef OPTION
};

#define PREFIX        "SLIPSTREAM_"
#define SETTING_COUNT ARRAY_SIZE(settings)
#define KEY_FIRST     0x200

extern char **environ;

static struct argp_option options[SETTING_COUNT + 1];
static char *values[SETTING_COUNT]; /* as given, checked; NULL: not given */

static bool is_listed(const char *list, const char *value)
{
	size_t length = strlen(value);

	while (*list) {
		size_t word = strcspn(list, "|");

		if (word == length && !strncmp(list, value, length))
			return true;
		list += word;
		list += *list == '|';
	}
	return false;
}

/* Words of the list joined by commas, each one of it. */
static bool are_listed(const char *list, const char *value)
{
	for (;;) {
		size_t length = strcspn(value, ",");
		_cleanup_free_ char *word = memory_check(strndup(value, length));

		if (!is_listed(list, word))
			return false;
		if (!value[length])
			return true;
		value += length + 1;
	}
}

static bool is_number(const char *text, size_t length)
{
	if (!length || length > 18)
		return false;
	for (size_t i = 0; i < length; i++)
		if (!isdigit((unsigned char)text[i]))
			return false;
	return true;
}

static bool is_time(const char *text)
{
	static const char *const units[] = {"", "ns", "us", "ms", "s"};
	size_t digits = strspn(text, "0123456789");

	if (!is_number(text, digits))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (!strcmp(text + digits, units[i]))
			return true;
	return false;
}

static bool is_size(const char *text)
{
	size_t digits = strspn(text, "0123456789");

	if (!is_number(text, digits))
		return false;
	if (!strcmp(text + digits, "%"))
		return digits <= 3 && strtoul(text, NULL, 10) <= 100;
	return digits <= 9 && strlen(text + digits) <= 1 &&
	       strspn(text + digits, "KMG") == strlen(text + digits);
}

/* "frames, 1 to 64" in the help: the table has no column for it. */
static bool is_in_range(const struct setting *setting, const char *text)
{
	const char *range = strstr(setting->help, " to ");
	unsigned long low, high, value = strtoul(text, NULL, 10);

	if (!range)
		return true;
	while (range > setting->help && isdigit((unsigned char)range[-1]))
		range--;
	if (sscanf(range, "%lu to %lu", &low, &high) != 2)
		return true;
	return value >= low && value <= high;
}

static bool is_good(const struct setting *setting, const char *value)
{

	switch (setting->kind) {
	case MODE:
	case LEVEL:
		return is_listed(setting->unit, value);
	case LIST:
		return are_listed(setting->unit, value);
	case BOOL:
		return is_listed("on|1|yes|true|off|0|no|false", value); /* as shim/config.c */
	case UINT:
		return is_number(value, strlen(value)) && is_in_range(setting, value);
	case NS:
		return is_time(value);
	case SIZE:
		return is_size(value);
	default:
		return *value;
	}
}

/* Whether it is a library at all; the program's loader would only find out when it runs. */
static const char *library_fault(const char *path)
{
	/* A FIFO has no writer to wait for. */
	_cleanup_close_ int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat status;
	Elf64_Ehdr header;

	if (descriptor < 0 || fstat(descriptor, &status) < 0)
		return strerror(errno);
	if (!S_ISREG(status.st_mode))
		return "not a regular file";
	if (read(descriptor, &header, sizeof(header)) != sizeof(header) ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) || header.e_type != ET_DYN)
		return "not a library";
	return NULL;
}

static const char *fix_words(void)
{
	for (size_t i = 0; i < SETTING_COUNT; i++)
		if (!strcmp(settings[i].variable, "FIX"))
			return settings[i].unit;
	return "";
}

/* In a started program the library could only make no rewrite at all. */
static void check_deny_list(const char *name, const char *path)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	_cleanup_free_ char *line = NULL;
	struct deny_entry entry;
	unsigned int number = 0;
	const char *why;
	size_t size = 0;
	ssize_t length;

	while (file && (length = getline(&line, &size, file)) > 0) {
		number++;
		length -= line[length - 1] == '\n';
		if (deny_line(line, (size_t)length, fix_words(), &entry, &why) < 0)
			command_fail(command_usage_status, "%s: %s:%u: %s", name, path, number,
				     why);
	}
}

static bool is_path(const struct setting *setting)
{
	return setting->kind == STRING &&
	       (!strcmp(setting->unit, "file") || !strcmp(setting->unit, "folder"));
}

static void check_file(const struct setting *setting, const char *name, const char *path)
{
	const char *fault;

	if (setting->kind != STRING || strcmp(setting->unit, "file"))
		return;
	if (!strcmp(setting->variable, "LTTNG")) {
		fault = library_fault(path);
		if (fault)
			command_fail(command_usage_status, "%s: %s: %s", name, path, fault);
		return;
	}
	if (access(path, R_OK) < 0)
		command_fail(command_usage_status, "%s: %s: %s", name, path, strerror(errno));
	if (!strcmp(setting->variable, "DENY"))
		check_deny_list(name, path);
	/* In a started program the library could only ignore a bad table. */
	if (!strcmp(setting->variable, "CALIBRATION")) {
		struct table table = {0};

		table_speaker = command_name;
		if (table_read(&table, path, 0))
			exit(command_usage_status);
		table_clear(&table);
	}
}

static void check(const struct setting *setting, const char *name, const char *value)
{
	if (!is_good(setting, value))
		command_fail(command_usage_status, "%s needs %s (%s), not '%s'", name,
			     setting->unit, setting->help, value);
	check_file(setting, name, value);
}

/* The program may change its folder before the library reads the setting. */
static char *absolute(const char *path)
{
	char folder[PATH_MAX];

	if (path[0] == '/' || !getcwd(folder, sizeof(folder)))
		return memory_copy(path);
	return memory_format("%s/%s", folder, path);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	size_t i = (size_t)(key - KEY_FIRST);
	const char *value;
	char name[64];

	(void)state;
	if (key < KEY_FIRST || i >= SETTING_COUNT)
		return ARGP_ERR_UNKNOWN;
	value = argument ? argument : "on"; /* only BOOL may go without */
	(void)snprintf(name, sizeof(name), "--%s", options[i].name);
	check(&settings[i], name, value);
	free(values[i]);
	values[i] = is_path(&settings[i]) ? absolute(value) : memory_copy(value);
	return 0;
}

struct argp run_options_argp = {.options = options, .parser = parse};

static const char *placeholder(const struct setting *setting)
{
	switch (setting->kind) {
	case STRING:
		return !is_path(setting)                 ? "NAME"
		       : strcmp(setting->unit, "folder") ? "FILE"
							 : "DIR";
	case UINT:
		return "N";
	case NS:
		return "TIME";
	case LIST:
		return "LIST";
	case SIZE:
		return "BYTES";
	default:
		return setting->unit;
	}
}

/* With the values that there are, where the placeholder does not tell them: argp has little room for that. */
static const char *describe(const struct setting *setting)
{
	const char *known = setting->kind == NS                              ? "ns, us, ms or s"
			    : setting->kind == LIST || setting->kind == SIZE ? setting->unit
									     : "";

	if (!setting->standard)
		return setting->help;
	return memory_format("%s%s%s (default %s)", setting->help, *known ? "; " : "", known,
			     setting->standard);
}

void run_options_init(void)
{
	for (size_t i = 0; i < SETTING_COUNT; i++) {
		char *name = memory_copy(settings[i].variable);

		for (char *c = name; *c; c++)
			*c = *c == '_' ? '-' : (char)tolower((unsigned char)*c);
		options[i] = (struct argp_option){
			.name = name,
			.key = KEY_FIRST + (int)i,
			.arg = placeholder(&settings[i]),
			.flags = settings[i].kind == BOOL ? OPTION_ARG_OPTIONAL : 0,
			.doc = describe(&settings[i]),
			.group = 20,
		};
	}
}

/* The row of a variable without its SLIPSTREAM_; SETTING_COUNT: none has it. */
static size_t find_setting(const char *tail)
{
	size_t i = 0;

	while (i < SETTING_COUNT && strcmp(tail, settings[i].variable))
		i++;
	return i;
}

/* A setting of another part, in the same environment. */
static bool is_of_others(const char *tail)
{
	static const char *const others[] = {"LIBRARY", "STREAM_TO"};

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (!strcmp(tail, others[i]))
			return true;
	return false;
}

/* A typing error in a variable would otherwise be found only when the program has run. */
static void check_variable(const char *variable)
{
	size_t length = strcspn(variable, "=");
	_cleanup_free_ char *name = memory_check(strndup(variable, length));
	const char *tail = name + strlen(PREFIX), *value = variable + length + 1;
	size_t i = find_setting(tail);

	if (i == SETTING_COUNT && !is_of_others(tail))
		command_fail(command_usage_status, "unknown variable %s in the environment", name);
	if (i < SETTING_COUNT && !values[i] && *value)
		check(&settings[i], name, value);
}

void run_options_warn(void)
{
	for (char **variable = environ; *variable; variable++) {
		_cleanup_free_ char *name = NULL;
		const char *tail;

		if (strncmp(*variable, PREFIX, strlen(PREFIX)))
			continue;
		name = memory_check(strndup(*variable, strcspn(*variable, "=")));
		tail = name + strlen(PREFIX);
		if (find_setting(tail) == SETTING_COUNT && !is_of_others(tail))
			command_say("unknown variable %s in the environment, ignored", name);
	}
}

void run_options_export(void)
{
	for (char **variable = environ; *variable; variable++)
		if (!strncmp(*variable, PREFIX, strlen(PREFIX)))
			check_variable(*variable);
	for (size_t i = 0; i < SETTING_COUNT; i++) {
		_cleanup_free_ char *variable = NULL;

		if (!values[i])
			continue;
		variable = memory_format(PREFIX "%s", settings[i].variable);
		if (setenv(variable, values[i], 1) < 0)
			command_fail(EXIT_RUN, "out of memory");
	}
}

const char *run_options_out(void)
{
	const char *variable = getenv("SLIPSTREAM_OUT");

	for (size_t i = 0; i < SETTING_COUNT; i++)
		if (values[i] && !strcmp(settings[i].variable, "OUT"))
			return values[i];
	return variable && *variable ? variable : NULL;
}
