// SPDX-License-Identifier: MIT
/* Where arguments of USDT probes lie, by the text of their notes; and notes of a file. */
#include <asm/ptrace.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "usdt_notes.h"

static void one_is(const char *text, int form, int size, bool is_signed, size_t offset, long value)
{
	struct probe_shape shape;

	assert_true(usdt_arguments(text, &shape));
	assert_int_equal(shape.count, 1);
	assert_int_equal(shape.argument[0].form, form);
	assert_int_equal(shape.argument[0].size, size);
	assert_int_equal(shape.argument[0].is_signed, is_signed);
	assert_int_equal(shape.argument[0].offset, offset);
	assert_true(shape.argument[0].value == value);
}

static void registers_constants_and_memory_are_read(void **state)
{
	one_is("4@%edi", PROBE_REGISTER, 4, false, offsetof(struct pt_regs, rdi), 0);
	one_is("-4@%r12d", PROBE_REGISTER, 4, true, offsetof(struct pt_regs, r12), 0);
	one_is("8@%rax", PROBE_REGISTER, 8, false, offsetof(struct pt_regs, rax), 0);
	one_is("1@%sil", PROBE_REGISTER, 1, false, offsetof(struct pt_regs, rsi), 0);
	one_is("2@%r8w", PROBE_REGISTER, 2, false, offsetof(struct pt_regs, r8), 0);
	one_is("4@$5", PROBE_CONSTANT, 4, false, 0, 5);
	one_is("-4@$-7", PROBE_CONSTANT, 4, true, 0, -7);
	one_is("8@-8(%rbp)", PROBE_MEMORY, 8, false, offsetof(struct pt_regs, rbp), -8);
	one_is("4@(%rsp)", PROBE_MEMORY, 4, false, offsetof(struct pt_regs, rsp), 0);
}

static void arguments_keep_their_order(void **state)
{
	struct probe_shape shape;

	assert_true(usdt_arguments("4@%edx 4@$2 8@16(%rsp) 4@%eax", &shape));
	assert_int_equal(shape.count, 4);
	assert_int_equal(shape.argument[1].form, PROBE_CONSTANT);
	assert_int_equal(shape.argument[2].value, 16);
	assert_int_equal(shape.argument[3].offset, offsetof(struct pt_regs, rax));
	assert_true(usdt_arguments("", &shape));
	assert_int_equal(shape.count, 0);
}

static void what_is_not_known_is_refused(void **state)
{
	static const char *const texts[] = {
		"4@%xmm0",  "4@%",           "4",
		"@%edi",    "3@%edi",        "16@%rdi",
		"0@%edi",   "4@$",           "4@8(%rbp",
		"4@8(rbp)", "4@(%rax,%rbx)", "4@name(%rip)",
		"4@%edix",  "4@%edi,4",      "x@%edi",
		"4@%rd",    "4@%edi 4@?",    "4@$1 4@$2 4@$3 4@$4 4@$5",
	};
	struct probe_shape shape;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (usdt_arguments(texts[i], &shape))
			fail_msg("%s is taken", texts[i]);
	}
}

static void files_without_notes_have_none(void **state)
{
	struct usdt_note notes[USDT_NOTES];
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), pipe_ends[2];

	assert_int_equal(usdt_read(file, "no-such-provider", notes), 0);
	close(file);
	file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	assert_true(usdt_read(file, "slipstream", notes) < 0);
	close(file);
	assert_int_equal(pipe(pipe_ends), 0);
	close(pipe_ends[1]);
	assert_true(usdt_read(pipe_ends[0], "slipstream", notes) < 0);
	close(pipe_ends[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(registers_constants_and_memory_are_read),
		cmocka_unit_test(arguments_keep_their_order),
		cmocka_unit_test(what_is_not_known_is_refused),
		cmocka_unit_test(files_without_notes_have_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
