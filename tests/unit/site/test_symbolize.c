// SPDX-License-Identifier: MIT
/*
 * tools/symbolize.c against programs that print the right answers themselves (subject.c).
 *
 *	test_symbolize FULL:FILE ... NAMES:FILE[:RUN] ...
 *
 * FULL has debug information, NAMES only symbols; RUN is the program to start where FILE is a library.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "symbolize.h"

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
	struct symbol_frames frames;
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
			last = &frames.frames[frames.count - 1];
			assert_true(last->function_offset > 0 && last->function_offset < 200);
			if (!subject.full) {
				/* Only symbols: an inlined function is not known. */
				assert_int_equal(frames.count, 1);
				assert_string_equal(last->function, *answer->outer
									    ? answer->outer
									    : answer->function);
				assert_null(last->file);
				assert_int_equal(last->line, 0);
			} else {
				assert_int_equal(frames.count, *answer->outer ? 2 : 1);
				assert_string_equal(frames.frames[0].function, answer->function);
				assert_int_equal(frames.frames[0].line, answer->line);
				if (*answer->outer) {
					assert_string_equal(last->function, answer->outer);
					assert_int_equal(last->line, answer->outer_line);
				}
				assert_non_null(last->file);
				assert_non_null(strstr(last->file, "tests/unit/site/subject.c"));
				assert_null(strstr(last->file, ".."));
				assert_string_equal(last->file, frames.frames[0].file);
			}
			symbol_frames_done(&frames);
			checked++;
		}
	}
	assert_int_equal(checked, 3 * subject_count);
	symbolizer_free(symbolizer);
}

static void test_other_file(void **state)
{
	struct symbolizer *symbolizer = symbolizer_new();
	struct symbol_frames frames = {NULL, 0};
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
	symbol_frames_done(&frames);
	assert_int_equal(symbolizer_frame(symbolizer, subject.path, subject.id, subject.id_length,
					  UINT64_C(0x7fffffffffff), &frames),
			 -ENODATA);
	assert_int_equal(frames.count, 0);
	symbolizer_free(symbolizer);
}

static void test_no_file(void **state)
{
	struct symbolizer *symbolizer = symbolizer_new();
	struct symbol_frames frames = {NULL, 0};
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

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_other_file),
		cmocka_unit_test(test_no_file),
		cmocka_unit_test(test_no_network),
	};

	subjects = argv + 1;
	subject_count = argc - 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
