// SPDX-License-Identifier: MIT
/*
 * Settings: reads SLIPSTREAM_* once, by the table in options.def.
 *
 * Called by entry_setup() before anything reads `config`. Allocates nothing: strings stay where the
 * environment has them. A bad value or an unknown variable gives one line on stderr, since a typing
 * error in a preloaded library's settings would otherwise go unseen; the program goes on with the
 * default. The line waits for the first driver call: a shell's children that have nothing to do with CUDA
 * stay silent, their stderr may be somebody's input.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "uncancelled.h"

#define PREFIX "SLIPSTREAM_"

struct config config;

/* Written by config_load() only. */
#define PROBLEM_MAX  8
#define PROBLEM_SIZE 200
#define TELL_SIZE    512
static char problems[PROBLEM_MAX][PROBLEM_SIZE];
static unsigned int problem_count;

enum { KIND_MODE, KIND_STRING, KIND_BOOL, KIND_UINT, KIND_NS, KIND_LEVEL, KIND_LIST, KIND_SIZE };

static const struct option {
	const char *variable, *fallback, *unit;
	int kind;
	void *field;
} options[] = {
#define OPTION(variable_, field_, kind_, default_, unit_, help_)                                   \
	{PREFIX #variable_, default_, unit_, KIND_##kind_, &config.field_},
#include "options.def"
#undef OPTION
};

/* Which of them the environment set. Written by config_load() only. */
static bool chosen[sizeof(options) / sizeof(options[0])];

/* Settings of the tool, in the same environment. */
static const char *const others[] = {"SLIPSTREAM_LIBRARY", "SLIPSTREAM_STREAM_TO"};

const char *config_fix_words(void)
{
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (options[i].field == &config.fix)
			return options[i].unit;
	return "";
}

bool config_is_chosen(const void *field)
{
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (options[i].field == field)
			return chosen[i];
	return false;
}

const char *config_problem(unsigned int index)
{
	return index < problem_count ? problems[index] : NULL;
}

static void make_printable(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == '\177')
			*text = '?';
}

/* One printable line, whatever the environment has. */
static void complain(const char *variable, size_t length, const char *what, const char *value)
{
	if (problem_count == PROBLEM_MAX)
		return;
	snprintf(problems[problem_count], PROBLEM_SIZE, "%.*s: %s%s%.80s%s",
		 (int)(length > 60 ? 60 : length), variable, what, value ? " '" : "",
		 value ? value : "", value ? "'" : "");
	make_printable(problems[problem_count]);
	problem_count++;
}

/* One write: lines of two processes do not mix. */
static void tell(const char *text)
{
	char line[TELL_SIZE];
	ssize_t written;
	int size;

	size = snprintf(line, sizeof(line) - 1, "slipstream: %s", text);
	if (size >= (int)sizeof(line) - 1)
		size = sizeof(line) - 2;
	make_printable(line);
	line[size++] = '\n';
	written = uncancelled_write(STDERR_FILENO, line, (size_t)size);
	(void)written;
}

void config_tell(void)
{
	static bool told; /* under emit's lock; a forked child inherits it */

	if (told)
		return;
	told = true;
	for (unsigned int i = 0; i < problem_count; i++)
		tell(problems[i]);
}

static void tell_file(const char *variable, const char *file, const char *why)
{
	char text[TELL_SIZE];

	snprintf(text, sizeof(text), "%s: bad value '%.150s': %s", variable, file ? file : "", why);
	tell(text);
}

void config_tell_lttng(const char *why)
{
	tell_file(PREFIX "LTTNG", config.lttng, why);
}

void config_tell_deny(const char *why)
{
	tell_file(PREFIX "DENY", config.deny, why);
}

static bool parse_number(const char *text, const char **ret_end, uint64_t *ret_number)
{
	uint64_t number = 0;

	if (*text < '0' || *text > '9')
		return false;
	for (; *text >= '0' && *text <= '9'; text++) {
		unsigned int digit = (unsigned int)(*text - '0');

		if (number > (UINT64_MAX - digit) / 10)
			return false;
		number = number * 10 + digit;
	}
	*ret_end = text;
	*ret_number = number;
	return true;
}

static bool parse_ns(const char *text, uint64_t *ret_ns)
{
	static const struct {
		const char *unit;
		uint64_t factor;
	} units[] = {{"ns", 1}, {"", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
	const char *end;
	uint64_t number;

	if (!parse_number(text, &end, &number))
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].unit) != 0)
			continue;
		if (number > UINT64_MAX / units[i].factor)
			return false;
		*ret_ns = number * units[i].factor;
		return true;
	}
	return false;
}

static bool parse_size(const char *text, uint64_t *ret_size)
{
	static const struct {
		const char *unit;
		unsigned int shift;
	} units[] = {{"", 0}, {"K", 10}, {"M", 20}, {"G", 30}};
	const char *end;
	uint64_t number;

	if (!parse_number(text, &end, &number))
		return false;
	if (strcmp(end, "%") == 0) {
		*ret_size = CONFIG_PERCENT | number;
		return number <= 100;
	}
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].unit) != 0)
			continue;
		*ret_size = number << units[i].shift;
		return number < CONFIG_PERCENT >> units[i].shift;
	}
	return false;
}

static bool parse_mode(const char *text, enum config_mode *ret_mode)
{
	if (strcmp(text, "off") == 0)
		*ret_mode = CONFIG_OFF;
	else if (strcmp(text, "observe") == 0)
		*ret_mode = CONFIG_OBSERVE;
	else if (strcmp(text, "fix") == 0)
		*ret_mode = CONFIG_FIX;
	else
		return false;
	return true;
}

static bool parse_level(const char *text, enum config_level *ret_level)
{
	if (strcmp(text, "waits") == 0)
		*ret_level = CONFIG_TRACE_WAITS;
	else if (strcmp(text, "full") == 0)
		*ret_level = CONFIG_TRACE_FULL;
	else
		return false;
	return true;
}

/* Words of `allowed` (joined by |), joined by commas: bit n for the n-th allowed one. */
static bool parse_list(const char *text, const char *allowed, uint32_t *ret_bits)
{
	uint32_t bits = 0, bit;
	const char *word;
	size_t length, size;

	for (;; text++) {
		length = strcspn(text, ",");
		for (word = allowed, bit = 1; *word; word += *word == '|', bit <<= 1) {
			size = strcspn(word, "|");
			if (size == length && memcmp(word, text, length) == 0)
				break;
			word += size;
		}
		if (!*word)
			return false;
		bits |= bit;
		text += length;
		if (!*text)
			break;
	}
	*ret_bits = bits;
	return true;
}

static bool parse_bool(const char *text, bool *ret_value)
{
	static const char *const yes[] = {"on", "1", "yes", "true"};
	static const char *const no[] = {"off", "0", "no", "false"};

	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
		if (strcmp(text, yes[i]) == 0 || strcmp(text, no[i]) == 0) {
			*ret_value = strcmp(text, yes[i]) == 0;
			return true;
		}
	}
	return false;
}

static bool set(const struct option *option, const char *text)
{
	const char *end;
	uint64_t number;

	switch (option->kind) {
	case KIND_MODE:
		return parse_mode(text, option->field);
	case KIND_STRING:
		*(const char **)option->field = text;
		return true;
	case KIND_BOOL:
		return parse_bool(text, option->field);
	case KIND_UINT:
		if (!parse_number(text, &end, &number) || *end || number > UINT32_MAX)
			return false;
		*(uint32_t *)option->field = (uint32_t)number;
		return true;
	case KIND_NS:
		return parse_ns(text, option->field);
	case KIND_LEVEL:
		return parse_level(text, option->field);
	case KIND_SIZE:
		return parse_size(text, option->field);
	case KIND_LIST:
		return parse_list(text, option->unit, option->field);
	}
	return false;
}

/* Limits that the table only tells in words. */
static bool in_range(void)
{
	return config.stack_depth >= 1 && config.stack_depth <= 64 &&
	       !(config.stage_from & CONFIG_PERCENT);
}

static void check_unknown(const char *entry)
{
	const char *equals = strchr(entry, '=');
	size_t length = equals ? (size_t)(equals - entry) : strlen(entry);

	if (strncmp(entry, PREFIX, sizeof(PREFIX) - 1) != 0)
		return;
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (strlen(options[i].variable) == length &&
		    memcmp(options[i].variable, entry, length) == 0)
			return;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strlen(others[i]) == length && memcmp(others[i], entry, length) == 0)
			return;
	complain(entry, length, "no such setting", NULL);
}

/* Here, since later the program may be changing its environment. */
static int32_t find_rank(void)
{
	static const char *const variables[] = {
#include "ranks.def"
	};
	const char *value, *end;
	uint64_t number;

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		value = getenv(variables[i]);
		if (value && parse_number(value, &end, &number) && !*end && number <= INT32_MAX)
			return (int32_t)number;
	}
	return -1;
}

void config_load(void)
{
	int saved = errno;

	problem_count = 0;
	config.rank = find_rank();
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (options[i].fallback)
			set(&options[i], options[i].fallback);
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		const struct option *option = &options[i];
		const char *value = secure_getenv(option->variable);

		chosen[i] = false;
		if (!value || !*value)
			continue;
		if (set(option, value) && in_range()) {
			chosen[i] = true;
			continue;
		}
		if (option->fallback)
			set(option, option->fallback);
		complain(option->variable, strlen(option->variable), "bad value", value);
	}
	for (char **entry = environ; entry && *entry; entry++)
		check_unknown(*entry);
	/* A rewrite does other things than the program: rules would be held against those. */
	if (config.mode != CONFIG_OBSERVE)
		config.check = CONFIG_CHECK_OFF;
	errno = saved;
}
