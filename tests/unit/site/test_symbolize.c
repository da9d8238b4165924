// SPDX-License-Identifier: MIT
/*
 * tools/symbolize.c against programs that print the right answers themselves (subject.c).
 *
 *	test_symbolize FULL:FILE ... NAMES:FILE[:RUN] ...
 *
 * FULL has debug information, NAMES only symbols; RUN is the program to start where FILE is a
 * library.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "symbolize.h"

static const char *many;
static int many_count;
static char **subjects;
static int subject_count;

struct answer {
	uint64_t address;
	char function[64], outer[64];
	int line, outer_line;
};

struct subject {
	char path[1024];
	uint8_t id[64];
	size_t id_length;
	struct answer answers[8];
	int count, full;
};

static void ask(const char *argument, struct subject *subject)
{
	char line[512], copy[1024], *run;
	FILE *pipe;

	*subject = (struct subject){.full = !strncmp(argument, "FULL:", 5)};
	snprintf(copy, sizeof(copy), "%s", strchr(argument, ':') + 1);
	run = strchr(copy, ':');
	if (run)
		*run++ = '\0';
	snprintf(subject->path, sizeof(subject->path), "%s", copy);
	pipe = popen(run ? run : copy, "r");
	assert_non_null(pipe);
	while (fgets(line, sizeof(line), pipe)) {
		struct answer *answer = &subject->answers[subject->count];
		unsigned int byte, i;
		unsigned long long address;
		char *function;

		if (!strncmp(line, "id ", 3)) {
			for (i = 0; sscanf(line + 3 + 2 * i, "%2x", &byte) == 1; i++)
				subject->id[subject->id_length++] = (uint8_t)byte;
			continue;
		}
		address = strtoull(line, &function, 16);
		assert_true(sscanf(function, "%63s %d %63s %d", answer->function, &answer->line,
				   answer->outer, &answer->outer_line) >= 2);
		answer->address = address - 1;
		subject->count++;
	}
	assert_int_equal(pclose(pipe), 0);
	assert_int_equal(subject->count, 3);
	assert_true(subject->id_length >= 8);
}

static void test_answers(void **state)
{
	struct symbolizer *symbolizer = symbolizer_new();
	const struct symbol_frames *frames;
	struct subject subject;
	int i, k, checked = 0;

	assert_non_null(symbolizer);
	for (i = 0; i < subject_count; i++) {
		ask(subjects[i], &subject);
		for (k = 0; k < subject.count; k++) {
			struct answer *answer = &subject.answers[k];
			int error = symbolizer_frame(symbolizer, subject.path, subject.id,
						     subject.id_length, answer->address, &frames);
			struct symbol_frame *last;

			if (error)
				fail_msg("%s: %s", subjects[i], symbolizer_error(error));
			last = &frames->frames[frames->count - 1];
			assert_true(last->function_offset > 0 && last->function_offset < 200);
			if (!subject.full) {
				/* Only symbols: an inlined function is not known. */
				assert_int_equal(frames->count, 1);
				assert_string_equal(last->function, *answer->outer
									    ? answer->outer
									    : answer->function);
				assert_null(last->file);
				assert_int_equal(last->line, 0);
			} else {
				assert_int_equal(frames->count, *answer->outer ? 2 : 1);
				assert_string_equal(frames->frames[0].function, answer->function);
				assert_int_equal(frames->frames[0].line, answer->line);
				if (*answer->outer) {
					assert_string_equal(last->function, answer->outer);
					assert_int_equal(last->line, answer->outer_line);
				}
				assert_non_null(last->file);
				assert_non_null(strstr(last->file, "tests/unit/site/subject.c"));
				assert_null(strstr(last->file, ".."));
				assert_string_equal(last->file, frames->frames[0].file);
			}
			checked++;
		}
	}
	assert_int_equal(checked, 3 * subject_count);
	symbolizer_free(symbolizer);
}

static void test_other_file(void **state)
{
	struct symbolizer *symbolizer = symbolizer_new();
	const struct symbol_frames *frames = NULL;
	struct subject subject;

	ask(subjects[0], &subject);
	subject.id[3] ^= 1;
	assert_int_equal(symbolizer_frame(symbolizer, subject.path, subject.id, subject.id_length,
					  subject.answers[0].address, &frames),
			 -ESTALE);
	assert_int_equal(symbolizer_frame(symbolizer, subject.path, NULL, 0,
					  subject.answers[0].address, &frames),
			 -ESTALE);
	/* The right one still works: the cache keeps them apart. */
	subject.id[3] ^= 1;
	assert_int_equal(symbolizer_frame(symbolizer, subject.path, subject.id, subject.id_length,
					  subject.answers[0].address, &frames),
			 0);
	frames = NULL;
	assert_int_equal(symbolizer_frame(symbolizer, subject.path, subject.id, subject.id_length,
					  UINT64_C(0x7fffffffffff), &frames),
			 -ENODATA);
	assert_null(frames);
	symbolizer_free(symbolizer);
}

static void test_no_file(void **state)
{
	struct symbolizer *symbolizer = symbolizer_new();
	const struct symbol_frames *frames = NULL;
	char name[] = "/tmp/slipstream-symbolize-XXXXXX";
	uint8_t id[4] = {1, 2, 3, 4};
	int fd = mkstemp(name);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "no elf", 6), 6);
	close(fd);
	assert_int_equal(symbolizer_frame(symbolizer, "/nonexistent/x", id, 4, 1, &frames),
			 -ENOENT);
	assert_int_equal(symbolizer_frame(symbolizer, "[vdso]", id, 4, 1, &frames), -ENOENT);
	assert_int_equal(symbolizer_frame(symbolizer, "", id, 4, 1, &frames), -ENOENT);
	assert_int_equal(symbolizer_frame(symbolizer, name, id, 4, 1, &frames), -ENOEXEC);
	assert_int_equal(symbolizer_frame(symbolizer, "/dev/zero", id, 4, 1, &frames), -ENOEXEC);
	assert_int_equal(symbolizer_frame(symbolizer, "/", id, 4, 1, &frames), -ENOEXEC);
	unlink(name);
	/* A pipe that nobody writes must not hold the report up. */
	assert_int_equal(mkfifo(name, 0600), 0);
	assert_int_equal(symbolizer_frame(symbolizer, name, id, 3, 1, &frames), -ENOEXEC);
	unlink(name);
	symbolizer_free(symbolizer);
}

static void test_no_network(void **state)
{
	setenv("DEBUGINFOD_URLS", "http://127.0.0.1:1/", 1);
	symbolizer_free(symbolizer_new());
	assert_null(getenv("DEBUGINFOD_URLS"));
}

/* Layout of many_symbols.py. */
#define MANY_TEXT  UINT64_C(0x1000)
#define MANY_CASES UINT64_C(0x1000000)

static void assert_symbol(struct symbolizer *symbolizer, uint64_t address, const char *function,
			  uint64_t offset)
{
	const struct symbol_frames *frames = NULL;
	int error = symbolizer_frame(symbolizer, many, NULL, 0, address, &frames);

	if (!function) {
		assert_int_equal(error, -ENODATA);
		assert_null(frames);
		return;
	}
	if (error)
		fail_msg("%#llx: %s", (unsigned long long)address, symbolizer_error(error));
	assert_int_equal(frames->count, 1);
	assert_string_equal(frames->frames[0].function, function);
	assert_int_equal(frames->frames[0].function_offset, offset);
	assert_null(frames->frames[0].file);
}

/* Which of several symbols is meant; announced (all in one walk) and not (each in its own). */
static void test_choice(void **state)
{
	static const struct {
		uint64_t at, offset;
		const char *function;
	} cases[] = {
		{0x0, 0x0, "outer"},       {0x3f, 0x3f, "outer"},
		{0x40, 0x0, "inner_weak"}, {0x5f, 0x1f, "inner_weak"},
		{0x60, 0x60, "outer"},     {0xff, 0xff, "outer"},
		{0x100, 0, NULL},          {0x204, 0x4, "small"},
		{0x20f, 0xf, "small"},     {0x210, 0x10, "large"},
		{0x2ff, 0xff, "large"},    {0x300, 0, NULL},
		{0x400, 0x0, "label"},     {0x47f, 0x7f, "label"},
		{0x490, 0x10, "nearer"},   {0x480 + 4096, 4096, "nearer"},
		{0x480 + 4097, 0, NULL},   {0x3018, 0x18, "after"},
		{0x3100, 0, NULL},         {0x3fff, 0xf, "label_last"},
		{0x4000, 0, NULL},
	};
	size_t count = sizeof(cases) / sizeof(cases[0]), i;
	int announced;

	for (announced = 0; announced < 2; announced++) {
		struct symbolizer *symbolizer = symbolizer_new();

		for (i = count; announced && i-- > 0;)
			assert_int_equal(symbolizer_expect(symbolizer, many, NULL, 0,
							   MANY_CASES + cases[i].at),
					 0);
		/* Twice: the second time from what is kept. */
		for (i = 0; i < 2 * count; i++)
			assert_symbol(symbolizer, MANY_CASES + cases[i % count].at,
				      cases[i % count].function, cases[i % count].offset);
		symbolizer_free(symbolizer);
	}
}

static double cpu_seconds(void)
{
	struct timespec now;

	assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), 0);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A walk through all symbols for each address would take several seconds. */
static void test_many_symbols(void **state)
{
	enum { FRAMES = 300 };
	struct symbolizer *symbolizer = symbolizer_new();
	int step = many_count / FRAMES, i;
	char function[32];
	double begin, spent;

	assert_true(step > 16);
	begin = cpu_seconds();
	for (i = 0; i < FRAMES; i++)
		assert_int_equal(symbolizer_expect(symbolizer, many, NULL, 0,
						   MANY_TEXT + 16 * (uint64_t)(i * step) +
							   (uint64_t)(i % 16)),
				 0);
	for (i = 0; i < FRAMES; i++) {
		snprintf(function, sizeof(function), "function_%d", i * step);
		assert_symbol(symbolizer,
			      MANY_TEXT + 16 * (uint64_t)(i * step) + (uint64_t)(i % 16), function,
			      (uint64_t)(i % 16));
	}
	spent = cpu_seconds() - begin;
	print_message("%d frames among %d symbols: %.3f s\n", FRAMES, many_count, spent);
	assert_true(spent < 0.5);
	/* What nobody announced is found between the others, and so are they after it. */
	assert_symbol(symbolizer, MANY_TEXT + 16 * 7 + 3, "function_7", 3);
	assert_symbol(symbolizer, MANY_TEXT, "function_0", 0);
	snprintf(function, sizeof(function), "function_%d", step);
	assert_symbol(symbolizer, MANY_TEXT + 16 * (uint64_t)step + 1, function, 1);
	/* Announced too late: no harm. */
	assert_int_equal(symbolizer_expect(symbolizer, many, NULL, 0, MANY_TEXT + 16 * 9), 0);
	assert_symbol(symbolizer, MANY_TEXT + 16 * 9, "function_9", 0);
	symbolizer_free(symbolizer);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers), cmocka_unit_test(test_other_file),
		cmocka_unit_test(test_no_file), cmocka_unit_test(test_no_network),
		cmocka_unit_test(test_choice),  cmocka_unit_test(test_many_symbols),
	};

	if (argc < 4)
		return 2;
	many = argv[1];
	many_count = atoi(argv[2]);
	subjects = argv + 3;
	subject_count = argc - 3;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
