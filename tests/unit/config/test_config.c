// SPDX-License-Identifier: MIT
/*
 * Settings: every kind of value, at its bounds and beyond; what is complained of, in which words.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config.h"

#define ENTRIES_MAX 16
#define LONG_SIZE   100000

static char **old_environment;
static char entries[ENTRIES_MAX][LONG_SIZE + 64];
static char *environment[ENTRIES_MAX + 1];
static unsigned int entry_count;

static int begin(void **state)
{
	memset(&config, 0, sizeof(config));
	memset(environment, 0, sizeof(environment));
	entry_count = 0;
	environ = environment;
	return 0;
}

static int end(void **state)
{
	environ = old_environment;
	return 0;
}

static void add(const char *entry)
{
	assert_true(entry_count < ENTRIES_MAX);
	assert_true(strlen(entry) < sizeof(entries[0]));
	strcpy(entries[entry_count], entry);
	environment[entry_count] = entries[entry_count];
	entry_count++;
}

/* Loads with this one variable set. */
static void load(const char *entry)
{
	begin(NULL);
	add(entry);
	config_load();
}

static void assert_accepted(void)
{
	assert_null(config_problem(0));
}

static void assert_problem(const char *text)
{
	assert_non_null(config_problem(0));
	assert_string_equal(config_problem(0), text);
	assert_null(config_problem(1));
}

static void test_defaults(void **state)
{
	errno = 42;
	config_load();
	assert_int_equal(errno, 42);
	assert_accepted();
	assert_int_equal(config.mode, CONFIG_OBSERVE);
	assert_null(config.out);
	assert_false(config.attribute);
	assert_true(config.python);
	assert_int_equal(config.stack_depth, 32);
	assert_true(config.threshold_ns == 5000);
	assert_null(config.calibration);
	assert_null(config.lttng);
	assert_int_equal(config.level, CONFIG_TRACE_WAITS);
	assert_int_equal(config.zero, CONFIG_ZERO_OFF);
	assert_true(config.pool_limit == (CONFIG_PERCENT | 6));
	assert_true(config.stage_from == 4 << 20);
	assert_true(config.pool_age_ns == UINT64_C(30000000000));
	assert_int_equal(config.rank, -1);
}

/* Set to the default is set; set to nothing or to nonsense is not. */
static void test_chosen(void **state)
{
	config_load();
	assert_false(config_is_chosen(&config.stage_from));
	load("SLIPSTREAM_STAGE_FROM=4M");
	assert_accepted();
	assert_true(config_is_chosen(&config.stage_from));
	assert_false(config_is_chosen(&config.pool_limit));
	assert_false(config_is_chosen(&config.rank));
	load("SLIPSTREAM_STAGE_FROM=");
	assert_false(config_is_chosen(&config.stage_from));
	load("SLIPSTREAM_STAGE_FROM=4X");
	assert_problem("SLIPSTREAM_STAGE_FROM: bad value '4X'");
	assert_false(config_is_chosen(&config.stage_from));
}

/* Set to nothing is not set. */
static void test_empty(void **state)
{
	add("SLIPSTREAM_MODE=");
	add("SLIPSTREAM_OUT=");
	add("SLIPSTREAM_ATTRIBUTE=");
	add("SLIPSTREAM_PYTHON=");
	add("SLIPSTREAM_STACK=");
	add("SLIPSTREAM_THRESHOLD=");
	add("SLIPSTREAM_CALIBRATION=");
	add("SLIPSTREAM_LTTNG=");
	add("SLIPSTREAM_LEVEL=");
	config_load();
	assert_accepted();
	assert_int_equal(config.mode, CONFIG_OBSERVE);
	assert_null(config.out);
	assert_false(config.attribute);
	assert_true(config.python);
	assert_int_equal(config.stack_depth, 32);
	assert_true(config.threshold_ns == 5000);
	assert_null(config.calibration);
	assert_null(config.lttng);
	assert_int_equal(config.level, CONFIG_TRACE_WAITS);
}

static void test_trace(void **state)
{
	static const char *const bad[] = {"FULL", "ful", "fully", "wait", "full ", "1", "on"};
	char entry[64], text[96];

	load("SLIPSTREAM_LEVEL=full");
	assert_accepted();
	assert_int_equal(config.level, CONFIG_TRACE_FULL);
	load("SLIPSTREAM_LEVEL=waits");
	assert_accepted();
	assert_int_equal(config.level, CONFIG_TRACE_WAITS);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(entry, sizeof(entry), "SLIPSTREAM_LEVEL=%s", bad[i]);
		snprintf(text, sizeof(text), "SLIPSTREAM_LEVEL: bad value '%s'", bad[i]);
		load(entry);
		assert_problem(text);
		assert_int_equal(config.level, CONFIG_TRACE_WAITS);
	}
	load("SLIPSTREAM_LTTNG=/lib/libslipstream-lttng.so");
	assert_accepted();
	assert_string_equal(config.lttng, "/lib/libslipstream-lttng.so");
}

/* Of the launchers' variables the first that is a number. */
static void test_rank(void **state)
{
	static const struct {
		const char *first, *second;
		int32_t rank;
	} cases[] = {
		{"RANK=0", "A=1", 0},
		{"RANK=5", "SLURM_PROCID=4", 5},
		{"PMI_RANK=3", "SLURM_PROCID=4", 3},
		{"PMI_RANK=3", "PMIX_RANK=2", 2},
		{"OMPI_COMM_WORLD_RANK=1", "PMIX_RANK=2", 1},
		{"RANK=", "SLURM_PROCID=9", 9},
		{"RANK=1x", "SLURM_PROCID=9", 9},
		{"RANK=-1", "OMPI_COMM_WORLD_RANK=9", 9},
		{"RANK=2147483647", "A=1", 2147483647},
		{"RANK=2147483648", "A=1", -1},
		{"RANK=+1", "LOCAL_RANK=1", -1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin(NULL);
		add(cases[i].first);
		add(cases[i].second);
		config_load();
		assert_accepted();
		assert_int_equal(config.rank, cases[i].rank);
	}
}

static void test_lists(void **state)
{
	static const char *const bad[] = {"pinned,",     ",pinned", "pinne",
					  "pinned,free", ",",       "pinned|pinned"};
	const uint32_t all = CONFIG_FIX_PINNED | CONFIG_FIX_FREES | CONFIG_FIX_STAGING;
	char entry[64], text[96];

	load("SLIPSTREAM_X=1"); /* the defaults */
	assert_int_equal(config.fix, all);
	assert_int_equal(config.relax, CONFIG_RELAX_FREE);
	load("SLIPSTREAM_RELAX=strict-free");
	assert_accepted();
	assert_int_equal(config.relax, CONFIG_STRICT_FREE);
	load("SLIPSTREAM_RELAX=strict-free,free");
	assert_accepted();
	assert_int_equal(config.relax, CONFIG_STRICT_FREE | CONFIG_RELAX_FREE);
	load("SLIPSTREAM_FIX=pinned,pinned");
	assert_accepted();
	assert_int_equal(config.fix, CONFIG_FIX_PINNED);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(entry, sizeof(entry), "SLIPSTREAM_FIX=%s", bad[i]);
		snprintf(text, sizeof(text), "SLIPSTREAM_FIX: bad value '%s'", bad[i]);
		load(entry);
		assert_problem(text);
		assert_int_equal(config.fix, all);
	}
}

static void test_mode(void **state)
{
	static const char *const bad[] = {"OFF", "offf", "of", "observe ", " off", "0", "on"};
	char entry[64], text[96];

	load("SLIPSTREAM_MODE=off");
	assert_accepted();
	assert_int_equal(config.mode, CONFIG_OFF);
	load("SLIPSTREAM_MODE=observe");
	assert_accepted();
	assert_int_equal(config.mode, CONFIG_OBSERVE);
	load("SLIPSTREAM_MODE=fix");
	assert_accepted();
	assert_int_equal(config.mode, CONFIG_FIX);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(entry, sizeof(entry), "SLIPSTREAM_MODE=%s", bad[i]);
		snprintf(text, sizeof(text), "SLIPSTREAM_MODE: bad value '%s'", bad[i]);
		load(entry);
		assert_problem(text);
		assert_int_equal(config.mode, CONFIG_OBSERVE);
	}
}

static void test_string(void **state)
{
	static char entry[LONG_SIZE + 32];
	size_t prefix;

	load("SLIPSTREAM_OUT=/tmp/a folder=x");
	assert_accepted();
	assert_string_equal(config.out, "/tmp/a folder=x");
	assert_null(config.calibration);
	load("SLIPSTREAM_CALIBRATION=t");
	assert_accepted();
	assert_string_equal(config.calibration, "t");
	/* Any length: strings stay where they are. */
	prefix = (size_t)sprintf(entry, "SLIPSTREAM_OUT=");
	memset(entry + prefix, 'x', LONG_SIZE);
	load(entry);
	assert_accepted();
	assert_int_equal(strlen(config.out), LONG_SIZE);
	assert_ptr_equal(config.out, entries[0] + prefix);
}

static void test_bool(void **state)
{
	static const struct {
		const char *text;
		int value; /* -1: refused */
	} cases[] = {
		{"on", 1},   {"1", 1},     {"yes", 1}, {"true", 1}, {"off", 0}, {"0", 0},
		{"no", 0},   {"false", 0}, {"On", -1}, {"2", -1},   {"o", -1},  {"onn", -1},
		{"tru", -1}, {"on ", -1},  {" 1", -1}, {"-1", -1},  {"01", -1}, {"off\t", -1},
	};
	char entry[64];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(entry, sizeof(entry), "SLIPSTREAM_ATTRIBUTE=%s", cases[i].text);
		load(entry);
		assert_int_equal(config_problem(0) != NULL, cases[i].value < 0);
		assert_int_equal(config.attribute, cases[i].value == 1);
		/* The other default. */
		snprintf(entry, sizeof(entry), "SLIPSTREAM_PYTHON=%s", cases[i].text);
		load(entry);
		assert_int_equal(config_problem(0) != NULL, cases[i].value < 0);
		assert_int_equal(config.python, cases[i].value != 0);
	}
}

static void test_uint(void **state)
{
	static const struct {
		const char *text;
		uint32_t value; /* 0: refused */
	} cases[] = {
		{"1", 1},
		{"64", 64},
		{"007", 7},
		{"0", 0},
		{"65", 0},
		{"-1", 0},
		{"+1", 0},
		{" 1", 0},
		{"1 ", 0},
		{"1k", 0},
		{"0x10", 0},
		{"1.5", 0},
		{"4294967295", 0},
		/* 1 and 2 in 32 and in 64 bits that overflowed. */
		{"4294967297", 0},
		{"18446744073709551617", 0},
		{"18446744073709551618", 0},
		{"99999999999999999999999999999999999999", 0},
		{"stack", 0},
	};
	char entry[96], text[128];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(entry, sizeof(entry), "SLIPSTREAM_STACK=%s", cases[i].text);
		snprintf(text, sizeof(text), "SLIPSTREAM_STACK: bad value '%s'", cases[i].text);
		load(entry);
		if (cases[i].value)
			assert_accepted();
		else
			assert_problem(text);
		assert_int_equal(config.stack_depth, cases[i].value ? cases[i].value : 32);
	}
}

#define REFUSED (UINT64_MAX - 1)

static void test_ns(void **state)
{
	static const struct {
		const char *text;
		uint64_t value;
	} cases[] = {
		{"0", 0},
		{"1", 1},
		{"7ns", 7},
		{"7us", 7000},
		{"7ms", 7000000},
		{"7s", UINT64_C(7000000000)},
		{"18446744073709551615", UINT64_MAX},
		{"18446744073709551615ns", UINT64_MAX},
		{"18446744073709551us", UINT64_C(18446744073709551000)},
		{"18446744073s", UINT64_C(18446744073000000000)},
		{"18446744073709551616", REFUSED},
		{"18446744073709552us", REFUSED},
		{"18446744073710ms", REFUSED},
		{"18446744074s", REFUSED},
		{"99999999999999999999999999s", REFUSED},
		{"us", REFUSED},
		{"5 us", REFUSED},
		{"5us ", REFUSED},
		{"5usec", REFUSED},
		{"5US", REFUSED},
		{"5m", REFUSED},
		{"5n", REFUSED},
		{"-5us", REFUSED},
		{"+5us", REFUSED},
		{"0.5us", REFUSED},
		{"1e3", REFUSED},
		{"5us5us", REFUSED},
	};
	char entry[96], text[128];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(entry, sizeof(entry), "SLIPSTREAM_THRESHOLD=%s", cases[i].text);
		snprintf(text, sizeof(text), "SLIPSTREAM_THRESHOLD: bad value '%s'", cases[i].text);
		load(entry);
		if (cases[i].value == REFUSED)
			assert_problem(text);
		else
			assert_accepted();
		assert_true(config.threshold_ns ==
			    (cases[i].value == REFUSED ? 5000 : cases[i].value));
	}
}

/* One bad value does not take the others with it. */
static void test_size(void **state)
{
	static const struct {
		const char *text;
		uint64_t value;
	} cases[] = {
		{"0", 0},
		{"5", 5},
		{"5K", 5120},
		{"5M", 5242880},
		{"5G", UINT64_C(5368709120)},
		{"0%", CONFIG_PERCENT},
		{"100%", CONFIG_PERCENT | 100},
		{"9223372036854775807", INT64_MAX},
		{"9223372036854775808", REFUSED},
		{"8589934591G", UINT64_C(8589934591) << 30},
		{"8589934592G", REFUSED},
		{"101%", REFUSED},
		{"%", REFUSED},
		{"5 %", REFUSED},
		{"5k", REFUSED},
		{"5KB", REFUSED},
		{"-5", REFUSED},
		{"0.5%", REFUSED},
	};
	char entry[96], text[128];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(entry, sizeof(entry), "SLIPSTREAM_POOL_LIMIT=%s", cases[i].text);
		snprintf(text, sizeof(text), "SLIPSTREAM_POOL_LIMIT: bad value '%s'",
			 cases[i].text);
		load(entry);
		if (cases[i].value == REFUSED)
			assert_problem(text);
		else
			assert_accepted();
		assert_true(config.pool_limit ==
			    (cases[i].value == REFUSED ? (CONFIG_PERCENT | 6) : cases[i].value));
	}
}

static void test_others_stay(void **state)
{
	add("SLIPSTREAM_STACK=0");
	add("SLIPSTREAM_THRESHOLD=9us");
	add("SLIPSTREAM_ATTRIBUTE=maybe");
	add("SLIPSTREAM_OUT=here");
	config_load();
	assert_string_equal(config_problem(0), "SLIPSTREAM_ATTRIBUTE: bad value 'maybe'");
	assert_string_equal(config_problem(1), "SLIPSTREAM_STACK: bad value '0'");
	assert_null(config_problem(2));
	assert_int_equal(config.stack_depth, 32);
	assert_true(config.threshold_ns == 9000);
	assert_string_equal(config.out, "here");
}

static void test_unknown_names(void **state)
{
	static char entry[LONG_SIZE];

	add("SLIPSTREAM_STREAM_TO=x");
	add("SLIPSTREAM_LIBRARY=x");
	add("SLIPSTREAMISH=1");
	add("PATH=/bin");
	add("slipstream_mode=off");
	config_load();
	assert_accepted();
	load("SLIPSTREAM_TRESHOLD=5us");
	assert_problem("SLIPSTREAM_TRESHOLD: no such setting");
	load("SLIPSTREAM_MODE_=off");
	assert_problem("SLIPSTREAM_MODE_: no such setting");
	load("SLIPSTREAM_=off");
	assert_problem("SLIPSTREAM_: no such setting");
	load("SLIPSTREAM_NO_EQUALS_SIGN");
	assert_problem("SLIPSTREAM_NO_EQUALS_SIGN: no such setting");
	sprintf(entry, "SLIPSTREAM_");
	memset(entry + 11, 'X', LONG_SIZE - 12);
	load(entry);
	assert_non_null(config_problem(0));
	assert_true(strlen(config_problem(0)) < 100);
}

/* No more lines than have room, each of one line's length. */
static void test_many_and_long_problems(void **state)
{
	static char entry[LONG_SIZE + 32];
	unsigned int i;

	for (i = 0; i < 12; i++) {
		snprintf(entry, sizeof(entry), "SLIPSTREAM_NO%u=1", i);
		add(entry);
	}
	config_load();
	for (i = 0; config_problem(i); i++)
		;
	assert_int_equal(i, 8);
	memset(entry, '9', sizeof(entry) - 1);
	memcpy(entry, "SLIPSTREAM_THRESHOLD=", 21);
	load(entry);
	assert_int_equal(strlen(config_problem(0)),
			 strlen("SLIPSTREAM_THRESHOLD: bad value ''") + 80);
	assert_true(config.threshold_ns == 5000);
}

/* What a value has of line ends and terminal commands does not reach the terminal. */
static void test_problem_is_one_printable_line(void **state)
{
	load("SLIPSTREAM_THRESHOLD=5\nus\033[2J\177");
	assert_problem("SLIPSTREAM_THRESHOLD: bad value '5?us?[2J?'");
	load("SLIPSTREAM_X\nY=1");
	assert_problem("SLIPSTREAM_X?Y: no such setting");
}

/* Told once, a line each, errno kept out of it by the caller. */
static void test_told_once(void **state)
{
	char text[512] = "";
	int ends[2], saved = dup(STDERR_FILENO);
	ssize_t length;

	assert_int_equal(pipe(ends), 0);
	add("SLIPSTREAM_STACK=65");
	add("SLIPSTREAM_NO=1");
	config_load();
	dup2(ends[1], STDERR_FILENO);
	config_tell();
	config_tell();
	dup2(saved, STDERR_FILENO);
	close(ends[1]);
	length = read(ends[0], text, sizeof(text) - 1);
	close(ends[0]);
	close(saved);
	assert_true(length > 0);
	assert_string_equal(text, "slipstream: SLIPSTREAM_STACK: bad value '65'\n"
				  "slipstream: SLIPSTREAM_NO: no such setting\n");
}

/* One printable line, however long the path and the reason are. */
static void test_told_of_lttng(void **state)
{
	static char value[400] = "/nowhere/\033[2J\n", why[800];
	static const char first[] =
		"slipstream: SLIPSTREAM_LTTNG: bad value '/nowhere/provider.so': "
		"No such file or directory\n"
		"slipstream: SLIPSTREAM_LTTNG: bad value '/nowhere/?[2J?ppp";
	char text[1024] = "";
	int ends[2], saved = dup(STDERR_FILENO);
	ssize_t length;

	memset(value + strlen(value), 'p', sizeof(value) - 1 - strlen(value));
	memset(why, 'w', sizeof(why) - 1);
	assert_int_equal(pipe(ends), 0);
	config.lttng = "/nowhere/provider.so";
	dup2(ends[1], STDERR_FILENO);
	config_tell_lttng("No such file or directory");
	config.lttng = value;
	config_tell_lttng(why);
	config.deny = "/no/list";
	config_tell_deny("cannot be read");
	dup2(saved, STDERR_FILENO);
	close(ends[1]);
	length = read(ends[0], text, sizeof(text) - 1);
	close(ends[0]);
	close(saved);
	assert_true(length > 0);
	assert_int_equal(strncmp(text, first, strlen(first)), 0);
	assert_non_null(strstr(
		text, "\nslipstream: SLIPSTREAM_DENY: bad value '/no/list': cannot be read\n"));
	assert_ptr_equal(strchr(strchr(strchr(text, '\n') + 1, '\n') + 1, '\n'), text + length - 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(defaults),
		TEST(chosen),
		TEST(empty),
		TEST(mode),
		TEST(lists),
		TEST(trace),
		TEST(rank),
		TEST(string),
		TEST(bool),
		TEST(uint),
		TEST(ns),
		TEST(size),
		TEST(others_stay),
		TEST(unknown_names),
		TEST(many_and_long_problems),
		TEST(problem_is_one_printable_line),
		TEST(told_once),
		TEST(told_of_lttng),
	};

	old_environment = environ;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
