// SPDX-License-Identifier: MIT
/* Which first instructions are cheap to probe, and where the probe goes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "probe_site.h"

static void site_is(const char *code, size_t size, enum watch_site expected, unsigned int skip)
{
	unsigned int found = 99;

	assert_int_equal(probe_site((const unsigned char *)code, size, &found), expected);
	assert_int_equal(found, skip);
}

#define SITE(code, expected, skip) site_is(code, sizeof(code) - 1, expected, skip)
#define PAD                        "\xf3\x0f\x1e\xfa"

static void push_is_cheap(void **state)
{
	SITE("\x55\x48\x89\xe5", WATCH_SITE_PUSH, 0);
	SITE("\x53\x00", WATCH_SITE_PUSH, 0);
	SITE("\x41\x57\x41\x56", WATCH_SITE_PUSH, 0);
}

static void landing_pad_is_skipped_before_cheap_code_only(void **state)
{
	SITE(PAD "\x55\x48\x89\xe5", WATCH_SITE_PUSH, 4);
	SITE(PAD "\x41\x54", WATCH_SITE_PUSH, 4);
	SITE(PAD "\x0f\x1f\x44\x00\x00", WATCH_SITE_NOP, 4);
	SITE(PAD "\xe9\x00\x00\x00\x00", WATCH_SITE_JUMP, 4);
	SITE(PAD "\x48\x83\xec\x08", WATCH_SITE_STEPPED, 0);
	SITE(PAD, WATCH_SITE_STEPPED, 0);
}

static void nop_is_cheap(void **state)
{
	SITE("\x90\xc3", WATCH_SITE_NOP, 0);
	SITE("\x66\x90", WATCH_SITE_NOP, 0);
	SITE("\x0f\x1f\x44\x00\x00", WATCH_SITE_NOP, 0);
	SITE("\x66\x0f\x1f\x44\x00\x00", WATCH_SITE_NOP, 0);
}

static void relative_jump_is_cheap_indirect_is_not(void **state)
{
	SITE("\xe9\x01\x02\x03\x04", WATCH_SITE_JUMP, 0);
	SITE("\xeb\x10", WATCH_SITE_JUMP, 0);
	SITE("\x74\x10", WATCH_SITE_JUMP, 0);
	SITE("\x0f\x84\x01\x02\x03\x04", WATCH_SITE_JUMP, 0);
	SITE("\xff\x25\x01\x02\x03\x04", WATCH_SITE_STEPPED, 0);
}

static void everything_else_is_stepped(void **state)
{
	SITE("\x48\x8d\x05\x00\x00\x00\x00", WATCH_SITE_STEPPED, 0); /* lea */
	SITE("\x49\x89\xe3", WATCH_SITE_STEPPED, 0);                 /* mov %rsp,%r11 */
	SITE("\x48\x83\xec\x08", WATCH_SITE_STEPPED, 0);             /* sub */
	SITE("\x31\xc0\xc3", WATCH_SITE_STEPPED, 0);                 /* xor */
	SITE("\x48\x55", WATCH_SITE_STEPPED, 0);                     /* push, needless prefix */
	SITE("\xc3", WATCH_SITE_STEPPED, 0);
}

static void short_code_is_never_read_past(void **state)
{
	for (size_t size = 0; size < 4; size++)
		site_is(PAD, size, WATCH_SITE_STEPPED, 0);
	site_is("\x55", 1, WATCH_SITE_STEPPED, 0);
	site_is("", 0, WATCH_SITE_STEPPED, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(push_is_cheap),
		cmocka_unit_test(landing_pad_is_skipped_before_cheap_code_only),
		cmocka_unit_test(nop_is_cheap),
		cmocka_unit_test(relative_jump_is_cheap_indirect_is_not),
		cmocka_unit_test(everything_else_is_stepped),
		cmocka_unit_test(short_code_is_never_read_past),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
