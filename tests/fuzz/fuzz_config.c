// SPDX-License-Identifier: MIT
/*
 * Fuzzer of shim/config.c: any bytes, or any number with any unit, as one setting's value, and the
 * same as one more variable. A value is taken or complained of, in one printable line; what is not
 * taken leaves the default; what is in force is always within bounds. Numbers are checked against a
 * second reading of them.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define VALUE_MAX 300
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

enum { MODE, OUT, ATTRIBUTE, PYTHON, STACK, THRESHOLD, CALIBRATION, COUNT };

static const char *const names[COUNT] = {"MODE",  "OUT",       "ATTRIBUTE",  "PYTHON",
					 "STACK", "THRESHOLD", "CALIBRATION"};

static bool is_one_of(const char *text, const char *const *words)
{
	for (; *words; words++)
		if (!strcmp(text, *words))
			return true;
	return false;
}

/* A number and a unit, in more bits than the parser has; false: none. */
static bool read_number(const char *text, bool has_unit, uint64_t *ret_number)
{
	static const struct {
		const char *unit;
		uint64_t factor;
	} units[] = {{"", 1}, {"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
	size_t digits = strspn(text, "0123456789"), i;
	unsigned __int128 number = 0;

	for (i = 0; i < digits; i++) {
		number = number * 10 + (unsigned int)(text[i] - '0');
		if (number > UINT64_MAX)
			return false;
	}
	for (i = 0; digits && i < (has_unit ? 5 : 1); i++) {
		if (strcmp(text + digits, units[i].unit) != 0)
			continue;
		number *= units[i].factor;
		*ret_number = (uint64_t)number;
		return number <= UINT64_MAX;
	}
	return false;
}

static void check_value(unsigned int which, const char *text)
{
	static const char *const modes[] = {"off", "observe", "fix", NULL};
	static const char *const yes[] = {"on", "1", "yes", "true", NULL};
	static const char *const no[] = {"off", "0", "no", "false", NULL};
	bool accepted = !config_problem(0);
	uint64_t number;
	bool good;

	if (!*text) {
		CHECK(accepted);
		return;
	}
	switch (which) {
	case MODE:
		CHECK(accepted == is_one_of(text, modes));
		CHECK((config.mode == CONFIG_OFF) == !strcmp(text, "off"));
		CHECK((config.mode == CONFIG_FIX) == !strcmp(text, "fix"));
		break;
	case OUT:
	case CALIBRATION:
		CHECK(accepted);
		CHECK(!strcmp(which == OUT ? config.out : config.calibration, text));
		break;
	case ATTRIBUTE:
		CHECK(accepted == (is_one_of(text, yes) || is_one_of(text, no)));
		CHECK(config.attribute == is_one_of(text, yes));
		break;
	case PYTHON:
		CHECK(accepted == (is_one_of(text, yes) || is_one_of(text, no)));
		CHECK(config.python == !is_one_of(text, no));
		break;
	case STACK:
		good = read_number(text, false, &number) && number >= 1 && number <= 64;
		CHECK(accepted == good);
		CHECK(config.stack_depth == (good ? number : 32));
		break;
	case THRESHOLD:
		good = read_number(text, true, &number);
		CHECK(accepted == good);
		CHECK(config.threshold_ns == (good ? number : 5000));
		break;
	}
}

static void check_problems(unsigned int most)
{
	const char *text;
	unsigned int i;

	for (i = 0; (text = config_problem(i)); i++) {
		CHECK(i < most && *text && strlen(text) < 200);
		for (; *text; text++)
			CHECK((unsigned char)*text >= ' ' && *text != '\177');
	}
}

/* The environment's entry, a heap block of its own, so that a read beyond it is found. */
static char *make_entry(const char *prefix, const char *name, const char *value)
{
	size_t size = strlen(prefix) + strlen(name) + 1 + strlen(value) + 1;
	char *entry = malloc(size);

	CHECK(entry);
	strcpy(entry, prefix);
	strcat(entry, name);
	strcat(entry, value);
	return entry;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const units[] = {"", "ns", "us", "ms", "s", "m"};
	char **old = environ;
	char value[VALUE_MAX + 2] = "=";
	char *entries[3] = {NULL};
	unsigned int which;
	uint64_t number;

	if (!size || size > VALUE_MAX)
		return 0;
	which = data[0] % COUNT;
	if (data[0] >= 128 && size == 1 + sizeof(number) + 2) {
		/* Few bytes decide, so that all magnitudes come up beside all units. */
		memcpy(&number, data + 1, sizeof(number));
		if (data[1 + sizeof(number)] & 64)
			number %= 100;
		snprintf(value + 1, VALUE_MAX, "%llu%s",
			 (unsigned long long)(number >> data[1 + sizeof(number)] % 64),
			 units[data[2 + sizeof(number)] % 6]);
	} else {
		/* Up to the first NUL, as an environment has it. */
		memcpy(value + 1, data + 1, size - 1);
	}
	entries[0] = make_entry("SLIPSTREAM_", names[which], value);
	memset(&config, 0, sizeof(config));
	environ = entries;
	config_load();
	check_problems(1);
	check_value(which, value + 1);
	/* The same bytes as name and value of a variable of ours, beside the first. */
	entries[1] = make_entry("SLIPSTREAM_", value + 1, "");
	config_load();
	check_problems(3);
	CHECK(config.stack_depth >= 1 && config.stack_depth <= 64);
	CHECK(config.mode == CONFIG_OFF || config.mode == CONFIG_OBSERVE ||
	      config.mode == CONFIG_FIX);
	environ = old;
	free(entries[0]);
	free(entries[1]);
	return 0;
}
